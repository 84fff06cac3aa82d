/*
 * catalog.c - the index on disk in use, over LMDB: id -> record.
 *
 * LMDB writes each page that it changes to another place, so even a deletion takes pages.
 * Therefore stores are refused while there are still so many left, in the map and on the
 * file system, that deletions go on; and a commit of deletions that is too large for what
 * is left is made in smaller ones: they may be repeated, so it does no harm if only some
 * were made. Pages that a transaction frees serve the one after the next.
 *
 * A file that could not be written is opened anew by the next job: LMDB does not use a map
 * again whose meta page it failed to write.
 */
#include "base/bytes.h"
#include "base/check.h"
#include "base/err.h"
#include "base/hash.h"
#include "tier/store_priv.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CATALOG_NEW     "index.new"
#define CATALOG_FLAGS   (MDB_NOSUBDIR | MDB_NOLOCK | MDB_NORDAHEAD)
#define CATALOG_MAIN    1    /* LMDB's unnamed tree; 0 is that of its free pages */
#define CATALOG_RESERVE 256u /* pages that stores leave */
#define CATALOG_ENTRY   128u /* bytes of one, at most, beside key and value */
#define CATALOG_STEP    (1ull << 20) /* by which the file is allocated */

static int catalog_error(int number)
{
	if (number == 0)
		return 0;
	if (number == MDB_MAP_FULL || number == MDB_TXN_FULL)
		return ERR_NO_SPACE;
	return number == ENOMEM ? ERR_NO_MEMORY : file_error(number);
}

/* ---- open and close ------------------------------------------------------ */

/* LMDB knows how keys compare once a tree was asked for. */
static int catalog_tree_open(MDB_env *env)
{
	MDB_dbi tree;
	MDB_txn *txn;
	int number = mdb_txn_begin(env, NULL, MDB_RDONLY, &txn);

	if (number != 0)
		return number;
	number = mdb_dbi_open(txn, NULL, 0, &tree);
	mdb_txn_abort(txn);
	return number;
}

static int catalog_env_open(const char *path, uint64_t size, MDB_env **ret)
{
	MDB_env *env;
	int number = mdb_env_create(&env);

	if (number != 0)
		return number;
	number = mdb_env_set_mapsize(env, size);
	if (number == 0)
		number = mdb_env_open(env, path, CATALOG_FLAGS, 0600);
	if (number == 0)
		number = catalog_tree_open(env);
	if (number != 0) {
		mdb_env_close(env);
		return number;
	}
	*ret = env;
	return 0;
}

static int catalog_put_head(MDB_env *env, const uint8_t uuid[STORE_UUID])
{
	unsigned char bytes[FOUND_HEAD_SIZE];
	char name[] = FOUND_HEAD_KEY;
	MDB_val key = {.mv_data = name, .mv_size = strlen(name)};
	MDB_val value = {.mv_data = bytes, .mv_size = sizeof(bytes)};
	MDB_txn *txn;
	int number = mdb_txn_begin(env, NULL, 0, &txn);

	if (number != 0)
		return number;
	found_head_encode(bytes, uuid);
	number = mdb_put(txn, CATALOG_MAIN, &key, &value, 0);
	if (number != 0) {
		mdb_txn_abort(txn);
		return number;
	}
	return mdb_txn_commit(txn);
}

int catalog_make(const struct home *home, const struct tell *tell)
{
	char path[PATH_MAX];
	MDB_env *env;
	int number;

	(void)snprintf(path, sizeof(path), "%s/" CATALOG_NEW, home->path);
	(void)unlink(path);
	number = catalog_env_open(path, home->index_size, &env);
	if (number == 0) {
		number = catalog_put_head(env, home->uuid);
		mdb_env_close(env);
	}
	if (number == 0 &&
		(renameat(home->dir_fd, CATALOG_NEW, home->dir_fd, STORE_INDEX) != 0 ||
			fsync(home->dir_fd) != 0))
		number = errno;
	if (number != 0)
		return tell_fail(tell, catalog_error(number),
			"%s/" STORE_INDEX " cannot be made: %s", home->path,
			mdb_strerror(number));
	return 0;
}

/* The file is as long as the map, so that no access of the map's meets its end. */
static int catalog_set_length(const struct catalog *catalog)
{
	int fd = open(catalog->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	int number = 0;

	if (fd < 0)
		return errno;
	if (ftruncate(fd, (off_t)catalog->size) != 0)
		number = errno;
	(void)close(fd);
	return number;
}

static int catalog_reopen(struct catalog *catalog)
{
	int number;

	if (catalog->env != NULL)
		return 0;
	number = catalog_set_length(catalog);
	if (number == 0)
		number = catalog_env_open(catalog->path, catalog->size, &catalog->env);
	return number;
}

int catalog_open(
	struct catalog *catalog, const struct home *home, const struct tell *tell)
{
	int number;

	*catalog = (struct catalog){.size = home->index_size};
	record_clock_read(&catalog->clock);
	(void)snprintf(
		catalog->path, sizeof(catalog->path), "%s/" STORE_INDEX, home->path);
	number = catalog_reopen(catalog);
	if (number != 0)
		return tell_fail(tell, catalog_error(number), "%s: %s", catalog->path,
			mdb_strerror(number));
	return 0;
}

void catalog_close(struct catalog *catalog)
{
	if (catalog->env != NULL)
		mdb_env_close(catalog->env);
	catalog->env = NULL;
}

static int catalog_fd(const struct catalog *catalog)
{
	int fd = -1;

	if (catalog->env != NULL)
		(void)mdb_env_get_fd(catalog->env, &fd);
	return fd;
}

uint64_t catalog_backed(const struct catalog *catalog)
{
	return file_backed(catalog_fd(catalog));
}

/* ---- room ---------------------------------------------------------------- */

struct catalog_room {
	uint64_t page_size;
	uint64_t
		used; /* pages from the start of the file to the last that was ever used */
	uint64_t end;  /* behind those, in the map */
	uint64_t free; /* before, that the next transaction may take */
	uint64_t tree, depth;
};

static int catalog_count_free(MDB_txn *txn, uint64_t last_transaction, uint64_t *ret)
{
	MDB_val key, value;
	MDB_cursor *cursor;
	int number = mdb_cursor_open(txn, 0, &cursor);

	*ret = 0;
	if (number != 0)
		return number;
	number = mdb_cursor_get(cursor, &key, &value, MDB_FIRST);
	while (number == 0) {
		uint64_t transaction, pages;

		memcpy(&transaction, key.mv_data, sizeof(transaction));
		memcpy(&pages, value.mv_data, sizeof(pages));
		if (transaction >= last_transaction)
			break;
		*ret += pages;
		number = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
	}
	mdb_cursor_close(cursor);
	return number == MDB_NOTFOUND ? 0 : number;
}

static int catalog_room(const struct catalog *catalog, struct catalog_room *ret)
{
	MDB_envinfo info;
	MDB_stat stat;
	MDB_txn *txn;
	int number = mdb_txn_begin(catalog->env, NULL, MDB_RDONLY, &txn);

	if (number != 0)
		return number;
	(void)mdb_env_info(catalog->env, &info);
	(void)mdb_stat(txn, CATALOG_MAIN, &stat);
	*ret = (struct catalog_room){
		.page_size = stat.ms_psize,
		.used = info.me_last_pgno + 1,
		.tree = stat.ms_branch_pages + stat.ms_leaf_pages,
		.depth = stat.ms_depth,
	};
	ret->end = catalog->size / ret->page_size;
	ret->end = ret->end > ret->used ? ret->end - ret->used : 0;
	number = catalog_count_free(txn, info.me_last_txnid, &ret->free);
	mdb_txn_abort(txn);
	return number;
}

/* Pages that the stores among the changes take at most, about: those on their ways through
 * the tree, those for what is added, in leaves that are half empty or on a page of its own,
 * and some for lists of what is freed by it. */
static uint64_t catalog_need(const struct catalog_room *room,
	const struct tier_change *changes, uint32_t count)
{
	uint64_t touched = MIN(room->tree, count * room->depth);
	uint64_t bytes = 0, pages = 0;

	for (uint32_t i = 0; i < count; i++) {
		const struct tier_record *record = &changes[i].record;
		bool is_inline = record->off == TIER_ON_INDEX;
		uint64_t size = CATALOG_ENTRY + record->klen +
				(is_inline ? record->size : 0);

		if (changes[i].drop)
			continue;
		if (size > room->page_size / 2 - CATALOG_ENTRY) {
			size = CATALOG_ENTRY;
			pages++;
		}
		bytes += size;
	}
	return touched + touched / 128 + pages + 2 * bytes / room->page_size + 32;
}

/* Have the file system give the index what a deletion after this commit may need. */
static int catalog_allocate(
	struct catalog *catalog, const struct catalog_room *room, uint64_t need)
{
	uint64_t end = room->used + (need > room->free ? need - room->free : 0) +
		       CATALOG_RESERVE;
	uint64_t bytes = MIN(
		align_up_u64(end * room->page_size, CATALOG_STEP), catalog->size);

	if (bytes <= catalog->allocated)
		return 0;
	while (fallocate(catalog_fd(catalog), 0, 0, (off_t)bytes) != 0) {
		if (errno == EOPNOTSUPP)
			break;
		if (errno != EINTR)
			return errno;
	}
	catalog->allocated = bytes;
	return 0;
}

static int catalog_make_room(
	struct catalog *catalog, const struct tier_change *changes, uint32_t count)
{
	struct catalog_room room;
	uint64_t need;
	int number = catalog_room(catalog, &room);

	if (number != 0)
		return number;
	need = catalog_need(&room, changes, count);
	if (room.free + room.end < need + CATALOG_RESERVE)
		return MDB_MAP_FULL;
	return catalog_allocate(catalog, &room, need);
}

/* ---- changes ------------------------------------------------------------- */

/* The record as it is, with another count of reads; one that is gone stays so. */
static size_t catalog_recount(struct catalog *catalog, const struct tier_record *change,
	const MDB_val *stored, unsigned char *bytes)
{
	const unsigned char *value;
	struct tier_record record;

	if (!record_decode(stored->mv_data, stored->mv_size, change->id, &catalog->clock,
		    &record, &value) ||
		record.generation != change->generation)
		return 0;
	record.readers_left = change->readers_left;
	return record_encode(bytes, &record, value, &catalog->clock);
}

static int catalog_change(struct catalog *catalog, MDB_txn *txn,
	const unsigned char *pool, const struct tier_change *change)
{
	unsigned char id[RECORD_ID_SIZE], bytes[RECORD_MAX];
	MDB_val key = {.mv_data = id, .mv_size = sizeof(id)};
	MDB_val value = {.mv_data = bytes};
	int number = 0;

	record_id_encode(id, change->record.id);
	if (change->drop)
		number = mdb_del(txn, CATALOG_MAIN, &key, NULL);
	else if (change->record.key == NULL)
		number = mdb_get(txn, CATALOG_MAIN, &key, &value);
	if (change->drop || number != 0)
		return number == MDB_NOTFOUND ? 0 : number;
	if (change->record.key == NULL)
		value.mv_size = catalog_recount(catalog, &change->record, &value, bytes);
	else
		value.mv_size = record_encode(
			bytes, &change->record, pool + change->value, &catalog->clock);
	if (value.mv_size == 0)
		return 0;
	value.mv_data = bytes;
	return mdb_put(txn, CATALOG_MAIN, &key, &value, 0);
}

static int catalog_apply(struct catalog *catalog, const unsigned char *pool,
	const struct tier_change *changes, uint32_t count)
{
	MDB_txn *txn;
	int number = mdb_txn_begin(catalog->env, NULL, 0, &txn);

	if (number != 0)
		return number;
	for (uint32_t i = 0; i < count && number == 0; i++)
		number = catalog_change(catalog, txn, pool, &changes[i]);
	if (number != 0) {
		mdb_txn_abort(txn);
		return number;
	}
	return mdb_txn_commit(txn);
}

static int catalog_drop(
	struct catalog *catalog, const struct tier_change *changes, uint32_t count)
{
	int number = catalog_apply(catalog, NULL, changes, count);

	if (catalog_error(number) != ERR_NO_SPACE || count == 1)
		return number;
	number = catalog_drop(catalog, changes, count / 2);
	return number != 0
		       ? number
		       : catalog_drop(catalog, changes + count / 2, count - count / 2);
}

static bool any_store(const struct tier_change *changes, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (!changes[i].drop)
			return true;
	}
	return false;
}

/* What went wrong; the file is opened anew unless it was for want of room. */
static int catalog_end(struct catalog *catalog, int number)
{
	int err = catalog_error(number);

	if (err == ERR_IO)
		catalog_close(catalog);
	return err;
}

int catalog_commit(struct catalog *catalog, const unsigned char *pool,
	const struct tier_change *changes, uint32_t count)
{
	int number = catalog_reopen(catalog);

	if (number != 0 || count == 0)
		return catalog_error(number);
	catalog->clock.boot_ns = loop_boot_ns();
	if (any_store(changes, count)) {
		number = catalog_make_room(catalog, changes, count);
		if (number == 0)
			number = catalog_apply(catalog, pool, changes, count);
	} else {
		number = catalog_drop(catalog, changes, count);
	}
	return catalog_end(catalog, number);
}

int catalog_purge(struct catalog *catalog, const unsigned char *ids, uint64_t count)
{
	int number = 0;

	for (uint64_t i = 0; i < count && number == 0; i++) {
		struct tier_change change = {.drop = true};

		change.record.id = record_id_decode(ids + i * RECORD_ID_SIZE);
		number = catalog_apply(catalog, NULL, &change, 1);
	}
	return catalog_end(catalog, number);
}

/* ---- look-ups ------------------------------------------------------------ */

/* ERR_NOT_FOUND, ERR_CORRUPT; what is returned lies in the map until the transaction's
 * end. */
static int catalog_get(struct catalog *catalog, MDB_txn *txn, struct tier_id id,
	struct tier_record *ret, const unsigned char **ret_value)
{
	unsigned char bytes[RECORD_ID_SIZE];
	MDB_val key = {.mv_data = bytes, .mv_size = sizeof(bytes)};
	MDB_val value;
	int number;

	record_id_encode(bytes, id);
	number = mdb_get(txn, CATALOG_MAIN, &key, &value);
	if (number != 0)
		return number == MDB_NOTFOUND ? ERR_NOT_FOUND : catalog_error(number);
	return record_decode(
		       value.mv_data, value.mv_size, id, &catalog->clock, ret, ret_value)
		       ? 0
		       : ERR_CORRUPT;
}

static int catalog_look(struct catalog *catalog, MDB_txn **ret)
{
	int number = catalog_reopen(catalog);

	if (number == 0)
		number = mdb_txn_begin(catalog->env, NULL, MDB_RDONLY, ret);
	return catalog_error(number);
}

int catalog_fetch(struct catalog *catalog, struct tier_id id, unsigned char *pool,
	struct tier_piece *piece)
{
	const unsigned char *value;
	struct tier_record record;
	MDB_txn *txn;
	int err = catalog_look(catalog, &txn);

	if (err != 0)
		return err;
	err = catalog_get(catalog, txn, id, &record, &value);
	if (err == 0 && (record.off != TIER_ON_INDEX || record.size != piece->size))
		err = ERR_CORRUPT;
	if (err == 0) {
		if (piece->size > 0)
			memcpy(pool + piece->pool_off, value, piece->size);
		piece->checksum = hash_bytes_seed(
			pool + piece->pool_off, piece->size, piece->seed);
	}
	mdb_txn_abort(txn);
	return err;
}

int catalog_keys(struct catalog *catalog, const struct tier_id *ids, uint32_t count,
	unsigned char *buffer, size_t size)
{
	size_t left = size; /* less two bytes for each key to come */
	MDB_txn *txn;
	int err = catalog_look(catalog, &txn);

	CHECK(size >= 2ull * count);
	left -= 2ull * count;
	for (uint32_t i = 0; i < count && err == 0; i++) {
		const unsigned char *value;
		struct tier_record record;
		uint16_t length = 0;

		if (catalog_get(catalog, txn, ids[i], &record, &value) == 0 &&
			record.klen <= left)
			length = record.klen;
		memcpy(buffer, &length, sizeof(length));
		buffer += sizeof(length);
		if (length > 0)
			memcpy(buffer, record.key, length);
		buffer += length;
		left -= length;
	}
	if (err == 0)
		mdb_txn_abort(txn);
	return err;
}
