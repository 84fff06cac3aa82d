/*
 * e2e.h - tests with real processes: daemons, client processes, and an end to all of
 * them.
 *
 *	static void view_outlives_remove(struct e2e *t)
 *	{
 *		struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
 *		struct e2e_role *reader = e2e_role_start(t, node, "reader", "key", NULL);
 *
 *		e2e_role_expect(reader, "held");
 *		e2e_role_tell(reader, "go on");
 *		e2e_role_end(reader);
 *	}
 *	static const struct e2e_case cases[] = {E2E_CASE(view_outlives_remove)};
 *	static const struct e2e_role_spec roles[] = {{"reader", role_reader}};
 *	E2E_MAIN(cases, roles)
 *
 * `./test_x` runs all cases, `./test_x NAME` and `./test_x 'NA*'` those of that name,
 * `--list` says which there are. The last line is `N passed, N failed[, N skipped]`.
 *
 * Each case is a process of its own, with a directory of its own. Whatever it started and
 * however it ended, the runner then kills what is left of it by pid, looks into the logs
 * of its daemons for what a sanitizer or a failed CHECK said, and removes the directory
 * with the mounts in it. A role is this program again (fork and exec), at the other end of
 * a channel of short texts: the test waits for "reached X" and says "go on"; nobody
 * sleeps.
 *
 * Units     ms where a name says so.
 * Memory    nodes and roles belong to the case.
 * Errors    all fail the case on the spot, from any thread and any process of it.
 * Thread    nodes and roles are started by the case's main thread, with which they end.
 */
#ifndef E2E_E2E_H
#define E2E_E2E_H

#include "base/attr.h"

#include <cenote/cenote.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct e2e;      /* the case that runs */
struct e2e_node; /* a daemon of it */
struct e2e_role; /* a client process of it */
struct e2e_self; /* the same, seen from within */

/* ---- cases --------------------------------------------------------------- */

struct e2e_case {
	const char *name;
	void (*run)(struct e2e *t);
};

struct e2e_role_spec {
	const char *name;
	void (*run)(struct e2e_self *self);
};

#define E2E_CASE(name)      \
	{                   \
#name, name \
	}
#define E2E_ROLE(name)             \
	{                          \
#name, role_##name \
	}

int e2e_main(int argc, char **argv, const struct e2e_case *cases, size_t case_count,
	const struct e2e_role_spec *roles, size_t role_count);

#define E2E_MAIN(cases, roles)                                                         \
	int main(int argc, char **argv)                                                \
	{                                                                              \
		return e2e_main(                                                       \
			argc, argv, cases, ARRAY_LEN(cases), roles, ARRAY_LEN(roles)); \
	}
#define E2E_MAIN_ALONE(cases)                                                  \
	int main(int argc, char **argv)                                        \
	{                                                                      \
		return e2e_main(argc, argv, cases, ARRAY_LEN(cases), NULL, 0); \
	}

/* Ends the case as skipped. */
_Noreturn void e2e_skip(const char *why);
/* Skips it unless this build has fault points. */
void e2e_need_faults(void);
bool e2e_has_faults(void);
/* Whether this build has sanitizers: then it is slow, and some sizes are smaller. */
bool e2e_is_slow(void);
/* Whether the environment asks for the full size of long tests: CENOTE_TEST_FULL=1. */
bool e2e_is_full(void);
/* The case's own directory, gone with it. */
const char *e2e_dir(const struct e2e *t);
/* A crash is to end this process by its signal, also where a sanitizer would catch it. */
void e2e_default_signals(void);

/* ---- checks -------------------------------------------------------------- */

_Noreturn void e2e_fail(const char *file, int line, const char *format, ...)
	PRINTF_LIKE(3, 4);
void e2e_eq(const char *file, int line, const char *what, uint64_t got, uint64_t want);
/* `got` is what a call of the library answered. */
void e2e_answer(const char *file, int line, const char *call, int got, int want);
/* The detail of this thread's last failed call has `words` in it. */
void e2e_detail(const char *file, int line, const char *words);
void e2e_bytes(
	const char *file, int line, const void *data, uint64_t size, uint64_t seed);

#define E2E_TRUE(cond) \
	((cond) ? (void)0 : e2e_fail(__FILE__, __LINE__, "not true: %s", #cond))
#define E2E_EQ(got, want) \
	e2e_eq(__FILE__, __LINE__, #got, (uint64_t)(got), (uint64_t)(want))
#define E2E_OK(call)        e2e_answer(__FILE__, __LINE__, #call, call, CENOTE_OK)
#define E2E_ERR(call, want) e2e_answer(__FILE__, __LINE__, #call, call, want)
#define E2E_DETAIL(words)   e2e_detail(__FILE__, __LINE__, words)
/* The bytes are those that e2e_fill() writes. */
#define E2E_BYTES(data, size, seed) e2e_bytes(__FILE__, __LINE__, data, size, seed)

/* Wait until `cond`, which asks the daemon or the system, holds; after `limit_ms` the
 * case has failed. */
#define E2E_UNTIL(cond, limit_ms)                                                      \
	do {                                                                           \
		uint64_t e2e_end = e2e_now_ms() + (limit_ms);                          \
		while (!(cond)) {                                                      \
			if (e2e_now_ms() > e2e_end)                                    \
				e2e_fail(__FILE__, __LINE__, "not within %llu ms: %s", \
					(unsigned long long)(limit_ms), #cond);        \
		}                                                                      \
	} while (0)

#define E2E_DEADLINE_MS 60000 /* for an event that is sure to come */
/* What "within a second" is allowed here: more where a sanitizer slows all down. */
uint64_t e2e_second_ms(void);
uint64_t e2e_now_ms(void);

/* Bytes that tell which object and which place in it they are. */
void e2e_fill(void *data, uint64_t size, uint64_t seed);
/* The offset of the first byte that is not as e2e_fill() writes it; UINT64_MAX: none. */
uint64_t e2e_wrong_at(const void *data, uint64_t size, uint64_t seed);

/* ---- daemons ------------------------------------------------------------- */

/* A daemon to be, with a run directory of its own; options as on its command line, up to
 * NULL. They stand behind those of the harness, so that they win. */
struct e2e_node *e2e_node_new(struct e2e *t, ...) __attribute__((sentinel));
/* Start it, for the first time or again. True: it is ready. False: it has ended. */
bool e2e_node_up(struct e2e_node *node);
/* Both, and it must get ready. */
struct e2e_node *e2e_node_start(struct e2e *t, ...) __attribute__((sentinel));
/* kill -9, and wait for its end. */
void e2e_node_kill(struct e2e_node *node);
/* SIGTERM; it must end well. */
void e2e_node_stop(struct e2e_node *node);
/* Start again what was killed or stopped; it must get ready. */
void e2e_node_restart(struct e2e_node *node);
/* Wait for an end that comes by itself; the status as of waitpid(). */
int e2e_node_wait(struct e2e_node *node);

pid_t e2e_node_pid(const struct e2e_node *node);
const char *e2e_node_socket(const struct e2e_node *node);
const char *e2e_node_shm(const struct e2e_node *node);
/* All that it printed so far; to be freed. */
char *e2e_node_log(const struct e2e_node *node);
/* The path of a product of this build, "cenoted" or "cenote"; to be freed. */
char *e2e_product(const char *name);

/* Attach to it; it must work. */
struct cenote *e2e_connect(const struct e2e_node *node);
struct cenote *e2e_connect_path(const char *socket_path);

/* ---- roles --------------------------------------------------------------- */

/* This program again, as the role `name`, with arguments up to NULL. `node` NULL: no
 * socket path is told. */
struct e2e_role *e2e_role_start(struct e2e *t, const struct e2e_node *node,
	const char *name, ...) __attribute__((sentinel));
/* The next text that it says must be this one. */
void e2e_role_expect(struct e2e_role *role, const char *text);
/* The next text that it says; valid until the next call. */
const char *e2e_role_hear(struct e2e_role *role);
void e2e_role_tell(struct e2e_role *role, const char *text);
/* It ends by itself, and well. */
void e2e_role_end(struct e2e_role *role);
/* It ends by itself, by this signal. */
void e2e_role_dies(struct e2e_role *role, int signal);
/* Send a signal; SIGKILL also waits for its end. */
void e2e_role_signal(struct e2e_role *role, int signal);
pid_t e2e_role_pid(const struct e2e_role *role);

const char *e2e_self_socket(const struct e2e_self *self);
/* Its arguments; past the last one the role fails. */
const char *e2e_self_arg(const struct e2e_self *self, int index);
uint64_t e2e_self_number(const struct e2e_self *self, int index);
struct cenote *e2e_self_connect(const struct e2e_self *self);
void e2e_self_say(struct e2e_self *self, const char *format, ...) PRINTF_LIKE(2, 3);
/* Wait to be told this text. */
void e2e_self_await(struct e2e_self *self, const char *text);
/* Wait to be told something; valid until the next call. */
const char *e2e_self_hear(struct e2e_self *self);

/* ---- the pool ------------------------------------------------------------ */

/* A number of the daemon's statistics by its path, such as "pool.objects". */
uint64_t e2e_stat(struct cenote *store, const char *path);

/* The bytes that something has: the base of a node is 0. */
uint64_t e2e_in_use(struct cenote *store);
/* They are so many, within a second: the word of a release may still be on its way. */
void e2e_expect_in_use(struct cenote *store, uint64_t bytes);

/* What core_check() and node_check() say must be "ok". */
void e2e_check(struct cenote *store);

/* An object of the pattern `seed` under a text as its key; each must work. */
void e2e_put(struct cenote *store, const char *key, uint64_t size, uint64_t seed);
void e2e_put_softpin(struct cenote *store, const char *key, uint64_t size, uint64_t seed);
/* Get it, check its bytes, release it. */
void e2e_verify(struct cenote *store, const char *key, uint64_t size, uint64_t seed);

#endif
