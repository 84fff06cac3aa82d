/*
 * redis_reply.h - what a server answered, looked at before it is believed.
 *
 * Memory    replies are hiredis's; nothing here keeps or frees them.
 * Errors    none: what makes no sense is false.
 * Thread    any.
 */
#ifndef DIR_REDIS_REPLY_H
#define DIR_REDIS_REPLY_H

#include "base/attr.h"
#include "io/address.h"

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdint.h>

/* What an answer means for the command that it belongs to. */
enum redis_answer {
	ANSWER_DATA,  /* a result, to be looked at */
	ANSWER_LATER, /* the server cannot now: the same again, soon */
	ANSWER_LOST,  /* this is not a master any more, or nothing more can come of it */
	ANSWER_MOVED, /* the slot is another master's */
	ANSWER_ASK,   /* the key may be at another master, for this once */
	ANSWER_NOSCRIPT, /* the script must be sent */
	ANSWER_FULL,     /* no memory */
	ANSWER_BAD       /* an error that nobody knows a way out of */
};

enum redis_answer redis_answer_of(const redisReply *reply);
/* Of a MOVED or ASK: which slot, and where; no host: that of the server that answered. */
bool redis_redirect_parse(
	const redisReply *reply, uint32_t *ret_slot, struct address *ret_address);

bool reply_is_text(const redisReply *reply); /* a string without a NUL */
bool reply_is_array(const redisReply *reply, size_t least);
/* Exactly 16 hexadecimal digits at `text`. */
bool parse_hex16(const char *text, uint64_t *ret);
/* Decimal digits, all of the `size` bytes; at most `most`. */
bool parse_decimal(const char *text, size_t size, uint64_t most, uint64_t *ret);

#endif
