/*
 * Tests of client/copy.c: every alignment around the size where streaming begins.
 */
#include "client/client_priv.h"

#include "unit.h"

#include <stdlib.h>
#include <string.h>

#define EDGE (1u << 20)
#define ROOM (2u * EDGE)

/* The bytes are right, and those beside them untouched. */
static void check_copy(unsigned char *to, const unsigned char *from, size_t size)
{
	to[-1] = to[size] = 0xee;
	memset(to, 0, size);
	copy_bytes(to, from, size);
	assert_memory_equal(to, from, size);
	assert_int_equal(to[-1], 0xee);
	assert_int_equal(to[size], 0xee);
}

static void test_edges(void **state)
{
	static const size_t sizes[] = {0, 1, 63, 64, 4096, EDGE - 1, EDGE, EDGE + 1,
		EDGE + 127, EDGE + 128, EDGE + 4095};
	unsigned char *from = malloc(ROOM), *to = malloc(ROOM);

	(void)state;
	for (size_t i = 0; i < ROOM; i++)
		from[i] = (unsigned char)(i * 31 + i / 251);
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		for (size_t shift = 0; shift < 130; shift += 13)
			check_copy(to + 1 + shift, from + shift % 7, sizes[i]);
	}
	free(from);
	free(to);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_edges),
};

UNIT_MAIN(tests)
