/*
 * Any bytes as what a node says: greetings, frames one after another, pieces of a transfer.
 * Nothing is read beyond them, what is taken is whole, and a frame that is written is read
 * again. For libFuzzer.
 */
#include "net/frame.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(int holds)
{
	if (!holds)
		abort();
}

/* In memory of exactly that size, so that a byte too many is noticed. */
static void fixed(const uint8_t *data)
{
	uint8_t greeting_bytes[GREETING_SIZE], head_bytes[CHUNK_HEAD_SIZE],
		tail_bytes[CHUNK_TAIL_SIZE], ask_bytes[CHUNK_ASK_SIZE];
	struct greeting greeting;
	struct chunk_head head;
	struct chunk_tail tail;
	struct chunk_ask ask;

	if (greeting_read(data, &greeting) == 0) {
		greeting_write(greeting_bytes, &greeting);
		expect(memcmp(greeting_bytes, data, sizeof(greeting_bytes)) == 0);
	}
	if (chunk_head_read(data, &head) == 0) {
		chunk_head_write(head_bytes, &head);
		expect(memcmp(head_bytes, data, sizeof(head_bytes)) == 0);
	}
	if (chunk_tail_read(data, &tail) == 0) {
		chunk_tail_write(tail_bytes, &tail);
		expect(memcmp(tail_bytes, data, sizeof(tail_bytes)) == 0);
	}
	chunk_ask_read(data, &ask);
	chunk_ask_write(ask_bytes, &ask);
	expect(memcmp(ask_bytes, data, sizeof(ask_bytes)) == 0);
}

static void frames(const uint8_t *data, size_t size)
{
	struct frame frame;
	size_t used = 0;

	while (frame_read(data + used, size - used, &frame) == 1) {
		uint8_t header[FRAME_HEADER_SIZE];

		expect(frame.size >= MSG_HEADER_SIZE && frame.size <= MSG_SIZE_MAX);
		expect(frame.message == data + used + FRAME_HEADER_SIZE);
		expect(frame.size <= size - used - FRAME_HEADER_SIZE);
		frame_write(header, frame.channel, frame.size);
		expect(memcmp(header, data + used, sizeof(header)) == 0);
		used += FRAME_HEADER_SIZE + frame.size;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size >= CHUNK_HEAD_SIZE)
		fixed(data);
	frames(data, size);
	return 0;
}
