/*
 * redis_slots.c - CRC16 as Redis Cluster has it, and the answer of CLUSTER SLOTS.
 */
#include "dir/redis_slots.h"

#include "dir/redis_reply.h"

#include <stdio.h>
#include <string.h>

/* ---- keys ---------------------------------------------------------------- */

/* CRC16/XMODEM, four bits at a time. */
static uint32_t crc16(const char *bytes, size_t size)
{
	static const uint16_t table[16] = {0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5,
		0x60c6, 0x70e7, 0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce,
		0xf1ef};
	uint32_t crc = 0;

	for (size_t i = 0; i < size; i++) {
		uint32_t byte = (unsigned char)bytes[i];

		crc = (crc << 4 & 0xffffu) ^ table[(crc >> 12) ^ (byte >> 4)];
		crc = (crc << 4 & 0xffffu) ^ table[(crc >> 12) ^ (byte & 15)];
	}
	return crc;
}

uint32_t slot_of_key(const char *key, size_t size)
{
	const char *open = memchr(key, '{', size);
	const char *close = open != NULL ? memchr(open, '}', size - (size_t)(open - key))
					 : NULL;

	if (close != NULL && close > open + 1)
		return crc16(open + 1, (size_t)(close - open - 1)) % REDIS_SLOTS;
	return crc16(key, size) % REDIS_SLOTS;
}

uint32_t slot_tag(uint32_t slot)
{
	char digits[12];

	for (uint32_t tag = 0;; tag++) {
		int size = snprintf(digits, sizeof(digits), "%u", tag);

		if (slot_of_key(digits, (size_t)size) == slot)
			return tag;
	}
}

uint32_t slot_rank(uint32_t slot)
{
	/* Odd, so that no two slots have one rank; the shift spreads neighbours. */
	uint32_t mixed = (slot + 1) * 0x9e3779b1u;

	return mixed ^ (mixed >> 15);
}

/* ---- CLUSTER SLOTS ------------------------------------------------------- */

/* A host that is not told ("", "?", nil) is where we asked. */
static bool parse_host(const redisReply *reply, const char *host, char *ret)
{
	const char *text = host;

	if (reply->type != REDIS_REPLY_NIL && !reply_is_text(reply))
		return false;
	if (reply->type != REDIS_REPLY_NIL && reply->len > 0 &&
		strcmp(reply->str, "?") != 0)
		text = reply->str;
	if (strlen(text) >= ADDRESS_HOST_MAX)
		return false;
	(void)snprintf(ret, ADDRESS_HOST_MAX, "%s", text);
	return true;
}

/* [host, port, id ...] */
static bool parse_master(
	const redisReply *reply, const char *host, struct slot_master *ret)
{
	const redisReply *port, *node;

	*ret = (struct slot_master){.address = {.port = 0}};
	if (!reply_is_array(reply, 3))
		return false;
	port = reply->element[1];
	node = reply->element[2];
	if (port->type != REDIS_REPLY_INTEGER || port->integer < 1 ||
		port->integer > UINT16_MAX)
		return false;
	if (!reply_is_text(node) || node->len == 0 || node->len >= sizeof(ret->node))
		return false;
	ret->address.port = (uint16_t)port->integer;
	memcpy(ret->node, node->str, node->len);
	return parse_host(reply->element[0], host, ret->address.host);
}

/* SLOT_NONE: there are too many. */
static uint16_t map_find(struct slot_map *map, const struct slot_master *master)
{
	for (uint32_t i = 0; i < map->master_count; i++) {
		if (strcmp(map->masters[i].node, master->node) == 0)
			return (uint16_t)i;
	}
	if (map->master_count == SLOT_MASTERS)
		return SLOT_NONE;
	map->masters[map->master_count] = *master;
	return (uint16_t)map->master_count++;
}

static bool is_slot(const redisReply *reply)
{
	return reply->type == REDIS_REPLY_INTEGER && reply->integer >= 0 &&
	       reply->integer < REDIS_SLOTS;
}

/* [first, last, master, replicas ...] */
static bool parse_range(const redisReply *reply, const char *host, struct slot_map *map)
{
	struct slot_master master;
	uint16_t owner;

	if (!reply_is_array(reply, 3) || !is_slot(reply->element[0]) ||
		!is_slot(reply->element[1]) ||
		reply->element[0]->integer > reply->element[1]->integer ||
		!parse_master(reply->element[2], host, &master))
		return false;
	owner = map_find(map, &master);
	for (long long i = reply->element[0]->integer; i <= reply->element[1]->integer;
		i++)
		map->owner[i] = owner;
	return true;
}

bool slot_map_parse(const redisReply *reply, const char *host, struct slot_map *ret)
{
	if (!reply_is_array(reply, 0) || reply->elements > REDIS_SLOTS)
		return false;
	ret->master_count = 0;
	for (uint32_t i = 0; i < REDIS_SLOTS; i++)
		ret->owner[i] = SLOT_NONE;
	for (size_t i = 0; i < reply->elements; i++) {
		if (!parse_range(reply->element[i], host, ret))
			return false;
	}
	return true;
}
