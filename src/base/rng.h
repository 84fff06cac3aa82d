/*
 * rng.h - a small generator of numbers that repeat: the same seed, the same run.
 *
 * xoshiro256** over a state spread by splitmix64, so that seeds 1, 2, 3 are as good as
 * any. Not for secrets.
 *
 * Memory    the owner embeds `struct rng`; copying it forks the sequence.
 * Thread    one at a time.
 */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include "base/check.h"

#include <stdbool.h>
#include <stdint.h>

struct rng {
	uint64_t state[4]; /* never all zero */
};

static inline void rng_init(struct rng *rng, uint64_t seed)
{
	for (int i = 0; i < 4; i++) {
		uint64_t z = (seed += 0x9e3779b97f4a7c15ull);

		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
		z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
		rng->state[i] = z ^ (z >> 31);
	}
}

static inline uint64_t rng_rotate(uint64_t x, int by)
{
	return (x << by) | (x >> (64 - by));
}

static inline uint64_t rng_next(struct rng *rng)
{
	uint64_t *s = rng->state;
	uint64_t result = rng_rotate(s[1] * 5, 7) * 9;
	uint64_t t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rng_rotate(s[3], 45);
	return result;
}

/* One of 0 .. n-1; n must be above 0. The high half of a product, so even but for a share
 * of n in 2^64. */
static inline uint64_t rng_below(struct rng *rng, uint64_t n)
{
	CHECK(n > 0);
	return (uint64_t)(((unsigned __int128)rng_next(rng) * n) >> 64);
}

/* True in `percent` of 100 calls; 0 is never, 100 and above always. */
static inline bool rng_chance(struct rng *rng, unsigned percent)
{
	return rng_below(rng, 100) < percent;
}

#endif
