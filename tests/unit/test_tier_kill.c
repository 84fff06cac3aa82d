/*
 * Tests of tier/store.h under kill -9: a child writes and commits, is killed at any moment,
 * and the next start finds each commit whole or not at all, and every byte of what it
 * finds.
 */
#include "tier_fixture.h"

#include <stdatomic.h>

#define OBJECTS 400u
#define SPACE   (256u << 10) /* of each in the data file */
#define ROUNDS  20u
#define CHANGES 120u

/* Shared with the child; what an object is as of the last commit that ended. */
struct ledger {
	_Atomic uint32_t in_flight; /* changes of the commit under way */
	struct {
		uint32_t number;
		uint64_t before, after; /* generations; 0: not stored */
	} flight[CHANGES];
	uint64_t stored[OBJECTS];
	uint64_t generation; /* the last given */
};

static uint64_t size_of(uint64_t generation)
{
	return generation % 3 == 0 ? generation * 31 % TIER_INLINE
				   : 3000 + generation * 7919 % (SPACE - 3000);
}

static bool is_inline(uint64_t generation)
{
	return generation % 3 == 0;
}

/* Tell the parent what was done: 'w'rote, or is done next: 'c'ommit. */
static void tell_step(int fd, char step)
{
	assert_int_equal(write(fd, &step, 1), 1);
}

/* Wait until the child made so many steps, the last one `last` unless that is 0, and kill
 * it wherever it is then. */
static void kill_after(pid_t pid, int fd, uint64_t steps, char last)
{
	uint64_t made = 0;
	int status;
	char step = 0;

	while (made < steps || (last != 0 && step != last)) {
		assert_int_equal(read(fd, &step, 1), 1);
		made++;
	}
	(void)close(fd);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* ---- the child ----------------------------------------------------------- */

/* Write the bytes of a new object; those of one in the index only lie in the pool. */
static void child_write(struct rig *rig, uint32_t number, uint64_t generation,
	struct tier_piece *piece, uint64_t pool_off)
{
	*piece = (struct tier_piece){
		.pool_off = pool_off, .size = size_of(generation), .seed = number};
	fill(rig->pool + pool_off, piece->size, generation);
	if (is_inline(generation))
		piece->checksum = hash_key(rig->pool + pool_off, piece->size, number);
	else
		assert_int_equal(rig_write(rig, (uint64_t)number * SPACE, piece, 1), 0);
}

static void child_change(struct rig *rig, struct ledger *ledger, uint32_t i,
	uint32_t number, struct tier_change *change, char *key)
{
	uint64_t before = ledger->stored[number], after = 0;
	struct tier_piece piece;

	if (before != 0) {
		*change = drop_of(number);
	} else {
		after = ++ledger->generation;
		child_write(rig, number, after, &piece, i * (uint64_t)SPACE);
		*change = store_of(number,
			is_inline(after) ? TIER_ON_INDEX : (uint64_t)number * SPACE,
			piece.size, key);
		change->value = piece.pool_off;
		change->record.generation = after;
		change->record.checksum = piece.checksum;
	}
	ledger->flight[i].number = number;
	ledger->flight[i].before = before;
	ledger->flight[i].after = after;
}

/* A commit of changes of different objects. */
static void child_step(struct rig *rig, struct ledger *ledger, struct rng *rng, int fd)
{
	static struct tier_change changes[CHANGES];
	static char keys[CHANGES][RIG_KEY_SIZE];
	uint32_t count = 1 + (uint32_t)(rng_next(rng) % CHANGES);
	uint32_t number = (uint32_t)(rng_next(rng) % OBJECTS);

	for (uint32_t i = 0; i < count; i++) {
		child_change(rig, ledger, i, number, &changes[i], keys[i]);
		number = (number + 3) % OBJECTS;
		tell_step(fd, 'w');
	}
	atomic_store(&ledger->in_flight, count);
	tell_step(fd, 'c');
	assert_int_equal(rig_commit(rig, changes, count), 0);
	for (uint32_t i = 0; i < count; i++)
		ledger->stored[ledger->flight[i].number] = ledger->flight[i].after;
	atomic_store(&ledger->in_flight, 0);
}

_Noreturn static void child(struct rig *rig, struct ledger *ledger, uint64_t seed, int fd)
{
	struct rng rng;

	rng_init(&rng, seed);
	if (rig_open(rig) != 0)
		_exit(3);
	for (;;)
		child_step(rig, ledger, &rng, fd);
}

/* ---- the judge ----------------------------------------------------------- */

/* Its key has no end of its own. */
static uint32_t number_of(const struct tier_record *record)
{
	char key[RIG_KEY_SIZE] = "";

	assert_int_equal(record->klen, RIG_KEY_SIZE - 1);
	memcpy(key, record->key, record->klen);
	return (uint32_t)strtoull(key + 7, NULL, 16);
}

/* What the records say of each object. */
static void read_records(struct rig *rig, uint64_t stored[OBJECTS])
{
	struct tier_record record;

	memset(stored, 0, OBJECTS * sizeof(stored[0]));
	for (uint64_t at = 0; rig->env.adopt(rig->env.ctx, at, &record); at++) {
		uint32_t number = number_of(&record);
		struct tier_piece piece = {.size = record.size, .seed = number};
		int err = record.off == TIER_ON_INDEX ? rig_fetch(rig, record.id, &piece)
						      : rig_read(rig, record.off, &piece);

		assert_int_equal(err, 0);
		assert_true(number < OBJECTS && stored[number] == 0);
		assert_true(piece.checksum == record.checksum);
		assert_int_equal(record.size, size_of(record.generation));
		stored[number] = record.generation;
	}
}

/* The commit under way was made as a whole or not at all; all others were made. */
static void judge(struct rig *rig, struct ledger *ledger)
{
	static uint64_t stored[OBJECTS];
	uint32_t in_flight = atomic_load(&ledger->in_flight), made = 0;

	read_records(rig, stored);
	for (uint32_t i = 0; i < in_flight; i++) {
		uint32_t number = ledger->flight[i].number;

		assert_true(stored[number] == ledger->flight[i].before ||
			    stored[number] == ledger->flight[i].after);
		made += stored[number] == ledger->flight[i].after;
		ledger->stored[number] = stored[number];
	}
	assert_true(made == 0 || made == in_flight);
	assert_memory_equal(stored, ledger->stored, sizeof(stored));
	atomic_store(&ledger->in_flight, 0);
}

static void test_killed(void **state)
{
	struct rig *rig = *state;
	struct ledger *ledger = mmap(NULL, sizeof(*ledger), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint32_t in_commit = 0;
	struct rng rng;

	assert_true(ledger != MAP_FAILED);
	rng_init(&rng, 77);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		int fds[2];
		pid_t pid;

		assert_int_equal(pipe(fds), 0);
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0)
			child(rig, ledger, round, fds[1]);
		(void)close(fds[1]);
		kill_after(
			pid, fds[0], 30 + rng_next(&rng) % 400, round % 2 != 0 ? 'c' : 0);
		in_commit += atomic_load(&ledger->in_flight) > 0;
		assert_int_equal(rig_open(rig), 0);
		assert_string_equal(rig->warnings, "");
		judge(rig, ledger);
		rig_close(rig);
	}
	print_message("killed %u times, %u of them in a commit\n", ROUNDS, in_commit);
	(void)munmap(ledger, sizeof(*ledger));
}

/* Nothing is moved on behalf of a daemon that is gone: what its successor puts into the
 * pool stays. The child dies with reads under way. */
static void test_no_late_reads(void **state)
{
	struct rig *rig = *state;
	struct tier_piece pieces[16];
	int fds[2];
	pid_t pid;

	assert_int_equal(rig_open(rig), 0);
	for (uint32_t i = 0; i < 16; i++) {
		pieces[i] = (struct tier_piece){.pool_off = i * 4 * MIB, .size = 4 * MIB};
		memset(rig->pool + i * 4 * MIB, 1, 4 * MIB);
		assert_int_equal(rig_write(rig, i * 4 * MIB, &pieces[i], 1), 0);
	}
	rig_close(rig);
	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (rig_open(rig) != 0)
			_exit(3);
		for (uint32_t i = 0; i < 16; i++) {
			rig_begin(rig, i);
			rig->env.read(rig->env.ctx, i, i * 4 * MIB, &pieces[i]);
		}
		tell_step(fds[1], 'r');
		for (;;)
			(void)pause();
	}
	(void)close(fds[1]);
	kill_after(pid, fds[0], 1, 0);
	memset(rig->pool, 2, RIG_POOL);
	assert_int_equal(rig_open(rig), 0); /* a lock that is free says that it is gone */
	for (uint64_t i = 0; i < RIG_POOL; i++)
		assert_int_equal(rig->pool[i], 2);
}

#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

static const struct CMUnitTest tests[] = {
	RIG_TEST(test_killed),
	RIG_TEST(test_no_late_reads),
};

UNIT_MAIN(tests)
