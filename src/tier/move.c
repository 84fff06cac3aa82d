/*
 * move.c - bytes between the pool and the data file.
 *
 * A job is cut into moves of at most MOVE_BYTES that threads make side by side: as many
 * whole pieces as fit, or a part of a larger one. Direct I/O asks for memory, offset and
 * length in whole blocks: what lies so in the pool goes straight, the rest by way of the
 * thread's bounce buffer, padded with zeros. A read puts a last part of a block there too,
 * so that nothing behind the object is touched.
 */
#include "base/bytes.h"
#include "base/check.h"
#include "base/err.h"
#include "base/hash.h"
#include "tier/store_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>

#define MOVE_BLOCKS  (MOVE_BYTES / TIER_BLOCK)
#define MOVE_VECTORS (MOVE_BLOCKS + 1) /* two a piece of more than a block, one of less */
_Static_assert(MOVE_BLOCKS <= IOV_MAX, "one call takes them");

struct vectors {
	struct iovec list[MOVE_VECTORS];
	int count;
	unsigned char *bounce;
	size_t bounced; /* bytes of it that are in use */
	uint64_t size;  /* in all, whole blocks */
};

static uint64_t blocks_of(uint64_t size)
{
	return align_up_u64(size, TIER_BLOCK);
}

/* ---- cutting ------------------------------------------------------------- */

static void cut_part(struct store_job *job, struct move *move)
{
	const struct tier_piece *piece = &job->pieces[job->next_piece];

	move->count = 1;
	move->from = job->next_from;
	move->size = MIN(MOVE_BYTES, piece->size - move->from);
	job->next_from += move->size;
	if (job->next_from == piece->size) {
		job->next_from = 0;
		job->next_piece++;
	}
	job->next_off += blocks_of(move->size);
}

static void cut_pieces(struct store_job *job, struct move *move)
{
	uint64_t size = 0;

	while (job->next_piece < job->count) {
		uint64_t more = blocks_of(job->pieces[job->next_piece].size);

		if (size + more > MOVE_BYTES)
			break;
		size += more;
		job->next_piece++;
		move->count++;
	}
	job->next_off += size;
}

static bool is_in_parts(const struct tier_piece *piece)
{
	return piece->size > MOVE_BYTES;
}

void move_cut(struct store_job *job, struct move *ret)
{
	*ret = (struct move){.job = job, .first = job->next_piece, .off = job->next_off};
	if (is_in_parts(&job->pieces[job->next_piece]))
		cut_part(job, ret);
	else
		cut_pieces(job, ret);
	job->is_cut = job->next_piece == job->count;
}

/* ---- vectors ------------------------------------------------------------- */

static void vectors_add(struct vectors *vectors, void *bytes, size_t size)
{
	vectors->size += size;
	if (vectors->count > 0) {
		struct iovec *last = &vectors->list[vectors->count - 1];

		if ((char *)last->iov_base + last->iov_len == bytes) {
			last->iov_len += size;
			return;
		}
	}
	CHECK(vectors->count < (int)MOVE_VECTORS);
	vectors->list[vectors->count++] = (struct iovec){bytes, size};
}

/* How many of the bytes need no bounce: all whole blocks, or none. */
static uint64_t straight_bytes(const unsigned char *bytes, uint64_t size)
{
	return (uintptr_t)bytes % TIER_BLOCK == 0 ? size / TIER_BLOCK * TIER_BLOCK : 0;
}

/* The place in the bounce buffer of what does not go straight; NULL: all does. */
static unsigned char *vectors_add_piece(
	struct vectors *vectors, unsigned char *bytes, uint64_t size)
{
	uint64_t straight = straight_bytes(bytes, size);
	unsigned char *bounce = vectors->bounce + vectors->bounced;
	uint64_t padded = blocks_of(size - straight);

	if (straight > 0)
		vectors_add(vectors, bytes, straight);
	if (padded == 0)
		return NULL;
	vectors_add(vectors, bounce, padded);
	vectors->bounced += padded;
	return bounce;
}

/* ---- calls --------------------------------------------------------------- */

/* Go on behind the first `bytes`. */
static void vectors_skip(struct vectors *vectors, struct iovec **list, size_t bytes)
{
	while (bytes > 0 && bytes >= (*list)->iov_len) {
		bytes -= (*list)->iov_len;
		(*list)++;
		vectors->count--;
	}
	if (bytes > 0) {
		(*list)->iov_base = (char *)(*list)->iov_base + bytes;
		(*list)->iov_len -= bytes;
	}
}

/* All of it, however short the calls are; behind a short one whole blocks go on. */
static int vectors_move(struct vectors *vectors, int fd, bool is_write, off_t at)
{
	struct iovec *list = vectors->list;
	uint64_t left = vectors->size;

	while (left > 0) {
		ssize_t moved = is_write ? pwritev(fd, list, vectors->count, at)
					 : preadv(fd, list, vectors->count, at);
		size_t whole;

		if (moved < 0 && errno == EINTR)
			continue;
		if (moved < 0)
			return file_error(errno);
		whole = (size_t)moved / TIER_BLOCK * TIER_BLOCK;
		if (whole == 0) /* behind the end: somebody cut the file */
			return is_write ? ERR_IO : ERR_CORRUPT;
		vectors_skip(vectors, &list, whole);
		left -= whole;
		at += (off_t)whole;
	}
	return 0;
}

/* ---- one move ------------------------------------------------------------ */

static unsigned char *piece_bytes(const struct store *store, const struct move *move,
	uint32_t i, uint64_t *ret_size)
{
	const struct tier_piece *piece = &move->job->pieces[move->first + i];

	CHECK(piece->pool_off <= store->config.pool_size &&
		piece->size <= store->config.pool_size - piece->pool_off);
	*ret_size = is_in_parts(piece) ? move->size : piece->size;
	return store->config.pool + piece->pool_off + move->from;
}

static void move_hash(const struct store *store, struct tier_piece *piece)
{
	piece->checksum = hash_bytes_seed(
		store->config.pool + piece->pool_off, piece->size, piece->seed);
}

static void move_hash_whole(const struct store *store, const struct move *move)
{
	for (uint32_t i = 0; i < move->count; i++) {
		struct tier_piece *piece = &move->job->pieces[move->first + i];

		if (!is_in_parts(piece))
			move_hash(store, piece);
	}
}

static int move_write(
	const struct store *store, const struct move *move, struct vectors *vectors)
{
	off_t at = HOME_DATA_AT + (off_t)move->off;

	for (uint32_t i = 0; i < move->count; i++) {
		uint64_t size, straight;
		unsigned char *bytes = piece_bytes(store, move, i, &size);
		unsigned char *bounce = vectors_add_piece(vectors, bytes, size);

		if (bounce == NULL)
			continue;
		straight = straight_bytes(bytes, size);
		size -= straight;
		memcpy(bounce, bytes + straight, size);
		memset(bounce + size, 0, blocks_of(size) - size);
	}
	/* Through the page cache, a full file system would show only at the flush. */
	if (!store->home.direct && vectors->size > 0 &&
		fallocate(store->home.data_fd, 0, at, (off_t)vectors->size) != 0 &&
		errno == ENOSPC)
		return ERR_NO_SPACE;
	return vectors_move(vectors, store->home.data_fd, true, at);
}

static int move_read(
	const struct store *store, const struct move *move, struct vectors *vectors)
{
	uint64_t size, straight;
	unsigned char *bytes = piece_bytes(store, move, 0, &size);
	unsigned char *bounce = vectors_add_piece(vectors, bytes, size);
	int err = vectors_move(
		vectors, store->home.data_fd, false, HOME_DATA_AT + (off_t)move->off);

	if (err == 0 && bounce != NULL) {
		straight = straight_bytes(bytes, size);
		memcpy(bytes + straight, bounce, size - straight);
	}
	return err;
}

int move_run(struct store *store, const struct move *move, unsigned char *bounce)
{
	struct vectors vectors;
	bool is_write = move->job->kind == JOB_WRITE;
	int err;

	vectors.count = 0;
	vectors.bounce = bounce;
	vectors.bounced = 0;
	vectors.size = 0;
	err = is_write ? move_write(store, move, &vectors)
		       : move_read(store, move, &vectors);
	if (err == 0)
		move_hash_whole(store, move);
	return err;
}

void move_finish(const struct store *store, const struct store_job *job)
{
	for (uint32_t i = 0; i < job->count; i++) {
		if (is_in_parts(&job->pieces[i]))
			move_hash(store, &job->pieces[i]);
	}
}

int move_punch(struct store *store, const struct store_job *job)
{
	while (fallocate(store->home.data_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		       HOME_DATA_AT + (off_t)job->off, (off_t)job->size) != 0) {
		if (errno == EOPNOTSUPP || errno == ENOSYS)
			return 0; /* then it stays taken */
		if (errno != EINTR)
			return file_error(errno);
	}
	return 0;
}
