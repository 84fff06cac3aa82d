/*
 * Tests of keys: 1 to 1,024 bytes of any value but NUL, each stored exactly as it is.
 */
#include "e2e.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct cenote *start(struct e2e *t)
{
	return e2e_connect(e2e_node_start(t, "--pool", "64M", NULL));
}

static struct cenote_key key_of(const void *data, size_t size)
{
	struct cenote_key key = {data, size};

	return key;
}

static void put_bytes(
	struct cenote *store, struct cenote_key key, uint64_t size, uint64_t seed)
{
	unsigned char *data = malloc(size + 1);

	E2E_TRUE(data != NULL);
	e2e_fill(data, size, seed);
	E2E_OK(cenote_put(store, key, data, size, NULL));
	free(data);
}

static void verify_bytes(
	struct cenote *store, struct cenote_key key, uint64_t size, uint64_t seed)
{
	struct cenote_view view;

	E2E_EQ(cenote_exists(store, key), 1);
	E2E_OK(cenote_get(store, key, NULL, &view));
	E2E_EQ(view.size, size);
	E2E_BYTES(view.data, size, seed);
	E2E_OK(cenote_release(store, &view));
}

/* Every length, small and large objects alternating; the keys are prefixes of each other.
 */
static void k16_03_keys_of_every_length(struct e2e *t)
{
	struct cenote *store = start(t);
	char text[CENOTE_KEY_LIMIT];

	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (char)('a' + i % 26);
	for (size_t size = 1; size <= sizeof(text); size++)
		put_bytes(store, key_of(text, size), size % 64 == 0 ? 70000 : size, size);
	for (size_t size = 1; size <= sizeof(text); size++)
		verify_bytes(
			store, key_of(text, size), size % 64 == 0 ? 70000 : size, size);
	e2e_check(store);
	for (size_t size = 1; size <= sizeof(text); size++)
		E2E_OK(cenote_remove(store, key_of(text, size)));
	e2e_expect_in_use(store, 0);
	cenote_close(store);
}

static void k16_03_keys_any_bytes_but_nul(struct e2e *t)
{
	static const char *const keys[] = {"/", "//", ".", "..", "../../etc/passwd",
		"a/b", "/abs/path", "a\nb", "\n", "\r\n", "\t", " ", "  ", "\x01", "\x7f",
		"\xff", "\xff\xff", "\x80", "\xc3\x28", "k\xc3\xa9y", "\xe9\x8d\xb5",
		"\xf0\x9f\x94\x91", "a@b:c/d", "\"quoted\"", "{\"json\":1}", "%s%n",
		"\\0", "*", "?", "a", "A"};
	struct cenote *store = start(t);

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		put_bytes(store, cenote_key(keys[i]), 100 + i, i);
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		verify_bytes(store, cenote_key(keys[i]), 100 + i, i);
	E2E_EQ(e2e_stat(store, "pool.objects"), ARRAY_LEN(keys));
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		struct cenote_stat stat;

		E2E_OK(cenote_stat(store, cenote_key(keys[i]), &stat));
		E2E_EQ(stat.size, 100 + i);
		E2E_OK(cenote_remove(store, cenote_key(keys[i])));
		E2E_EQ(cenote_exists(store, cenote_key(keys[i])), 0);
	}
	e2e_expect_in_use(store, 0);
	cenote_close(store);
}

/* Each single byte as a key, and inside one. */
static void k16_03_each_byte_value(struct e2e *t)
{
	struct cenote *store = start(t);
	char one, three[3] = {'x', 0, 'y'};

	for (int byte = 1; byte < 256; byte++) {
		one = three[1] = (char)byte;
		put_bytes(store, key_of(&one, 1), 8, (uint64_t)byte);
		put_bytes(store, key_of(three, 3), 16, (uint64_t)byte);
	}
	for (int byte = 1; byte < 256; byte++) {
		one = three[1] = (char)byte;
		verify_bytes(store, key_of(&one, 1), 8, (uint64_t)byte);
		verify_bytes(store, key_of(three, 3), 16, (uint64_t)byte);
	}
	cenote_close(store);
}

static void refuse_everywhere(struct cenote *store, struct cenote_key key)
{
	struct cenote_writer writer;
	struct cenote_view view;
	struct cenote_stat stat;
	unsigned char byte;
	uint64_t size;

	E2E_ERR(cenote_put(store, key, "x", 1, NULL), CENOTE_ERR_BAD_KEY);
	E2E_ERR(cenote_put_parts(store, key, NULL, 0, NULL), CENOTE_ERR_BAD_KEY);
	E2E_ERR(cenote_create(store, key, 1 << 20, NULL, &writer), CENOTE_ERR_BAD_KEY);
	E2E_ERR(cenote_get(store, key, NULL, &view), CENOTE_ERR_BAD_KEY);
	E2E_ERR(cenote_get_into(store, key, &byte, 1, NULL, &size), CENOTE_ERR_BAD_KEY);
	E2E_ERR(cenote_exists(store, key), CENOTE_ERR_BAD_KEY);
	E2E_ERR(cenote_stat(store, key, &stat), CENOTE_ERR_BAD_KEY);
	E2E_ERR(cenote_touch(store, key), CENOTE_ERR_BAD_KEY);
	E2E_ERR(cenote_wait(store, key, 100), CENOTE_ERR_BAD_KEY);
	E2E_ERR(cenote_remove(store, key), CENOTE_ERR_BAD_KEY);
	E2E_ERR(cenote_take(store, key, NULL, &view), CENOTE_ERR_BAD_KEY);
}

static void k16_03_keys_that_are_refused(struct e2e *t)
{
	struct cenote *store = start(t);
	char *text = malloc(65536);

	E2E_TRUE(text != NULL);
	memset(text, 'k', 65536);
	refuse_everywhere(store, key_of(NULL, 0));
	refuse_everywhere(store, cenote_key(""));
	refuse_everywhere(store, cenote_key(NULL));
	refuse_everywhere(store, key_of(text, 1025));
	E2E_ERR(cenote_exists(store, key_of(text, 1025)), CENOTE_ERR_BAD_KEY);
	E2E_DETAIL("1025");
	E2E_DETAIL("1024");
	refuse_everywhere(store, key_of(text, 65536));
	refuse_everywhere(store, key_of("\0", 1));
	refuse_everywhere(store, key_of("ab\0cd", 5));
	refuse_everywhere(store, key_of("ab\0", 3));
	free(text);
	/* Equal up to a NUL is not equal: only the key without it exists. */
	put_bytes(store, cenote_key("ab"), 10, 1);
	refuse_everywhere(store, key_of("ab\0cd", 5));
	verify_bytes(store, cenote_key("ab"), 10, 1);
	E2E_EQ(e2e_stat(store, "pool.objects"), 1);
	e2e_check(store);
	cenote_close(store);
}

static const struct e2e_case cases[] = {
	E2E_CASE(k16_03_keys_of_every_length),
	E2E_CASE(k16_03_keys_any_bytes_but_nul),
	E2E_CASE(k16_03_each_byte_value),
	E2E_CASE(k16_03_keys_that_are_refused),
};

E2E_MAIN_ALONE(cases)
