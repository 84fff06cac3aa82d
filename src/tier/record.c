/*
 * record.c - an object's record as it lies in the index: little-endian, with a checksum
 * that also covers the id, so that a record under another's id is none.
 *
 *   head, [time to live], key, [value: if off is TIER_ON_INDEX]
 */
#include "base/check.h"
#include "base/hash.h"
#include "tier/store_priv.h"

#include <endian.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

struct record_head {
	uint64_t check; /* XXH3-64 of all that follows, seeded by the id */
	uint16_t version, klen;
	uint32_t flags;
	uint64_t off, size, generation, checksum;
	uint16_t readers_left;
	uint16_t has_ttl; /* 1: struct record_ttl follows */
	uint16_t wanted;  /* nodes that are to keep it; 0 as 1 */
	uint16_t spare;
};
_Static_assert(sizeof(struct record_head) == 56, "on disk");

struct record_ttl {
	uint64_t ttl_ns;
	uint64_t written_ns; /* of CLOCK_BOOTTIME of that boot */
	uint8_t boot_id[16];
};
_Static_assert(sizeof(struct record_ttl) == 32, "on disk");

#define RECORD_CHECKED sizeof(uint64_t) /* what the check covers begins here */

/* ---- the clock ----------------------------------------------------------- */

static int record_hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* 32 digits with dashes between them. */
static void record_boot_id(uint8_t boot_id[16])
{
	char text[64];
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t got = fd >= 0 ? read(fd, text, sizeof(text)) : 0;
	unsigned digits = 0;

	memset(boot_id, 0, 16);
	for (ssize_t i = 0; i < got && digits < 32; i++) {
		int digit = record_hex(text[i]);

		if (digit < 0)
			continue;
		boot_id[digits / 2] = (uint8_t)(boot_id[digits / 2] << 4 | digit);
		digits++;
	}
	if (fd >= 0)
		(void)close(fd);
}

void record_clock_read(struct record_clock *clock)
{
	record_boot_id(clock->boot_id);
	clock->boot_ns = loop_boot_ns();
}

/* What is left of it: less what passed, but all of it after a start of the host. */
static uint64_t record_ttl_left(
	const struct record_ttl *ttl, const struct record_clock *clock)
{
	static const uint8_t unknown[16];
	uint64_t whole = le64toh(ttl->ttl_ns), written = le64toh(ttl->written_ns);

	if (memcmp(ttl->boot_id, clock->boot_id, 16) != 0 ||
		memcmp(ttl->boot_id, unknown, 16) == 0 || written > clock->boot_ns)
		return whole;
	if (clock->boot_ns - written >= whole)
		return 1; /* over; 0 would be none */
	return whole - (clock->boot_ns - written);
}

/* ---- ids ----------------------------------------------------------------- */

void record_id_encode(unsigned char bytes[RECORD_ID_SIZE], struct tier_id id)
{
	uint64_t words[2] = {htole64(id.word[0]), htole64(id.word[1])};

	memcpy(bytes, words, RECORD_ID_SIZE);
}

struct tier_id record_id_decode(const unsigned char bytes[RECORD_ID_SIZE])
{
	uint64_t words[2];

	memcpy(words, bytes, RECORD_ID_SIZE);
	return (struct tier_id){{le64toh(words[0]), le64toh(words[1])}};
}

/* ---- records ------------------------------------------------------------- */

static uint64_t record_check(const unsigned char *bytes, size_t size, struct tier_id id)
{
	return hash_bytes_seed(
		bytes + RECORD_CHECKED, size - RECORD_CHECKED, id.word[0] ^ id.word[1]);
}

static size_t record_append(
	unsigned char *buffer, size_t at, const void *bytes, size_t size)
{
	if (size > 0)
		memcpy(buffer + at, bytes, size);
	return at + size;
}

size_t record_encode(unsigned char *buffer, const struct tier_record *record,
	const void *value, const struct record_clock *clock)
{
	struct record_head head = {
		.version = htole16(STORE_VERSION),
		.klen = htole16(record->klen),
		.flags = htole32(record->flags),
		.off = htole64(record->off),
		.size = htole64(record->size),
		.generation = htole64(record->generation),
		.checksum = htole64(record->checksum),
		.readers_left = htole16(record->readers_left),
		.has_ttl = htole16(record->ttl_ns != 0),
		.wanted = htole16(record->wanted),
	};
	struct record_ttl ttl = {
		.ttl_ns = htole64(record->ttl_ns),
		.written_ns = htole64(clock->boot_ns),
	};
	size_t size = sizeof(head);

	CHECK(record->klen > 0 && record->klen <= RECORD_KEY_MAX);
	CHECK(record->off != TIER_ON_INDEX || record->size <= TIER_INLINE);
	memcpy(ttl.boot_id, clock->boot_id, sizeof(ttl.boot_id));
	if (record->ttl_ns != 0)
		size = record_append(buffer, size, &ttl, sizeof(ttl));
	size = record_append(buffer, size, record->key, record->klen);
	if (record->off == TIER_ON_INDEX)
		size = record_append(buffer, size, value, record->size);
	(void)record_append(buffer, 0, &head, sizeof(head));
	head.check = htole64(record_check(buffer, size, record->id));
	(void)record_append(buffer, 0, &head.check, sizeof(head.check));
	return size;
}

/* The sizes that `head` tells are those of `size` bytes in all. */
static bool record_fits(const struct record_head *head, size_t size)
{
	uint64_t off = le64toh(head->off), bytes = le64toh(head->size);
	size_t klen = le16toh(head->klen), need = sizeof(*head) + klen;

	if (le16toh(head->version) != STORE_VERSION || klen == 0 ||
		klen > RECORD_KEY_MAX || le16toh(head->has_ttl) > 1)
		return false;
	need += le16toh(head->has_ttl) == 1 ? sizeof(struct record_ttl) : 0;
	if (off == TIER_ON_INDEX)
		return bytes <= TIER_INLINE && size == need + bytes;
	return off % TIER_BLOCK == 0 && bytes > 0 && off <= INT64_MAX / 2 &&
	       bytes <= INT64_MAX / 2 && size == need;
}

bool record_decode(const unsigned char *bytes, size_t size, struct tier_id id,
	const struct record_clock *clock, struct tier_record *ret,
	const unsigned char **ret_value)
{
	struct record_head head;
	struct record_ttl ttl;
	size_t at = sizeof(head);

	if (size < sizeof(head) || size > RECORD_MAX)
		return false;
	memcpy(&head, bytes, sizeof(head));
	if (!record_fits(&head, size) ||
		le64toh(head.check) != record_check(bytes, size, id))
		return false;
	*ret = (struct tier_record){
		.id = id,
		.off = le64toh(head.off),
		.size = le64toh(head.size),
		.generation = le64toh(head.generation),
		.checksum = le64toh(head.checksum),
		.readers_left = le16toh(head.readers_left),
		.klen = le16toh(head.klen),
		.wanted = le16toh(head.wanted),
		.flags = le32toh(head.flags),
	};
	if (le16toh(head.has_ttl) == 1) {
		memcpy(&ttl, bytes + at, sizeof(ttl));
		ret->ttl_ns = record_ttl_left(&ttl, clock);
		at += sizeof(ttl);
	}
	ret->key = bytes + at;
	*ret_value = bytes + at + ret->klen;
	return true;
}
