/*
 * Tests that a local hit makes no system call: it runs under a seccomp filter that kills
 * on any but the one that ends the process. How far it came is in memory shared with the
 * test.
 */
#include "e2e.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KEY(text) cenote_key(text)
#define HITS      200000

struct progress {
	volatile uint64_t hits, wrong;
};

/* The counters of a role, in a file of the case's directory. */
static struct progress *progress_map(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	void *memory;

	E2E_TRUE(fd >= 0 && ftruncate(fd, 4096) == 0);
	memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	E2E_TRUE(memory != MAP_FAILED);
	(void)close(fd);
	return memory;
}

/* From here on every system call of this thread but exit_group() kills the process. */
static void forbid_system_calls(void)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);

	E2E_TRUE(filter != NULL);
	E2E_TRUE(seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(exit_group), 0) == 0);
	E2E_TRUE(seccomp_load(filter) == 0);
	/* The filter's own memory stays: giving it back might call the system. */
}

/* Not declared as one that does not return: before such a call a sanitizer calls the
 * system. */
static void end_quietly(void)
{
	(void)syscall(SYS_exit_group, 0);
}

static void hit(struct cenote *store, struct progress *progress, const char *how)
{
	struct cenote_view view;
	bool good;

	if (strcmp(how, "exists") == 0) {
		good = cenote_exists(store, KEY("key")) == 1;
	} else if (strcmp(how, "touch") == 0) {
		good = cenote_touch(store, KEY("key")) == 0;
	} else {
		good = cenote_get(store, KEY(how), NULL, &view) == 0;
		good = good && ((const unsigned char *)view.data)[99] != 0;
		good = good && cenote_release(store, &view) == 0;
	}
	progress->hits += good;
	progress->wrong += !good;
}

/* A hit of the kind that was named, HITS times. */
static void role_hits(struct e2e_self *self)
{
	struct progress *progress = progress_map(e2e_self_arg(self, 0));
	const char *how = e2e_self_arg(self, 1);
	struct cenote *store = e2e_self_connect(self);

	e2e_default_signals();
	forbid_system_calls();
	for (unsigned i = 0; i < HITS; i++)
		hit(store, progress, how);
	end_quietly();
}

/* Nothing but one system call of the plainest kind. */
static void role_one_call(struct e2e_self *self)
{
	struct progress *progress = progress_map(e2e_self_arg(self, 0));

	e2e_default_signals();
	forbid_system_calls();
	progress->hits = 1;
	(void)syscall(SYS_getppid);
	progress->hits = 2;
	end_quietly();
}

struct hitter {
	struct cenote *store;
	struct progress *progress;
};

static void *hit_in_thread(void *arg)
{
	const struct hitter *hitter = arg;

	forbid_system_calls();
	for (unsigned i = 0; i < HITS; i++)
		hit(hitter->store, hitter->progress, "key");
	end_quietly();
	return NULL;
}

/* The hits of a thread that never called the library before. */
static void role_thread(struct e2e_self *self)
{
	struct hitter hitter = {
		e2e_self_connect(self), progress_map(e2e_self_arg(self, 0))};
	pthread_t thread;

	e2e_default_signals();
	E2E_TRUE(pthread_create(&thread, NULL, hit_in_thread, &hitter) == 0);
	E2E_TRUE(pthread_join(thread, NULL) == 0);
}

/* ---- cases --------------------------------------------------------------- */

struct world {
	struct e2e_node *node;
	struct cenote *store;
	struct progress *progress;
	char path[300];
};

static void world_start(struct e2e *t, struct world *world)
{
	static const char data[100] = {[99] = 1};

	world->node = e2e_node_start(t, "--pool", "64M", NULL);
	world->store = e2e_connect(world->node);
	(void)snprintf(world->path, sizeof(world->path), "%s/progress", e2e_dir(t));
	world->progress = progress_map(world->path);
	E2E_OK(cenote_put(world->store, KEY("key"), data, sizeof(data), NULL));
	E2E_OK(cenote_put(world->store,
		KEY("a key of more than 32 bytes lies behind the bytes"), data,
		sizeof(data), NULL));
}

static void expect_hits(struct e2e *t, const char *role, const char *how)
{
	struct world world;

	world_start(t, &world);
	e2e_role_end(e2e_role_start(t, world.node, role, world.path, how, NULL));
	E2E_EQ(world.progress->wrong, 0);
	E2E_EQ(world.progress->hits, HITS);
	cenote_close(world.store);
}

static void the_filter_kills_on_one_system_call(struct e2e *t)
{
	struct world world;

	world_start(t, &world);
	e2e_role_dies(
		e2e_role_start(t, world.node, "one_call", world.path, NULL), SIGSYS);
	E2E_EQ(world.progress->hits, 1);
	cenote_close(world.store);
}

/* So the library's calls are under the filter: what must ask the daemon dies. */
static void a_miss_dies_under_the_filter(struct e2e *t)
{
	struct world world;

	world_start(t, &world);
	e2e_role_dies(e2e_role_start(t, world.node, "hits", world.path, "absent", NULL),
		SIGSYS);
	E2E_EQ(world.progress->hits + world.progress->wrong, 0);
	cenote_close(world.store);
}

static void get_and_release_make_no_system_call(struct e2e *t)
{
	expect_hits(t, "hits", "key");
}

static void get_by_a_long_key_makes_no_system_call(struct e2e *t)
{
	expect_hits(t, "hits", "a key of more than 32 bytes lies behind the bytes");
}

static void exists_makes_no_system_call(struct e2e *t)
{
	expect_hits(t, "hits", "exists");
}

static void touch_makes_no_system_call(struct e2e *t)
{
	expect_hits(t, "hits", "touch");
}

static void first_hits_of_a_thread_make_no_system_call(struct e2e *t)
{
	expect_hits(t, "thread", "key");
}

static const struct e2e_role_spec roles[] = {
	E2E_ROLE(hits),
	E2E_ROLE(one_call),
	E2E_ROLE(thread),
};

static const struct e2e_case cases[] = {
	E2E_CASE(the_filter_kills_on_one_system_call),
	E2E_CASE(a_miss_dies_under_the_filter),
	E2E_CASE(get_and_release_make_no_system_call),
	E2E_CASE(get_by_a_long_key_makes_no_system_call),
	E2E_CASE(exists_makes_no_system_call),
	E2E_CASE(touch_makes_no_system_call),
	E2E_CASE(first_hits_of_a_thread_make_no_system_call),
};

E2E_MAIN(cases, roles)
