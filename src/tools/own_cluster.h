/*
 * own_cluster.h - two nodes and a directory for the length of one command.
 *
 *	if (own_cluster_start(&cluster, pool_bytes, tls) == TOOL_OK) { ... }
 *	own_cluster_stop(&cluster);
 *
 * The directory is a redis-server from the search path, without persistence; all three
 * listen on loopback, at ports that were free.
 *
 * Errors    TOOL_FAILED, and a line on stderr has said why.
 * Thread    one; the process's main thread, whose end the others follow.
 */
#ifndef TOOLS_OWN_CLUSTER_H
#define TOOLS_OWN_CLUSTER_H

#include "tools/own_node.h"

#define OWN_CLUSTER_NODES 2

struct own_cluster {
	struct own_node nodes[OWN_CLUSTER_NODES];
	pid_t redis; /* 0: not running */
	uint16_t redis_port;
	char directory[OWN_DIRECTORY_MAX]; /* of its secret */
	char url[64], key_path[OWN_NODE_PATH_MAX];
};

/* `tls`: between the nodes, by a secret of their own. */
int own_cluster_start(struct own_cluster *cluster, uint64_t pool_bytes, bool tls);
/* Fine on one that was not started, or only half. */
int own_cluster_stop(struct own_cluster *cluster);

#endif
