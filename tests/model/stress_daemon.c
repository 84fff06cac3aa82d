/*
 * stress_daemon.c - the daemon of the hold stress, on share/ alone.
 *
 * It works on objects at random, hears of ended holds by messages and of dead clients by
 * their pidfds. It may be killed at any instruction: the next one starts from the slots.
 * Freed memory is overwritten at once.
 *
 * Thread    daemon_main() only.
 */
#include "stress.h"

#include "base/attr.h"
#include "base/rng.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

static enum slot_kind kind_of(const struct slot *slot)
{
	return slot_kind_of(atomic_load_explicit(&slot->state, memory_order_relaxed));
}

struct connection {
	int fd;       /* -1 = none */
	uint32_t cid; /* CLIENTS until its hello */
};

struct daemon {
	struct stress *stress;
	struct share *share;
	struct hold_watch watch;
	struct rng rng;
	struct connection connections[CONNECTIONS];
	int pidfds[CLIENTS];     /* -1 = not attached */
	uint32_t quiet[CLIENTS]; /* the last pause it was quiet in */
	uint32_t slot_of[KEYS];  /* READY, or SLOT_NONE */
	bool parked[SLOTS];
	uint32_t free_chunks[CHUNKS];
	uint32_t free_count;
};

static void slot_end(struct daemon *daemon, uint32_t i)
{
	struct slot *slot = &daemon->share->slots[i];
	unsigned char *chunk = daemon->share->pool + slot->off;

	slot_free(slot);
	memset(chunk, 0xdb, CHUNK);
	daemon->free_chunks[daemon->free_count++] = (uint32_t)(slot->off / CHUNK);
}

/* Something may have ended a hold on slot i. */
static void look_again(struct daemon *daemon, uint32_t i)
{
	struct slot *slot = &daemon->share->slots[i];

	if (kind_of(slot) == SLOT_CONDEMNED) {
		if (!hold_look(&daemon->watch, i))
			slot_end(daemon, i);
	} else if (daemon->parked[i] && !hold_look(&daemon->watch, i)) {
		daemon->parked[i] = false;
		slot_want(slot, false);
	}
}

static void look_at_all(struct daemon *daemon)
{
	for (uint32_t i = 0; i < SLOTS; i++)
		look_again(daemon, i);
}

static void condemn(struct daemon *daemon, uint32_t i)
{
	struct slot *slot = &daemon->share->slots[i];

	if (daemon->slot_of[slot->op] == i)
		daemon->slot_of[slot->op] = SLOT_NONE;
	daemon->parked[i] = false;
	slot_condemn(slot);
	index_del(daemon->share, i);
	look_again(daemon, i);
}

static void park(struct daemon *daemon, uint32_t i)
{
	daemon->parked[i] = true;
	slot_want(&daemon->share->slots[i], true);
	look_again(daemon, i);
	count_up(&daemon->stress->parked);
}

static uint32_t slot_unused(const struct daemon *daemon)
{
	for (uint32_t i = 0; i < SLOTS; i++)
		if (kind_of(&daemon->share->slots[i]) == SLOT_FREE)
			return i;
	return SLOT_NONE;
}

/* Write an object; `from` = its older place when it is a move. False: no room. */
static bool publish(struct daemon *daemon, uint32_t number, const struct slot *from)
{
	struct share *share = daemon->share;
	uint32_t i = slot_unused(daemon);
	struct slot *slot = &share->slots[i == SLOT_NONE ? 0 : i];
	char buffer[LONG_KEY];
	struct index_key key = key_make(daemon->stress, number, buffer);
	uint64_t *words;

	if (i == SLOT_NONE || daemon->free_count == 0)
		return false;
	slot->off = (uint64_t)daemon->free_chunks[--daemon->free_count] * CHUNK;
	slot->size = from != NULL ? from->size : 8 + 8 * rng_below(&daemon->rng, 500);
	slot->generation = from != NULL ? from->generation
					: atomic_fetch_add(&daemon->stress->serial, 1);
	slot->klen = (uint16_t)key.size;
	slot->hash = key.hash;
	slot->op = number;
	if (key.size <= KEY_INLINE)
		memcpy(slot->key, buffer, key.size);
	slot_publish(slot);
	words = (void *)(share->pool + slot->off);
	for (uint64_t w = 0; w < slot->size / 8; w++)
		words[w] = word_of(number, slot->generation, w);
	if (key.size > KEY_INLINE)
		memcpy(share->pool + slot->off + slot->size, buffer, key.size);
	slot_ready(slot);
	CHECK(index_add(share, i));
	daemon->slot_of[number] = i;
	return true;
}

static void operate(struct daemon *daemon)
{
	struct stress *stress = daemon->stress;
	uint32_t key = (uint32_t)rng_below(&daemon->rng, KEYS);
	uint32_t i = daemon->slot_of[key];
	uint64_t what = rng_below(&daemon->rng, 8);

	if (i == SLOT_NONE) {
		if (publish(daemon, key, NULL))
			count_up(&stress->published);
	} else if (what == 0) {
		condemn(daemon, i);
		count_up(&stress->removed);
	} else if (what <= 2) {
		if (publish(daemon, key, &daemon->share->slots[i])) {
			condemn(daemon, i);
			count_up(&stress->moved);
		}
	} else if (what == 3) {
		(void)hold_used(&daemon->watch, i);
	} else if (!daemon->parked[i]) {
		if (hold_look(&daemon->watch, i)) {
			park(daemon, i);
		} else {
			condemn(daemon, i);
			count_up(&stress->evicted);
		}
	}
}

/* ---- clients ------------------------------------------------------------- */

/* Gone for good. The caller looks at all slots afterwards. */
static void client_gone(struct daemon *daemon, uint32_t cid)
{
	struct share_client *entry = &daemon->share->clients[cid];

	atomic_store(&entry->state, SHARE_CLIENT_DYING);
	hold_watch_drop(&daemon->watch, cid);
	for (uint32_t i = 0; i < SLOTS; i++)
		atomic_store(&daemon->stress->counts[cid][i], 0);
	if (daemon->pidfds[cid] >= 0)
		close(daemon->pidfds[cid]);
	daemon->pidfds[cid] = -1;
	daemon->quiet[cid] = 0;
	atomic_store(&entry->state, SHARE_CLIENT_FREE);
}

static void client_watch(struct daemon *daemon, uint32_t cid)
{
	uint32_t pid = daemon->share->clients[cid].pid;

	daemon->pidfds[cid] = (int)syscall(SYS_pidfd_open, pid, 0);
	if (daemon->pidfds[cid] < 0)
		client_gone(daemon, cid);
	else
		hold_watch_add(&daemon->watch, cid, daemon->stress->counts[cid]);
}

/* A new process under this cid was started only after its predecessor had been reaped. */
static void on_hello(struct daemon *daemon, struct connection *connection, uint32_t cid)
{
	struct share_client *entry = &daemon->share->clients[cid];
	struct message answer = {MESSAGE_ATTACHED, 0};
	struct ucred peer = {0};
	socklen_t size = sizeof(peer);

	if (getsockopt(connection->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
		return;
	if (daemon->pidfds[cid] >= 0 && entry->pid != (uint32_t)peer.pid)
		client_gone(daemon, cid);
	if (daemon->pidfds[cid] < 0) {
		entry->pid = (uint32_t)peer.pid;
		atomic_store(&entry->state, SHARE_CLIENT_LIVE);
		client_watch(daemon, cid);
	}
	connection->cid = cid;
	look_at_all(daemon);
	(void)send(connection->fd, &answer, sizeof(answer), MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Take one message. False: there is none left. */
static bool on_readable(struct daemon *daemon, struct connection *connection)
{
	struct message message;
	ssize_t got = recv(connection->fd, &message, sizeof(message), MSG_DONTWAIT);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (got <= 0) {
		close(connection->fd);
		connection->fd = -1;
		return false;
	}
	if (message.kind == MESSAGE_HELLO) {
		on_hello(daemon, connection, message.value);
	} else if (message.kind == MESSAGE_TELL) {
		look_again(daemon, message.value);
	} else if (message.kind == MESSAGE_QUIET && connection->cid < CLIENTS) {
		daemon->quiet[connection->cid] = message.value;
	}
	return true;
}

static void on_connect(struct daemon *daemon)
{
	int fd = accept4(daemon->stress->listener, NULL, NULL, SOCK_CLOEXEC);

	for (uint32_t i = 0; fd >= 0 && i < CONNECTIONS; i++)
		if (daemon->connections[i].fd < 0) {
			daemon->connections[i] = (struct connection){fd, CLIENTS};
			return;
		}
	CHECK(fd < 0);
}

/* Take what each source has; wait for the first if `timeout_ms` is -1. */
static void events(struct daemon *daemon, int timeout_ms)
{
	struct pollfd polls[1 + CLIENTS + CONNECTIONS];
	struct pollfd *pidfds = polls + 1;
	struct pollfd *connections = pidfds + CLIENTS;

	polls[0] = (struct pollfd){daemon->stress->listener, POLLIN, 0};
	for (uint32_t i = 0; i < CLIENTS; i++)
		pidfds[i] = (struct pollfd){
			daemon->stress->threads ? -1 : daemon->pidfds[i], POLLIN, 0};
	for (uint32_t i = 0; i < CONNECTIONS; i++)
		connections[i] = (struct pollfd){daemon->connections[i].fd, POLLIN, 0};
	if (poll(polls, ARRAY_LEN(polls), timeout_ms) <= 0)
		return;
	for (uint32_t i = 0; i < CLIENTS; i++)
		if (pidfds[i].revents != 0) {
			client_gone(daemon, i);
			look_at_all(daemon);
		}
	for (uint32_t i = 0; i < CONNECTIONS; i++)
		while (connections[i].revents != 0 &&
			on_readable(daemon, &daemon->connections[i]))
			continue;
	if (polls[0].revents != 0)
		on_connect(daemon);
}

/* ---- rest, start --------------------------------------------------------- */

static bool all_are_quiet(const struct daemon *daemon, uint32_t pause)
{
	for (uint32_t i = 0; i < CLIENTS; i++)
		if (daemon->quiet[i] != pause)
			return false;
	return true;
}

/* No hold is left anywhere, and all tells have been read. A tell that met a full socket
 * was dropped on purpose; then the sweep that exists for it goes first. */
static void check_rest(struct daemon *daemon)
{
	struct stress *stress = daemon->stress;
	uint32_t used = 0;

	if (atomic_exchange(&stress->dropped, 0) > 0)
		look_at_all(daemon);
	for (uint32_t i = 0; i < SLOTS; i++) {
		enum slot_kind kind = kind_of(&daemon->share->slots[i]);

		if (kind == SLOT_CONDEMNED || daemon->parked[i])
			count_up(&stress->stuck);
		used += kind != SLOT_FREE;
		for (uint32_t c = 0; c < CLIENTS; c++)
			if (atomic_load(&stress->counts[c][i]) & HOLD_COUNT)
				count_up(&stress->left);
	}
	if (used + daemon->free_count != CHUNKS)
		count_up(&stress->left);
}

/* READY twice under one key: a move was under way. */
static void recover_ready(struct daemon *daemon, uint32_t i)
{
	struct slot *slot = &daemon->share->slots[i];
	uint32_t twin = daemon->slot_of[slot->op];

	slot_want(slot, false);
	daemon->slot_of[slot->op] = i;
	if (twin != SLOT_NONE) {
		CHECK(daemon->share->slots[twin].generation == slot->generation);
		condemn(daemon, twin);
	}
	if (!index_has(daemon->share, i))
		CHECK(index_add(daemon->share, i));
}

static void recover(struct daemon *daemon)
{
	bool used[CHUNKS] = {false};

	for (uint32_t i = 0; i < SLOTS; i++)
		if (kind_of(&daemon->share->slots[i]) != SLOT_FREE)
			used[daemon->share->slots[i].off / CHUNK] = true;
	for (uint32_t chunk = 0; chunk < CHUNKS; chunk++)
		if (!used[chunk])
			daemon->free_chunks[daemon->free_count++] = chunk;
	index_repair(daemon->share);
	for (uint32_t i = 0; i < SLOTS; i++) {
		switch (kind_of(&daemon->share->slots[i])) {
		case SLOT_FREE:
			break;
		case SLOT_WRITING:
			slot_end(daemon, i);
			break;
		case SLOT_READY:
			recover_ready(daemon, i);
			break;
		case SLOT_CONDEMNED:
			slot_want(&daemon->share->slots[i], true);
			look_again(daemon, i);
			break;
		}
	}
}

static struct daemon *daemon_new(struct stress *stress)
{
	struct daemon *daemon = calloc(1, sizeof(*daemon));

	CHECK(daemon != NULL);
	daemon->stress = stress;
	daemon->share = &stress->share;
	rng_init(&daemon->rng, stress->seed ^ atomic_fetch_add(&stress->serial, 1));
	for (uint32_t i = 0; i < CONNECTIONS; i++)
		daemon->connections[i].fd = -1;
	for (uint32_t i = 0; i < KEYS; i++)
		daemon->slot_of[i] = SLOT_NONE;
	for (uint32_t i = 0; i < CLIENTS; i++) {
		daemon->pidfds[i] = -1;
		if (atomic_load(&daemon->share->clients[i].state) != SHARE_CLIENT_FREE)
			client_watch(daemon, i);
	}
	recover(daemon);
	return daemon;
}

static void daemon_free(struct daemon *daemon)
{
	for (uint32_t i = 0; i < CONNECTIONS; i++)
		if (daemon->connections[i].fd >= 0)
			close(daemon->connections[i].fd);
	for (uint32_t i = 0; i < CLIENTS; i++)
		if (daemon->pidfds[i] >= 0)
			close(daemon->pidfds[i]);
	free(daemon);
}

void *daemon_main(void *arg)
{
	struct stress *stress = arg;
	struct daemon *daemon = daemon_new(stress);

	for (;;) {
		uint32_t pause = atomic_load(&stress->pause);

		if (atomic_load(&stress->stop))
			break;
		if (!(pause & 1)) {
			events(daemon, 0);
			for (unsigned i = 0; i < 16; i++)
				operate(daemon);
		} else if (!all_are_quiet(daemon, pause)) {
			events(daemon, -1);
		} else {
			check_rest(daemon);
			atomic_store(&stress->checked, pause);
			futex_wake(&stress->checked);
			while (atomic_load(&stress->pause) == pause)
				futex_wait(&stress->pause, pause, NULL);
		}
	}
	daemon_free(daemon);
	return NULL;
}
