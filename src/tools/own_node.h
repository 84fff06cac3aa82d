/*
 * own_node.h - a daemon for the length of one command: started, waited for, ended, and
 * nothing of it left behind.
 *
 *	if (own_node_start(&node, &options) == TOOL_OK) { ... }
 *	own_node_stop(&node);
 *
 * Its files lie in a new directory under $TMPDIR, else /dev/shm, else /tmp; those of its disk
 * tier in a new directory under the one that is given, which is made if it is not there.
 * Should this process be killed, the kernel ends the daemon; the directories stay, and so does
 * the pool if clients were attached at that moment.
 *
 * Errors    TOOL_FAILED, and a line on stderr says why, with what the daemon said.
 * Thread    one; the process's main thread, whose end the daemon follows.
 */
#ifndef TOOLS_OWN_NODE_H
#define TOOLS_OWN_NODE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define OWN_NODE_PATH_MAX 96 /* a socket's path has 108 bytes at most */
#define OWN_NODE_DISK_MAX 4096
#define OWN_DIRECTORY_MAX (OWN_NODE_PATH_MAX - 16)

struct own_node_options {
	uint64_t pool_bytes;
	const char *disk; /* a directory; NULL: no disk tier */
	uint64_t disk_bytes;
	const char *const *more; /* further options, NULL at the end; or NULL */
};

struct own_node {
	pid_t pid;   /* 0: not running */
	bool failed; /* it did not start, which was said */
	char directory[OWN_DIRECTORY_MAX];
	char socket[OWN_NODE_PATH_MAX];
	char shm[OWN_NODE_PATH_MAX];
	char log[OWN_NODE_PATH_MAX];  /* what the daemon says */
	char disk[OWN_NODE_DISK_MAX]; /* "": it has none */
	const char *disk_parent;      /* to be removed, since it was made; else NULL */
};

/* `socket` of the caller's options and the environment name no node. */
bool own_node_is_wanted(const char *socket);

/* A new directory where those of nodes lie; on failure `path` is "". */
int own_directory_make(char path[OWN_DIRECTORY_MAX]);

/* The strings of `options` outlive the node. */
int own_node_start(struct own_node *node, const struct own_node_options *options);

/* Fine on one that was not started, or only half. TOOL_FAILED: the daemon did not end
 * well. */
int own_node_stop(struct own_node *node);

#endif
