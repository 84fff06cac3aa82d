/*
 * Tests of softpin as a contract: more is put than pool and disk have room for, and the daemon
 * is killed in the middle. What was acknowledged reads back right, and the rest was refused by
 * its deadline.
 *
 * CENOTE_TEST_FULL=1 runs the sizes of the contract's own test (a pool of 256 MiB and a disk
 * of 1 GiB under 2 GiB of objects, 20 rounds of kills; 2,048 objects of 1 MiB in 512 MiB), else an
 * eighth of them. CENOTE_TEST_SEED repeats a run's sizes and moments.
 */
#include "e2e_disk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY(text) cenote_key(text)
#define MIB       (1ull << 20)

/* ---- torture: the clients ------------------------------------------------ */

#define CLIENTS    4
#define PATIENT_MS 4000 /* until the first refusal */
#define HASTY_MS   50   /* once it is known that all is full */
#define EACH_PUTS  8    /* between two words about how far it is */

enum fate {
	FATE_REFUSED,
	FATE_STORED,
	FATE_UNKNOWN /* no answer before the deadline: there or not, but never wrong */
};

struct torture {
	struct cenote *store;
	uint64_t first, seed;
	uint64_t count; /* of objects */
	unsigned char *fates;
	uint64_t stored, stored_bytes, refused, unknown, late_ms;
};

/* From 16 KiB to 4 MiB, 1 MiB in the mean, no multiple of anything. */
static uint64_t size_of(uint64_t seed, uint64_t number)
{
	uint64_t word = (number + 1) * 0x9e3779b97f4a7c15u ^ seed * 0xd1342543de82ef95u;

	word ^= word >> 29;
	return word % 4 == 0 ? (word >> 8) % (4 * MIB) + 1
			     : (word >> 8) % MIB / 2 + 16384 + 300 * 1024;
}

static int put_one(struct torture *torture, uint64_t number, int64_t timeout_ms)
{
	uint64_t start = e2e_now_ms(), took;
	int err = e2e_put_number(
		torture->store, number, size_of(torture->seed, number), timeout_ms);

	took = e2e_now_ms() - start;
	if (err != 0 && took > (uint64_t)timeout_ms &&
		took - (uint64_t)timeout_ms > torture->late_ms)
		torture->late_ms = took - (uint64_t)timeout_ms;
	return err;
}

static void put_all(struct e2e_self *self, struct torture *torture)
{
	int64_t timeout_ms = PATIENT_MS;

	for (uint64_t i = 0; i < torture->count; i++) {
		int err = put_one(torture, torture->first + i, timeout_ms);

		if (err == 0) {
			torture->fates[i] = FATE_STORED;
			torture->stored++;
			torture->stored_bytes += size_of(
				torture->seed, torture->first + i);
		} else if (err == CENOTE_ERR_NO_SPACE) {
			torture->fates[i] = FATE_REFUSED;
			torture->refused++;
			timeout_ms = HASTY_MS;
		} else if (err == CENOTE_ERR_UNAVAILABLE || err == CENOTE_ERR_TIMEOUT) {
			torture->fates[i] = FATE_UNKNOWN;
			torture->unknown++;
		} else {
			e2e_fail(__FILE__, __LINE__, "put of %llu: %s (%s)",
				(unsigned long long)(torture->first + i),
				cenote_error_name(err), cenote_error_detail());
		}
		if (i % EACH_PUTS == EACH_PUTS - 1)
			e2e_self_say(self, "on");
	}
}

static void verify_one(struct torture *torture, uint64_t i)
{
	const struct cenote_get_options options = {.timeout_ms = E2E_DEADLINE_MS};
	uint64_t number = torture->first + i;
	struct e2e_number_key key;
	struct cenote_view view;
	int err = cenote_get(
		torture->store, KEY(e2e_number(&key, number)->text), &options, &view);

	if (err == 0) {
		if (torture->fates[i] == FATE_REFUSED)
			e2e_fail(__FILE__, __LINE__, "%s was refused, and is there",
				key.text);
		E2E_EQ(view.size, size_of(torture->seed, number));
		E2E_BYTES(view.data, view.size, number);
		E2E_OK(cenote_release(torture->store, &view));
	} else if (torture->fates[i] == FATE_STORED || err != CENOTE_ERR_NOT_FOUND) {
		e2e_fail(__FILE__, __LINE__, "get of %s, which %s: %s (%s)", key.text,
			torture->fates[i] == FATE_STORED ? "was acknowledged"
							 : "was not acknowledged",
			cenote_error_name(err), cenote_error_detail());
	}
}

/* Told "put", "verify" or "end". While it puts or verifies it says "on" now and then. */
static void role_torturer(struct e2e_self *self)
{
	struct torture torture = {.first = e2e_self_number(self, 0),
		.count = e2e_self_number(self, 1),
		.seed = e2e_self_number(self, 2)};
	const char *word;

	torture.store = e2e_self_connect(self);
	torture.fates = calloc(torture.count, 1);
	while (strcmp(word = e2e_self_hear(self), "end") != 0) {
		if (strcmp(word, "put") == 0) {
			put_all(self, &torture);
			e2e_self_say(self, "%llu %llu %llu %llu %llu",
				(unsigned long long)torture.stored,
				(unsigned long long)torture.stored_bytes,
				(unsigned long long)torture.refused,
				(unsigned long long)torture.unknown,
				(unsigned long long)torture.late_ms);
			continue;
		}
		for (uint64_t i = 0; i < torture.count; i++) {
			verify_one(&torture, i);
			if (i % EACH_PUTS == EACH_PUTS - 1)
				e2e_self_say(self, "on");
		}
		e2e_self_say(self, "verified");
	}
	free(torture.fates);
	cenote_close(torture.store);
}

/* ---- torture: the test --------------------------------------------------- */

struct sizes {
	const char *pool, *disk;
	uint64_t pool_bytes, total_bytes;
	int kills;
};

static struct sizes sizes_now(void)
{
	if (e2e_is_full())
		return (struct sizes){"256M", "1G", 256 * MIB, 2048 * MIB, 20};
	return (struct sizes){"32M", "128M", 32 * MIB, 256 * MIB, 3};
}

struct sum {
	uint64_t stored, stored_bytes, refused, unknown, late_ms;
};

static uint64_t seed_now(void)
{
	const char *text = getenv("CENOTE_TEST_SEED");
	uint64_t seed = text != NULL ? strtoull(text, NULL, 10) : 1;

	(void)printf("CENOTE_TEST_SEED=%llu\n", (unsigned long long)seed);
	return seed;
}

static void torturers_start(struct e2e *t, struct e2e_node *node,
	const struct sizes *sizes, uint64_t seed, struct e2e_role **roles)
{
	uint64_t count = 0, bytes = 0;
	char first[32], each[32], seed_text[32];

	while (bytes < sizes->total_bytes)
		bytes += size_of(seed, count++);
	for (uint64_t i = 0; i < CLIENTS; i++) {
		(void)snprintf(first, sizeof(first), "%llu",
			(unsigned long long)(i * (count / CLIENTS)));
		(void)snprintf(each, sizeof(each), "%llu",
			(unsigned long long)(count / CLIENTS));
		(void)snprintf(
			seed_text, sizeof(seed_text), "%llu", (unsigned long long)seed);
		roles[i] = e2e_role_start(
			t, node, "torturer", first, each, seed_text, NULL);
	}
}

/* All do it; the daemon is killed, and started again, once the first has said so many
 * words; -1: never. */
static void torturers_do(struct e2e_node *node, struct e2e_role **roles, const char *what,
	int kill_after, struct sum *sum)
{
	const char *word;

	for (int i = 0; i < CLIENTS; i++)
		e2e_role_tell(roles[i], what);
	for (int i = 0; i < CLIENTS; i++) {
		while (strcmp(word = e2e_role_hear(roles[i]), "on") == 0) {
			if (i == 0 && kill_after-- == 0) {
				e2e_node_kill(node);
				e2e_node_restart(node);
			}
		}
		if (strcmp(what, "put") == 0) {
			unsigned long long got[5];

			E2E_EQ(sscanf(word, "%llu %llu %llu %llu %llu", &got[0], &got[1],
				       &got[2], &got[3], &got[4]),
				5);
			sum->stored += got[0];
			sum->stored_bytes += got[1];
			sum->refused += got[2];
			sum->unknown += got[3];
			sum->late_ms = got[4] > sum->late_ms ? got[4] : sum->late_ms;
		}
	}
	E2E_TRUE(kill_after < 0); /* it was killed */
}

static void torturers_end(struct e2e_role **roles)
{
	for (int i = 0; i < CLIENTS; i++) {
		e2e_role_tell(roles[i], "end");
		e2e_role_end(roles[i]);
	}
}

/* What fits was taken, all but what the ends of holes cost; what was refused was so in time. */
static void expect_full(
	struct cenote *store, const struct sizes *sizes, const struct sum *sum)
{
	uint64_t room = sizes->pool_bytes - e2e_stat(store, "pool.turning") +
			e2e_stat(store, "disk.size");

	(void)printf("stored %llu (%llu MiB of room for %llu MiB), refused %llu, unknown "
		     "%llu, at most %llu ms late\n",
		(unsigned long long)sum->stored,
		(unsigned long long)(sum->stored_bytes / MIB),
		(unsigned long long)(room / MIB), (unsigned long long)sum->refused,
		(unsigned long long)sum->unknown, (unsigned long long)sum->late_ms);
	E2E_TRUE(sum->refused > 0);
	E2E_TRUE(sum->stored_bytes >= room / 100 * 85);
	E2E_TRUE(sum->stored_bytes <= room);
	E2E_TRUE(sum->late_ms <= e2e_second_ms());
}

static void what_does_not_fit_is_refused_and_nothing_is_lost(struct e2e *t)
{
	struct sizes sizes = sizes_now();
	struct e2e_node *node = e2e_disk_start(t, sizes.pool, sizes.disk);
	struct cenote *store = e2e_connect(node);
	struct e2e_role *roles[CLIENTS];
	struct sum sum = {0};

	torturers_start(t, node, &sizes, seed_now(), roles);
	torturers_do(node, roles, "put", -1, &sum);
	expect_full(store, &sizes, &sum);
	E2E_EQ(sum.unknown, 0);
	e2e_check(store);
	torturers_do(node, roles, "verify", -1, &sum);
	torturers_end(roles);
	e2e_check(store);
	e2e_remove_all(store);
	e2e_expect_disk_base(t, store);
	cenote_close(store);
}

/* Once while all is being put, once while all is read back. */
static void a_kill_in_the_middle_loses_nothing(struct e2e *t)
{
	struct sizes sizes = sizes_now();
	struct e2e_node *node = e2e_disk_start(t, sizes.pool, sizes.disk);
	struct cenote *store = e2e_connect(node);
	uint64_t seed = seed_now();

	for (int round = 0; round < sizes.kills; round++, seed++) {
		struct e2e_role *roles[CLIENTS];
		struct sum sum = {0};
		int words = (int)(sizes.total_bytes / MIB / CLIENTS / EACH_PUTS);

		torturers_start(t, node, &sizes, seed, roles);
		torturers_do(
			node, roles, "put", (int)(seed * 7919 % (uint64_t)words), &sum);
		(void)printf("round %d: ", round);
		E2E_TRUE(sum.stored_bytes > sizes.total_bytes / 3);
		(void)printf("stored %llu MiB, refused %llu, unknown %llu\n",
			(unsigned long long)(sum.stored_bytes / MIB),
			(unsigned long long)sum.refused, (unsigned long long)sum.unknown);
		torturers_do(node, roles, "verify",
			(int)(seed * 104729 % (uint64_t)words), &sum);
		torturers_end(roles);
		e2e_check(store);
		e2e_remove_all(store);
		e2e_expect_disk_base(t, store);
	}
	cenote_close(store);
}

static void more_than_the_pool_is_refused_nothing(struct e2e *t)
{
	uint64_t count = e2e_is_full() ? 2048 : 256;
	struct e2e_node *node = e2e_is_full() ? e2e_disk_start(t, "512M", "4G")
					      : e2e_disk_start(t, "64M", "512M");
	struct cenote *store = e2e_connect(node);
	uint64_t start = e2e_now_ms(), put, read;

	e2e_put_numbers(store, 0, count, MIB);
	put = e2e_now_ms();
	e2e_verify_numbers(store, 0, count, MIB);
	read = e2e_now_ms();
	(void)printf("%llu of 1 MiB: none refused, all readable; put in %llu ms, read in "
		     "%llu ms, %llu MiB written, %llu MiB read back\n",
		(unsigned long long)count, (unsigned long long)(put - start),
		(unsigned long long)(read - put),
		(unsigned long long)(e2e_stat(store, "counters.saved_bytes") / MIB),
		(unsigned long long)(e2e_stat(store, "counters.loaded_bytes") / MIB));
	e2e_check(store);
	cenote_close(store);
}

/* ---- leases and room ----------------------------------------------------- */

#define LEASED      1000u
#define LEASED_SIZE (64ull << 10)

/* Each is read once under a lease of 30 s, which is released early or runs on. */
static void lease_all(struct cenote *store, struct cenote_lease *leases, bool release)
{
	struct e2e_number_key key;

	for (uint64_t i = 0; i < LEASED; i++) {
		E2E_OK(cenote_lease(
			store, KEY(e2e_number(&key, i)->text), 30000, &leases[i]));
		if (release)
			E2E_OK(cenote_lease_release(store, &leases[i]));
	}
}

static struct cenote *leased_node(
	struct e2e *t, struct cenote_lease *leases, bool release)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct e2e_number_key key;

	for (uint64_t i = 0; i < LEASED; i++)
		e2e_put(store, e2e_number(&key, i)->text, LEASED_SIZE, i);
	lease_all(store, leases, release);
	return store;
}

/* Compared by what reclaim met: with leases kept it parks what it meets and the put waits. */
static void leases_that_are_released_keep_no_put_waiting(struct e2e *t)
{
	static struct cenote_lease leases[LEASED];
	struct cenote *store = leased_node(t, leases, true);
	uint64_t scans, freed, examined;

	E2E_EQ(e2e_stat(store, "pool.leases"), 0);
	examined = e2e_stat(store, "counters.examined");
	freed = e2e_stat(store, "counters.freed");
	E2E_OK(e2e_put_number(store, LEASED, 16 * MIB, 10000));
	scans = e2e_stat(store, "counters.examined") - examined;
	freed = e2e_stat(store, "counters.freed") - freed;
	(void)printf("released: examined %llu, freed %llu, parked for a lease %llu\n",
		(unsigned long long)scans, (unsigned long long)freed,
		(unsigned long long)e2e_stat(store, "counters.parked_lease"));
	E2E_EQ(e2e_stat(store, "counters.parked_lease"), 0);
	E2E_TRUE(freed >= 16 * MIB / LEASED_SIZE - 32);
	cenote_close(store);
}

static void leases_that_are_kept_make_a_put_wait(struct e2e *t)
{
	static struct cenote_lease leases[LEASED];
	struct cenote *store = leased_node(t, leases, false);
	uint64_t freed = e2e_stat(store, "counters.freed");

	E2E_EQ(e2e_stat(store, "pool.leases"), LEASED);
	E2E_ERR(e2e_put_number(store, LEASED, 16 * MIB, 500), CENOTE_ERR_NO_SPACE);
	E2E_EQ(e2e_stat(store, "counters.freed") - freed, 0);
	(void)printf("kept: parked for a lease %llu\n",
		(unsigned long long)e2e_stat(store, "counters.parked_lease"));
	E2E_TRUE(e2e_stat(store, "counters.parked_lease") > 0);
	for (uint64_t i = 0; i < LEASED; i++)
		E2E_OK(cenote_lease_release(store, &leases[i]));
	E2E_OK(e2e_put_number(store, LEASED, 16 * MIB, 10000));
	e2e_check(store);
	cenote_close(store);
}

static const struct e2e_case cases[] = {
	E2E_CASE(what_does_not_fit_is_refused_and_nothing_is_lost),
	E2E_CASE(a_kill_in_the_middle_loses_nothing),
	E2E_CASE(more_than_the_pool_is_refused_nothing),
	E2E_CASE(leases_that_are_released_keep_no_put_waiting),
	E2E_CASE(leases_that_are_kept_make_a_put_wait),
};

static const struct e2e_role_spec roles[] = {
	E2E_ROLE(torturer),
};

E2E_MAIN(cases, roles)
