/*
 * join.h - the daemon's part in a cluster: the real directory, and the real connections to
 * other nodes.
 *
 *	join_open(&join, ...)      before node_new(): the listening socket, the directory
 *	join_node(&join, node)     before node_start()
 *	join_turn(&join)           after each turn of the loop
 *	join_close(&join)
 *
 * Memory    the caller's, zeroed; config, share, loop and log outlive it.
 * Errors    negative, with a text for people in `detail`.
 * Thread    the loop thread.
 */
#ifndef NODE_JOIN_H
#define NODE_JOIN_H

#include "dir/dir_redis.h"
#include "net/peers.h"
#include "node/node.h"

struct join {
	const struct node_config *config;
	struct tls *tls;     /* NULL: --insecure */
	struct peers *peers; /* NULL: the node is alone */
	struct dir_redis *redis;
	struct node *node;
	char endpoint[DIR_ENDPOINT_MAX];
	struct node_cluster cluster;
};

/* `identity`: what the node's id is made from, 16 bytes that stay as long as what it has;
 * `content`: the same for its pool. Nothing happens without --directory. */
int join_open(struct join *join, const struct node_config *config, struct loop *loop,
	const struct share *share, const uint8_t *identity, const uint8_t *content,
	char *detail, size_t detail_size) MUST_CHECK;
/* For env.peer; nothing, if the node is alone. */
void join_env(struct join *join, struct env *env);
int join_node(struct join *join, struct node *node) MUST_CHECK;

/* True: there was something; the node is to be turned. */
bool join_turn(struct join *join);
uint64_t join_next(const struct join *join);
void join_close(struct join *join);

#endif
