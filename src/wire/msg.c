/*
 * msg.c - the codec, out of msg.def.
 *
 * Writer and reader remember that something did not fit, so that the fields of a message
 * are plain lines and the answer is asked for once, at the end. What they do for a field
 * is inlined, where its size is known: a batch has a hundred of them.
 */
#include "wire/msg.h"

#include "base/check.h"
#include "base/err.h"

#include <endian.h>
#include <stdbool.h>
#include <string.h>

/* ---- writing ------------------------------------------------------------- */

struct writer {
	unsigned char *buffer;
	size_t size;
	size_t at; /* SIZE_MAX: something did not fit */
};

static ALWAYS_INLINE void write_bytes(
	struct writer *writer, const void *bytes, size_t size)
{
	if (writer->at > writer->size || size > writer->size - writer->at) {
		writer->at = SIZE_MAX;
		return;
	}
	if (size > 0)
		memcpy(writer->buffer + writer->at, bytes, size);
	writer->at += size;
}

static ALWAYS_INLINE void write_number(struct writer *writer, uint64_t value, size_t size)
{
	uint64_t bytes = htole64(value);

	write_bytes(writer, &bytes, size);
}

static ALWAYS_INLINE void write_counted(
	struct writer *writer, const struct msg_bytes *bytes, size_t limit)
{
	if (bytes->size > limit) {
		writer->at = SIZE_MAX;
		return;
	}
	write_number(writer, bytes->size, 2);
	write_bytes(writer, bytes->data, bytes->size);
}

/* Its type, zero and length are one number of 8 bytes. */
static ALWAYS_INLINE void write_header(
	struct writer *writer, enum msg_type type, size_t body_size)
{
	write_number(writer, (uint64_t)type | (uint64_t)body_size << 32, 8);
}

static struct writer writer_begin(void *buffer, size_t size)
{
	struct writer writer = {
		.buffer = buffer,
		.size = size < MSG_SIZE_MAX ? size : MSG_SIZE_MAX,
		.at = MSG_HEADER_SIZE,
	};

	return writer;
}

static size_t writer_end(const struct writer *writer, enum msg_type type)
{
	struct writer head = {.buffer = writer->buffer, .size = MSG_HEADER_SIZE};

	if (writer->at > writer->size)
		return 0;
	write_header(&head, type, writer->at - MSG_HEADER_SIZE);
	return writer->at;
}

/* ---- reading ------------------------------------------------------------- */

struct reader {
	const unsigned char *bytes;
	size_t size;
	size_t at;
	bool is_short;
	bool has_bad_key;
};

static ALWAYS_INLINE const unsigned char *read_bytes(struct reader *reader, size_t size)
{
	const unsigned char *bytes = reader->bytes + reader->at;

	if (reader->is_short || size > reader->size - reader->at) {
		reader->is_short = true;
		return NULL;
	}
	reader->at += size;
	return bytes;
}

static ALWAYS_INLINE uint64_t read_number(struct reader *reader, size_t size)
{
	const unsigned char *bytes = read_bytes(reader, size);
	uint64_t value = 0;

	if (bytes != NULL)
		memcpy(&value, bytes, size);
	return le64toh(value);
}

static void read_id(struct reader *reader, uint8_t *id)
{
	const unsigned char *bytes = read_bytes(reader, 16);

	if (bytes != NULL)
		memcpy(id, bytes, 16);
}

static ALWAYS_INLINE struct msg_bytes read_counted(struct reader *reader)
{
	size_t size = (size_t)read_number(reader, 2);
	const unsigned char *bytes = read_bytes(reader, size);

	return (struct msg_bytes){.data = bytes, .size = bytes != NULL ? size : 0};
}

static ALWAYS_INLINE struct msg_bytes read_key(struct reader *reader)
{
	struct msg_bytes key = read_counted(reader);

	if (!reader->is_short && msg_key_check(key.data, key.size) != 0)
		reader->has_bad_key = true;
	return key;
}

static struct msg_bytes read_text(struct reader *reader)
{
	struct msg_bytes text = read_counted(reader);

	if (text.size > MSG_TEXT_MAX)
		reader->is_short = true;
	return text;
}

static struct msg_bytes read_rest(struct reader *reader)
{
	size_t size = reader->size - reader->at;

	return (struct msg_bytes){.data = read_bytes(reader, size), .size = size};
}

/* A broken frame outweighs a bad key: who sent it cannot be answered sensibly. */
static int reader_end(const struct reader *reader)
{
	if (reader->is_short || reader->at != reader->size)
		return ERR_PROTOCOL;
	return reader->has_bad_key ? ERR_BAD_KEY : 0;
}

static bool msg_is_known(uint64_t type)
{
	switch (type) {
#define MSG(number, NAME, name, fields) case (number):
#include "wire/msg.def"
#undef MSG
		return true;
	default:
		return false;
	}
}

/* Read a header; *ret_body is the length that it tells. */
static ALWAYS_INLINE int read_header(
	struct reader *reader, enum msg_type *ret_type, size_t *ret_body)
{
	uint64_t header = read_number(reader, MSG_HEADER_SIZE);
	uint64_t type = header & UINT32_MAX; /* and the zero above it */
	uint64_t body = header >> 32;

	if (reader->is_short || !msg_is_known(type) ||
		body > MSG_SIZE_MAX - MSG_HEADER_SIZE)
		return ERR_PROTOCOL;
	*ret_type = (enum msg_type)type;
	*ret_body = (size_t)body;
	return 0;
}

static ALWAYS_INLINE int reader_begin(
	struct reader *reader, enum msg_type type, const void *message, size_t size)
{
	uint64_t header;

	*reader = (struct reader){.bytes = message, .size = size};
	header = read_number(reader, MSG_HEADER_SIZE);
	if (reader->is_short || size > MSG_SIZE_MAX ||
		header != ((uint64_t)type | (uint64_t)(size - MSG_HEADER_SIZE) << 32))
		return ERR_PROTOCOL;
	return 0;
}

/* ---- each message -------------------------------------------------------- */

#define U8(name)    write_number(&writer, msg->name, 1);
#define U16(name)   write_number(&writer, msg->name, 2);
#define U32(name)   write_number(&writer, msg->name, 4);
#define U64(name)   write_number(&writer, msg->name, 8);
#define I32(name)   write_number(&writer, (uint32_t)msg->name, 4);
#define I64(name)   write_number(&writer, (uint64_t)msg->name, 8);
#define ID(name)    write_bytes(&writer, msg->name, 16);
#define KEY(name)   write_counted(&writer, &msg->name, MSG_KEY_MAX);
#define TEXT(name)  write_counted(&writer, &msg->name, MSG_TEXT_MAX);
#define BYTES(name) write_bytes(&writer, msg->name.data, msg->name.size);
#define MSG(number, NAME, name, fields)                                  \
	size_t msg_##name##_encode(                                      \
		void *buffer, size_t size, const struct msg_##name *msg) \
	{                                                                \
		struct writer writer = writer_begin(buffer, size);       \
                                                                         \
		fields return writer_end(&writer, MSG_TYPE_##NAME);      \
	}
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

#define U8(name)    msg.name = (uint8_t)read_number(&reader, 1);
#define U16(name)   msg.name = (uint16_t)read_number(&reader, 2);
#define U32(name)   msg.name = (uint32_t)read_number(&reader, 4);
#define U64(name)   msg.name = read_number(&reader, 8);
#define I32(name)   msg.name = (int32_t)(uint32_t)read_number(&reader, 4);
#define I64(name)   msg.name = (int64_t)read_number(&reader, 8);
#define ID(name)    read_id(&reader, msg.name);
#define KEY(name)   msg.name = read_key(&reader);
#define TEXT(name)  msg.name = read_text(&reader);
#define BYTES(name) msg.name = read_rest(&reader);
#define MSG(number, NAME, name, fields)                                      \
	int msg_##name##_decode(                                             \
		const void *message, size_t size, struct msg_##name *ret)    \
	{                                                                    \
		struct msg_##name msg;                                       \
		struct reader reader;                                        \
		int err;                                                     \
                                                                             \
		memset(&msg, 0, sizeof(msg));                                \
		err = reader_begin(&reader, MSG_TYPE_##NAME, message, size); \
		if (err != 0)                                                \
			return err;                                          \
		fields err = reader_end(&reader);                            \
		if (err == 0)                                                \
			*ret = msg;                                          \
		return err;                                                  \
	}
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

int msg_type(const void *message, size_t size, enum msg_type *ret_type)
{
	struct reader reader = {.bytes = message, .size = size};
	enum msg_type type;
	size_t body;

	if (size > MSG_SIZE_MAX || read_header(&reader, &type, &body) != 0 ||
		body != size - MSG_HEADER_SIZE)
		return ERR_PROTOCOL;
	*ret_type = type;
	return 0;
}

const char *msg_name(enum msg_type type)
{
	switch ((int)type) {
#define MSG(number, NAME, name, fields) \
	case (number):                  \
		return #NAME;
#include "wire/msg.def"
#undef MSG
	default:
		return "UNKNOWN";
	}
}

int msg_key_check(const void *key, size_t size)
{
	if (size == 0 || size > MSG_KEY_MAX || memchr(key, 0, size) != NULL)
		return ERR_BAD_KEY;
	return 0;
}

/* ---- several messages in one --------------------------------------------- */

/* The head of BATCH and of BATCH_DONE: header and count. */
#define PACK_HEAD_SIZE (MSG_HEADER_SIZE + 4u)

void msg_pack_init(struct msg_pack *pack, void *buffer, size_t size)
{
	CHECK(size >= PACK_HEAD_SIZE);
	*pack = (struct msg_pack){
		.buffer = buffer,
		.size = size < MSG_SIZE_MAX ? size : MSG_SIZE_MAX,
		.used = PACK_HEAD_SIZE,
	};
}

void *msg_pack_tail(const struct msg_pack *pack)
{
	return pack->buffer + pack->used;
}

size_t msg_pack_room(const struct msg_pack *pack)
{
	return pack->size - pack->used;
}

void msg_pack_add(struct msg_pack *pack, size_t message_size)
{
	msg_pack_add_all(pack, message_size, 1);
}

void msg_pack_add_all(struct msg_pack *pack, size_t messages_size, uint32_t count)
{
	CHECK(messages_size / MSG_HEADER_SIZE >= count &&
		messages_size <= msg_pack_room(pack));
	pack->used += messages_size;
	pack->count += count;
}

size_t msg_pack_finish(struct msg_pack *pack, enum msg_type type)
{
	struct writer writer = {.buffer = pack->buffer, .size = PACK_HEAD_SIZE};

	CHECK(type == MSG_TYPE_BATCH || type == MSG_TYPE_BATCH_DONE);
	write_header(&writer, type, pack->used - MSG_HEADER_SIZE);
	write_number(&writer, pack->count, 4);
	return pack->used;
}

int msg_unpack(struct msg_bytes *messages, struct msg_bytes *ret_message)
{
	struct reader reader = {.bytes = messages->data, .size = messages->size};
	enum msg_type type;
	size_t body;

	if (messages->size == 0)
		return 0;
	if (read_header(&reader, &type, &body) != 0 || read_bytes(&reader, body) == NULL)
		return ERR_PROTOCOL;
	*ret_message = (struct msg_bytes){.data = reader.bytes, .size = reader.at};
	messages->data = reader.bytes + reader.at;
	messages->size -= reader.at;
	return 1;
}

/* ---- the entries of LISTED ----------------------------------------------- */

size_t msg_entry_encode(void *buffer, size_t size, const struct msg_entry *entry)
{
	struct writer writer = {.buffer = buffer, .size = size};

	write_counted(&writer, &entry->key, MSG_KEY_MAX);
	write_number(&writer, entry->size, 8);
	write_number(&writer, entry->flags, 4);
	return writer.at > writer.size ? 0 : writer.at;
}

int msg_entry_next(struct msg_bytes *entries, struct msg_entry *ret_entry)
{
	struct reader reader = {.bytes = entries->data, .size = entries->size};
	struct msg_entry entry;

	if (entries->size == 0)
		return 0;
	entry.key = read_key(&reader);
	entry.size = read_number(&reader, 8);
	entry.flags = (uint32_t)read_number(&reader, 4);
	if (reader.is_short || reader.has_bad_key)
		return ERR_PROTOCOL;
	*ret_entry = entry;
	entries->data = reader.bytes + reader.at;
	entries->size -= reader.at;
	return 1;
}
