/*
 * The hold word and the slot's states, one step at a time; what happens between two
 * steps of two processes is the business of tests/model.
 */
#include "share/hold.h"

#include "base/attr.h"
#include "unit.h"

#define SLOTS 8

struct table {
	struct holder holder;
	_Atomic uint16_t counts[SLOTS];
	struct slot slots[SLOTS];
	uint32_t told, told_slot;
};

static void on_tell(struct holder *holder, uint32_t slot)
{
	struct table *table = container_of(holder, struct table, holder);

	table->told++;
	table->told_slot = slot;
}

static void table_open(struct table *table)
{
	memset(table, 0, sizeof(*table));
	table->holder.counts = table->counts;
	table->holder.tell = on_tell;
}

static enum hold_result try(struct table *table, uint32_t slot)
{
	return hold_try(&table->holder, table->slots, slot, HOLD_COLD);
}

static void test_states(void **state)
{
	struct table table;
	struct slot *slot = &table.slots[3];

	(void)state;
	table_open(&table);
	assert_int_equal(slot_kind_of(slot->state), SLOT_FREE);
	assert_int_equal(try(&table, 3), HOLD_NO);
	slot_publish(slot);
	assert_int_equal(slot_kind_of(slot->state), SLOT_WRITING);
	assert_int_equal(try(&table, 3), HOLD_NO);
	slot_ready(slot);
	assert_int_equal(try(&table, 3), HOLD_OK);
	slot_condemn(slot);
	assert_int_equal(slot_kind_of(slot->state), SLOT_CONDEMNED);
	assert_int_equal(slot->want, 1);
	assert_int_equal(try(&table, 3), HOLD_NO);
	assert_int_equal(table.counts[3], 1);
	assert_int_equal(slot_life_of(slot->state), 0);
	slot_free(slot);
	assert_int_equal(slot_life_of(slot->state), 1);
	assert_int_equal(slot->want, 0);
}

static void test_give_tells_only_the_last_when_asked(void **state)
{
	struct table table;

	(void)state;
	table_open(&table);
	slot_ready(&table.slots[2]);
	assert_int_equal(try(&table, 2), HOLD_OK);
	assert_int_equal(try(&table, 2), HOLD_OK);
	slot_want(&table.slots[2], true);
	assert_true(hold_give(&table.holder, table.slots, 2));
	assert_int_equal(table.told, 0);
	assert_true(hold_give(&table.holder, table.slots, 2));
	assert_int_equal(table.told, 1);
	assert_int_equal(table.told_slot, 2);

	slot_want(&table.slots[2], false);
	assert_int_equal(try(&table, 2), HOLD_OK);
	assert_true(hold_give(&table.holder, table.slots, 2));
	assert_int_equal(table.told, 1);
}

static void test_give_twice_is_told_apart(void **state)
{
	struct table table;

	(void)state;
	table_open(&table);
	slot_ready(&table.slots[0]);
	assert_int_equal(try(&table, 0), HOLD_OK);
	assert_true(hold_give(&table.holder, table.slots, 0));
	assert_false(hold_give(&table.holder, table.slots, 0));
}

static void test_limit(void **state)
{
	struct table table;

	(void)state;
	table_open(&table);
	slot_ready(&table.slots[1]);
	for (unsigned i = 0; i < HOLD_LIMIT; i++)
		assert_int_equal(
			hold_try(&table.holder, table.slots, 1, HOLD_HEAT), HOLD_OK);
	assert_int_equal(try(&table, 1), HOLD_TOO_MANY);
	assert_int_equal(table.counts[1], HOLD_LIMIT | HOLD_REF);
	assert_true(hold_give(&table.holder, table.slots, 1));
	assert_int_equal(try(&table, 1), HOLD_OK);
}

static void test_heat_marks_and_cold_does_not(void **state)
{
	struct table table;
	struct hold_watch watch = {0};

	(void)state;
	table_open(&table);
	hold_watch_add(&watch, 9, table.counts);
	slot_ready(&table.slots[1]);
	assert_int_equal(hold_try(&table.holder, table.slots, 1, HOLD_COLD), HOLD_OK);
	assert_false(hold_used(&watch, 1));
	assert_int_equal(hold_try(&table.holder, table.slots, 1, HOLD_HEAT), HOLD_OK);
	assert_int_equal(table.counts[1], 2 | HOLD_REF);
	assert_true(hold_used(&watch, 1));
	assert_false(hold_used(&watch, 1));
	assert_int_equal(table.counts[1], 2);
}

static void test_look_counts_all_who_are_watched(void **state)
{
	struct table one, two;
	struct hold_watch watch = {0};

	(void)state;
	table_open(&one);
	table_open(&two);
	hold_watch_add(&watch, 1, one.counts);
	hold_watch_add(&watch, 2, two.counts);
	assert_false(hold_look(&watch, 5));
	(void)hold_take(&two.holder, 5, HOLD_HEAT);
	(void)hold_take(&two.holder, 5, HOLD_HEAT);
	(void)hold_take(&one.holder, 5, HOLD_COLD);
	assert_true(hold_look(&watch, 5));
	assert_int_equal(hold_count(&watch, 5, CLIENT_LIMIT), 3);
	assert_int_equal(hold_count(&watch, 5, 1), 1);
	assert_int_equal(hold_count(&watch, 5, 2), 2);

	hold_watch_drop(&watch, 1);
	assert_int_equal(hold_count(&watch, 5, CLIENT_LIMIT), 2);
	hold_watch_drop(&watch, 7); /* was never there */
	hold_watch_drop(&watch, 2);
	assert_false(hold_look(&watch, 5));
	assert_int_equal(watch.count, 0);
}

/* A mark is no hold. */
static void test_look_does_not_see_marks(void **state)
{
	struct table table;
	struct hold_watch watch = {0};

	(void)state;
	table_open(&table);
	hold_watch_add(&watch, 1, table.counts);
	(void)hold_take(&table.holder, 4, HOLD_HEAT);
	assert_true(hold_give(&table.holder, table.slots, 4));
	assert_int_equal(table.counts[4], HOLD_REF);
	assert_false(hold_look(&watch, 4));
}

static void test_watch_holds_every_client(void **state)
{
	static struct hold_watch watch;
	static struct table table;

	(void)state;
	for (uint32_t cid = 0; cid < CLIENT_LIMIT; cid++)
		hold_watch_add(&watch, cid, table.counts);
	for (uint32_t cid = 0; cid < CLIENT_LIMIT; cid++)
		hold_watch_drop(&watch, cid);
	assert_int_equal(watch.count, 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_states),
	cmocka_unit_test(test_give_tells_only_the_last_when_asked),
	cmocka_unit_test(test_give_twice_is_told_apart),
	cmocka_unit_test(test_limit),
	cmocka_unit_test(test_heat_marks_and_cold_does_not),
	cmocka_unit_test(test_look_counts_all_who_are_watched),
	cmocka_unit_test(test_look_does_not_see_marks),
	cmocka_unit_test(test_watch_holds_every_client),
};
UNIT_MAIN(tests)
