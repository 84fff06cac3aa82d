/*
 * frame.c - writing and reading them, as numbers in a row.
 */
#include "net/frame.h"

#include "base/err.h"

#include <endian.h>
#include <string.h>

/* "Ceno", "head", "tail" as they are seen on the wire. */
#define GREETING_MAGIC 0x6f6e6543u
#define HEAD_MAGIC     0x64616568u
#define TAIL_MAGIC     0x6c696174u

static void put_u16(unsigned char *to, uint16_t value)
{
	value = htole16(value);
	memcpy(to, &value, sizeof(value));
}

static void put_u32(unsigned char *to, uint32_t value)
{
	value = htole32(value);
	memcpy(to, &value, sizeof(value));
}

static void put_u64(unsigned char *to, uint64_t value)
{
	value = htole64(value);
	memcpy(to, &value, sizeof(value));
}

static uint16_t get_u16(const unsigned char *from)
{
	uint16_t value;

	memcpy(&value, from, sizeof(value));
	return le16toh(value);
}

static uint32_t get_u32(const unsigned char *from)
{
	uint32_t value;

	memcpy(&value, from, sizeof(value));
	return le32toh(value);
}

static uint64_t get_u64(const unsigned char *from)
{
	uint64_t value;

	memcpy(&value, from, sizeof(value));
	return le64toh(value);
}

/* ---- greetings ----------------------------------------------------------- */

void greeting_write(void *to, const struct greeting *greeting)
{
	unsigned char *bytes = to;

	put_u32(bytes, GREETING_MAGIC);
	put_u16(bytes + 4, greeting->version);
	bytes[6] = greeting->kind;
	bytes[7] = greeting->verdict;
}

int greeting_read(const void *from, struct greeting *ret)
{
	const unsigned char *bytes = from;

	if (get_u32(bytes) != GREETING_MAGIC)
		return ERR_PROTOCOL;
	*ret = (struct greeting){get_u16(bytes + 4), bytes[6], bytes[7]};
	return 0;
}

/* ---- frames -------------------------------------------------------------- */

void frame_write(void *to, uint32_t channel, size_t size)
{
	unsigned char *bytes = to;

	put_u32(bytes, (uint32_t)size);
	put_u32(bytes + 4, channel);
}

int frame_read(const void *from, size_t size, struct frame *ret)
{
	const unsigned char *bytes = from;
	const unsigned char *message = bytes + FRAME_HEADER_SIZE;
	uint32_t length;

	if (size < FRAME_HEADER_SIZE)
		return 0;
	length = get_u32(bytes);
	if (length < MSG_HEADER_SIZE || length > MSG_SIZE_MAX)
		return ERR_PROTOCOL;
	if (size - FRAME_HEADER_SIZE < length)
		return 0;
	/* Its type is its reader's to know: another version may have more of them. */
	if (get_u32(message + 4) != length - MSG_HEADER_SIZE)
		return ERR_PROTOCOL;
	*ret = (struct frame){get_u32(bytes + 4), message, length};
	return 1;
}

/* ---- transfers ----------------------------------------------------------- */

void chunk_ask_write(void *to, const struct chunk_ask *ask)
{
	unsigned char *bytes = to;

	memcpy(bytes, ask->ticket, sizeof(ask->ticket));
	put_u64(bytes + 16, ask->seed);
}

void chunk_ask_read(const void *from, struct chunk_ask *ret)
{
	const unsigned char *bytes = from;

	memcpy(ret->ticket, bytes, sizeof(ret->ticket));
	ret->seed = get_u64(bytes + 16);
}

void chunk_head_write(void *to, const struct chunk_head *head)
{
	unsigned char *bytes = to;

	put_u32(bytes, HEAD_MAGIC);
	put_u32(bytes + 4, head->status);
	put_u64(bytes + 8, head->generation);
	put_u64(bytes + 16, head->size);
}

int chunk_head_read(const void *from, struct chunk_head *ret)
{
	const unsigned char *bytes = from;

	if (get_u32(bytes) != HEAD_MAGIC)
		return ERR_PROTOCOL;
	*ret = (struct chunk_head){
		get_u32(bytes + 4), get_u64(bytes + 8), get_u64(bytes + 16)};
	return 0;
}

void chunk_tail_write(void *to, const struct chunk_tail *tail)
{
	unsigned char *bytes = to;

	put_u32(bytes, TAIL_MAGIC);
	put_u32(bytes + 4, tail->status);
	put_u64(bytes + 8, tail->checksum);
}

int chunk_tail_read(const void *from, struct chunk_tail *ret)
{
	const unsigned char *bytes = from;

	if (get_u32(bytes) != TAIL_MAGIC)
		return ERR_PROTOCOL;
	*ret = (struct chunk_tail){get_u32(bytes + 4), get_u64(bytes + 8)};
	return 0;
}
