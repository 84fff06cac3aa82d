/*
 * stress_client.c - a client of the hold stress: two threads read, one keeps it attached.
 *
 * Memory    a client lives as long as its process; with threads the controller frees it.
 * Thread    worker_main() twice, client_main() once.
 */
#include "stress.h"

#include "base/attr.h"
#include "base/rng.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

enum {
	WORKERS = 2
};

struct client {
	struct holder holder; /* first: client_tell() finds us by it */
	struct stress *stress;
	uint32_t cid;
	int fd; /* one number for life; reconnecting puts a new socket there */
	_Atomic uint32_t quiet; /* workers at rest */
	pthread_t workers[WORKERS];
};

static bool client_send(
	struct client *client, enum message_kind kind, uint32_t value, int flags)
{
	struct message message = {kind, value};
	ssize_t sent;

	do
		sent = send(client->fd, &message, sizeof(message), flags | MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent >= 0 || errno != EAGAIN;
}

/* A full socket drops it; a lost connection is made good by the next hello. */
static void client_tell(struct holder *holder, uint32_t slot)
{
	struct client *client = container_of(holder, struct client, holder);

	if (!client_send(client, MESSAGE_TELL, slot, MSG_DONTWAIT))
		count_up(&client->stress->dropped);
}

static bool bytes_are_whole(
	const struct share *share, const struct slot *slot, uint32_t key)
{
	const uint64_t *words = (const void *)(share->pool + slot->off);

	for (uint64_t i = 0; i < slot->size / sizeof(*words); i++)
		if (words[i] != word_of(key, slot->generation, i))
			return false;
	return slot->size > 0;
}

/* Read one object, one in eight twice with a second hold on another in between. */
static void worker_read(struct client *client, struct rng *rng, unsigned depth)
{
	struct stress *stress = client->stress;
	const struct share *share = &stress->share;
	char buffer[LONG_KEY];
	uint32_t number = (uint32_t)rng_below(rng, KEYS);
	struct index_key key = key_make(stress, number, buffer);
	uint32_t slot;
	bool whole;

	if (index_find(share, &client->holder, &key, HOLD_HEAT, &slot) != HOLD_OK)
		return;
	whole = bytes_are_whole(share, &share->slots[slot], number);
	if (depth < 2 && rng_chance(rng, 12)) {
		worker_read(client, rng, depth + 1);
		spin(rng_below(rng, 20000));
		whole = whole && bytes_are_whole(share, &share->slots[slot], number);
	}
	whole = hold_give(&client->holder, share->slots, slot) && whole;
	count_up(whole ? &stress->hits : &stress->wrong);
}

/* The last worker at rest says so; every tell of both went before on the same socket. */
static void worker_rest(struct client *client, uint32_t pause)
{
	if (atomic_fetch_add(&client->quiet, 1) + 1 == WORKERS)
		(void)client_send(client, MESSAGE_QUIET, pause, 0);
	while (atomic_load(&client->stress->pause) == pause)
		futex_wait(&client->stress->pause, pause, NULL);
	atomic_fetch_sub(&client->quiet, 1);
}

static void *worker_main(void *arg)
{
	struct client *client = arg;
	struct stress *stress = client->stress;
	struct rng rng;

	rng_init(&rng, stress->seed ^ atomic_fetch_add(&stress->serial, 1) << 8);
	while (!atomic_load(&stress->stop)) {
		uint32_t pause = atomic_load(&stress->pause);

		if (pause & 1)
			worker_rest(client, pause);
		else
			worker_read(client, &rng, 0);
	}
	return NULL;
}

/* The new socket takes the place of the old one before the hello: a release whose tell
 * went into the old one has then ended before the daemon looks at everything for the
 * hello. */
static void client_connect(struct client *client)
{
	struct stress *stress = client->stress;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	uint32_t pause;

	CHECK(fd >= 0);
	while (connect(fd, (struct sockaddr *)&stress->address, stress->address_size) !=
		0)
		CHECK(errno == EINTR);
	if (client->fd < 0) {
		client->fd = fd;
	} else {
		CHECK(dup2(fd, client->fd) >= 0);
		close(fd);
	}
	(void)client_send(client, MESSAGE_HELLO, client->cid, 0);
	pause = atomic_load(&stress->pause);
	if (pause & 1 && atomic_load(&client->quiet) == WORKERS)
		(void)client_send(client, MESSAGE_QUIET, pause, 0);
}

/* Stay attached; the workers start when the daemon has taken us in. */
void *client_main(void *arg)
{
	struct client *client = arg;
	bool attached = false;

	client_connect(client);
	for (;;) {
		struct message message;
		ssize_t got = recv(client->fd, &message, sizeof(message), 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0 && atomic_load(&client->stress->stop) && attached)
			break;
		if (got <= 0)
			client_connect(client);
		for (unsigned i = 0; got > 0 && !attached && i < WORKERS; i++)
			CHECK(pthread_create(&client->workers[i], NULL, worker_main,
				      client) == 0);
		attached = attached || got > 0;
	}
	for (unsigned i = 0; i < WORKERS; i++)
		pthread_join(client->workers[i], NULL);
	return NULL;
}

struct client *client_new(struct stress *stress, uint32_t cid)
{
	struct client *client = calloc(1, sizeof(*client));

	CHECK(client != NULL);
	client->holder.counts = stress->counts[cid];
	client->holder.tell = client_tell;
	client->stress = stress;
	client->cid = cid;
	client->fd = -1;
	return client;
}
