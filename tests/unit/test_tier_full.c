/*
 * Tests of tier/store.h with no room left: in the index, in the file system. What is full
 * refuses to store, always lets go, and works again when there is room.
 *
 * The file systems are mounted in a namespace of the test's own, which takes root.
 */
#include "tier_fixture.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

/* ---- the index ----------------------------------------------------------- */

struct filler {
	struct rig *rig;
	uint64_t next;  /* number of the next object */
	uint64_t *live; /* numbers that are stored */
	uint64_t live_count;
	struct rng rng;
};

static struct tier_change changes[TIER_PIECES];
static char keys[TIER_PIECES][RIG_KEY_SIZE];

/* Store up to `batch` new ones of about `size` bytes in one commit. */
static int filler_store(struct filler *filler, uint32_t batch, uint64_t size)
{
	int err;

	for (uint32_t i = 0; i < batch; i++)
		changes[i] = store_of(filler->next + i, TIER_ON_INDEX,
			size / 2 + rng_next(&filler->rng) % (size / 2), keys[i]);
	err = rig_commit(filler->rig, changes, batch);
	for (uint32_t i = 0; i < batch && err == 0; i++)
		filler->live[filler->live_count++] = filler->next++;
	return err;
}

/* Drop up to `batch` of those that are there, at random. */
static int filler_drop(struct filler *filler, uint32_t batch)
{
	uint32_t count = 0;
	int err;

	while (count < batch && filler->live_count > 0) {
		uint64_t at = rng_next(&filler->rng) % filler->live_count;

		changes[count++] = drop_of(filler->live[at]);
		filler->live[at] = filler->live[--filler->live_count];
	}
	err = rig_commit(filler->rig, changes, count);
	return err;
}

static void fill_index(struct rig *rig, uint32_t batch, uint64_t size, uint32_t drops)
{
	struct filler filler = {.rig = rig, .live = calloc(400000, sizeof(uint64_t))};
	uint64_t most;
	int err = 0;

	assert_non_null(filler.live);
	rng_init(&filler.rng, batch);
	while (err == 0)
		err = filler_store(&filler, batch, size);
	assert_int_equal(err, ERR_NO_SPACE);
	most = filler.live_count;
	assert_true(most * (size + 150) > 4 * MIB);
	/* At the brim: let some go, take some in, as far as it goes. */
	for (uint32_t i = 0; i < 60; i++) {
		assert_int_equal(filler_drop(&filler, 1 + i * 7 % drops), 0);
		err = filler_store(&filler, 1 + i * 13 % batch, size);
		assert_true(err == 0 || err == ERR_NO_SPACE);
	}
	while (filler_store(&filler, 1, size) == 0)
		continue;
	while (filler.live_count > 0)
		assert_int_equal(filler_drop(&filler, drops), 0);
	err = 0;
	while (err == 0)
		err = filler_store(&filler, batch, size);
	assert_int_equal(err, ERR_NO_SPACE);
	assert_true(filler.live_count > most * 3 / 4);
	rig_reopen(rig);
	assert_string_equal(rig->warnings, "");
	free(filler.live);
}

/* The next start finds what was stored. */
static void index_full(void **state, uint32_t batch, uint64_t size, uint32_t drops)
{
	struct rig *rig = *state;
	struct store_info info;

	rig->config.disk_size = 32 * MIB;
	assert_int_equal(rig_open(rig), 0);
	fill_index(rig, batch, size, drops);
	store_info(rig->store, &info);
	assert_true(info.objects > 1000);
}

static void test_index_full_single(void **state)
{
	index_full(state, 64, TIER_INLINE, 1);
}

static void test_index_full_batches(void **state)
{
	index_full(state, TIER_PIECES, TIER_INLINE, TIER_PIECES);
}

static void test_index_full_small(void **state)
{
	index_full(state, TIER_PIECES, 100, TIER_PIECES);
}

static void test_index_full_mixed(void **state)
{
	index_full(state, 300, 900, 77);
}

/* ---- the file system ----------------------------------------------------- */

#define PLACE_SIZE 64

/* A place to mount at, in a namespace that goes with this process. False: it may not. */
static bool mount_place(char place[PLACE_SIZE])
{
	static bool has_namespace;

	if (!has_namespace &&
		(geteuid() != 0 || unshare(CLONE_NEWNS) != 0 ||
			mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)) {
		print_message("not root, or no namespace of mounts: skipped\n");
		return false;
	}
	has_namespace = true;
	(void)snprintf(place, PLACE_SIZE, "/tmp/cenote-mount-XXXXXX");
	assert_non_null(mkdtemp(place));
	return true;
}

static void unmount(const char *place)
{
	assert_int_equal(umount2(place, MNT_DETACH), 0);
	assert_int_equal(rmdir(place), 0);
}

/* Mount a file system without a device, or skip. */
static void mount_or_skip(char place[PLACE_SIZE], const char *type, const char *options)
{
	if (!mount_place(place))
		skip();
	if (mount("cenote-test", place, type, 0, options) == 0)
		return;
	print_message("no %s can be mounted: skipped\n", type);
	(void)rmdir(place);
	skip();
}

/* Take all that is left of the file system, to the last block. */
static void file_system_fill(struct rig *rig)
{
	static const unsigned char zeros[4096];
	char path[512];
	int fd;

	rig_path(rig, "filler", path);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	for (size_t step = MIB; step >= 4096; step /= 2) {
		off_t at = lseek(fd, 0, SEEK_END);

		while (posix_fallocate(fd, at, (off_t)step) == 0)
			at += (off_t)step;
	}
	while (write(fd, zeros, sizeof(zeros)) == (ssize_t)sizeof(zeros))
		continue;
	(void)fsync(fd);
	(void)close(fd);
}

/* Objects of `size` bytes until there is no room; returns how many are committed. */
static uint32_t store_until_full(struct rig *rig, uint64_t size)
{
	char key[RIG_KEY_SIZE];
	uint32_t count = 0;
	int err = 0;

	while (err == 0) {
		struct tier_piece piece = {.size = size};
		struct tier_change change = store_of(count, count * size, size, key);

		if ((count + 1) * size > rig->env.data_size)
			break;
		fill(rig->pool, size, count);
		err = rig_write(rig, count * size, &piece, 1);
		if (err == 0) {
			change.record.checksum = piece.checksum;
			err = rig_commit(rig, &change, 1);
		}
		count += err == 0;
	}
	assert_int_equal(err, ERR_NO_SPACE);
	return count;
}

static void all_are_right(struct rig *rig, uint32_t count, uint64_t size)
{
	struct tier_record record;

	for (uint32_t i = 0; i < count; i++) {
		struct tier_piece piece = {.size = size};

		assert_true(rig->env.adopt(rig->env.ctx, i, &record));
		assert_int_equal(record.off, i * size);
		assert_int_equal(rig_read(rig, i * size, &piece), 0);
		assert_true(piece.checksum == record.checksum);
	}
	assert_false(rig->env.adopt(rig->env.ctx, count, &record));
}

/* Fill it with objects, then from outside; removals go on, nothing is lost, and with room
 * it works again. */
static void file_system_full(const char *place)
{
	struct rig *rig = malloc(sizeof(*rig));
	const uint64_t size = 300000 / 4096 * 4096;
	struct tier_piece piece = {.size = size};
	char key[RIG_KEY_SIZE], path[512];
	struct tier_change change;
	uint32_t count;
	void *state = rig;
	uint64_t taken;

	rig_init(rig, place);
	rig->config.disk_size = 256 * MIB; /* more than the file system has */
	assert_int_equal(rig_open(rig), 0);
	count = store_until_full(rig, size);
	assert_true(count > 20);
	file_system_fill(rig);
	assert_int_equal(rig_write(rig, count * size, &piece, 1), ERR_NO_SPACE);
	rig_reopen(rig);
	all_are_right(rig, count, size);
	/* Each in a commit of its own, so that the index has to write, and write again. */
	for (uint32_t i = count / 2; i < count; i++) {
		change = drop_of(i);
		assert_int_equal(rig_commit(rig, &change, 1), 0);
	}
	taken = rig->env.backed(rig->env.ctx);
	assert_int_equal(rig_punch(rig, (uint64_t)(count / 2) * size,
				 (uint64_t)(count - count / 2) * size),
		0);
	assert_true(rig->env.backed(rig->env.ctx) < taken);
	rig_reopen(rig);
	all_are_right(rig, count / 2, size);
	/* Room again, of what was punched and from outside. */
	rig_path(rig, "filler", path);
	assert_int_equal(unlink(path), 0);
	fill(rig->pool, size, 1);
	assert_int_equal(rig_write(rig, (uint64_t)count * size, &piece, 1), 0);
	change = store_of(count, (uint64_t)count * size, size, key);
	assert_int_equal(rig_commit(rig, &change, 1), 0);
	(void)rig_teardown(&state);
}

static void test_tmpfs_full(void **state)
{
	char place[PLACE_SIZE];

	(void)state;
	mount_or_skip(place, "tmpfs", "size=24m");
	file_system_full(place);
	unmount(place);
}

static void test_ext4_full(void **state)
{
	char place[PLACE_SIZE], command[512], image[PLACE_SIZE + 8];
	int failed;

	(void)state;
	if (!mount_place(place))
		skip();
	(void)snprintf(image, sizeof(image), "%s.img", place);
	(void)snprintf(command, sizeof(command),
		"truncate -s 32M %s && mkfs.ext4 -q -F %s >/dev/null 2>&1 && "
		"mount -o loop %s %s 2>/dev/null",
		image, image, image, place);
	failed = system(command);
	(void)unlink(image); /* it goes with the mount */
	if (failed != 0) {
		print_message("no ext4 can be mounted: skipped\n");
		(void)rmdir(place);
		skip();
	}
	file_system_full(place);
	unmount(place);
}

/* Full from the start: refused in words, and nothing is left half made. */
static void test_no_room_to_start(void **state)
{
	char place[PLACE_SIZE], path[512];
	struct rig *rig;
	void *freed;

	(void)state;
	mount_or_skip(place, "tmpfs", "size=1m");
	freed = rig = malloc(sizeof(*rig));
	assert_non_null(rig);
	rig_init(rig, place);
	file_system_fill(rig);
	assert_int_equal(rig_open(rig), ERR_NO_SPACE);
	assert_non_null(strstr(rig->detail, rig->path));
	rig_path(rig, "filler", path);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rig_open(rig), 0);
	(void)rig_teardown(&freed);
	unmount(place);
}

/* A file system without direct I/O: everything works, and it is said once. */
static void test_buffered(void **state)
{
	char place[PLACE_SIZE];
	struct rig *rig;
	void *freed;
	struct store_info info;
	struct tier_piece piece = {.size = 5 * MIB + 100};
	struct tier_piece back = {.pool_off = 16 * MIB + 256, .size = piece.size};

	(void)state;
	mount_or_skip(place, "ramfs", NULL);
	freed = rig = malloc(sizeof(*rig));
	assert_non_null(rig);
	rig_init(rig, place);
	assert_int_equal(rig_open(rig), 0);
	store_info(rig->store, &info);
	assert_false(info.direct);
	assert_non_null(strstr(rig->warnings, "no direct I/O"));
	fill(rig->pool, piece.size, 3);
	assert_int_equal(rig_write(rig, 4096, &piece, 1), 0);
	assert_int_equal(rig_read(rig, 4096, &back), 0);
	assert_true(back.checksum == piece.checksum);
	assert_int_equal(rig_punch(rig, 0, MIB), 0);
	(void)rig_teardown(&freed);
	unmount(place);
}

#define MEMORY_TEST(name) \
	cmocka_unit_test_setup_teardown(name, rig_setup_memory, rig_teardown)

static const struct CMUnitTest tests[] = {
	MEMORY_TEST(test_index_full_single),
	MEMORY_TEST(test_index_full_batches),
	MEMORY_TEST(test_index_full_small),
	MEMORY_TEST(test_index_full_mixed),
	cmocka_unit_test(test_tmpfs_full),
	cmocka_unit_test(test_ext4_full),
	cmocka_unit_test(test_no_room_to_start),
	cmocka_unit_test(test_buffered),
};

UNIT_MAIN(tests)
