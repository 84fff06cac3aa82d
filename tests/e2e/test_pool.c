/*
 * Tests of the pool's space: filled with one size and then another, to the last byte,
 * with a million objects, in pieces, with nothing left, and on files systems that are
 * full.
 */
#include "e2e.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEY(text) cenote_key(text)
#define CHUNK     256

/* Long enough for a batch that has room. */
static const struct cenote_put_options softpin_now = {.softpin = true, .timeout_ms = 500};
static const struct cenote_put_options softpin = {.softpin = true};

/* ---- batches of numbered objects ----------------------------------------- */

struct numbered {
	char keys[CHUNK][24];
	struct cenote_put_item puts[CHUNK];
	struct cenote_key_item removes[CHUNK];
	struct cenote_part part;
	uint64_t count; /* objects a batch */
};

static struct cenote_key number_key(struct numbered *chunk, uint64_t first, uint64_t i)
{
	(void)snprintf(chunk->keys[i], sizeof(chunk->keys[i]), "%llu",
		(unsigned long long)(first + i));
	return KEY(chunk->keys[i]);
}

/* Put numbers from `first` on; how many are stored. Those past the end of the room have
 * NO_SPACE, and nothing else. */
static uint64_t put_chunk(struct cenote *store, struct numbered *chunk, uint64_t first,
	const struct cenote_put_options *options)
{
	uint64_t stored = 0;

	for (uint64_t i = 0; i < chunk->count; i++)
		chunk->puts[i] = (struct cenote_put_item){
			number_key(chunk, first, i), &chunk->part, 1, 0};
	(void)cenote_put_batch(store, chunk->puts, chunk->count, options);
	for (uint64_t i = 0; i < chunk->count; i++) {
		int result = chunk->puts[i].result;

		stored += result == 0;
		if (result != 0 && result != CENOTE_ERR_NO_SPACE)
			e2e_fail(__FILE__, __LINE__, "put of %llu: %s",
				(unsigned long long)(first + i),
				cenote_error_name(result));
	}
	return stored;
}

static uint64_t remove_chunk(struct cenote *store, struct numbered *chunk, uint64_t first)
{
	uint64_t removed = 0;

	for (uint64_t i = 0; i < chunk->count; i++)
		chunk->removes[i] = (struct cenote_key_item){
			number_key(chunk, first, i), 0};
	(void)cenote_remove_batch(store, chunk->removes, chunk->count);
	for (uint64_t i = 0; i < chunk->count; i++)
		removed += chunk->removes[i].result == 0;
	return removed;
}

/* Fill the pool with softpin objects of one size, then remove them; the bytes stored. */
static uint64_t fill_and_remove(struct cenote *store, uint64_t size)
{
	static struct numbered chunk;
	uint64_t count = 0, first = 0, removed = 0, stored;
	void *data = calloc(1, size);

	E2E_TRUE(data != NULL);
	chunk.part = (struct cenote_part){data, size};
	chunk.count = size * CHUNK <= 4 << 20 ? CHUNK : 1;
	do {
		stored = put_chunk(store, &chunk, first, &softpin_now);
		count += stored;
		first += chunk.count;
	} while (stored == chunk.count);
	e2e_check(store);
	for (uint64_t at = 0; at < first; at += chunk.count)
		removed += remove_chunk(store, &chunk, at);
	E2E_EQ(removed, count);
	e2e_expect_in_use(store, 0);
	free(data);
	return count * size;
}

static void k5_01_one_size_after_the_other_fills_the_pool(struct e2e *t)
{
	static const uint64_t sizes[] = {
		4096, 8 << 20, 300 * 1024, 1024, 300 * 1024, 8 << 20, 4096};
	uint64_t pool = 128 << 20;
	struct e2e_node *node = e2e_node_start(t, "--pool", "128M", NULL);
	struct cenote *store = e2e_connect(node);

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		uint64_t bytes = fill_and_remove(store, sizes[i]);

		if (bytes < pool / 100 * 95)
			e2e_fail(__FILE__, __LINE__,
				"objects of %llu bytes fill only %llu",
				(unsigned long long)sizes[i], (unsigned long long)bytes);
	}
	cenote_close(store);
}

static void the_largest_object_fits_and_one_byte_more_is_refused(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	uint64_t largest = e2e_stat(store, "pool.largest_object");
	unsigned char *data = malloc(largest + 1);

	E2E_TRUE(data != NULL);
	e2e_fill(data, largest, 1);
	e2e_put(store, "a cache object in the way", 1 << 20, 2);
	E2E_ERR(cenote_put(store, KEY("k"), data, largest + 1, NULL),
		CENOTE_ERR_TOO_LARGE);
	E2E_DETAIL("67108865");
	E2E_DETAIL("67108864");
	E2E_OK(cenote_put(store, KEY("k"), data, largest, &softpin));
	e2e_verify(store, "k", largest, 1);
	E2E_OK(cenote_remove(store, KEY("k")));
	e2e_expect_in_use(store, 0);
	free(data);
	cenote_close(store);
}

/* ---- a million ----------------------------------------------------------- */

/* A number of kB from a line of /proc/PID/status. */
static uint64_t status_bytes(pid_t pid, const char *name)
{
	char path[64], line[256];
	unsigned long long kb = 0;
	FILE *file;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "re");
	E2E_TRUE(file != NULL);
	while (fgets(line, sizeof(line), file) != NULL)
		if (strncmp(line, name, strlen(name)) == 0)
			(void)sscanf(line + strlen(name), " %llu", &kb);
	fclose(file);
	return kb * 1024;
}

static uint64_t file_bytes(const struct e2e_node *node, const char *name)
{
	char path[512];
	struct stat st;

	(void)snprintf(path, sizeof(path), "%s/%s", e2e_node_shm(node), name);
	E2E_EQ(stat(path, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

static void a_million_objects_of_1_kib(struct e2e *t)
{
	enum {
		COUNT = 1 << 20
	};
	static struct numbered chunk;
	static unsigned char data[1024];
	struct e2e_node *node = e2e_node_start(t, "--pool", "2G", NULL);
	struct cenote *store = e2e_connect(node);
	uint64_t before = status_bytes(e2e_node_pid(node), "RssAnon:");
	uint64_t beside, step = 65536ull * (128 + 64);
	struct cenote_view view;
	char key[24];

	chunk.part = (struct cenote_part){data, sizeof(data)};
	chunk.count = CHUNK;
	for (uint64_t first = 0; first < COUNT; first += CHUNK)
		E2E_EQ(put_chunk(store, &chunk, first, &softpin), CHUNK);
	E2E_EQ(e2e_stat(store, "pool.objects"), COUNT);
	for (uint64_t i = 0; i < COUNT; i += 997) {
		(void)snprintf(key, sizeof(key), "%llu", (unsigned long long)i);
		E2E_OK(cenote_get(store, KEY(key), NULL, &view));
		E2E_EQ(view.size, sizeof(data));
		E2E_OK(cenote_release(store, &view));
	}

	/* Memory beside the pool, as the manual states it. */
	beside = file_bytes(node, "index") +
		 status_bytes(e2e_node_pid(node), "RssAnon:") - before;
	if (!e2e_is_slow() && beside > 288ull * COUNT + step)
		e2e_fail(__FILE__, __LINE__, "%llu bytes an object beside the pool",
			(unsigned long long)(beside / COUNT));
	for (uint64_t first = 0; first < COUNT; first += CHUNK)
		E2E_EQ(remove_chunk(store, &chunk, first), CHUNK);
	e2e_expect_in_use(store, 0);
	e2e_check(store);
	cenote_close(store);
}

/* ---- room out of small pieces -------------------------------------------- */

struct putter {
	const struct e2e_node *node;
	int number;
};

static void *put_a_twentieth(void *arg)
{
	const struct putter *putter = arg;
	struct cenote *store = e2e_connect(putter->node);
	char key[24];

	(void)snprintf(key, sizeof(key), "large %d", putter->number);
	e2e_put(store, key, (64 << 20) / 20, (uint64_t)putter->number);
	cenote_close(store);
	return NULL;
}

static void k5_03_small_objects_make_room_for_twenty_large(struct e2e *t)
{
	enum {
		PUTTERS = 20
	};
	static struct numbered chunk;
	static unsigned char data[2048];
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct putter putters[PUTTERS];
	pthread_t threads[PUTTERS];

	chunk.part = (struct cenote_part){data, sizeof(data)};
	chunk.count = CHUNK;
	for (uint64_t first = 0; first < (64 << 20) / sizeof(data); first += CHUNK)
		E2E_EQ(put_chunk(store, &chunk, first, NULL), CHUNK);
	for (int i = 0; i < PUTTERS; i++) {
		putters[i] = (struct putter){node, i};
		E2E_EQ(pthread_create(&threads[i], NULL, put_a_twentieth, &putters[i]),
			0);
	}
	for (int i = 0; i < PUTTERS; i++)
		E2E_EQ(pthread_join(threads[i], NULL), 0);
	e2e_check(store);
	cenote_close(store);
}

static void k5_05_a_stream_of_odd_sizes_never_fails(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	uint64_t size = 1 << 20;
	char key[24];

	for (int i = 0; i < (e2e_is_slow() ? 1000 : 10000); i++) {
		size = (1 << 20) +
		       (size * 6364136223846793005ull + 1442695040888963407ull) %
			       (512 << 10);
		(void)snprintf(key, sizeof(key), "%d", i);
		e2e_put(store, key, size, (uint64_t)i);
	}
	e2e_check(store);
	cenote_close(store);
}

/* Every other softpin object is removed: no hole is large enough, but the bytes are
 * there. */
static void softpin_objects_move_to_make_a_hole(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	char key[24];

	for (int i = 0; i < 64; i++) {
		(void)snprintf(key, sizeof(key), "%d", i);
		e2e_put_softpin(store, key, 1 << 20, (uint64_t)i);
	}
	for (int i = 0; i < 64; i += 2) {
		(void)snprintf(key, sizeof(key), "%d", i);
		E2E_OK(cenote_remove(store, KEY(key)));
	}
	E2E_EQ(e2e_stat(store, "pool.largest_hole"), 1 << 20);
	e2e_put_softpin(store, "large", 20 << 20, 100);
	E2E_TRUE(e2e_stat(store, "counters.relocated") > 0);
	e2e_verify(store, "large", 20 << 20, 100);
	for (int i = 1; i < 64; i += 2) {
		(void)snprintf(key, sizeof(key), "%d", i);
		e2e_verify(store, key, 1 << 20, (uint64_t)i);
	}
	e2e_check(store);
	cenote_close(store);
}

/* ---- nothing left -------------------------------------------------------- */

static void role_putter(struct e2e_self *self)
{
	const struct cenote_put_options options = {
		.softpin = true, .timeout_ms = E2E_DEADLINE_MS};
	struct cenote *store = e2e_self_connect(self);
	uint64_t size = e2e_self_number(self, 1);
	unsigned char *data = malloc(size);

	E2E_TRUE(data != NULL);
	e2e_fill(data, size, 7);
	e2e_self_say(self, "puts");
	E2E_OK(cenote_put(store, KEY(e2e_self_arg(self, 0)), data, size, &options));
	e2e_self_say(self, "stored");
	free(data);
	cenote_close(store);
}

static void fill_with_softpin(struct cenote *store)
{
	char key[24];

	for (int i = 0; i < 64; i++) {
		(void)snprintf(key, sizeof(key), "%d", i);
		e2e_put_softpin(store, key, 1 << 20, (uint64_t)i);
	}
}

static void k13_03_a_full_pool_refuses_and_loses_nothing(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	char key[24];

	fill_with_softpin(store);
	E2E_ERR(cenote_put(store, KEY("one more"), "x", 1, &softpin_now),
		CENOTE_ERR_NO_SPACE);
	E2E_DETAIL("no room for 1 bytes");
	E2E_DETAIL("softpin");
	E2E_EQ(cenote_exists(store, KEY("one more")), 0);
	for (int i = 0; i < 64; i++) {
		(void)snprintf(key, sizeof(key), "%d", i);
		e2e_verify(store, key, 1 << 20, (uint64_t)i);
	}
	e2e_check(store);
	cenote_close(store);
}

static void a_waiting_put_goes_on_when_room_comes(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct e2e_role *putter;

	fill_with_softpin(store);
	putter = e2e_role_start(t, node, "putter", "late", "1000000", NULL);
	e2e_role_expect(putter, "puts");
	E2E_UNTIL(e2e_stat(store, "counters.waits_room") > 0, E2E_DEADLINE_MS);
	E2E_OK(cenote_remove(store, KEY("17")));
	e2e_role_expect(putter, "stored");
	e2e_role_end(putter);
	e2e_verify(store, "late", 1000000, 7);
	e2e_check(store);
	cenote_close(store);
}

/* The first in line waits for what a reader holds; smaller ones pass outside its window.
 */
static void a_small_put_passes_one_that_cannot_progress(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct cenote_view view;
	struct e2e_role *putter;

	e2e_put(store, "held", 40 << 20, 1);
	E2E_OK(cenote_get(store, KEY("held"), NULL, &view));
	putter = e2e_role_start(t, node, "putter", "large", "50000000", NULL);
	e2e_role_expect(putter, "puts");
	E2E_UNTIL(e2e_stat(store, "counters.waits_room") > 0, E2E_DEADLINE_MS);
	e2e_put_softpin(store, "small", 100, 2);
	E2E_OK(cenote_release(store, &view));
	e2e_role_expect(putter, "stored");
	e2e_role_end(putter);
	e2e_verify(store, "large", 50000000, 7);
	e2e_verify(store, "small", 100, 2);
	e2e_check(store);
	cenote_close(store);
}

/* ---- the file system beneath --------------------------------------------- */

static void k9_01_a_full_file_system_harms_nobody(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	static struct numbered chunk;
	static unsigned char zeros[1 << 20];
	char path[512];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/filler", e2e_node_shm(node));
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	E2E_TRUE(fd >= 0);
	for (size_t size = sizeof(zeros); size >= 4096;)
		if (write(fd, zeros, size) <= 0)
			size /= 2;
	/* All of the pool was reserved: it can be written to the last byte. */
	fill_with_softpin(store);
	E2E_TRUE(e2e_stat(store, "pool.free") == 0);
	for (int i = 0; i < 64; i++) {
		char key[24];

		(void)snprintf(key, sizeof(key), "%d", i);
		E2E_OK(cenote_remove(store, KEY(key)));
	}
	/* The index cannot grow: then there are fewer objects, and clear answers. */
	chunk.part = (struct cenote_part){zeros, 16};
	chunk.count = CHUNK;
	for (uint64_t first = 0; first < 65536; first += CHUNK)
		if (put_chunk(store, &chunk, first, &softpin_now) < CHUNK)
			break;
	E2E_TRUE(e2e_stat(store, "pool.objects") > 0);
	e2e_check(store);
	close(fd);
	E2E_EQ(unlink(path), 0);
	cenote_close(store);
}

static void expect_words(const char *text, const char *first, const char *second)
{
	if (strstr(text, first) == NULL || strstr(text, second) == NULL)
		e2e_fail(__FILE__, __LINE__, "no %s or no %s in:\n%s", first, second,
			text);
}

static void a_pool_that_does_not_fit_is_refused_with_both_numbers(struct e2e *t)
{
	struct e2e_node *node = e2e_node_new(t, "--pool", "512G", NULL);
	char *log;
	int status;

	E2E_TRUE(!e2e_node_up(node));
	status = e2e_node_wait(node);
	E2E_TRUE(WIFEXITED(status) && WEXITSTATUS(status) != 0);
	log = e2e_node_log(node);
	expect_words(log, "549755813888", "--pool");
	expect_words(log, "available", "MemAvailable");
	free(log);
}

/* The daemon as nobody, who may not mount: huge pages are not to be had. Its exit status,
 * and what it said. */
static int run_as_nobody(struct e2e *t, const char *huge_pages, char *said, size_t size)
{
	char *program = e2e_product("cenoted");
	char dir[] = "/dev/shm/cenote-nobody-XXXXXX", rm[64];
	ssize_t got;
	size_t used = 0;
	int out[2], status;
	pid_t pid;

	(void)t;
	E2E_TRUE(mkdtemp(dir) != NULL);
	E2E_EQ(chown(dir, 65534, 65534), 0);
	E2E_EQ(pipe(out), 0);
	pid = fork();
	E2E_TRUE(pid >= 0);
	if (pid == 0) {
		(void)dup2(out[1], STDOUT_FILENO);
		(void)dup2(out[1], STDERR_FILENO);
		if (setgid(65534) != 0 || setuid(65534) != 0)
			_exit(99);
		(void)execl(program, program, "--pool", "64M", "--run-dir", dir,
			"--huge-pages", huge_pages, "--on-exit", "free", (char *)NULL);
		_exit(98);
	}
	close(out[1]);
	while (used + 1 < size &&
		(got = read(out[0], said + used, size - 1 - used)) > 0) {
		used += (size_t)got;
		said[used] = '\0';
		if (strstr(said, "event=ready") != NULL)
			(void)kill(pid, SIGTERM);
	}
	close(out[0]);
	E2E_EQ(waitpid(pid, &status, 0), pid);
	(void)snprintf(rm, sizeof(rm), "rm -r %s", dir);
	E2E_EQ(system(rm), 0);
	free(program);
	return status;
}

static void k9_05_huge_pages_required_preferred_and_refused(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(
		t, "--pool", "64M", "--huge-pages", "never", NULL);
	struct cenote *store = e2e_connect(node);
	static char said[8192];
	int status;

	E2E_EQ(e2e_stat(store, "pool.page_size"), 4096);
	cenote_close(store);
	e2e_node_stop(node);

	status = run_as_nobody(t, "require", said, sizeof(said));
	E2E_TRUE(WIFEXITED(status) && WEXITSTATUS(status) != 0);
	expect_words(said, "start_refused", "huge");
	status = run_as_nobody(t, "auto", said, sizeof(said));
	E2E_EQ(status, 0);
	expect_words(said, "event=ready", "pages of 4 KiB");
}

static void k9_07_a_freed_pool_leaves_nothing(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(
		t, "--pool", "256M", "--on-exit", "free", NULL);
	struct cenote *store = e2e_connect(node);
	char path[512];

	e2e_put_softpin(store, "k", 200 << 20, 1);
	cenote_close(store);
	(void)snprintf(path, sizeof(path), "%s/pool", e2e_node_shm(node));
	E2E_EQ(access(path, F_OK), 0);
	e2e_node_stop(node);
	E2E_EQ(access(path, F_OK), -1);
	e2e_node_restart(node);
	store = e2e_connect(node);
	E2E_EQ(cenote_exists(store, KEY("k")), 0);
	cenote_close(store);
}

static void role_elsewhere(struct e2e_self *self)
{
	struct cenote *store;

	E2E_EQ(unshare(CLONE_NEWNET), 0);
	store = e2e_self_connect(self);
	e2e_verify(store, "k", 1 << 20, 1);
	e2e_put_softpin(store, "mine", 1 << 20, 2);
	e2e_self_say(self, "done");
	cenote_close(store);
}

static void k9_09_another_network_namespace_is_the_same_node(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct e2e_role *role;

	e2e_put_softpin(store, "k", 1 << 20, 1);
	role = e2e_role_start(t, node, "elsewhere", NULL);
	e2e_role_expect(role, "done");
	e2e_role_end(role);
	e2e_verify(store, "mine", 1 << 20, 2);
	cenote_close(store);
}

static const struct e2e_case cases[] = {
	E2E_CASE(k5_01_one_size_after_the_other_fills_the_pool),
	E2E_CASE(the_largest_object_fits_and_one_byte_more_is_refused),
	E2E_CASE(a_million_objects_of_1_kib),
	E2E_CASE(k5_03_small_objects_make_room_for_twenty_large),
	E2E_CASE(k5_05_a_stream_of_odd_sizes_never_fails),
	E2E_CASE(softpin_objects_move_to_make_a_hole),
	E2E_CASE(k13_03_a_full_pool_refuses_and_loses_nothing),
	E2E_CASE(a_waiting_put_goes_on_when_room_comes),
	E2E_CASE(a_small_put_passes_one_that_cannot_progress),
	E2E_CASE(k9_01_a_full_file_system_harms_nobody),
	E2E_CASE(a_pool_that_does_not_fit_is_refused_with_both_numbers),
	E2E_CASE(k9_05_huge_pages_required_preferred_and_refused),
	E2E_CASE(k9_07_a_freed_pool_leaves_nothing),
	E2E_CASE(k9_09_another_network_namespace_is_the_same_node),
};

static const struct e2e_role_spec roles[] = {
	E2E_ROLE(putter),
	E2E_ROLE(elsewhere),
};

E2E_MAIN(cases, roles)
