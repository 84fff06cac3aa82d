/*
 * msg.h - every message between a client and its daemon, and their codec.
 *
 * A message is one packet: u16 type, u16 zero, u32 length of the body, the body; all
 * little-endian. The body has the fields of msg.def in their order: numbers, an ID as
 * its 16 bytes, KEY and TEXT as u16 length and bytes, BYTES as all that is left.
 *
 * For each line of msg.def there are struct msg_NAME, msg_NAME_encode() and
 * msg_NAME_decode(). Encode returns the size of the whole message, 0 if it does not fit
 * into `size` bytes or a KEY or TEXT is too long for its kind.
 *
 * Units     bytes; durations in ns, UINT64_MAX = for ever.
 * Memory    struct msg_bytes points into the caller's memory; after decode, into the
 *           message.
 * Errors    decode: ERR_PROTOCOL, the message is not whole and valid; ERR_BAD_KEY, it is
 *           but for its key; *ret is untouched then.
 * Thread    any: pure functions.
 */
#ifndef WIRE_MSG_H
#define WIRE_MSG_H

#include "base/attr.h"

#include <stddef.h>
#include <stdint.h>

#define WIRE_VERSION 2u

#define MSG_SIZE_MAX    131072u /* of a message, with its header */
#define MSG_HEADER_SIZE 8u
#define MSG_KEY_MAX     1024u
#define MSG_TEXT_MAX    1024u
/* The most that the setting small_limit can be: PUT then fits with any key. */
#define MSG_SMALL_MAX (120u * 1024)

/* Not MSG_NAME: the C library has an MSG_BATCH. */
enum msg_type {
#define MSG(number, NAME, name, fields) MSG_TYPE_##NAME = (number),
#include "wire/msg.def"
#undef MSG
};

/* hello.flags */
enum hello_flag {
	HELLO_READ_ONLY = 1 /* never puts */
};

/* The flags of put, put_start, stated and listed entries. */
enum put_flag {
	PUT_SOFTPIN = 1,
	PUT_DURABLE = 2, /* answered once it is on disk */
	PUT_REPLACE = 4, /* in the place of what the key has */
	PUT_REQUIRED = 8 /* fails without as many keepers as it asks for */
};

/* Beside them, of replica: its reads are counted. */
enum replica_flag {
	REPLICA_COUNTED = 256
};

/* Beside them, of listed entries: other nodes are to keep it as well, and tell it. */
enum entry_flag {
	ENTRY_REPLICATED = 256
};

/* Beside them, of stated: where its bytes are now. */
enum stat_flag {
	STAT_IN_POOL = 256,
	STAT_ON_DISK = 512
};

/* get.flags */
enum get_flag {
	GET_WAIT = 1 /* wait for the key to be put */
};

struct msg_bytes {
	const void *data;
	size_t size;
};

#define U8(name)    uint8_t name;
#define U16(name)   uint16_t name;
#define U32(name)   uint32_t name;
#define U64(name)   uint64_t name;
#define I32(name)   int32_t name;
#define I64(name)   int64_t name;
#define ID(name)    uint8_t name[16];
#define KEY(name)   struct msg_bytes name;
#define TEXT(name)  struct msg_bytes name;
#define BYTES(name) struct msg_bytes name;
#define MSG(number, NAME, name, fields)                                              \
	struct msg_##name {                                                          \
		fields                                                               \
	};                                                                           \
	size_t msg_##name##_encode(                                                  \
		void *buffer, size_t size, const struct msg_##name *msg) MUST_CHECK; \
	int msg_##name##_decode(                                                     \
		const void *message, size_t size, struct msg_##name *ret) MUST_CHECK;
#include "wire/msg.def"
#undef MSG
#undef U8
#undef U16
#undef U32
#undef U64
#undef I32
#undef I64
#undef ID
#undef KEY
#undef TEXT
#undef BYTES

/* The type of a message whose header is right: known, and the length is what is there. */
int msg_type(const void *message, size_t size, enum msg_type *ret_type) MUST_CHECK;

/* "PUT_START"; "UNKNOWN" for a number that is none. */
const char *msg_name(enum msg_type type);

/* Whether it is a key: 1 to MSG_KEY_MAX bytes, no NUL. */
int msg_key_check(const void *key, size_t size) MUST_CHECK;

/* ---- several messages in one --------------------------------------------- */

/*
 * Make a BATCH or BATCH_DONE in a buffer: encode each message at msg_pack_tail(), which
 * has msg_pack_room() bytes, and msg_pack_add() its size.
 */
struct msg_pack {
	unsigned char *buffer;
	size_t size;
	size_t used;
	uint32_t count;
};

void msg_pack_init(struct msg_pack *pack, void *buffer, size_t size);
void *msg_pack_tail(const struct msg_pack *pack);
size_t msg_pack_room(const struct msg_pack *pack);
void msg_pack_add(struct msg_pack *pack, size_t message_size);
/* The same for `count` messages, end to end. */
void msg_pack_add_all(struct msg_pack *pack, size_t messages_size, uint32_t count);
/* Write the head, of type BATCH or BATCH_DONE; the size of the whole message. */
size_t msg_pack_finish(struct msg_pack *pack, enum msg_type type);

/* Take the first message off `messages`. 1: *ret_message is one with a right header; 0:
 * none is left; ERR_PROTOCOL. */
int msg_unpack(struct msg_bytes *messages, struct msg_bytes *ret_message) MUST_CHECK;

/* ---- the entries of LISTED ----------------------------------------------- */

struct msg_entry {
	struct msg_bytes key;
	uint64_t size;
	uint32_t flags; /* enum put_flag, entry_flag */
};

/* The size of the encoded entry, 0 if it does not fit. */
size_t msg_entry_encode(
	void *buffer, size_t size, const struct msg_entry *entry) MUST_CHECK;

/* Take the first entry off `entries`: 1, 0 at the end, or ERR_PROTOCOL. */
int msg_entry_next(struct msg_bytes *entries, struct msg_entry *ret_entry) MUST_CHECK;

#endif
