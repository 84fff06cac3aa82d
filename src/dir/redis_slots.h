/*
 * redis_slots.h - the slots of a Redis Cluster: of a key, and whose they are.
 *
 * Memory    struct slot_map is plain data of its owner's.
 * Errors    none: an answer that makes no sense is false.
 * Thread    any.
 */
#ifndef DIR_REDIS_SLOTS_H
#define DIR_REDIS_SLOTS_H

#include "base/attr.h"
#include "io/address.h"

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdint.h>

#define REDIS_SLOTS     16384u
#define SLOT_MASTERS    256u
#define SLOT_NONE       UINT16_MAX
#define REDIS_NODE_SIZE 41u /* a node's id with its NUL */

struct slot_master {
	char node[REDIS_NODE_SIZE];
	struct address address;
};

/* What CLUSTER SLOTS said. */
struct slot_map {
	struct slot_master masters[SLOT_MASTERS];
	uint32_t master_count;
	uint16_t owner[REDIS_SLOTS]; /* index of masters[], or SLOT_NONE */
};

/* Of its part in braces, if it has one that is not empty. */
uint32_t slot_of_key(const char *key, size_t size);
/* `host`: of the server that answered, for masters that are where it is. */
bool slot_map_parse(const redisReply *reply, const char *host, struct slot_map *ret);
/* A number whose digits alone are a key of the slot: the same everywhere. */
uint32_t slot_tag(uint32_t slot);
/* Slots in an order in which each set of them has its first one, whichever it is: then little
 * changes who is first. */
uint32_t slot_rank(uint32_t slot);

#endif
