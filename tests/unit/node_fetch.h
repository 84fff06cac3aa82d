/*
 * node_fetch.h - for the tests of what one node gets from another: objects that peers keep,
 * what they answer when they are asked for them, and a directory whose answers wait.
 */
#ifndef UNIT_NODE_FETCH_H
#define UNIT_NODE_FETCH_H

#include "node_peers.h"

#include "base/hash.h"
#include "node/node_priv.h"

#define KEY    "key"
#define SMALL  500u
#define MEDIUM (INLINE_LIMIT + 1)
#define LARGE  300000u
#define MIB    (1u << 20)
#define WAIT   (5 * SECOND)
#define LEASE  (3 * SECOND)

static const uint8_t ticket_bytes[16] = "one ticket, once";

/* ---- guests -------------------------------------------------------------- */

static inline struct guest guest_of(void)
{
	struct guest guest = attach();

	settle();
	return guest;
}

static inline void get(struct guest *guest, const char *key)
{
	send_get(guest->lane, key, 0, WAIT);
	settle();
}

static inline void wait_for(struct guest *guest, const char *key)
{
	send_get(guest->lane, key, GET_WAIT, WAIT);
	settle();
}

/* It waits for nothing any more. */
static inline void leave(struct guest *guest)
{
	sim_disconnect(&world, guest->lane);
	assert_sound();
}

/* ---- bytes --------------------------------------------------------------- */

static inline unsigned char object_byte(uint64_t at)
{
	return (unsigned char)(at * 131 + at / 251);
}

static inline struct msg_bytes value_of(uint64_t size)
{
	static unsigned char bytes[INLINE_LIMIT];

	for (uint64_t i = 0; i < size; i++)
		bytes[i] = object_byte(i);
	return (struct msg_bytes){bytes, size};
}

static inline void write_object(unsigned char *to, uint64_t size)
{
	for (uint64_t i = 0; i < size; i++)
		to[i] = object_byte(i);
}

static inline uint64_t checksum_of(const char *key, uint64_t size)
{
	unsigned char *bytes = malloc(size + 1);
	uint64_t checksum;

	write_object(bytes, size);
	checksum = hash_key(bytes, size, hash_key(key, strlen(key), 0));
	free(bytes);
	return checksum;
}

/* The answer to a get is this object, whole; the pin is given back. */
static inline void want_object(struct guest *guest, uint64_t size)
{
	const struct slot *there;
	struct msg_found found;

	WANT(guest->lane, found, &found);
	there = &world.share.slots[found.slot];
	assert_int_equal(there->size, size);
	for (uint64_t i = 0; i < size; i++)
		assert_int_equal(world.share.pool[there->off + i], object_byte(i));
	SEND(guest->lane, unpin, .slot = found.slot, .life = found.life);
	settle();
}

static inline uint32_t master_find_key(const char *key)
{
	struct index_key at = key_of(world.node, key, (uint32_t)strlen(key));

	return master_find(node_master(world.node), &at);
}

/* ---- what peers keep ----------------------------------------------------- */

/* Whoever that is, by the connection of the peer. */
static inline void node_keeps(unsigned peer, uint64_t node, uint64_t incarnation,
	const char *key, uint64_t generation, uint64_t size, uint32_t flags)
{
	struct fake_peer *at = &fake.peers[peer];

	at->answered = (struct dir_call){
		.op = DIR_OP_ANNOUNCE,
		.node = node,
		.incarnation = incarnation,
		.id = id_of(key),
		.generation = generation,
		.size = size,
		.flags = flags,
		.wanted = 1,
		.role = DIR_KEEPER,
	};
	dir_mem_set_now(fake.mem, world.now_ns);
	at->dir.start(at->dir.ctx, &at->answered);
	assert_int_equal(dir_mem_apply(&at->port, &at->answered), 0);
	dir_mem_answer(&at->port, &at->answered);
	assert_int_equal(at->answered.err, 0);
}

static inline void keeps_as(unsigned peer, uint64_t incarnation, const char *key,
	uint64_t generation, uint64_t size, uint32_t flags)
{
	node_keeps(peer, peer_id(peer), incarnation, key, generation, size, flags);
}

static inline void keeps(unsigned peer, const char *key, uint64_t generation,
	uint64_t size, uint32_t flags)
{
	keeps_as(peer, 1, key, generation, size, flags);
}

/* The peer is asked for the object, and once more by a new list. */
static inline void fails_twice(struct guest *guest, unsigned peer, int code)
{
	for (int i = 0; i < 2; i++) {
		want_nothing(guest->lane);
		reply_error(want_ask(peer, MSG_TYPE_REPLICA_ASK), code);
		settle();
	}
}

/* It has it no more, and says so. */
static inline void peer_has_no_more(unsigned peer, const char *key, uint64_t generation)
{
	assert_int_equal(peer_calls(peer, (struct dir_call){.op = DIR_OP_LEAVE,
						  .id = id_of(key),
						  .generation = generation}),
		DIR_DONE);
}

/* The peer takes over what the other keeps, who has nothing of it any more. */
static inline void peer_takes_over(
	unsigned peer, unsigned from, const char *key, uint64_t generation)
{
	assert_int_equal(peer_calls(peer, (struct dir_call){.op = DIR_OP_HAND_OVER,
						  .id = id_of(key),
						  .generation = generation,
						  .from = peer_id(from)}),
		DIR_DONE);
	peer_has_no_more(from, key, generation);
}

/* The directory has this node as the keeper then, though it has nothing, and not the peer. */
static inline void hands_over_to_this(unsigned peer, const char *key, uint64_t generation)
{
	struct fake_peer *at = &fake.peers[peer];

	at->answered = (struct dir_call){
		.op = DIR_OP_HAND_OVER,
		.node = THIS_ID,
		.incarnation = world.node->cluster.incarnation,
		.id = id_of(key),
		.generation = generation,
		.from = peer_id(peer),
	};
	at->dir.start(at->dir.ctx, &at->answered);
	assert_int_equal(dir_mem_apply(&at->port, &at->answered), 0);
	dir_mem_answer(&at->port, &at->answered);
	assert_int_equal(at->answered.verdict, DIR_DONE);
	peer_has_no_more(peer, key, generation);
}

/* What the entry of the key has this node for; 0: for nothing. */
static inline int own_role_in(const char *key)
{
	struct dir_id id = id_of(key);
	struct dir_entry entry;

	if (!dir_mem_look(fake.mem, &id, &entry))
		return 0;
	for (uint32_t i = 0; i < entry.holder_count; i++) {
		if (entry.holders[i].node == THIS_ID)
			return entry.holders[i].role;
	}
	return 0;
}

/* ---- what peers answer --------------------------------------------------- */

static inline struct msg_replica_ask want_replica_ask(unsigned peer)
{
	struct fake_ask *ask = want_ask(peer, MSG_TYPE_REPLICA_ASK);
	struct msg_replica_ask msg;

	assert_int_equal(msg_replica_ask_decode(ask->bytes, ask->size, &msg), 0);
	return msg;
}

/* The value itself. */
static inline void gives(unsigned peer, uint64_t generation, uint64_t size)
{
	REPLY(want_ask(peer, MSG_TYPE_REPLICA_ASK), replica, .generation = generation,
		.size = size, .checksum = checksum_of(KEY, size),
		.expires_in_ns = UINT64_MAX, .value = value_of(size));
	settle();
}

/* A lease and a ticket. */
static inline void leases(
	unsigned peer, uint64_t generation, uint64_t size, uint64_t checksum)
{
	struct fake_ask *ask = want_ask(peer, MSG_TYPE_REPLICA_ASK);
	struct msg_replica msg = {
		.epoch = 1,
		.life = 2,
		.slot = 3,
		.grant = 4,
		.generation = generation,
		.size = size,
		.checksum = checksum,
		.length_ns = LEASE,
		.expires_in_ns = UINT64_MAX,
	};
	unsigned char buffer[256];

	memcpy(msg.ticket, ticket_bytes, sizeof(msg.ticket));
	reply_bytes(ask, buffer, msg_replica_encode(buffer, sizeof(buffer), &msg));
	list_del(&ask->entry);
	free(ask);
	settle();
}

/* The bytes have come. */
static inline void moved(uint32_t number, uint64_t size)
{
	const struct peer_fetch *what = &fake.moves[number].what;

	assert_int_equal(what->size, size);
	write_object(world.share.pool + what->pool_off, size);
	move_ends(number, 0, checksum_of(KEY, size));
	settle();
}

static inline void want_unlease_of(unsigned peer, uint64_t life)
{
	struct fake_ask *ask = want_ask(peer, MSG_TYPE_UNLEASE);
	struct msg_unlease msg;

	assert_int_equal(msg_unlease_decode(ask->bytes, ask->size, &msg), 0);
	assert_int_equal(msg.life, life);
	REPLY(ask, done, .generation = 0);
	settle();
	assert_int_equal(count_asks(peer, MSG_TYPE_UNLEASE), 0);
}

/* What leases() gave comes back, once. */
static inline void want_unlease(unsigned peer)
{
	struct fake_ask *ask = want_ask(peer, MSG_TYPE_UNLEASE);
	struct msg_unlease msg;

	assert_int_equal(msg_unlease_decode(ask->bytes, ask->size, &msg), 0);
	assert_int_equal(msg.epoch, 1);
	assert_int_equal(msg.slot, 3);
	assert_int_equal(msg.grant, 4);
	assert_memory_equal(msg.ticket, ticket_bytes, 16);
	want_unlease_of(peer, 2);
}

/* All who are asked HAVE. */
static inline void others_have_not(void)
{
	for (unsigned i = 0; i < PEERS; i++) {
		struct fake_ask *ask;

		while ((ask = find_ask(i, MSG_TYPE_HAVE)) != NULL)
			reply_error(ask, ERR_NOT_FOUND);
	}
	settle();
}

/* ---- removals ------------------------------------------------------------ */

static inline void drop_comes(unsigned peer, const char *key, uint64_t generation)
{
	static uint32_t channel = 1000;
	unsigned char buffer[256];
	struct msg_drop msg = {
		.key = text(key), .generation = generation, .before = generation + 1};

	if (fake.peers[peer].link == 0)
		link_opens(peer);
	/* Without letting anything else happen. */
	node_on_link_message(world.node, (struct link_id){fake.peers[peer].link},
		++channel, buffer, msg_drop_encode(buffer, sizeof(buffer), &msg));
	assert_true(sim_settle(&world));
}

static inline void entry_goes(unsigned peer, const char *key, uint64_t generation)
{
	(void)peer_calls(peer, (struct dir_call){.op = DIR_OP_TAKE_OUT,
				       .id = id_of(key),
				       .generation = generation,
				       .token = 4711,
				       .bury_ns = SECOND});
}

/* A peer takes the entry out, and tells this node. */
static inline void removed_by_and(
	unsigned peer, const char *key, uint64_t generation, bool settles)
{
	entry_goes(peer, key, generation);
	drop_comes(peer, key, generation);
	if (settles)
		settle();
}

static inline void removed_by(unsigned peer, const char *key, uint64_t generation)
{
	removed_by_and(peer, key, generation, true);
}

/* ---- the directory ------------------------------------------------------- */

/* What is asked of it waits. */
static inline void hold_directory(void)
{
	fake.dir_waits = true;
}

static inline void let_directory_go(void)
{
	fake.dir_waits = false;
	settle();
}

/* What was asked takes effect, and the answers wait. */
static inline void directory_decides(void)
{
	struct list *first;

	dir_mem_set_now(fake.mem, world.now_ns);
	assert_false(list_is_empty(&fake.port.queued));
	while ((first = list_first(&fake.port.queued)) != NULL)
		assert_int_equal(
			dir_mem_apply(&fake.port,
				container_of(first, struct dir_call, list_entry)),
			0);
}

/* What was asked is answered; what is asked then waits. */
static inline void directory_answers(void)
{
	struct list *first;

	directory_decides();
	while ((first = list_first(&fake.port.applied)) != NULL)
		dir_mem_answer(
			&fake.port, container_of(first, struct dir_call, list_entry));
	settle();
}

static inline void directory_goes(void)
{
	dir_mem_set_away(fake.mem, 0, true);
	settle();
}

/* It knows nothing, and this peer has not announced what it has. */
static inline void directory_forgets(unsigned peer)
{
	fake.peers[peer].has_finished = false;
	dir_mem_flush(fake.mem, 0);
	turn(SECOND);
}

/* The peer tells this node that the key was published. */
static inline void published(unsigned peer, const char *key)
{
	struct dir_id id = id_of(key);
	struct msg_published msg;
	unsigned char buffer[64];

	if (fake.peers[peer].link == 0)
		link_opens(peer);
	memcpy(msg.id, &id, sizeof(msg.id));
	link_bytes(peer, UINT32_MAX, buffer,
		msg_published_encode(buffer, sizeof(buffer), &msg));
}

/* ---- batches ------------------------------------------------------------- */

/* Of the keys k0, k1 and so on. */
static inline void send_batch_of_gets(struct guest *guest, unsigned count)
{
	static unsigned char buffer[MSG_SIZE_MAX];
	struct msg_pack pack;
	char key[16];

	msg_pack_init(&pack, buffer, sizeof(buffer));
	for (unsigned i = 0; i < count; i++) {
		struct msg_get msg = {.timeout_ns = WAIT};

		(void)snprintf(key, sizeof(key), "k%u", i);
		msg.key = text(key);
		msg_pack_add(&pack,
			msg_get_encode(msg_pack_tail(&pack), msg_pack_room(&pack), &msg));
	}
	assert_true(sim_send(
		&world, guest->lane, buffer, msg_pack_finish(&pack, MSG_TYPE_BATCH)));
}

/* How many of the answers are this error; the others are `rest`. */
static inline unsigned batch_errors(
	struct guest *guest, int code, int rest, unsigned count)
{
	struct msg_batch_done done;
	struct msg_bytes message;
	unsigned found = 0;

	WANT(guest->lane, batch_done, &done);
	assert_int_equal(done.count, count);
	while (msg_unpack(&done.replies, &message) == 1) {
		struct msg_error msg;

		assert_int_equal(msg_error_decode(message.data, message.size, &msg), 0);
		assert_true(msg.code == code || msg.code == rest);
		found += msg.code == code;
	}
	return found;
}

/* ---- who keeps what ------------------------------------------------------ */

/* NULL: it is not in the pool. */
static inline const struct slot *slot_of(const char *key)
{
	uint32_t slot = master_find_key(key);

	return slot == SLOT_NONE ? NULL : &world.share.slots[slot];
}

/* In the pool, and not as a copy that may go. */
static inline bool is_kept(const char *key)
{
	return slot_of(key) != NULL && !(slot_of(key)->flags & SLOT_SECONDARY);
}

/* By the directory; 0: the node has none. */
static inline int role_in(const char *key, uint64_t node)
{
	struct dir_id id = id_of(key);
	struct dir_entry entry;

	if (!dir_mem_look(fake.mem, &id, &entry))
		return 0;
	for (uint32_t i = 0; i < entry.holder_count; i++) {
		if (entry.holders[i].node == node)
			return entry.holders[i].role;
	}
	return 0;
}

/* The peer would keep so many bytes, and has said so. */
static inline void credit(unsigned peer, uint64_t bytes)
{
	fake.peers[peer].free_bytes = bytes;
	turn(SECOND);
}

/* The put that was started; its generation. */
static inline uint64_t end_started(struct guest *guest)
{
	struct msg_put_started started;

	WANT(guest->lane, put_started, &started);
	SEND(guest->lane, put_end, .slot = started.slot, .life = started.life,
		.timeout_ns = WAIT);
	turn(SECOND);
	return want_done(guest->lane);
}

#endif
