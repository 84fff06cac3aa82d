#include "share/hold.h"

#include "base/check.h"

void hold_watch_add(struct hold_watch *watch, uint32_t cid, _Atomic uint16_t *counts)
{
	CHECK(watch->count < CLIENT_LIMIT);
	watch->counts[watch->count] = counts;
	watch->cids[watch->count] = cid;
	watch->count++;
}

void hold_watch_drop(struct hold_watch *watch, uint32_t cid)
{
	for (uint32_t i = 0; i < watch->count; i++) {
		if (watch->cids[i] != cid)
			continue;
		watch->count--;
		watch->counts[i] = watch->counts[watch->count];
		watch->cids[i] = watch->cids[watch->count];
		return;
	}
}

bool hold_used(const struct hold_watch *watch, uint32_t slot)
{
	bool used = false;

	for (uint32_t i = 0; i < watch->count; i++) {
		_Atomic uint16_t *count = &watch->counts[i][slot];

		if (!(atomic_load_explicit(count, memory_order_relaxed) & HOLD_REF))
			continue;
		atomic_fetch_and_explicit(
			count, (uint16_t)~HOLD_REF, memory_order_relaxed);
		used = true;
	}
	return used;
}

uint32_t hold_count(const struct hold_watch *watch, uint32_t slot, uint32_t cid)
{
	uint32_t total = 0;

	for (uint32_t i = 0; i < watch->count; i++) {
		if (cid != CLIENT_LIMIT && watch->cids[i] != cid)
			continue;
		total += atomic_load_explicit(
				 &watch->counts[i][slot], memory_order_seq_cst) &
			 HOLD_COUNT;
	}
	return total;
}
