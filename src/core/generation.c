/*
 * generation.c - the numbers of the puts: none is given twice, and they rise.
 *
 * A generation is a clock in µs above the random bits of this start. The clock is the wall's
 * while that runs ahead of the last number, else one more than in the last. What is known of
 * other numbers raises the last one: those of the slots and of the disk at a start, those
 * that other nodes tell of.
 *
 * A slot keeps its number only while it lives. So the shared header has a bound above all
 * that were given, in steps of STEP_US, stored before a number beyond it is used: a start
 * goes on from there, whatever the wall clock says by then.
 *
 * A clock that is ahead by years would take all nodes with it, for good. The wall clock is
 * believed up to TRUST_US beyond where the last bound and the time since have it; while
 * there is no bound, which is so until the first put of a pool, whatever it says. The number
 * of another node is believed by the same measure. One further ahead is kept until the next
 * number is given, and is believed if by then the wall clock here says so, too: of two
 * clocks that agree neither has jumped. With no bound all wait for that.
 */
#include "core/master_priv.h"

#define STEP_US  10000000ull
#define TRUST_US 86400000000ull
/* In the year 2110. Beyond, the clock's 52 bits would soon be spent. */
#define CLOCK_LIMIT ((1ull << 52) - (1ull << 46))

static uint64_t clock_of(uint64_t generation)
{
	return generation >> GENERATION_SHIFT;
}

bool generation_is_good(uint64_t generation)
{
	return generation != 0 && clock_of(generation) < CLOCK_LIMIT;
}

/* Where the wall clock may be by now; UINT64_MAX: there is nothing to tell by. */
static uint64_t clock_expected(const struct master *master)
{
	const struct share_header *header = master->share->header;

	if (header->generation_bound == 0 || header->generation_ns > master->now_ns)
		return UINT64_MAX;
	return clock_of(header->generation_bound) +
	       (master->now_ns - header->generation_ns) / 1000;
}

static bool clock_is_believed(const struct master *master, uint64_t clock_us)
{
	uint64_t expected = clock_expected(master);

	return clock_us < CLOCK_LIMIT &&
	       (clock_us <= expected || clock_us - expected <= TRUST_US);
}

/* The bound comes first: with one of the two stores missing the clock is believed too much
 * once, and no number comes again. */
static void bound_keep(struct master *master)
{
	struct share_header *header = master->share->header;
	uint64_t expected = clock_expected(master);
	uint64_t clock = clock_of(master->last_generation) + STEP_US;
	uint64_t since = master->now_ns;

	if (master->last_generation <= header->generation_bound)
		return;
	/* Numbers that only count up do not hold back what is expected of the clock. */
	if (expected != UINT64_MAX && expected > clock)
		since -= (expected - clock) * 1000;
	header->generation_bound = (clock + 1) << GENERATION_SHIFT;
	atomic_thread_fence(memory_order_release);
	header->generation_ns = since;
	atomic_thread_fence(memory_order_release);
}

static void raise_to(struct master *master, uint64_t generation)
{
	if (generation > master->last_generation)
		master->last_generation = generation;
}

/* ---- at a start ---------------------------------------------------------- */

void generation_recover(struct master *master)
{
	struct share_header *header = master->share->header;

	if (header->generation_bound != 0 &&
		!generation_is_good(header->generation_bound))
		header->generation_bound = 0; /* damaged */
	raise_to(master, header->generation_bound);
}

void generation_adopt(struct master *master, uint64_t generation)
{
	CHECK(generation_is_good(generation));
	raise_to(master, generation);
	if (master->share->header->generation_bound != 0)
		bound_keep(master);
}

/* ---- of other nodes ------------------------------------------------------ */

void master_note_generation(struct master *master, uint64_t generation)
{
	if (generation <= master->last_generation || !generation_is_good(generation))
		return;
	if (clock_expected(master) == UINT64_MAX ||
		!clock_is_believed(master, clock_of(generation))) {
		master->noted_generation = MAX(master->noted_generation, generation);
		return;
	}
	raise_to(master, generation);
	bound_keep(master);
}

/* What was noted and could not be believed then. */
static void noted_settle(struct master *master, uint64_t wall_us)
{
	uint64_t noted = master->noted_generation;

	master->noted_generation = 0;
	if (noted <= master->last_generation)
		return;
	if (clock_of(noted) > wall_us && clock_of(noted) - wall_us > TRUST_US) {
		master->cluster.clocks_refused++;
		return;
	}
	raise_to(master, noted); /* the bound follows with the number that is given now */
}

/* ---- give ---------------------------------------------------------------- */

/* Of two puts of one key in one µs the later has the higher number all the same. */
uint64_t generation_next(struct master *master, uint64_t wall_us)
{
	uint64_t clock;

	noted_settle(master, wall_us);
	clock = clock_of(master->last_generation);
	if (wall_us > clock && clock_is_believed(master, wall_us)) {
		clock = wall_us;
	} else {
		master->cluster.clocks_refused += wall_us > clock;
		clock++;
	}
	master->last_generation = clock << GENERATION_SHIFT |
				  master->config.generation_salt;
	bound_keep(master);
	return master->last_generation;
}

/* What stands in the way must be passed, however far ahead it is. */
uint64_t generation_above(struct master *master, uint64_t wall_us, uint64_t above)
{
	if (generation_is_good(above))
		raise_to(master, above);
	return generation_next(master, wall_us);
}
