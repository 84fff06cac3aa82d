/*
 * lease.c - a base, a span and a map of bits for each slot.
 *
 * Numbers are given in order and never twice in a life, but for the turn of 32 bits:
 * [base, base + span) are those that may be outstanding, all of them within one map.
 *
 *     grant      a bit at the end; if the map is full, its oldest is forgotten first
 *     release    the bit is cleared, and the base moves up to the next that is set
 *
 * A number outside, or with its bit clear, is a late release or a second one. Since the
 * base moves past numbers and never back, none can clear the bit of another grant.
 */
#include "core/lease.h"

#include "base/check.h"
#include "base/plant.h"

void lease_book_init(struct lease_book *book, struct lease_grants *grants,
	uint32_t slots_limit, uint64_t epoch)
{
	*book = (struct lease_book){
		.grants = grants,
		.slots_limit = slots_limit,
		.epoch = epoch,
	};
}

/* The base goes on to the oldest grant that is outstanding, or to the next one. */
static void grants_trim(struct lease_grants *grants)
{
	uint32_t clear = grants->span;

	if (grants->outstanding != 0) {
		clear = (uint32_t)__builtin_ctzll(grants->outstanding);
		grants->outstanding >>= clear;
	}
	grants->base += clear;
	grants->span = (uint8_t)(grants->span - clear);
}

static void grants_clear(struct lease_book *book, struct lease_grants *grants)
{
	book->count -= (uint32_t)__builtin_popcountll(grants->outstanding);
	grants->outstanding = 0;
	grants->forgotten = false;
	grants_trim(grants);
}

struct lease_token lease_grant(struct lease_book *book, uint32_t slot, uint64_t life)
{
	struct lease_grants *grants = &book->grants[slot];
	uint32_t bit;

	CHECK(slot < book->slots_limit);
	if (grants->life != life) {
		grants_clear(book, grants);
		grants->life = life;
	}
	if (grants->span == LEASE_GRANTS) {
		grants->outstanding &= ~1ull;
		grants->forgotten = true;
		book->count--;
		grants_trim(grants);
	}
	bit = grants->span++;
	grants->outstanding |= 1ull << bit;
	book->count++;
	return (struct lease_token){book->epoch, life, slot, grants->base + bit};
}

enum lease_release lease_release(struct lease_book *book, const struct lease_token *token)
{
	struct lease_grants *grants;
	uint32_t bit;

	if (token->epoch != book->epoch || token->slot >= book->slots_limit)
		return LEASE_IGNORED;
	grants = &book->grants[token->slot];
	bit = token->grant - grants->base;
	if (PLANTED(RELEASED_BY_KEY) && grants->outstanding != 0)
		bit = (uint32_t)__builtin_ctzll(grants->outstanding);
	else if (token->life != grants->life || bit >= grants->span ||
		 (grants->outstanding >> bit & 1) == 0)
		return LEASE_IGNORED;
	if (!PLANTED(DOUBLE_RELEASE))
		grants->outstanding &= ~(1ull << bit);
	book->count--;
	grants_trim(grants);
	return grants->outstanding == 0 && !grants->forgotten ? LEASE_LAST_RELEASED
							      : LEASE_RELEASED;
}

void lease_forget(struct lease_book *book, uint32_t slot)
{
	struct lease_grants *grants = &book->grants[slot];

	CHECK(slot < book->slots_limit);
	/* Most slots never have a grant, and their memory is not touched. */
	if (grants->outstanding != 0 || grants->forgotten)
		grants_clear(book, grants);
}

uint32_t lease_outstanding(const struct lease_book *book, uint32_t slot, uint64_t life)
{
	const struct lease_grants *grants = &book->grants[slot];

	CHECK(slot < book->slots_limit);
	if (grants->life != life)
		return 0;
	return (uint32_t)__builtin_popcountll(grants->outstanding);
}
