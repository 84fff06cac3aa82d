/*
 * stress.h - the parts of the hold stress and what they share.
 *
 * The controller (stress.c) starts, stops and kills; clients (stress_client.c) read and
 * verify; one daemon after the other (stress_daemon.c) publishes, evicts, moves, removes.
 *
 * Memory    struct stress and all it points to are shared mappings, made before the first
 *           part starts and at one address in all of them.
 * Thread    every part is a process; with `threads` set, a thread of the one process.
 */
#ifndef TEST_STRESS_H
#define TEST_STRESS_H

#include "base/hash.h"
#include "share/index.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
	CLIENTS = 4,
	CONNECTIONS = 16
}; /* the daemon's, dead ones included */
enum {
	SLOTS = 96,
	KEYS = 64,
	LONG_KEY = 40,
	CHUNKS = 112,
	CHUNK = 4096
};

struct stress {
	struct share share;
	_Atomic uint16_t *counts[CLIENTS];
	_Atomic uint32_t pause;   /* odd: all give up their holds and wait for its rise */
	_Atomic uint32_t checked; /* the last pause that the daemon has checked */
	_Atomic uint32_t stop;    /* set at the end of the last pause */
	_Atomic uint64_t serial;  /* the last generation given */
	_Atomic uint64_t hits;    /* reads with every word verified */
	_Atomic uint64_t wrong;
	_Atomic uint64_t stuck;   /* parked or condemned at rest: a wake-up was lost */
	_Atomic uint64_t left;    /* counts set, or memory missing, at rest */
	_Atomic uint64_t dropped; /* tells that met a full socket since the last rest */
	_Atomic uint64_t published, evicted, parked, moved, removed;
	bool threads;
	uint64_t seed;
	int listener; /* of all daemons in turn, so that clients queue in between */
	struct sockaddr_un address;
	socklen_t address_size;
};

enum message_kind {
	MESSAGE_HELLO,
	MESSAGE_ATTACHED,
	MESSAGE_TELL,
	MESSAGE_QUIET
};
struct message {
	uint32_t kind;
	uint32_t value; /* hello: cid; tell: slot; quiet: the pause */
};

struct client;
struct client *client_new(struct stress *stress, uint32_t cid);

/* Bodies of threads, until `stop`: of a struct client, of a struct stress. */
void *client_main(void *client);
void *daemon_main(void *stress);

static inline void futex_wait(
	_Atomic uint32_t *word, uint32_t value, const struct timespec *limit)
{
	(void)syscall(SYS_futex, word, FUTEX_WAIT, value, limit, NULL, 0);
}

static inline void futex_wake(_Atomic uint32_t *word)
{
	(void)syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static inline void count_up(_Atomic uint64_t *counter)
{
	atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

static inline void spin(uint64_t turns)
{
	for (uint64_t i = 0; i < turns; i++)
		__asm__ volatile("" ::: "memory");
}

/* Half of the keys are short, half lie behind their object's bytes. */
static inline struct index_key key_make(
	const struct stress *stress, uint32_t number, char *buffer)
{
	struct index_key key = {buffer, number % 2 == 0 ? 8 : LONG_KEY, 0};

	memset(buffer, 'k', LONG_KEY);
	memcpy(buffer, &number, sizeof(number));
	key.hash = hash_key(buffer, key.size, stress->share.header->hash_seed);
	return key;
}

static inline uint64_t word_of(uint32_t key, uint64_t generation, uint64_t at)
{
	return (generation * 0x9e3779b97f4a7c15ull ^ key) + at * 0xd1342543de82ef95ull;
}

#endif
