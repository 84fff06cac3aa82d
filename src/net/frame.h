/*
 * frame.h - what nodes say to each other, byte by byte: the greeting, frames, and the pieces
 * of a transfer. All little-endian.
 *
 *   greeting   8 bytes, first of him who connected, then of the other:
 *              u32 magic, u16 version, u8 kind, u8 verdict (0 of him who connected)
 *   frame      over a control connection: u32 length, u32 channel, a message of `length`
 *              bytes (wire/msg.h)
 *   ask        over a data connection, to begin a transfer: the 16 bytes of a ticket, u64 seed
 *   chunk      back over it, for each PEER_CHUNK bytes of the object and for the rest (of an
 *              empty object one of 0): a head, the bytes, a tail
 *     head     u32 magic, u32 status, u64 generation, u64 bytes
 *     tail     u32 magic, u32 status, u64 checksum
 *
 * A chunk's checksum is XXH3-64, with the seed, of the object from its start to the chunk's
 * end: one pass over the bytes proves the chunks and gives the checksum of the whole. It
 * stands in the tail, so that the source computes it a piece at a time, each just before it
 * is sent. A chunk counts if head and tail both have CHUNK_HOLDS and the checksum is right;
 * with any other status the transfer is over, and no bytes follow a head that has one.
 *
 * The greeting keeps its form in every version.
 *
 * Memory    parsers point into what they parse.
 * Errors    ERR_PROTOCOL.
 * Thread    any: pure functions.
 */
#ifndef NET_FRAME_H
#define NET_FRAME_H

#include "base/attr.h"
#include "wire/msg.h"

#include <stddef.h>
#include <stdint.h>

#define NET_VERSION 1u

#define GREETING_SIZE     8u
#define FRAME_HEADER_SIZE 8u
#define FRAME_SIZE_MAX    (FRAME_HEADER_SIZE + MSG_SIZE_MAX)
#define CHUNK_ASK_SIZE    24u
#define CHUNK_HEAD_SIZE   24u
#define CHUNK_TAIL_SIZE   16u

enum net_kind {
	NET_CONTROL = 1,
	NET_DATA
};

enum net_verdict {
	NET_WELCOME,
	NET_OTHER_VERSION,
	NET_REFUSED, /* not so: no TLS where there must be, or no such kind */
	NET_FULL
};

struct greeting {
	uint16_t version;
	uint8_t kind, verdict;
};

struct frame {
	uint32_t channel;
	const void *message;
	size_t size; /* of the message */
};

enum chunk_status {
	CHUNK_HOLDS,
	CHUNK_NO_TICKET, /* it is not known, or was used */
	CHUNK_OVER       /* the lease has ended, or the object is gone */
};

struct chunk_ask {
	uint8_t ticket[16];
	uint64_t seed;
};

struct chunk_head {
	uint32_t status; /* enum chunk_status; what is none is over too */
	uint64_t generation, size;
};

struct chunk_tail {
	uint32_t status;
	uint64_t checksum;
};

void greeting_write(void *to, const struct greeting *greeting);
int greeting_read(const void *from, struct greeting *ret) MUST_CHECK;

/* The header before a message of `size` bytes. */
void frame_write(void *to, uint32_t channel, size_t size);
/* 1: *ret is the first frame of these, FRAME_HEADER_SIZE + ret->size bytes of them; 0: it is
 * not whole yet; ERR_PROTOCOL: what begins here is none. */
int frame_read(const void *from, size_t size, struct frame *ret) MUST_CHECK;

void chunk_ask_write(void *to, const struct chunk_ask *ask);
void chunk_ask_read(const void *from, struct chunk_ask *ret);
void chunk_head_write(void *to, const struct chunk_head *head);
int chunk_head_read(const void *from, struct chunk_head *ret) MUST_CHECK;
void chunk_tail_write(void *to, const struct chunk_tail *tail);
int chunk_tail_read(const void *from, struct chunk_tail *ret) MUST_CHECK;

#endif
