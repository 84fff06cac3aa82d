/*
 * rebuild.c - when nodes are gone: who has a copy of what they kept keeps it now, and what has
 * fewer keepers than it is to have gets others.
 *
 *   a peer is gone, or back with another pool--> CLAIM (over the copies) --.
 *   a peer is up, or something is short, or was when it was taken over---> FILL (over what is kept)
 *   FILL --all was met--> OFF, or once more in a while if it left something short
 *
 *   CLAIM: each secondary copy of a softpin object is looked up. Has it no keeper left, this
 *     node's slot keeps it from then on, and HAND_OVER from the dead one says so; of two who do
 *     that the directory lets one be it, and the other announces its copy and is told. One that
 *     lies in turning room (core/turning.c) cannot be kept there: it alone is looked up again when
 *     it has left that. Of more than LENT_LIMIT the rest is met by another CLAIM, once one has.
 *   FILL: each object that this node keeps, and that is to have several keepers, is looked up, a
 *     few at a time. Of its living keepers the one with the lowest id has peers take over the
 *     roles of dead ones, or be keepers more, those first that have a copy; the others do so only
 *     if it has not, a while later:
 *
 *       LOOK --lacking--> WAIT --KEEP--> ASK --KEPT--> LOOK
 *         |                ^ '--its key is on the disk alone--> KEY -'
 *         '--enough        '--busy, or the rate is spent--'
 *
 *   LACKING, of one whose bytes were spoiled where it was kept--> FILL, of this one alone
 *     --it is looked up already, maybe as it was before--> FILL, in a while
 *
 * While a node is suspect, until the claims that follow are made, the core lets go of no
 * softpin copy: it may be the last. That is for SPARE_NS at most from when the last became so.
 */
#include "node/node_priv.h"

#include "base/check.h"
#include "base/plant.h"

#include <inttypes.h>
#include <string.h>

#define LOOK_BUDGET  1024u /* places that one look at what is held passes */
#define LOOK_AT_ONCE 64u   /* looks of a step */
#define SPARE_NS     10000000000ull
#define AGAIN_NS     2000000000ull /* until what was left short is tried again */

static struct rebuilder *rebuilder_of(struct node *node)
{
	return &node->cluster.rebuilder;
}

/* ---- when ---------------------------------------------------------------- */

void rebuild_is_short(struct node *node)
{
	struct rebuilder *rebuilder = rebuilder_of(node);

	if (rebuilder->wanted)
		return;
	rebuilder->wanted = true;
	rebuilder->retry_ns = node_now(node) + AGAIN_NS;
}

void rebuild_peer_is_up(struct node *node)
{
	rebuilder_of(node)->wanted = true;
	rebuilder_of(node)->retry_ns = 0;
}

void rebuild_peer_is_gone(struct node *node)
{
	rebuild_peer_is_up(node);
	rebuilder_of(node)->claims = true;
}

/* ---- what an entry says --------------------------------------------------- */

void rebuild_has_taken(struct node *node, const struct dir_call *call)
{
	const struct dir_entry *before = &call->entry;
	uint32_t living = 1; /* this one */

	for (uint32_t i = 0; i < before->holder_count; i++) {
		const struct dir_holder *holder = &before->holders[i];

		living += holder->role == DIR_KEEPER && holder->node != call->from &&
			  holder->node != node->cluster.id &&
			  holder_life(node, holder) != LIFE_GONE;
	}
	if (living < before->wanted)
		rebuild_is_short(node);
}

/* What the directory says of it, if that can be believed. */
static bool entry_is_sound(struct node *node, const struct query *query)
{
	if (query_knows_all(node, query))
		return true;
	rebuilder_of(node)->again = true;
	return false;
}

static bool entry_is_of(const struct query *query)
{
	return query->call.verdict == DIR_DONE &&
	       query->call.entry.generation == query->held.generation;
}

static bool look_up(struct node *node, const struct held *held, query_done_fn done)
{
	const struct dir_id id = dir_id_of(&held->id);
	struct query *query = query_new(node, DIR_OP_LOOKUP, &id);

	if (query == NULL)
		return false;
	query->held = *held;
	query_start(node, query, done);
	return true;
}

/* ---- CLAIM --------------------------------------------------------------- */

static void lent_add(struct node *node, const struct held *held)
{
	struct rebuilder *rebuilder = rebuilder_of(node);

	for (uint32_t i = 0; i < rebuilder->lent_count; i++) {
		if (rebuilder->lent[i].hash == held->hash &&
			rebuilder->lent[i].generation == held->generation)
			return;
	}
	if (rebuilder->lent_count == LENT_LIMIT) {
		rebuilder->lent_lost = true;
		return;
	}
	if (rebuilder->lent_count == 0)
		rebuilder->lent_ns = node_now(node) + AGAIN_NS;
	rebuilder->lent[rebuilder->lent_count++] = *held;
}

static void claim(struct node *node, const struct held *held, uint64_t dead)
{
	struct errand errand = {
		.kind = ERRAND_HAND_OVER,
		.id = dir_id_of(&held->id),
		.generation = held->generation,
		.node = dead,
	};
	const struct slot *there;
	uint32_t slot;
	int err;

	if (!master_held_find(&node->master, held, &slot) || slot == SLOT_NONE ||
		!(node->share->slots[slot].flags & SLOT_SECONDARY))
		return;
	err = master_keep(&node->master, slot);
	if (err == ERR_NO_SPACE) {
		lent_add(node, held); /* in turning room, maybe for long */
		return;
	}
	if (err != 0) {
		rebuilder_of(node)->claims = true; /* it is being moved, say */
		return;
	}
	if (held->durable)
		master_save_first(&node->master, slot);
	there = &node->share->slots[slot];
	errand.key = slot_key(node->share, there);
	errand.key_size = there->klen;
	errand_add(node, &errand);
	node->cluster.stats.claimed++;
}

static void claim_looked(struct node *node, struct query *query)
{
	struct keepers keepers;

	rebuilder_of(node)->looking--;
	if (!entry_is_sound(node, query)) {
		rebuilder_of(node)->claims = true;
		return;
	}
	if (!entry_is_of(query))
		return; /* whoever announces it hears of that */
	keepers_find(node, &query->call.entry, &keepers);
	if (keepers.unknown)
		rebuilder_of(node)->claims = true;
	else if (keepers.living == 0)
		claim(node, &query->held, keepers.dead);
}

/* ---- FILL ---------------------------------------------------------------- */

static struct rebuild *rebuild_of(struct node *node, const struct held *held)
{
	struct rebuilder *rebuilder = rebuilder_of(node);

	for (uint32_t i = 0; i < REBUILDS_AT_ONCE; i++) {
		struct rebuild *rebuild = &rebuilder->list[i];

		if (rebuild->state != REBUILD_FREE && rebuild->held.hash == held->hash &&
			rebuild->held.generation == held->generation)
			return rebuild;
	}
	return NULL;
}

static struct rebuild *rebuild_free(struct rebuilder *rebuilder)
{
	for (uint32_t i = 0; i < REBUILDS_AT_ONCE; i++) {
		if (rebuilder->list[i].state == REBUILD_FREE)
			return &rebuilder->list[i];
	}
	return NULL;
}

static void rebuild_over(struct node *node, struct rebuild *rebuild, bool lacking)
{
	rebuilder_of(node)->left += lacking;
	rebuild->state = REBUILD_FREE;
}

static void rebuild_wait(struct rebuild *rebuild, uint64_t until_ns)
{
	rebuild->state = REBUILD_WAIT;
	rebuild->retry_ns = until_ns;
}

/* How many that live are to become keepers, and in whose place: of these one after the other. */
static void rebuild_looked(struct node *node, struct query *query)
{
	struct rebuild *rebuild = rebuild_of(node, &query->held);
	struct keepers keepers;

	CHECK(rebuild != NULL && rebuild->state == REBUILD_LOOK);
	if (!entry_is_sound(node, query) || !entry_is_of(query)) {
		rebuild_over(node, rebuild, false);
		return;
	}
	keepers_find(node, &query->call.entry, &keepers);
	rebuilder_of(node)->again |= keepers.unknown;
	if (keepers.unknown || !keepers.own || keepers.living >= rebuild->held.wanted) {
		rebuild_over(node, rebuild, false);
		return;
	}
	/* One sees to it; the others if that one has not by then. */
	if (keepers.first != node->cluster.id && !rebuilder_of(node)->repeated) {
		rebuilder_of(node)->again = true;
		rebuild_over(node, rebuild, true);
		return;
	}
	rebuild->from = keepers.dead;
	rebuild->keepers = keepers.places;
	rebuild->copies = keepers.copies;
	rebuild->looked = true;
	rebuild_wait(rebuild, 0);
}

static void rebuild_look(struct node *node, struct rebuild *rebuild)
{
	rebuild->state = REBUILD_LOOK;
	rebuild->looked = false;
	if (!look_up(node, &rebuild->held, rebuild_looked))
		rebuild_wait(rebuild, node_now(node) + CLUSTER_RETRY);
}

static void rebuild_refused(
	struct node *node, struct rebuild *rebuild, uint32_t place, int err)
{
	node->cluster.stats.rebuilds_refused++;
	if (err == ERR_NO_SPACE || err == ERR_TOO_MANY)
		taker_refused(node, place, rebuild->bytes, err);
	if (err == ERR_TOO_MANY) {
		rebuild_wait(rebuild, node_now(node) + SWAPOUT_PAUSE_NS);
		return;
	}
	if (err != ERR_EXISTS && err != ERR_NOT_FOUND)
		rebuild->refused |= 1ull << place;
	rebuild_look(node, rebuild);
}

static void rebuild_answered(
	struct node *node, struct ask *ask, int err, const void *message, size_t size)
{
	struct rebuild *rebuild = ask->owner;
	struct msg_kept msg;

	CHECK(rebuild->state == REBUILD_ASK);
	err = kept_read(err, message, size, rebuild->held.generation, &msg);
	if (err == 0) {
		node->cluster.stats.rebuilt++;
		node->cluster.stats.rebuilt_bytes += rebuild->held.size;
		rebuild_look(node, rebuild);
	} else if (err == ERR_TOO_MANY || ++rebuild->tries < REBUILD_TRIES) {
		rebuild_refused(node, rebuild, ask->peer, err);
	} else {
		rebuilder_of(node)->again = true;
		rebuild_over(node, rebuild, true);
	}
}

/* The bytes a second of the setting. */
static void rebuild_spend(struct node *node, uint64_t bytes)
{
	struct rebuilder *rebuilder = rebuilder_of(node);
	double ns = (double)bytes * 1e9 / (double)node->config.rebuild_rate;

	rebuilder->spent_ns = MAX(rebuilder->spent_ns, node_now(node)) + (uint64_t)ns;
}

static void rebuild_ask(struct node *node, struct rebuild *rebuild, uint32_t place)
{
	struct msg_keep msg = {
		.key = {rebuild->key, rebuild->key_size},
		.generation = rebuild->held.generation,
		.size = rebuild->held.size,
		/* Who lost its pool gives its role up as it fetches the bytes. */
		.from = rebuild->from == node->cluster.peers[place].id ? 0
								       : rebuild->from,
		.durable = rebuild->held.durable,
		.timeout_ns = SWAPOUT_WAIT_NS,
	};
	struct ask *ask = ask_send(node, place,
		msg_keep_encode(node->out, sizeof(node->out), &msg), rebuild_answered);

	if (ask == NULL) {
		rebuild_wait(rebuild, node_now(node) + CLUSTER_RETRY);
		return;
	}
	ask->owner = rebuild;
	rebuild->state = REBUILD_ASK;
	taker_asked(node, place, rebuild->bytes);
	rebuild_spend(node, rebuild->held.size);
}

static void rebuild_has_key(struct node *node, struct rebuild *rebuild)
{
	uint64_t skipped = rebuild->keepers | rebuild->refused;
	uint32_t place;

	rebuild->bytes = master_run_bytes(rebuild->held.size, rebuild->key_size);
	place = taker_choose(node, 0, skipped | ~rebuild->copies);
	if (place == PEER_LIMIT)
		place = taker_choose(node, rebuild->bytes, skipped);
	if (place != PEER_LIMIT) {
		rebuild_ask(node, rebuild, place);
		return;
	}
	/* One that is up may have room later; one more that comes is a reason by itself. */
	rebuilder_of(node)->again |= peers_any_beside(node, rebuild->keepers);
	rebuild_over(node, rebuild, true);
}

/* Of what is on the disk alone. */
static void rebuild_key_came(
	struct node *node, struct op *op, const struct job *job, int err)
{
	struct rebuild *rebuild = rebuilder_of(node)->reading;
	struct keys_at at = {0};
	struct msg_bytes key = {NULL, 0};
	struct disk_id id;

	(void)op;
	CHECK(rebuild != NULL && rebuild->state == REBUILD_KEY);
	rebuilder_of(node)->reading = NULL;
	rebuild_wait(rebuild, err == 0 ? 0 : node_now(node) + CLUSTER_RETRY);
	if (err != 0 || !keys_next(node, job, &at, &key) || key.size > KEY_LIMIT)
		return; /* it has come into the pool, say: looked at again */
	id = disk_id_of(key.data, (uint32_t)key.size);
	if (id.word[0] != rebuild->held.id.word[0] ||
		id.word[1] != rebuild->held.id.word[1])
		return;
	memcpy(rebuild->key, key.data, key.size);
	rebuild->key_size = (uint32_t)key.size;
}

static void rebuild_key(struct node *node, struct rebuild *rebuild)
{
	struct rebuilder *rebuilder = rebuilder_of(node);
	uint32_t entry = master_held_entry(&node->master, &rebuild->held);

	if (rebuilder->reading != NULL || entry == DISK_NONE ||
		!keys_ask_one(node, entry, rebuild_key_came)) {
		rebuild_wait(rebuild, node_now(node) + CLUSTER_RETRY);
		return;
	}
	rebuilder->reading = rebuild;
	rebuild->state = REBUILD_KEY;
}

static void rebuild_try(struct node *node, struct rebuild *rebuild)
{
	const struct slot *there;
	uint32_t slot;

	if (!master_held_find(&node->master, &rebuild->held, &slot)) {
		rebuild_over(node, rebuild, false);
		return;
	}
	if (!rebuild->looked) {
		rebuild_look(node, rebuild);
		return;
	}
	if (slot != SLOT_NONE) {
		there = &node->share->slots[slot];
		rebuild->key_size = there->klen;
		memcpy(rebuild->key, slot_key(node->share, there), there->klen);
	}
	if (rebuild->key_size == 0)
		rebuild_key(node, rebuild);
	else
		rebuild_has_key(node, rebuild);
}

/* Those that wait, if it is time. */
static void rebuilds_go_on(struct node *node, uint64_t now)
{
	struct rebuilder *rebuilder = rebuilder_of(node);

	for (uint32_t i = 0; i < REBUILDS_AT_ONCE; i++) {
		struct rebuild *rebuild = &rebuilder->list[i];

		if (rebuild->state == REBUILD_WAIT && now >= rebuild->retry_ns &&
			now >= rebuilder->spent_ns)
			rebuild_try(node, rebuild);
	}
}

/* ---- the walk ------------------------------------------------------------ */

static bool rebuild_any(const struct rebuilder *rebuilder)
{
	for (uint32_t i = 0; i < REBUILDS_AT_ONCE; i++) {
		if (rebuilder->list[i].state != REBUILD_FREE)
			return true;
	}
	return false;
}

/* False: not now. */
static bool claim_begin(struct node *node, const struct held *held)
{
	struct rebuilder *rebuilder = rebuilder_of(node);

	if (!held->softpin || !held->secondary)
		return true;
	if (rebuilder->looking >= LOOK_AT_ONCE || !look_up(node, held, claim_looked))
		return false;
	rebuilder->looking++;
	return true;
}

static bool is_still_lent(const struct node *node, const struct held *held)
{
	uint32_t slot;

	return master_held_find(&node->master, held, &slot) && slot != SLOT_NONE &&
	       master_is_lent(&node->master, slot);
}

/* What could not be claimed where it lay. */
static void lent_look(struct node *node, uint64_t now)
{
	struct rebuilder *rebuilder = rebuilder_of(node);

	if (rebuilder->lent_count == 0 || now < rebuilder->lent_ns)
		return;
	rebuilder->lent_ns = now + AGAIN_NS;
	for (uint32_t i = rebuilder->lent_count; i-- > 0;) {
		if (is_still_lent(node, &rebuilder->lent[i]))
			continue;
		if (!claim_begin(node, &rebuilder->lent[i]))
			return;
		rebuilder->lent[i] = rebuilder->lent[--rebuilder->lent_count];
		rebuilder->claims |= rebuilder->lent_lost;
		rebuilder->lent_lost = false;
	}
}

static bool rebuild_begin(struct node *node, const struct held *held)
{
	struct rebuild *rebuild;

	if (!held->softpin || held->secondary || held->wanted <= 1 || PLANTED(UNFILLED))
		return true;
	/* The walk and LACKING may both have met it: an answer finds its place by the object. */
	if (rebuild_of(node, held) != NULL)
		return true;
	rebuild = rebuild_free(rebuilder_of(node));
	if (rebuild == NULL)
		return false;
	*rebuild = (struct rebuild){.held = *held};
	rebuild_look(node, rebuild);
	return true;
}

static void pass_begin(struct node *node, uint64_t now)
{
	struct rebuilder *rebuilder = rebuilder_of(node);

	if (rebuilder->retry_ns > now || (!rebuilder->wanted && !rebuilder->claims))
		return;
	rebuilder->pass = rebuilder->claims ? REBUILD_CLAIMS : REBUILD_FILLS;
	if (rebuilder->pass == REBUILD_FILLS)
		rebuilder->wanted = false;
	rebuilder->claims = false;
	rebuilder->repeated = rebuilder->again;
	rebuilder->again = false;
	rebuilder->cursor = 0;
	if (rebuilder->pass == REBUILD_FILLS)
		rebuilder->left = 0;
	rebuilder->rebuilt = node->cluster.stats.rebuilt;
	rebuilder->claimed = node->cluster.stats.claimed;
}

/* FILL of what is begun from outside alone. */
static void pass_of_none(struct node *node)
{
	struct rebuilder *rebuilder = rebuilder_of(node);

	rebuilder->pass = REBUILD_FILLS;
	rebuilder->repeated = rebuilder->again = false;
	rebuilder->cursor = UINT64_MAX;
	rebuilder->left = 0;
	rebuilder->rebuilt = node->cluster.stats.rebuilt;
}

static void fill_ended(struct node *node)
{
	struct rebuilder *rebuilder = rebuilder_of(node);
	uint64_t rebuilt = node->cluster.stats.rebuilt - rebuilder->rebuilt;

	rebuilder->pass = REBUILD_OFF;
	if (rebuilder->again)
		rebuild_is_short(node);
	if (rebuilt > 0 || rebuilder->left > 0)
		log_line(node->config.log, LOG_LEVEL_INFO, "rebuilt",
			"keepers=%" PRIu64 " left=%" PRIu64
			" msg=\"objects have other keepers in the place of those that "
			"are gone\"",
			rebuilt, rebuilder->left);
}

static void claims_ended(struct node *node)
{
	struct rebuilder *rebuilder = rebuilder_of(node);
	uint64_t claimed = node->cluster.stats.claimed - rebuilder->claimed;

	rebuilder->pass = REBUILD_OFF;
	rebuilder->wanted = true; /* what was claimed may want others */
	if (rebuilder->claims)
		rebuilder->retry_ns = node_now(node) + BEAT_NS;
	if (claimed > 0)
		log_line(node->config.log, LOG_LEVEL_INFO, "claimed",
			"objects=%" PRIu64
			" msg=\"this node keeps now what it had copies of, and whose "
			"keepers are gone\"",
			claimed);
}

static void pass_end(struct node *node)
{
	struct rebuilder *rebuilder = rebuilder_of(node);

	if (rebuilder->cursor != UINT64_MAX || rebuilder->looking > 0 ||
		rebuild_any(rebuilder))
		return;
	if (rebuilder->pass == REBUILD_FILLS)
		fill_ended(node);
	else
		claims_ended(node);
}

/* One look at what is held. False: not now. */
static bool pass_look(struct node *node)
{
	struct rebuilder *rebuilder = rebuilder_of(node);
	uint64_t before = rebuilder->cursor;
	struct held held;

	if (rebuilder->pass == REBUILD_OFF || rebuilder->cursor == UINT64_MAX)
		return false;
	if (!master_held_next(&node->master, &rebuilder->cursor, LOOK_BUDGET, &held))
		return true;
	if (rebuilder->pass == REBUILD_CLAIMS ? claim_begin(node, &held)
					      : rebuild_begin(node, &held))
		return true;
	rebuilder->cursor = before;
	return false;
}

/* Copies that may be the last are spared, for a while: anew for each peer that falls silent. */
static void rebuild_spare(struct node *node, uint64_t now)
{
	struct rebuilder *rebuilder = rebuilder_of(node);
	uint64_t suspects = peers_suspect(node);
	bool in_doubt = suspects != 0 || rebuilder->claims || rebuilder->lent_count > 0 ||
			rebuilder->pass == REBUILD_CLAIMS;
	bool is_new = (suspects & ~rebuilder->suspects) != 0;

	rebuilder->suspects = suspects;
	if (in_doubt == rebuilder->in_doubt && !is_new)
		return;
	rebuilder->in_doubt = in_doubt;
	master_spare_copies(&node->master, in_doubt ? time_after(now, SPARE_NS) : 0, now);
}

bool rebuild_step(struct node *node, uint64_t now)
{
	struct rebuilder *rebuilder = rebuilder_of(node);

	if (!node_is_drained(node))
		lent_look(node, now);
	if (rebuilder->pass == REBUILD_OFF && !node_is_drained(node))
		pass_begin(node, now);
	rebuild_spare(node, now);
	if (rebuilder->pass == REBUILD_OFF)
		return false;
	rebuilds_go_on(node, now);
	for (uint32_t i = 0; i < LOOK_AT_ONCE; i++) {
		if (!pass_look(node)) {
			pass_end(node);
			return false;
		}
	}
	return true;
}

uint64_t rebuild_next(const struct node *node)
{
	const struct rebuilder *rebuilder = &node->cluster.rebuilder;
	uint64_t next = UINT64_MAX;

	if (rebuilder->lent_count > 0 && !node_is_drained(node))
		next = rebuilder->lent_ns;
	if (rebuilder->pass == REBUILD_OFF)
		return (rebuilder->wanted || rebuilder->claims) && !node_is_drained(node)
			       ? MIN(next, rebuilder->retry_ns)
			       : next;
	for (uint32_t i = 0; i < REBUILDS_AT_ONCE; i++) {
		const struct rebuild *rebuild = &rebuilder->list[i];

		if (rebuild->state == REBUILD_WAIT)
			next = MIN(next, MAX(rebuild->retry_ns, rebuilder->spent_ns));
	}
	/* Else an answer is what it waits for. */
	return next;
}

/* ---- LACKING ------------------------------------------------------------- */

void lacking_tell(struct node *node, const struct errand *errand)
{
	const struct msg_lacking msg = {
		.key = {errand->key, errand->key_size},
		.generation = errand->generation,
	};

	for (uint32_t place = 0; place < PEER_LIMIT; place++) {
		if (peer_is_up(&node->cluster.peers[place]))
			node->env.peer.send(node->env.peer.ctx, place, UINT32_MAX,
				node->out,
				msg_lacking_encode(node->out, sizeof(node->out), &msg));
	}
}

static void rebuild_one(struct node *node, const struct held *held)
{
	if (node_is_drained(node)) {
		rebuild_is_short(node);
		return;
	}
	if (rebuilder_of(node)->pass == REBUILD_OFF)
		pass_of_none(node);
	/* What it was looked up for before may have been answered before. */
	if (rebuild_of(node, held) != NULL || !rebuild_begin(node, held))
		rebuild_is_short(node);
}

void lacking_run(struct node *node, struct op *op)
{
	struct msg_lacking msg;
	struct index_key key;
	struct held held;

	if (msg_lacking_decode(op->message, op->message_size, &msg) == 0) {
		key = key_of(node, msg.key.data, (uint32_t)msg.key.size);
		if (master_held_look(&node->master, &key, msg.generation, &held))
			rebuild_one(node, &held);
	}
	op_done(node, op, 0);
}

/* ---- for people ---------------------------------------------------------- */

const char *rebuild_state_text(const struct node *node)
{
	switch (node->cluster.rebuilder.pass) {
	case REBUILD_OFF:
		return "off";
	case REBUILD_CLAIMS:
		return "claiming";
	case REBUILD_FILLS:
		return "rebuilding";
	}
	NOT_REACHED("no such pass");
}
