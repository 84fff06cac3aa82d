/*
 * hand.c - the keeper's role goes to another node, and comes from one.
 *
 *   DIRTY, SPENT --master_hand_next--> chosen: it stays where it is, and readable
 *     --master_hand_done--> handed: secondary, and may leave the pool like one of the cache
 *                      '--> not:    as before
 *     --master_hand_refused--> as before; but others come first, and it is not chosen for a while,
 *                              for who was asked keeps it already, say
 *   secondary, READY --master_keep--> DIRTY or SPENT: kept here
 *
 * Chosen is what the disk would be given if there were one with room, or if it came first:
 * first what has been read, then what is unread, the newest first but for the very newest: a
 * sixteenth of the pool, but no more than HAND_LOOKS objects. What must be on this node's own
 * disk (durable) is left to that.
 *
 * What was handed over lately must be able to come back for a reader, however full the pool is
 * by then: turning.c keeps room for the largest. But not for ever: it would be lost to puts.
 */
#include "core/master_priv.h"

#include "base/err.h"

#define HAND_LOOKS    1024u         /* objects that one choice looks at */
#define HAND_AGAIN_NS 1000000000ull /* at most, until what was refused is chosen */
#define HAND_TIMES    15u           /* that struct object tells apart */

#define HAND_PERIOD_NS 300000000000ull /* "lately" is this one and the last */

/* ---- choose -------------------------------------------------------------- */

/* It may have been moved to another slot since. */
static bool is_chosen(const struct master *master, uint32_t slot)
{
	for (uint32_t i = 0; i < HAND_LIMIT; i++) {
		const struct handing *handing = &master->hand.under_way[i];

		if (handing->bytes > 0 &&
			handing->generation == slot_at(master, slot)->generation)
			return true;
	}
	return false;
}

/* As struct object has it. The numbers come round: an old refusal may look like one of now, and
 * then costs the object that time once more. */
static uint8_t hand_time(uint64_t now)
{
	return (uint8_t)(now / HAND_AGAIN_NS % HAND_TIMES + 1);
}

/* From this one of a list on; towards its old end or its new one. */
struct hand_look {
	struct master *master;
	uint64_t limit; /* bytes of the largest run that a peer would take */
	uint64_t now, skip_bytes;
	uint32_t looks;
	bool to_old;
};

static uint32_t hand_look(struct hand_look *look, uint32_t slot)
{
	struct master *master = look->master;
	uint64_t skipped = 0;
	uint32_t skips = HAND_LOOKS, next;

	for (; slot != SLOT_NONE && look->looks > 0; slot = next) {
		const struct object *object = object_at(master, slot);
		uint64_t bytes = run_bytes(master, slot);

		next = look->to_old ? object->next : object->prev;
		if (skipped < look->skip_bytes && skips > 0) {
			skipped += bytes;
			skips--;
			continue;
		}
		look->looks--;
		if (bytes > look->limit || is_chosen(master, slot) ||
			object->refused == hand_time(look->now) ||
			slot_at(master, slot)->wanted > master->hand.others ||
			slot_at(master, slot)->flags & SLOT_DURABLE ||
			(!master->hand.first &&
				disk_has_room(master, slot_at(master, slot)->size)))
			continue;
		if (object_blocked(master, slot, look->now) == 0 ||
			!object_park(master, slot, look->now))
			return slot;
	}
	return SLOT_NONE;
}

static uint32_t hand_choose(struct master *master, uint64_t limit, uint64_t now)
{
	struct hand_look look = {
		.master = master, .limit = limit, .now = now, .looks = HAND_LOOKS};
	uint32_t slot;

	save_harvest(master, HAND_LOOKS);
	slot = hand_look(&look, master->spent.tail);
	if (slot != SLOT_NONE)
		return slot;
	look.to_old = true;
	look.looks = HAND_LOOKS;
	look.skip_bytes = master->share->header->pool_size / 16;
	slot = hand_look(&look, master->dirty.head);
	if (slot != SLOT_NONE)
		return slot;
	look.looks = HAND_LOOKS;
	look.skip_bytes = 0;
	return hand_look(&look, master->dirty.head);
}

/* ---- give ---------------------------------------------------------------- */

void master_hand_allow(struct master *master, uint64_t limit, uint32_t others)
{
	bool rises = limit > 0 && !hand_is_allowed(master);

	master->hand.limit = limit;
	master->hand.others = others;
	if (!rises)
		return;
	reclaim_start_if_low(master);
	room_event(master);
}

void master_hand_expect(struct master *master, bool expected)
{
	master->hand.expected = expected;
}

bool hand_is_allowed(const struct master *master)
{
	return master->hand.limit > 0;
}

void master_hand_first(struct master *master, bool first)
{
	master->hand.first = first;
}

bool hand_goes_first(const struct master *master)
{
	return master->hand.first && hand_is_allowed(master) && !master->hand.barren;
}

uint32_t master_hand_take(struct master *master, uint32_t slot, uint64_t bytes)
{
	for (uint32_t i = 0; i < HAND_LIMIT; i++) {
		struct handing *handing = &master->hand.under_way[i];

		if (handing->bytes > 0)
			continue;
		*handing = (struct handing){.bytes = bytes};
		if (slot != SLOT_NONE) {
			handing->generation = slot_at(master, slot)->generation;
			handing->bytes = run_bytes(master, slot);
		}
		master->hand.bytes += handing->bytes;
		return i;
	}
	return HAND_LIMIT;
}

bool master_hand_next(
	struct master *master, uint64_t now, uint32_t *ret_number, uint32_t *ret_slot)
{
	uint32_t slot, number;

	if (!hand_is_allowed(master) || !save_is_wanted(master))
		return false;
	slot = hand_choose(master, master->hand.limit, now);
	master->hand.barren = slot == SLOT_NONE && master->hand.bytes == 0;
	if (slot == SLOT_NONE)
		return false;
	number = master_hand_take(master, slot, 0);
	if (number == HAND_LIMIT)
		return false;
	*ret_number = number;
	*ret_slot = slot;
	return true;
}

void hand_forget(struct master *master, uint64_t now)
{
	struct hand *hand = &master->hand;

	if (now - hand->since_ns < HAND_PERIOD_NS)
		return;
	hand->largest_before = now - hand->since_ns < 2 * HAND_PERIOD_NS ? hand->largest
									 : 0;
	hand->largest = 0;
	hand->since_ns = now;
}

void master_hand_done(struct master *master, uint32_t number, const struct held *held,
	bool handed, uint64_t now)
{
	struct handing *handing = &master->hand.under_way[number];

	CHECK(number < HAND_LIMIT && handing->bytes > 0);
	master->hand.bytes -= handing->bytes;
	if (handed) {
		hand_forget(master, now);
		master->hand.largest = MAX(master->hand.largest, handing->bytes);
		master->cluster.handed++;
		master->cluster.handed_bytes += handing->bytes;
		master_held_yield(master, held, now);
	}
	*handing = (struct handing){.bytes = 0};
	room_event(master);
}

/* To the old end, where what is urgent stays the very last. */
static void put_behind(struct master *master, uint32_t slot)
{
	uint32_t before = master->dirty.tail, looks = HAND_LOOKS;

	while (before != SLOT_NONE && object_at(master, before)->urgent && looks-- > 0)
		before = object_at(master, before)->prev;
	if (before == slot || (before != SLOT_NONE && object_at(master, before)->urgent))
		return;
	object_unlink(&master->dirty, master->objects, slot);
	object_push_behind(&master->dirty, master->objects, slot, before);
}

/* Where the walk of a choice, which looks at so many alone, comes to it last. */
void master_hand_refused(struct master *master, const struct held *held, uint64_t now)
{
	struct object *object;
	uint32_t slot;

	if (!master_held_find(master, held, &slot) || slot == SLOT_NONE)
		return;
	object = object_at(master, slot);
	object->refused = hand_time(now) & 15u;
	if (object->list == OBJECT_SPENT)
		object_place(master, slot, OBJECT_SPENT);
	else if (object->list == OBJECT_DIRTY && !object->urgent)
		put_behind(master, slot);
}

/* ---- take ---------------------------------------------------------------- */

/* It could be given again to another object, had this node not heard of it. */
static bool generation_is_known(struct master *master, uint64_t generation)
{
	master_note_generation(master, generation);
	if (generation <= master->last_generation)
		return true;
	if (!generation_is_good(generation) ||
		master->share->header->generation_bound != 0)
		return false;
	/* Nothing was ever put here by which it could be judged. */
	generation_adopt(master, generation);
	return true;
}

bool master_keep_fits(const struct master *master, uint64_t size, uint32_t klen)
{
	uint64_t align;
	uint64_t bytes = extent_round(slot_run_size(size, (uint16_t)klen), &align);

	return bytes > master->room.turning.size ||
	       extent_largest_fit(&master->extents, align) >= bytes;
}

bool master_is_lent(const struct master *master, uint32_t slot)
{
	return turning_has(master, object_at(master, slot)->block);
}

int master_keep(struct master *master, uint32_t slot)
{
	struct object *object = object_at(master, slot);
	enum object_list list = (enum object_list)object->list;

	CHECK(kind_at(master, slot) == SLOT_READY);
	if (!is_secondary(master, slot))
		return 0;
	/* Of what was kept here before, a save may be ending that is not wanted any more: two
	 * at once would each take the other's record for its own. */
	if (list == OBJECT_MOVING || object->disk != DISK_NONE)
		return ERR_BUSY;
	if (master_is_lent(master, slot))
		return ERR_NO_SPACE;
	if (!generation_is_known(master, slot_at(master, slot)->generation))
		return ERR_NOT_PERMITTED;
	slot_at(master, slot)->flags &= ~(uint32_t)(SLOT_SECONDARY | SLOT_UNLISTED);
	if (list != OBJECT_PARKED)
		object_list_ready(master, slot, list == OBJECT_ACTIVE);
	master->cluster.kept++;
	master->cluster.kept_bytes += run_bytes(master, slot);
	return 0;
}
