/*
 * unit.h - what every unit test program needs: cmocka, one case by name, and tests of
 * programs that stop themselves.
 *
 *     static void test_thing(void **state) { (void)state; assert_int_equal(1, 1); }
 *     static const struct CMUnitTest tests[] = {cmocka_unit_test(test_thing)};
 *     UNIT_MAIN(tests)
 *
 * `./test_x` runs all cases, `./test_x test_thing` and `./test_x 'test_th*'` those of
 * that name. A name that no case has is a failure.
 */
#ifndef UNIT_UNIT_H
#define UNIT_UNIT_H

/* cmocka.h wants these before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* False if argv[1] names no case. */
static inline bool unit_filter(
	int argc, char **argv, const struct CMUnitTest *tests, size_t count)
{
	if (argc < 2)
		return true;
	for (size_t i = 0; i < count; i++) {
		if (fnmatch(argv[1], tests[i].name, 0) == 0) {
			cmocka_set_test_filter(argv[1]);
			return true;
		}
	}
	(void)fprintf(stderr, "%s: no case %s\n", argv[0], argv[1]);
	return false;
}

#define UNIT_MAIN(tests)                                                                 \
	int main(int argc, char **argv)                                                  \
	{                                                                                \
		int failed;                                                              \
                                                                                         \
		if (!unit_filter(argc, argv, tests, sizeof(tests) / sizeof((tests)[0]))) \
			return 2;                                                        \
		failed = cmocka_run_group_tests(tests, NULL, NULL);                      \
		if (failed != 0)                                                         \
			(void)fprintf(stderr, "one case again: %s NAME\n", argv[0]);     \
		return failed != 0;                                                      \
	}

/* Whether fn(arg) ends its process by abort(), as a failed CHECK does. It runs in a child
 * whose stderr is thrown away. */
static inline bool unit_aborts(void (*fn)(void *arg), void *arg)
{
	pid_t child = fork();
	int status = 0;

	assert_true(child >= 0);
	if (child == 0) {
		int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

		(void)signal(SIGABRT, SIG_DFL);
		if (null >= 0)
			(void)dup2(null, STDERR_FILENO);
		fn(arg);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

#endif
