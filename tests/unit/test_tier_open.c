/*
 * Tests of tier/store.h: what a start finds in the directory, what it refuses, and that no
 * damage of the index can stop it or crash it.
 */
#include "tier_fixture.h"

#include "base/attr.h"

#define INDEX_BYTES (1u << 20) /* of the index, that hold all that is in use */

static void file_write(const struct rig *rig, const char *name, const char *text)
{
	char path[512];
	FILE *file;

	rig_path(rig, name, path);
	file = fopen(path, "we");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static void file_is(const struct rig *rig, const char *name, const char *text)
{
	char path[512], have[64] = "";
	FILE *file;

	rig_path(rig, name, path);
	file = fopen(path, "re");
	assert_non_null(file);
	(void)!fread(have, 1, sizeof(have) - 1, file);
	assert_string_equal(have, text);
	(void)fclose(file);
}

static bool file_is_there(const struct rig *rig, const char *name)
{
	char path[512];

	rig_path(rig, name, path);
	return access(path, F_OK) == 0;
}

static void file_remove(const struct rig *rig, const char *name)
{
	char path[512];

	rig_path(rig, name, path);
	assert_int_equal(unlink(path), 0);
}

static int file_open(const struct rig *rig, const char *name)
{
	char path[512];
	int fd;

	rig_path(rig, name, path);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	return fd;
}

static void file_truncate(const struct rig *rig, const char *name, uint64_t size)
{
	char path[512];

	rig_path(rig, name, path);
	assert_int_equal(truncate(path, (off_t)size), 0);
}

/* Numbers from 0 on, each stored with a block of its own. */
static void fill_store(struct rig *rig, uint32_t count)
{
	static struct tier_change changes[TIER_PIECES];
	static char keys[TIER_PIECES][RIG_KEY_SIZE];

	for (uint32_t i = 0; i < count; i++)
		changes[i] = store_of(i, i % 3 ? 4096 * i : TIER_ON_INDEX,
			i % 3 ? 4096 : (i % 60 ? i % 300 : TIER_INLINE), keys[i]);
	assert_int_equal(rig_commit(rig, changes, count), 0);
}

static uint64_t found(struct rig *rig)
{
	struct store_info info;

	store_info(rig->store, &info);
	return info.objects;
}

/* ---- whose directory ----------------------------------------------------- */

static void test_second_refused(void **state)
{
	struct rig *rig = *state;
	struct store *other;
	char pid[16];

	assert_int_equal(rig_open(rig), 0);
	assert_int_equal(
		store_open(&other, &rig->config, rig->detail, sizeof(rig->detail)),
		ERR_BUSY);
	(void)snprintf(pid, sizeof(pid), "%d", getpid());
	assert_non_null(strstr(rig->detail, rig->path));
	assert_non_null(strstr(rig->detail, pid));
	rig_reopen(rig); /* the first one's was not touched */
}

static void test_made(void **state)
{
	struct rig *rig = *state;
	char path[512];
	struct stat file;
	struct store_info info;

	rig_path(rig, "below", path);
	rig->config.path = path;
	assert_int_equal(rig_open(rig), 0);
	store_info(rig->store, &info);
	assert_true(info.is_new);
	assert_true(info.index_size == 32 * MIB);
	assert_true(info.data_size == 224 * MIB - 8192);
	assert_true(info.free_bytes > 0);
	assert_int_equal(stat(path, &file), 0);
	assert_int_equal(file.st_mode & 0777, 0700);
	rig_close(rig);
	assert_int_equal(rig_open(rig), 0);
	store_info(rig->store, &info);
	assert_false(info.is_new);
	rig_close(rig);
	file_remove(rig, "below/lock");
	file_remove(rig, "below/index");
	file_remove(rig, "below/objects");
	assert_int_equal(rmdir(path), 0);
}

static void test_bad_places(void **state)
{
	struct rig *rig = *state;
	char path[512];

	file_write(rig, "file", "text");
	rig_path(rig, "file", path);
	rig->config.path = path;
	assert_int_equal(rig_open(rig), ERR_IO);
	assert_non_null(strstr(rig->detail, path));
	assert_non_null(strstr(rig->detail, "Not a directory"));
	rig_path(rig, "no/where", path);
	assert_int_equal(rig_open(rig), ERR_IO);
	assert_non_null(strstr(rig->detail, path));
	rig->config.path = rig->path;
	rig->config.disk_size = MIB;
	assert_int_equal(rig_open(rig), ERR_BAD_ARGUMENT);
	assert_non_null(strstr(rig->detail, "1048576"));
}

static void test_not_writable(void **state)
{
	struct rig *rig = *state;
	bool is_root = geteuid() == 0;
	int err;

	assert_int_equal(chmod(rig->path, 0555), 0);
	if (is_root)
		assert_int_equal(seteuid(65534), 0);
	err = rig_open(rig);
	if (is_root)
		assert_int_equal(seteuid(0), 0);
	assert_int_equal(chmod(rig->path, 0700), 0);
	assert_int_equal(err, ERR_NOT_PERMITTED);
	assert_non_null(strstr(rig->detail, rig->path));
}

static void test_foreign_kept(void **state)
{
	struct rig *rig = *state;

	file_write(rig, "notes", "mine");
	file_write(rig, "index.old", "mine too");
	assert_int_equal(rig_open(rig), 0);
	fill_store(rig, 50);
	rig_close(rig);
	file_truncate(rig, "index", 5000);
	assert_int_equal(rig_open(rig), 0);
	rig_close(rig);
	file_is(rig, "notes", "mine");
	file_is(rig, "index.old", "mine too");
	/* Names that we would use, but whose contents are another's. */
	file_write(rig, "lock", "of some other program");
	assert_int_equal(rig_open(rig), ERR_EXISTS);
	file_is(rig, "lock", "of some other program");
	file_remove(rig, "lock");
	file_write(rig, "objects", "of some other program");
	assert_int_equal(rig_open(rig), ERR_CORRUPT);
	assert_non_null(strstr(rig->detail, "objects"));
	file_is(rig, "objects", "of some other program");
}

/* ---- what does not belong together --------------------------------------- */

static void patch(
	const struct rig *rig, const char *name, off_t at, const void *bytes, size_t size)
{
	int fd = file_open(rig, name);

	assert_int_equal(pwrite(fd, bytes, size, at), size);
	(void)close(fd);
}

static void test_version(void **state)
{
	struct rig *rig = *state;

	assert_int_equal(rig_open(rig), 0);
	rig_close(rig);
	patch(rig, "objects", 8, "\7\0\0\0", 4);
	assert_int_equal(rig_open(rig), ERR_VERSION);
	assert_non_null(strstr(rig->detail, "version 7"));
	assert_non_null(strstr(rig->detail, rig->path));
}

static void test_other_data_file(void **state)
{
	struct rig *rig = *state;
	char from[512], to[512];

	assert_int_equal(rig_open(rig), 0);
	rig_close(rig);
	rig_path(rig, "index", from);
	rig_path(rig, "index.mine", to);
	assert_int_equal(rename(from, to), 0);
	assert_int_equal(rig_open(rig), 0); /* a new one, with a warning */
	assert_non_null(strstr(rig->warnings, "index is missing"));
	rig_close(rig);
	assert_int_equal(rename(to, from), 0);
	assert_int_equal(rig_open(rig), ERR_CORRUPT);
	assert_non_null(strstr(rig->detail, "do not belong together"));
}

static void test_data_file_lost(void **state)
{
	static const unsigned char zeros[4096];
	struct rig *rig = *state;

	assert_int_equal(rig_open(rig), 0);
	fill_store(rig, 10);
	rig_close(rig);
	patch(rig, "objects", 20, "x", 1);
	assert_int_equal(rig_open(rig), ERR_CORRUPT);
	assert_non_null(strstr(rig->detail, "damaged header"));
	patch(rig, "objects", 0, zeros, sizeof(zeros));
	assert_int_equal(rig_open(rig), ERR_CORRUPT);
	assert_non_null(strstr(rig->detail, "objects"));
	file_truncate(rig, "objects", 0);
	assert_int_equal(rig_open(rig), ERR_CORRUPT);
	assert_non_null(strstr(rig->detail, "missing or empty"));
	file_remove(rig, "objects");
	assert_int_equal(rig_open(rig), ERR_CORRUPT);
	assert_non_null(strstr(rig->detail, "missing or empty"));
	file_remove(rig, "index");
	assert_int_equal(rig_open(rig), 0);
	assert_int_equal(found(rig), 0);
}

/* What was cut off or changed shows in the checksum, and nothing else suffers. */
static void test_data_file_damaged(void **state)
{
	struct rig *rig = *state;
	char keys[2][RIG_KEY_SIZE];
	struct tier_change changes[2] = {
		store_of(0, 0, 4 * MIB, keys[0]), store_of(1, 8 * MIB, 4 * MIB, keys[1])};
	struct tier_piece out[2] = {{.size = 4 * MIB}, {.pool_off = 0, .size = 4 * MIB}};
	struct tier_piece in = {.pool_off = 16 * MIB, .size = 4 * MIB};

	assert_int_equal(rig_open(rig), 0);
	fill(rig->pool, 4 * MIB, 1);
	assert_int_equal(rig_write(rig, 0, &out[0], 1), 0);
	assert_int_equal(rig_write(rig, 8 * MIB, &out[1], 1), 0);
	assert_int_equal(rig_commit(rig, changes, 2), 0);
	rig_close(rig);
	file_truncate(rig, "objects", 10 * MIB);
	assert_int_equal(rig_open(rig), 0);
	assert_non_null(strstr(rig->warnings, "are lost"));
	assert_int_equal(found(rig), 2);
	assert_int_equal(rig_read(rig, 0, &in), 0);
	assert_true(in.checksum == out[0].checksum);
	assert_int_equal(rig_read(rig, 8 * MIB, &in), 0);
	assert_true(in.checksum != out[1].checksum);
	patch(rig, "objects", MIB, "flip", 4);
	assert_int_equal(rig_read(rig, 0, &in), 0);
	assert_true(in.checksum != out[0].checksum);
}

/* ---- a damaged index ----------------------------------------------------- */

/* Copies of a good index and its data file's header. */
struct good {
	unsigned char index[INDEX_BYTES], header[4096];
	uint64_t index_size, used;
	uint64_t records;
};

static struct good *good_new(struct rig *rig)
{
	struct good *good = calloc(1, sizeof(*good));
	static struct tier_change changes[300];
	struct stat file;
	int fd;

	assert_non_null(good);
	assert_int_equal(rig_open(rig), 0);
	fill_store(rig, 900);
	for (uint32_t i = 0; i < 300; i++)
		changes[i] = drop_of(i * 2);
	assert_int_equal(rig_commit(rig, changes, 300), 0);
	fill_store(rig, 400);
	good->records = 900 - 100;
	rig_close(rig);
	fd = file_open(rig, "index");
	assert_int_equal(fstat(fd, &file), 0);
	good->index_size = (uint64_t)file.st_size;
	assert_int_equal(pread(fd, good->index, INDEX_BYTES, 0), INDEX_BYTES);
	(void)close(fd);
	for (uint64_t i = 0; i < INDEX_BYTES; i++)
		good->used = good->index[i] != 0 ? i + 1 : good->used;
	assert_true(good->used > 40000 && good->used < INDEX_BYTES);
	fd = file_open(rig, "objects");
	assert_int_equal(pread(fd, good->header, 4096, 0), 4096);
	(void)close(fd);
	return good;
}

static void good_restore(const struct rig *rig, const struct good *good)
{
	int fd;

	if (file_is_there(rig, "index.bad"))
		file_remove(rig, "index.bad");
	fd = file_open(rig, "index");
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(pwrite(fd, good->index, INDEX_BYTES, 0), INDEX_BYTES);
	assert_int_equal(ftruncate(fd, (off_t)good->index_size), 0);
	(void)close(fd);
	patch(rig, "objects", 0, good->header, 4096);
}

/* It starts; with all it had, less what was told, or empty with the damaged one aside. Then
 * it works, and starts again without a word. */
static bool starts_and_works(struct rig *rig, const struct good *good)
{
	static struct tier_change changes[500];
	bool is_cold;
	struct store_info info;

	assert_int_equal(rig_open(rig), 0);
	store_info(rig->store, &info);
	is_cold = info.is_new;
	if (is_cold)
		assert_true(info.objects == 0 && file_is_there(rig, "index.bad"));
	else
		assert_true(info.objects + info.skipped == good->records);
	assert_int_equal(rig->warnings[0] != '\0', is_cold || info.skipped > 0);
	for (uint32_t i = 0; i < 500; i++)
		changes[i] = drop_of(i);
	assert_int_equal(rig_commit(rig, changes, 500), 0);
	fill_store(rig, 700);
	rig_reopen(rig);
	assert_string_equal(rig->warnings, "");
	assert_true(found(rig) >= 700);
	rig_close(rig);
	return is_cold;
}

static void test_index_intact(void **state)
{
	struct rig *rig = *state;
	struct good *good = good_new(rig);

	good_restore(rig, good);
	assert_false(starts_and_works(rig, good));
	free(good);
}

static void test_index_truncated(void **state)
{
	struct rig *rig = *state;
	struct good *good = good_new(rig);
	uint64_t lengths[] = {0, 1, 100, 4095, 4096, 8191, 8192, 20000, good->used / 2,
		align_up_u64(good->used, 4096) - 4096};

	for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
		good_restore(rig, good);
		file_truncate(rig, "index", lengths[i]);
		assert_true(starts_and_works(rig, good));
	}
	/* What is cut off behind the last page in use is not missed. */
	good_restore(rig, good);
	file_truncate(rig, "index", align_up_u64(good->used, 4096) + 64 * 4096);
	assert_false(starts_and_works(rig, good));
	free(good);
}

static void test_index_zeroed(void **state)
{
	static const unsigned char zeros[INDEX_BYTES];
	struct rig *rig = *state;
	struct good *good = good_new(rig);

	good_restore(rig, good);
	patch(rig, "index", 0, zeros, INDEX_BYTES);
	assert_true(starts_and_works(rig, good));
	for (uint64_t at = 0; at < good->used; at += 4096) {
		good_restore(rig, good);
		patch(rig, "index", (off_t)at, zeros, 4096);
		(void)starts_and_works(rig, good);
	}
	free(good);
}

/* Bits and bytes at random places of pages in use, some trials with the page's head. */
static void test_index_flipped(void **state)
{
	enum {
		TRIALS = 400
	};
	struct rig *rig = *state;
	struct good *good = good_new(rig);
	uint32_t cold = 0;
	struct rng rng;

	rng_init(&rng, 2024);
	for (uint32_t i = 0; i < TRIALS; i++) {
		uint64_t at = rng_next(&rng) % good->used;
		unsigned char byte;

		if (i % 2 == 0) /* where LMDB keeps what it follows */
			at = at / 4096 * 4096 + rng_next(&rng) % 160;
		byte = good->index[at] ^ (unsigned char)(1u << rng_next(&rng) % 8);
		if (i % 5 == 0)
			byte = (unsigned char)rng_next(&rng);
		good_restore(rig, good);
		patch(rig, "index", (off_t)at, &byte, 1);
		cold += starts_and_works(rig, good);
	}
	assert_true(cold > TRIALS / 20); /* the damage was real */
	free(good);
}

static uint64_t word_at(const struct good *good, uint64_t at, size_t size)
{
	uint64_t word = 0;

	assert_true(at + size <= INDEX_BYTES);
	memcpy(&word, good->index + at, size);
	return word;
}

/* A free page that is in use would be written over by a commit to come: its list names the
 * root of our own tree. */
static void test_free_page_in_use(void **state)
{
	struct rig *rig = *state;
	struct good *good = good_new(rig);
	uint64_t meta = word_at(good, 16 + 128, 8) > word_at(good, 4096 + 16 + 128, 8)
				? 16
				: 4096 + 16;
	uint64_t leaf = word_at(good, meta + 64, 8) * 4096;
	uint64_t node = leaf + word_at(good, leaf + 16, 2);
	uint64_t list[2] = {1, word_at(good, meta + 112, 8)}; /* {count, page} */
	uint64_t at = node + 16;

	assert_int_equal(word_at(good, leaf + 10, 2), 2); /* a leaf */
	if (word_at(good, node + 4, 2) == 1) /* the list has a page of its own */
		at = word_at(good, at, 8) * 4096 + 16;
	assert_true(word_at(good, at, 8) > 0);
	good_restore(rig, good);
	patch(rig, "index", (off_t)at, list, sizeof(list));
	assert_int_equal(rig_open(rig), 0);
	assert_non_null(strstr(rig->warnings, "in two places"));
	rig_close(rig);
	good_restore(rig, good);
	patch(rig, "index", (off_t)at, list, sizeof(list));
	assert_true(starts_and_works(rig, good));
	free(good);
}

/* A record that is not valid costs itself alone, and is told once. */
static void test_record_damaged(void **state)
{
	struct rig *rig = *state;
	struct good *good = good_new(rig);
	char key[RIG_KEY_SIZE];
	struct store_info info;
	uint32_t hits = 0;

	good_restore(rig, good);
	(void)id_of(601, key);
	for (uint64_t i = 0; i + RIG_KEY_SIZE < good->used; i++) {
		if (memcmp(good->index + i, key, RIG_KEY_SIZE - 1) != 0)
			continue;
		patch(rig, "index", (off_t)i, "X", 1);
		hits++;
	}
	assert_true(hits > 0);
	assert_int_equal(rig_open(rig), 0);
	store_info(rig->store, &info);
	assert_int_equal(info.skipped, 1);
	assert_int_equal(info.objects, good->records - 1);
	assert_non_null(strstr(rig->warnings, "1 entries"));
	rig_reopen(rig);
	store_info(rig->store, &info);
	assert_int_equal(info.skipped, 0);
	assert_int_equal(info.objects, good->records - 1);
	free(good);
}

/* The damaged index counts to the size. */
static void test_bad_index_counts(void **state)
{
	struct rig *rig = *state;
	uint64_t before;
	struct stat file;
	char path[512];

	assert_int_equal(rig_open(rig), 0);
	before = rig->env.data_size;
	fill_store(rig, 500);
	rig_close(rig);
	patch(rig, "index", 0, "damage it", 9);
	patch(rig, "index", 4096, "damage it", 9);
	patch(rig, "index", 16, "damage it", 9);
	assert_int_equal(rig_open(rig), 0);
	rig_path(rig, "index.bad", path);
	assert_int_equal(stat(path, &file), 0);
	assert_true(rig->env.data_size + (uint64_t)file.st_blocks * 512 <= before);
	assert_true(rig->env.data_size + (uint64_t)file.st_blocks * 512 > before - 4096);
	rig_close(rig);
	file_remove(rig, "index.bad");
	assert_int_equal(rig_open(rig), 0);
	assert_true(rig->env.data_size == before);
}

/* ---- another size -------------------------------------------------------- */

static void test_other_size(void **state)
{
	struct rig *rig = *state;
	char key[RIG_KEY_SIZE], number[32];
	struct tier_change change = store_of(1, 100 * MIB, 8 * MIB, key);
	const char *told;
	unsigned long long needed;

	assert_int_equal(rig_open(rig), 0);
	assert_int_equal(rig_commit(rig, &change, 1), 0);
	rig_close(rig);
	rig->config.disk_size = 512 * MIB;
	assert_int_equal(rig_open(rig), 0);
	assert_true(rig->env.data_size == 448 * MIB - 8192);
	assert_int_equal(found(rig), 1);
	rig_close(rig);
	rig->config.disk_size = 120 * MIB; /* its data file ends at 104 MiB */
	assert_int_equal(rig_open(rig), ERR_NO_SPACE);
	(void)snprintf(number, sizeof(number), "%llu", 108 * MIB);
	assert_non_null(strstr(rig->detail, number));
	(void)snprintf(number, sizeof(number), "%llu", 120 * MIB);
	assert_non_null(strstr(rig->detail, number));
	told = strstr(rig->detail, "a disk of ");
	assert_non_null(told);
	needed = strtoull(told + 10, NULL, 10);
	rig->config.disk_size = needed - 1;
	assert_int_equal(rig_open(rig), ERR_NO_SPACE);
	rig->config.disk_size = needed; /* as it was told */
	assert_int_equal(rig_open(rig), 0);
	assert_int_equal(found(rig), 1);
	assert_true(rig->env.data_size >= 108 * MIB && rig->env.data_size < 109 * MIB);
}

#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

#define MEMORY_TEST(name) \
	cmocka_unit_test_setup_teardown(name, rig_setup_memory, rig_teardown)

static const struct CMUnitTest tests[] = {
	RIG_TEST(test_second_refused),
	RIG_TEST(test_made),
	RIG_TEST(test_bad_places),
	RIG_TEST(test_not_writable),
	RIG_TEST(test_foreign_kept),
	RIG_TEST(test_version),
	RIG_TEST(test_other_data_file),
	RIG_TEST(test_data_file_lost),
	RIG_TEST(test_data_file_damaged),
	MEMORY_TEST(test_index_intact),
	MEMORY_TEST(test_index_truncated),
	MEMORY_TEST(test_index_zeroed),
	MEMORY_TEST(test_index_flipped),
	MEMORY_TEST(test_free_page_in_use),
	MEMORY_TEST(test_record_damaged),
	RIG_TEST(test_bad_index_counts),
	RIG_TEST(test_other_size),
};

UNIT_MAIN(tests)
