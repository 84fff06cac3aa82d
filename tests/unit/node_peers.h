/*
 * node_peers.h - the world of node_guest.h as one node of a cluster: a directory in memory,
 * and other nodes that the test plays.
 *
 * Peers greet and beat by themselves; whatever else the node asks them waits for the test,
 * which answers, or lets the connection break. The directory answers by itself too, unless
 * it is told to wait. Only settle() and turn() let any of this happen.
 */
#ifndef UNIT_NODE_PEERS_H
#define UNIT_NODE_PEERS_H

#include "node_guest.h"

#include "base/check.h"
#include "dir/dir_mem.h"
#include "node/node_priv.h"

#define PEERS    3u
#define THIS_ID  0x100u /* of the node; a peer's is that and its number from 1 on */
#define MS       1000000ull
#define NO_PLACE PEER_LIMIT

/* What the node asked of a peer. */
struct fake_ask {
	struct list entry;
	unsigned peer;
	uint32_t channel;
	enum msg_type type;
	size_t size;
	unsigned char bytes[];
};

/* What the node answered to a peer. */
struct fake_answer {
	struct list entry;
	uint64_t link;
	uint32_t channel;
	size_t size;
	unsigned char bytes[];
};

/* A transfer that the node has begun. */
struct fake_move {
	bool there, stopped;
	struct peer_fetch what;
};

struct fake_peer {
	char endpoint[16];
	uint32_t place; /* that the node gave it */
	bool reachable, connecting, connected, closing;
	bool is_slow;      /* to be connected to: neither that nor a failure comes */
	bool is_silent;    /* does not answer beats */
	bool has_finished; /* its beats say that it has announced all */
	uint64_t generation;
	uint64_t free_bytes; /* that its beats say it would keep for others */
	uint64_t link;       /* its own connection to the node; 0: none */
	struct dir_mem_port port;
	struct dir dir;
	struct dir_call answered; /* the last of its own calls */
};

static struct {
	struct dir_mem *mem;
	struct dir_mem_port port; /* the node's */
	struct dir dir;
	bool dir_waits;
	struct fake_peer peers[PEERS];
	struct list asks, answers;
	uint64_t last_link;
	struct fake_move moves[PEER_TRANSFERS];
	unsigned offers, withdrawn;
	struct peer_offer offer; /* the last */
	bool refuses_offers;
} fake;

static inline uint64_t peer_id(unsigned peer)
{
	return THIS_ID + 1 + peer;
}

/* ---- env_peer ------------------------------------------------------------ */

static inline struct fake_peer *fake_at(uint32_t place)
{
	for (unsigned i = 0; i < PEERS; i++) {
		if (fake.peers[i].place == place)
			return &fake.peers[i];
	}
	return NULL;
}

static inline void fake_connect(void *ctx, uint32_t place, const char *endpoint)
{
	(void)ctx;
	for (unsigned i = 0; i < PEERS; i++) {
		if (strcmp(fake.peers[i].endpoint, endpoint) != 0)
			continue;
		fake.peers[i].place = place;
		fake.peers[i].connecting = true;
		return;
	}
	fail_msg("nobody is at %s", endpoint);
}

static inline void fake_send(
	void *ctx, uint32_t place, uint32_t channel, const void *message, size_t size)
{
	struct fake_peer *peer = fake_at(place);
	struct fake_ask *ask;

	(void)ctx;
	if (peer == NULL || !peer->connected || peer->closing)
		return;
	ask = malloc(sizeof(*ask) + size);
	*ask = (struct fake_ask){
		.peer = (unsigned)(peer - fake.peers), .channel = channel, .size = size};
	memcpy(ask->bytes, message, size);
	assert_int_equal(msg_type(message, size, &ask->type), 0);
	list_add_tail(&fake.asks, &ask->entry);
}

static inline void fake_close(void *ctx, uint32_t place)
{
	(void)ctx;
	if (fake_at(place) != NULL)
		fake_at(place)->closing = true;
}

static inline void fake_answer_link(void *ctx, struct link_id link, uint32_t channel,
	const void *message, size_t size)
{
	struct fake_answer *answer = malloc(sizeof(*answer) + size);

	(void)ctx;
	*answer = (struct fake_answer){
		.link = link.value, .channel = channel, .size = size};
	memcpy(answer->bytes, message, size);
	list_add_tail(&fake.answers, &answer->entry);
}

static inline void fake_close_link(void *ctx, struct link_id link)
{
	(void)ctx, (void)link;
	fail_msg("the node refused a peer");
}

static inline int fake_offer(
	void *ctx, const struct peer_offer *offer, struct peer_ticket *ret_ticket)
{
	(void)ctx;
	if (fake.refuses_offers)
		return ERR_TOO_MANY;
	fake.offers++;
	fake.offer = *offer;
	memset(ret_ticket, 0, sizeof(*ret_ticket));
	memcpy(ret_ticket->bytes, &offer->slot, sizeof(offer->slot));
	return 0;
}

static inline void fake_withdraw(void *ctx, const struct peer_ticket *ticket)
{
	(void)ctx, (void)ticket;
	fake.withdrawn++;
}

static inline void fake_fetch(void *ctx, uint32_t number, const struct peer_fetch *what)
{
	(void)ctx;
	assert_in_range(number, 0, PEER_TRANSFERS - 1);
	assert_false(fake.moves[number].there);
	fake.moves[number] = (struct fake_move){.there = true, .what = *what};
}

static inline void fake_stop_fetch(void *ctx, uint32_t number)
{
	(void)ctx;
	assert_true(fake.moves[number].there);
	fake.moves[number].stopped = true;
}

/* A transfer ends; what was stopped ends by itself. */
static inline void move_ends(uint32_t number, int err, uint64_t checksum)
{
	assert_true(fake.moves[number].there);
	fake.moves[number].there = false;
	node_on_fetch(world.node, number, err, checksum);
}

static inline bool fake_step_moves(void)
{
	for (uint32_t i = 0; i < PEER_TRANSFERS; i++) {
		if (!fake.moves[i].there || !fake.moves[i].stopped)
			continue;
		move_ends(i, ERR_TIMEOUT, 0);
		return true;
	}
	return false;
}

/* ---- asks and answers ---------------------------------------------------- */

static inline void fake_free(struct list *list, size_t offset, unsigned peer)
{
	list_for_each_safe (at, list) {
		if (offset == 0 && peer < PEERS &&
			container_of(at, struct fake_ask, entry)->peer != peer)
			continue;
		list_del(at);
		free(at);
	}
}

_Static_assert(
	offsetof(struct fake_ask, entry) == 0 && offsetof(struct fake_answer, entry) == 0,
	"an entry is its own memory");

static inline void reply_bytes(const struct fake_ask *ask, const void *bytes, size_t size)
{
	node_on_peer_answer(
		world.node, fake.peers[ask->peer].place, ask->channel, bytes, size);
}

/* Answer what the node has asked, and forget it. */
#define REPLY(ask, name, ...)                                                  \
	do {                                                                   \
		static unsigned char buffer_[MSG_SIZE_MAX];                    \
		struct msg_##name msg_ = {__VA_ARGS__};                        \
		struct fake_ask *ask_ = (ask);                                 \
                                                                               \
		reply_bytes(ask_, buffer_,                                     \
			msg_##name##_encode(buffer_, sizeof(buffer_), &msg_)); \
		list_del(&ask_->entry);                                        \
		free(ask_);                                                    \
	} while (0)

static inline void reply_error(struct fake_ask *ask, int code)
{
	REPLY(ask, error, .code = code, .text = text("no"));
}

/* The oldest of this type that waits at a peer, or NULL. */
static inline struct fake_ask *find_ask(unsigned peer, enum msg_type type)
{
	list_for_each (at, &fake.asks) {
		struct fake_ask *ask = container_of(at, struct fake_ask, entry);

		if (ask->peer == peer && ask->type == type)
			return ask;
	}
	return NULL;
}

static inline unsigned count_asks(unsigned peer, enum msg_type type)
{
	unsigned count = 0;

	list_for_each (at, &fake.asks) {
		const struct fake_ask *ask = container_of(at, struct fake_ask, entry);

		count += ask->peer == peer && ask->type == type;
	}
	return count;
}

static inline struct fake_ask *want_ask(unsigned peer, enum msg_type type)
{
	struct fake_ask *ask = find_ask(peer, type);

	if (ask == NULL)
		fail_msg("peer %u was not asked %s", peer, msg_name(type));
	return ask;
}

/* ---- turning ------------------------------------------------------------- */

static inline uint64_t fake_epochs(const struct fake_peer *peer, uint8_t *bytes)
{
	uint64_t epoch = dir_mem_epoch(fake.mem, 0);

	memcpy(bytes, &epoch, sizeof(epoch)); /* as the machines of tests have it */
	return peer->has_finished ? sizeof(epoch) : 0;
}

static inline bool fake_greet(unsigned number)
{
	struct fake_ask *ask = find_ask(number, MSG_TYPE_PEER_HELLO);

	if (ask == NULL)
		return false;
	REPLY(ask, peer_welcome, .version = WIRE_VERSION, .node = peer_id(number),
		.incarnation = 1, .generation = fake.peers[number].generation);
	return true;
}

static inline bool fake_beat(unsigned number)
{
	struct fake_peer *peer = &fake.peers[number];
	struct fake_ask *ask = find_ask(number, MSG_TYPE_BEAT);
	uint8_t epochs[8];

	if (ask == NULL || peer->is_silent)
		return false;
	REPLY(ask, beaten, .free_bytes = peer->free_bytes, .generation = peer->generation,
		.epochs = {epochs, fake_epochs(peer, epochs)});
	return true;
}

static inline bool fake_step_connection(unsigned number)
{
	struct fake_peer *peer = &fake.peers[number];

	if (peer->closing || (peer->connecting && !peer->reachable)) {
		peer->closing = peer->connecting = peer->connected = false;
		fake_free(&fake.asks, 0, number);
		node_on_peer_down(world.node, peer->place, ERR_UNAVAILABLE);
		return true;
	}
	if (!peer->connecting || peer->is_slow)
		return false;
	peer->connecting = false;
	peer->connected = true;
	node_on_peer_up(world.node, peer->place);
	return true;
}

static inline bool fake_step_dir(void)
{
	if (fake.dir_waits ||
		(list_is_empty(&fake.port.queued) && list_is_empty(&fake.port.applied) &&
			!dir_mem_has_news(&fake.port, 0)))
		return false;
	dir_mem_set_now(fake.mem, world.now_ns);
	assert_true(dir_mem_run(fake.mem, 100000));
	return true;
}

static inline bool fake_step(void)
{
	bool any = fake_step_dir() || fake_step_moves();

	for (unsigned i = 0; i < PEERS; i++)
		any |= fake_step_connection(i) || fake_greet(i) || fake_beat(i);
	return any;
}

/* Until nothing more happens by itself. */
static inline void settle(void)
{
	const char *broken;

	do {
		assert_true(sim_settle(&world));
	} while (fake_step());
	broken = node_check(world.node);
	if (broken != NULL)
		fail_msg("%s", broken);
}

static inline void turn(uint64_t ns)
{
	uint64_t end = world.now_ns + ns;

	for (;;) {
		uint64_t next;

		settle();
		next = node_next(world.node);
		if (world.tier != NULL)
			next = MIN(next, sim_tier_next(world.tier));
		if (next > end)
			break;
		next = MAX(next, world.now_ns + 1);
		world.wall_us += (next - world.now_ns) / 1000;
		world.now_ns = next;
	}
	world.wall_us += (end - world.now_ns) / 1000;
	world.now_ns = end;
	settle();
}

/* ---- the directory ------------------------------------------------------- */

static inline struct dir_id id_of(const char *key)
{
	struct disk_id id = disk_id_of(key, (uint32_t)strlen(key));

	return (struct dir_id){{id.word[0], id.word[1]}};
}

static inline void fake_dir_done(void *ctx, struct dir_call *call)
{
	(void)ctx, (void)call;
}

static inline void fake_dir_epoch(void *ctx, uint32_t domain, uint64_t epoch)
{
	(void)ctx, (void)domain, (void)epoch;
}

/* A call of a peer's own; at once. What came of it is in peer.answered. */
static inline enum dir_verdict peer_calls(unsigned peer, struct dir_call call)
{
	struct fake_peer *at = &fake.peers[peer];

	call.node = peer_id(peer);
	call.incarnation = 1;
	at->answered = call;
	dir_mem_set_now(fake.mem, world.now_ns);
	at->dir.start(at->dir.ctx, &at->answered);
	assert_int_equal(dir_mem_apply(&at->port, &at->answered), 0);
	dir_mem_answer(&at->port, &at->answered);
	assert_int_equal(at->answered.err, 0);
	return at->answered.verdict;
}

/* The peer keeps the key, under this generation. */
static inline void peer_keeps(unsigned peer, const char *key, uint64_t generation)
{
	assert_int_equal(peer_calls(peer, (struct dir_call){.op = DIR_OP_ANNOUNCE,
						  .id = id_of(key),
						  .generation = generation,
						  .size = 5,
						  .wanted = 1,
						  .role = DIR_KEEPER}),
		DIR_DONE);
}

/* The peer has a copy of what is there. */
static inline void peer_copies(unsigned peer, const char *key, uint64_t generation)
{
	assert_int_equal(peer_calls(peer, (struct dir_call){.op = DIR_OP_LOADED,
						  .id = id_of(key),
						  .generation = generation}),
		DIR_DONE);
}

/* The peer has a copy of what a directory that has forgotten knows no keeper of. */
static inline void peer_announces_copy(
	unsigned peer, const char *key, uint64_t generation, uint64_t size)
{
	assert_int_equal(peer_calls(peer, (struct dir_call){.op = DIR_OP_ANNOUNCE,
						  .id = id_of(key),
						  .generation = generation,
						  .size = size,
						  .flags = DIR_SOFTPIN,
						  .wanted = 1,
						  .role = DIR_SECONDARY}),
		DIR_DONE);
}

/* The generation of the key's entry; 0: there is none. */
static inline uint64_t entry_of(const char *key)
{
	struct dir_id id = id_of(key);
	struct dir_entry entry;

	return dir_mem_look(fake.mem, &id, &entry) ? entry.generation : 0;
}

/* ---- peers come and go --------------------------------------------------- */

static inline void peer_goes(unsigned peer)
{
	fake.peers[peer].reachable = false;
	fake.peers[peer].closing = fake.peers[peer].connected;
	settle();
}

static inline void peer_comes(unsigned peer)
{
	fake.peers[peer].reachable = true;
	turn(2 * SECOND);
	assert_true(fake.peers[peer].connected);
}

/* For a member that the directory names for so long. */
static inline void peer_joins(unsigned peer, uint64_t ns)
{
	struct dir_member member = {.node = peer_id(peer), .incarnation = 1};
	struct dir_member others[DIR_HOLDERS];

	memcpy(member.endpoint, fake.peers[peer].endpoint,
		sizeof(fake.peers[peer].endpoint));
	(void)peer_calls(peer, (struct dir_call){.op = DIR_OP_RENEW,
				       .bury_ns = ns,
				       .member = &member,
				       .members = others});
}

/* ---- peers ask ----------------------------------------------------------- */

static inline void link_bytes(
	unsigned peer, uint32_t channel, const void *bytes, size_t size)
{
	node_on_link_message(world.node, (struct link_id){fake.peers[peer].link}, channel,
		bytes, size);
	settle();
}

/* A peer asks the node. */
#define ASK(peer, on, name, ...)                                               \
	do {                                                                   \
		static unsigned char buffer_[MSG_SIZE_MAX];                    \
		struct msg_##name msg_ = {__VA_ARGS__};                        \
                                                                               \
		link_bytes((peer), (on), buffer_,                              \
			msg_##name##_encode(buffer_, sizeof(buffer_), &msg_)); \
	} while (0)

static inline struct fake_answer *find_answer(unsigned peer, uint32_t channel)
{
	list_for_each (at, &fake.answers) {
		struct fake_answer *answer = container_of(at, struct fake_answer, entry);

		if (answer->link == fake.peers[peer].link && answer->channel == channel)
			return answer;
	}
	return NULL;
}

/* What the node answered to the peer on this channel, decoded; it is forgotten at the end. */
#define WANT_ANSWER(peer, on, name, ret)                                               \
	do {                                                                           \
		struct fake_answer *answer_ = find_answer((peer), (on));               \
                                                                                       \
		assert_non_null(answer_);                                              \
		assert_int_equal(                                                      \
			msg_##name##_decode(answer_->bytes, answer_->size, (ret)), 0); \
		/* So that the channel can be used again; the bytes stay. */           \
		answer_->channel = UINT32_MAX;                                         \
	} while (0)

static inline int want_answer_error(unsigned peer, uint32_t channel)
{
	struct msg_error msg;

	WANT_ANSWER(peer, channel, error, &msg);
	return msg.code;
}

/* The peer connects to the node, and greets it. */
static inline void link_opens(unsigned peer)
{
	struct msg_peer_welcome welcome;

	fake.peers[peer].link = ++fake.last_link;
	node_on_link(world.node, (struct link_id){fake.last_link}, "test");
	ASK(peer, 0, peer_hello, .version = WIRE_VERSION, .node = peer_id(peer),
		.incarnation = 1, .cluster = text("test"),
		.endpoint = text(fake.peers[peer].endpoint));
	WANT_ANSWER(peer, 0, peer_welcome, &welcome);
	assert_int_equal(welcome.node, THIS_ID);
}

static inline void link_closes(unsigned peer)
{
	node_on_link_close(world.node, (struct link_id){fake.peers[peer].link});
	fake.peers[peer].link = 0;
	settle();
}

/* ---- set up -------------------------------------------------------------- */

static inline void fake_before_new(struct sim_world *at, struct env *env)
{
	(void)at;
	env->peer = (struct env_peer){&fake, fake_connect, fake_send, fake_close,
		fake_answer_link, fake_close_link, fake_offer, fake_withdraw, fake_fetch,
		fake_stop_fetch};
}

static inline int fake_before_start(struct sim_world *at, struct node *node)
{
	const struct node_cluster cluster = {
		.dir = fake.dir,
		.id = THIS_ID,
		.incarnation = 7,
		.name = "test",
		.endpoint = "this:1",
	};

	(void)at;
	return node_join_cluster(node, &cluster);
}

static inline void fake_node_done(void *ctx, struct dir_call *call)
{
	(void)ctx;
	node_on_dir(world.node, call);
}

static inline void fake_node_epoch(void *ctx, uint32_t domain, uint64_t epoch)
{
	(void)ctx;
	node_on_epoch(world.node, domain, epoch);
}

static inline void fake_open_port(void)
{
	struct dir_events events = {NULL, fake_node_done, fake_node_epoch};

	dir_mem_open_port(&fake.port, fake.mem, &events, &fake.dir);
}

static inline void fake_open(void)
{
	const struct dir_mem_config config = {.domains = 1, .seed = 1, .undo_limit = 64};
	struct dir_events peers = {NULL, fake_dir_done, fake_dir_epoch};

	memset(&fake, 0, sizeof(fake));
	list_init(&fake.asks);
	list_init(&fake.answers);
	assert_int_equal(dir_mem_new(&fake.mem, &config), 0);
	fake_open_port();
	for (unsigned i = 0; i < PEERS; i++) {
		struct fake_peer *peer = &fake.peers[i];

		(void)snprintf(peer->endpoint, sizeof(peer->endpoint), "peer%u:1", i);
		peer->place = NO_PLACE;
		peer->reachable = peer->has_finished = true;
		peer->generation = 10;
		dir_mem_open_port(&peer->port, fake.mem, &peers, &peer->dir);
	}
	world.before_new = fake_before_new;
	world.before_start = fake_before_start;
}

/* After sim_world_open(): the node starts, and all peers are up and have announced all. */
static inline int fake_start(void)
{
	int err;

	fake_open();
	for (unsigned i = 0; i < PEERS; i++)
		peer_joins(i, 3600 * SECOND);
	err = sim_start_daemon(&world);
	if (err == 0)
		turn(GONE_NS); /* it has heard of all that live */
	for (unsigned i = 0; err == 0 && i < PEERS; i++)
		assert_true(fake.peers[i].connected);
	return err;
}

/* As by kill -9: what was under way with others is so no more. */
static inline void node_dies(void)
{
	dir_mem_close_port(&fake.port); /* whose calls are the node's */
	sim_kill_daemon(&world);
	fake_free(&fake.asks, 0, PEERS);
	fake_free(&fake.answers, 1, 0);
	memset(fake.moves, 0, sizeof(fake.moves));
	for (unsigned i = 0; i < PEERS; i++) {
		struct fake_peer *peer = &fake.peers[i];

		peer->place = NO_PLACE;
		peer->connecting = peer->connected = peer->closing = false;
		peer->link = 0;
	}
	fake_open_port();
}

static inline void node_starts_again(void)
{
	assert_int_equal(sim_start_daemon(&world), 0);
	settle();
}

static inline int setup_peers(void **state)
{
	const struct sim_setup setup = {.pool_size = POOL, .nslots = 4096, .seed = 1};

	(void)state;
	sim_world_open(&world, &setup);
	return fake_start();
}

static inline void fake_close_all(void)
{
	fake_free(&fake.asks, 0, PEERS);
	fake_free(&fake.answers, 1, 0);
	dir_mem_close_port(&fake.port);
	for (unsigned i = 0; i < PEERS; i++)
		dir_mem_close_port(&fake.peers[i].port);
	assert_null(dir_mem_check(fake.mem));
}

static inline int teardown_peers(void **state)
{
	const char *broken;

	(void)state;
	settle();
	broken = node_check(world.node);
	if (broken != NULL)
		fail_msg("%s", broken);
	fake_close_all();
	sim_world_close(&world);
	dir_mem_free(fake.mem);
	for (unsigned i = 0; i < 64; i++) {
		free(kept[i]);
		kept[i] = NULL;
	}
	return 0;
}

#define AMONG_PEERS(name) \
	cmocka_unit_test_setup_teardown(name, setup_peers, teardown_peers)

#endif
