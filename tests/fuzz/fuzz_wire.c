/*
 * Any bytes as a message, as the packed messages of a batch, and as entries of a list:
 * nothing is read beyond them. For libFuzzer.
 */
#include "wire/msg.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decode(const void *message, size_t size)
{
#define MSG(number, NAME, name, fields)                                      \
	{                                                                    \
		struct msg_##name msg;                                       \
		volatile int err = msg_##name##_decode(message, size, &msg); \
                                                                             \
		(void)err;                                                   \
	}
#include "wire/msg.def"
#undef MSG
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct msg_bytes rest = {.data = data, .size = size}, message;
	struct msg_entry entry;
	struct msg_batch batch;

	decode(data, size);
	if (msg_batch_decode(data, size, &batch) == 0) {
		while (msg_unpack(&batch.requests, &message) == 1)
			decode(message.data, message.size);
	}
	while (msg_entry_next(&rest, &entry) == 1) {
		if (entry.key.size == 0 || entry.key.size > MSG_KEY_MAX)
			abort();
	}
	return 0;
}
