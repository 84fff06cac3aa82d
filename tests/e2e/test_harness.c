/*
 * Tests of the harness itself: what fails is reported as failed, and nothing is left of
 * it. The cases that are to fail run in a runner of their own: this program once more,
 * told so by the environment.
 */
#include "e2e.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLANTED "CENOTE_E2E_PLANTED"

/* ---- what is planted ----------------------------------------------------- */

static void passes(struct e2e *t)
{
	(void)t;
}

static void skips(struct e2e *t)
{
	(void)t;
	e2e_skip("planted");
}

static void sees_a_wrong_byte(struct e2e *t)
{
	unsigned char data[1001];

	(void)t;
	e2e_fill(data, sizeof(data), 5);
	E2E_BYTES(data, sizeof(data), 5);
	data[1000] ^= 1;
	E2E_BYTES(data, sizeof(data), 5);
}

static void gets_another_answer(struct e2e *t)
{
	struct cenote *store = e2e_connect(e2e_node_start(t, "--pool", "1M", NULL));

	E2E_OK(cenote_remove(store, cenote_key("absent")));
}

static void loses_its_daemon(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "1M", NULL);

	(void)kill(e2e_node_pid(node), SIGKILL);
}

static void has_a_daemon_that_complains(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "1M", NULL);
	char path[300];
	FILE *log;

	(void)snprintf(path, sizeof(path), "%s/0/log", e2e_dir(t));
	log = fopen(path, "ae");
	E2E_TRUE(log != NULL);
	(void)fprintf(log, "x.c:1: check failed: planted\n");
	(void)fclose(log);
	e2e_node_stop(node);
}

static void crashes(struct e2e *t)
{
	(void)t;
	e2e_default_signals();
	(void)raise(SIGSEGV);
}

static void role_fails(struct e2e_self *self)
{
	e2e_self_say(self, "so far");
	E2E_TRUE(false);
}

static void has_a_role_that_fails(struct e2e *t)
{
	struct e2e_role *role = e2e_role_start(t, NULL, "fails", NULL);

	e2e_role_expect(role, "so far");
	e2e_role_expect(role, "further");
}

/* A process in a session of its own, whose parent ends at once, and a mounted pool. */
static void leaves_processes_behind(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "1M", NULL);
	int ready[2];
	char byte;
	pid_t pid;

	E2E_TRUE(pipe(ready) == 0);
	pid = fork();
	if (pid == 0) {
		(void)setsid();
		(void)!write(ready[1], "r", 1);
		(void)pause();
	}
	E2E_TRUE(read(ready[0], &byte, 1) == 1);
	(void)printf("left %d\nleft %d\nleft %d\n", (int)pid, (int)getpid(),
		(int)e2e_node_pid(node));
	(void)printf("directory %s\n", e2e_dir(t));
	E2E_TRUE(false);
}

static const struct e2e_case planted[] = {
	E2E_CASE(passes),
	E2E_CASE(skips),
	E2E_CASE(sees_a_wrong_byte),
	E2E_CASE(gets_another_answer),
	E2E_CASE(loses_its_daemon),
	E2E_CASE(has_a_daemon_that_complains),
	E2E_CASE(crashes),
	E2E_CASE(has_a_role_that_fails),
	E2E_CASE(leaves_processes_behind),
};

/* ---- what comes of it ---------------------------------------------------- */

/* All that a runner of the planted cases prints. */
static char *run_planted(const char *name, int *ret_status)
{
	char command[128], *text = NULL;
	size_t size = 0, length;
	FILE *memory = open_memstream(&text, &size), *out;

	(void)snprintf(command, sizeof(command), PLANTED "=1 exec /proc/%d/exe '%s' 2>&1",
		(int)getpid(), name);
	out = popen(command, "re");
	E2E_TRUE(out != NULL && memory != NULL);
	do {
		char part[1024];

		length = fread(part, 1, sizeof(part), out);
		(void)fwrite(part, 1, length, memory);
	} while (length > 0);
	(void)fclose(memory);
	*ret_status = pclose(out);
	return text;
}

static void expect_words(const char *text, const char *words)
{
	if (strstr(text, words) == NULL)
		e2e_fail(__FILE__, __LINE__, "no \"%s\" in:\n%.800s", words, text);
}

static void expect_outcome(
	const char *name, int status, const char *words, const char *last_line)
{
	int ended;
	char *text = run_planted(name, &ended);

	E2E_EQ(ended, status << 8);
	expect_words(text, words);
	E2E_TRUE(strlen(text) > strlen(last_line) &&
		 strcmp(text + strlen(text) - strlen(last_line), last_line) == 0);
	free(text);
}

static void each_outcome_is_reported_as_what_it_is(struct e2e *t)
{
	static const char good[] = "1 passed, 0 failed\n", bad[] = "0 passed, 1 failed\n";

	(void)t;
	expect_outcome("passes", 0, "ok ", good);
	expect_outcome("skips", 0, "skipped ", "0 passed, 0 failed, 1 skipped\n");
	expect_outcome("sees_a_wrong_byte", 1, "offset 1000 of 1001", bad);
	expect_outcome("gets_another_answer", 1, "answered NOT_FOUND", bad);
	expect_outcome("loses_its_daemon", 1, "the daemon ended with SIGKILL", bad);
	expect_outcome("has_a_daemon_that_complains", 1, "a CHECK of the daemon", bad);
	expect_outcome("crashes", 1, "SIGSEGV", bad);
	expect_outcome("has_a_role_that_fails", 1, "ended before it said a word", bad);
	expect_outcome("no_such_case", 2, "no case", "no case no_such_case\n");
	expect_outcome("*", 1, "again: ", "1 passed, 7 failed, 1 skipped\n");
}

/* Every process that it names has ended, and its directory is gone with the mounts in it.
 */
static void nothing_is_left_of_a_failed_case(struct e2e *t)
{
	int status;
	char *text = run_planted("leaves_processes_behind", &status), *next;
	unsigned left = 0, directories = 0;
	char path[256] = "";

	(void)t;
	for (char *line = strtok_r(text, "\n", &next); line != NULL;
		line = strtok_r(NULL, "\n", &next)) {
		int pid;

		if (sscanf(line, "left %d", &pid) == 1) {
			E2E_TRUE(kill(pid, 0) != 0 && errno == ESRCH);
			left++;
		}
		directories += sscanf(line, "directory %255s", path) == 1;
	}
	E2E_EQ(left, 3);
	E2E_EQ(directories, 1);
	E2E_TRUE(access(path, F_OK) != 0);
	free(text);
}

static const struct e2e_role_spec roles[] = {E2E_ROLE(fails)};

static const struct e2e_case cases[] = {
	E2E_CASE(each_outcome_is_reported_as_what_it_is),
	E2E_CASE(nothing_is_left_of_a_failed_case),
};

int main(int argc, char **argv)
{
	if (getenv(PLANTED) != NULL)
		return e2e_main(
			argc, argv, planted, ARRAY_LEN(planted), roles, ARRAY_LEN(roles));
	return e2e_main(argc, argv, cases, ARRAY_LEN(cases), roles, ARRAY_LEN(roles));
}
