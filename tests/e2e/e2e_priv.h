/*
 * e2e_priv.h - what the parts of the harness share.
 */
#ifndef E2E_E2E_PRIV_H
#define E2E_E2E_PRIV_H

#include "e2e.h"

#define E2E_PATH_MAX   256 /* run directories are short: a socket's path has 107 bytes */
#define E2E_NODES_MAX  16
#define E2E_ROLES_MAX  512
#define E2E_WORDS_MAX  32
#define E2E_TEXT_MAX   2048 /* of what goes through a channel */
#define E2E_EXIT_SKIP  77
#define E2E_EXIT_FAIL  1
#define E2E_SOCKET_ARG "-" /* stands for no socket */

struct e2e_node {
	char *dir, *log, *socket, *shm;
	char *options[E2E_WORDS_MAX];
	size_t option_count;
	pid_t pid; /* 0: none runs */
};

struct e2e_role {
	const char *name;
	pid_t pid; /* 0: it has ended */
	int channel;
	char heard[E2E_TEXT_MAX];
};

struct e2e {
	char dir[E2E_PATH_MAX];
	struct e2e_node nodes[E2E_NODES_MAX];
	size_t node_count;
	struct e2e_role roles[E2E_ROLES_MAX];
	size_t role_count;
};

struct e2e_self {
	int channel;
	const char *socket; /* NULL: none was told */
	int argc;
	char **argv;
	char heard[E2E_TEXT_MAX];
};

/* Wait for the end of a child; false: it still runs after E2E_DEADLINE_MS. */
bool e2e_reap(pid_t pid, int *ret_status);
/* "exit status 1", "SIGKILL" */
const char *e2e_status_text(int status, char *text, size_t size);
/* End with the parent, whatever it dies of. `parent`: its pid before the fork. */
void e2e_end_with_parent(pid_t parent);

/* End what runs: roles as they are, daemons well. */
void e2e_roles_end(struct e2e *t);
void e2e_nodes_end(struct e2e *t);

/* This process is the role that argv[2 ..] says. */
int e2e_self_main(
	int argc, char **argv, const struct e2e_role_spec *roles, size_t role_count);

/* ---- e2e_dir.c: run directories ------------------------------------------ */

/* Make `path`, for the case number `index` of this runner. */
void e2e_dir_make(char *path, size_t size, size_t index);
/* Unmount what is mounted in it and remove it. */
void e2e_dir_remove(const char *path);
/* Those of runners that were killed. */
void e2e_dir_sweep(void);
/* Print what its daemons said last. */
void e2e_dir_show(const char *path);
/* NULL, or words in a log that no daemon may ever say. */
const char *e2e_dir_alarm(const char *path);
/* A whole file as text, "" if it is none; to be freed. */
char *e2e_read_file(const char *path);

#endif
