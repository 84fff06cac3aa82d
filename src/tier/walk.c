/*
 * walk.c - the index file read as plain bytes, before LMDB maps it.
 *
 * LMDB trusts what it maps: on a file that was cut off it ends by SIGBUS, and a flipped bit
 * in a page can send it anywhere. So every page that it could ever follow is looked at
 * once: that the file has it, that it is reached by one way only and is of the kind that
 * belongs there, that its nodes lie within it and beside each other, that the keys rise,
 * and that no free page is in use. What LMDB then does with the file stays within it.
 *
 * The format is version 1 of LMDB's, the one of all its releases 0.9, on machines with
 * 64 bits: two meta pages, the newer of which has the roots of two trees, the one of free
 * pages (by transaction: lists of page numbers) and the one of our entries.
 */
#include "base/bytes.h"
#include "base/err.h"
#include "tier/store_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LMDB_MAGIC      0xbeefc0deu
#define LMDB_VERSION    1u
#define LMDB_PAGE_MIN   4096u
#define LMDB_PAGE_MAX   32768u
#define LMDB_KEY_MAX    511u
#define LMDB_DEPTH_MAX  32u
#define LMDB_NO_PAGE    UINT64_MAX
#define LMDB_INTEGERKEY 8u
#define LMDB_NOSUBDIR   0x4000u

enum lmdb_page_flag {
	LMDB_BRANCH = 1,
	LMDB_LEAF = 2,
	LMDB_OVERFLOW = 4,
	LMDB_META = 8
};

struct lmdb_page {
	uint64_t number;
	uint16_t spare, flags;
	uint16_t lower, upper; /* of an overflow page: the count of its pages, 32 bits */
};
_Static_assert(sizeof(struct lmdb_page) == 16, "on disk");

struct lmdb_node {
	uint16_t low, high;
	uint16_t flags; /* 1: the data is the number of an overflow page */
	uint16_t key_size;
};
_Static_assert(sizeof(struct lmdb_node) == 8, "on disk");

struct lmdb_tree {
	uint32_t page_size; /* of the free pages' tree alone */
	uint16_t flags, depth;
	uint64_t branch_pages, leaf_pages, overflow_pages, entries, root;
};
_Static_assert(sizeof(struct lmdb_tree) == 48, "on disk");

struct lmdb_meta {
	uint32_t magic, version;
	uint64_t address, map_size;
	struct lmdb_tree free, main;
	uint64_t last_page, transaction;
};
_Static_assert(sizeof(struct lmdb_meta) == 136, "on disk");

struct walk {
	int fd;
	uint32_t page_size;
	uint64_t pages; /* up to the last in use */
	uint8_t *seen;  /* a bit a page */
	uint8_t *taken; /* a byte for every two of a page */
	unsigned char *levels[LMDB_DEPTH_MAX], *overflow;
	bool in_free; /* the tree of free pages */
	uint32_t depth;
	walk_fn fn;
	void *ctx;
	struct walk_end *end;
};

struct walk_key {
	const unsigned char *bytes;
	size_t size;
};

/* Bounds of the keys below a page; bytes NULL: none. */
struct walk_range {
	struct walk_key from, to;
};

static int walk_bad(struct walk *walk, uint64_t page, const char *why)
{
	walk->end->why = why;
	walk->end->page = page;
	return ERR_CORRUPT;
}

static int walk_read(int fd, void *bytes, size_t size, uint64_t at)
{
	size_t done = 0;

	while (done < size) {
		ssize_t got = pread(
			fd, (char *)bytes + done, size - done, (off_t)(at + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return ERR_IO;
		if (got == 0)
			return ERR_CORRUPT;
		done += (size_t)got;
	}
	return 0;
}

/* ---- pages --------------------------------------------------------------- */

/* A page is reached by one way, or is free. */
static int walk_claim(struct walk *walk, uint64_t number)
{
	uint8_t bit = (uint8_t)(1u << number % 8);

	if (number < 2 || number >= walk->pages)
		return walk_bad(walk, number, "is named, but not in use");
	if ((walk->seen[number / 8] & bit) != 0)
		return walk_bad(walk, number, "is in two places");
	walk->seen[number / 8] |= bit;
	return 0;
}

static int walk_page(struct walk *walk, uint64_t number, unsigned char *bytes)
{
	int err = walk_claim(walk, number);

	if (err != 0)
		return err;
	err = walk_read(walk->fd, bytes, walk->page_size, number * walk->page_size);
	return err == ERR_CORRUPT ? walk_bad(walk, number, "is cut off") : err;
}

static struct lmdb_page page_head(const unsigned char *page)
{
	struct lmdb_page head;

	memcpy(&head, page, sizeof(head));
	return head;
}

static uint32_t page_entries(const unsigned char *page)
{
	struct lmdb_page head = page_head(page);

	return (head.lower - (uint32_t)sizeof(head)) / 2;
}

static uint16_t page_place(const unsigned char *page, uint32_t index)
{
	uint16_t place;

	memcpy(&place, page + sizeof(struct lmdb_page) + 2 * index, sizeof(place));
	return place;
}

/* ---- nodes --------------------------------------------------------------- */

static struct lmdb_node page_node(const unsigned char *page, uint32_t index)
{
	struct lmdb_node node;

	memcpy(&node, page + page_place(page, index), sizeof(node));
	return node;
}

static struct walk_key page_key(const unsigned char *page, uint32_t index)
{
	struct lmdb_node node = page_node(page, index);

	return (struct walk_key){
		page + page_place(page, index) + sizeof(node), node.key_size};
}

static uint64_t node_child(const struct lmdb_node *node)
{
	return node->low | (uint64_t)node->high << 16 | (uint64_t)node->flags << 32;
}

static uint32_t node_data_size(const struct lmdb_node *node)
{
	return node->low | (uint32_t)node->high << 16;
}

/* Bytes of the node in its page. */
static uint64_t node_size(const struct lmdb_node *node, bool is_leaf)
{
	uint64_t size = sizeof(*node) + node->key_size;

	if (is_leaf)
		size += node->flags == 1 ? sizeof(uint64_t) : node_data_size(node);
	return size + size % 2;
}

/* The node lies in its page, beside the others. */
static int walk_node(struct walk *walk, const unsigned char *page, uint32_t index)
{
	struct lmdb_page head = page_head(page);
	uint16_t place = page_place(page, index);
	struct lmdb_node node;
	uint64_t size;

	if (place < head.upper || place % 2 != 0 ||
		place > walk->page_size - sizeof(node))
		return walk_bad(walk, head.number, "has a node outside");
	node = page_node(page, index);
	if (head.flags == LMDB_LEAF && node.flags > 1)
		return walk_bad(walk, head.number, "has a node of an unknown kind");
	size = node_size(&node, head.flags == LMDB_LEAF);
	if (size > walk->page_size - place || node.key_size > LMDB_KEY_MAX)
		return walk_bad(walk, head.number, "has a node that is too long");
	if (memchr(walk->taken + place / 2, 1, size / 2) != NULL)
		return walk_bad(walk, head.number, "has two nodes in one place");
	memset(walk->taken + place / 2, 1, size / 2);
	return 0;
}

static int walk_nodes(struct walk *walk, const unsigned char *page)
{
	uint32_t entries = page_entries(page);
	int err = 0;

	memset(walk->taken, 0, walk->page_size / 2);
	for (uint32_t i = 0; i < entries && err == 0; i++)
		err = walk_node(walk, page, i);
	return err;
}

static int walk_head(
	struct walk *walk, const unsigned char *page, uint64_t number, uint32_t level)
{
	struct lmdb_page head = page_head(page);
	bool is_leaf = level + 1 == walk->depth;
	uint32_t least = is_leaf || walk->in_free ? 1 : 2;

	if (head.number != number)
		return walk_bad(walk, number, "has another's number");
	if (head.flags != (is_leaf ? LMDB_LEAF : LMDB_BRANCH))
		return walk_bad(walk, number, "is not of the kind that belongs there");
	if (head.lower < sizeof(head) || head.lower % 2 != 0 || head.lower > head.upper ||
		head.upper % 2 != 0 || head.upper > walk->page_size)
		return walk_bad(walk, number, "has bounds that are wrong");
	if (page_entries(page) < least)
		return walk_bad(walk, number, "has too few entries");
	return walk_nodes(walk, page);
}

/* ---- keys ---------------------------------------------------------------- */

static int key_compare(const struct walk *walk, struct walk_key a, struct walk_key b)
{
	size_t both = a.size < b.size ? a.size : b.size;
	int order;

	if (walk->in_free && a.size == 8 && b.size == 8) {
		uint64_t x, y;

		memcpy(&x, a.bytes, 8);
		memcpy(&y, b.bytes, 8);
		return (x > y) - (x < y);
	}
	order = memcmp(a.bytes, b.bytes, both);
	return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

/* Keys rise, and are those that the page above promised. The first one of a branch is not
 * used, and may be empty. */
static int walk_keys(
	struct walk *walk, const unsigned char *page, const struct walk_range *range)
{
	struct lmdb_page head = page_head(page);
	bool is_leaf = head.flags == LMDB_LEAF;
	struct walk_key before = range->from;
	uint32_t entries = page_entries(page);

	for (uint32_t i = is_leaf ? 0 : 1; i < entries; i++) {
		struct walk_key key = page_key(page, i);
		bool is_first = is_leaf && i == 0; /* may be equal to the bound */

		if (key.size == 0 || (walk->in_free && key.size != 8))
			return walk_bad(walk, head.number, "has a key of a wrong size");
		if (before.bytes != NULL &&
			key_compare(walk, before, key) >= (is_first ? 1 : 0))
			return walk_bad(walk, head.number, "has keys out of order");
		if (range->to.bytes != NULL && key_compare(walk, key, range->to) >= 0)
			return walk_bad(walk, head.number, "has keys out of order");
		before = key;
	}
	return 0;
}

/* ---- values -------------------------------------------------------------- */

/* The value of a node; one on pages of its own is read into walk->overflow. */
static int walk_value(struct walk *walk, const unsigned char *page, uint32_t index,
	const unsigned char **ret)
{
	struct lmdb_node node = page_node(page, index);
	uint64_t size = node_data_size(&node), number, count;
	uint64_t need = (sizeof(struct lmdb_page) + size + walk->page_size - 1) /
			walk->page_size;
	struct walk_key key = page_key(page, index);
	struct lmdb_page head;
	unsigned char *grown;
	int err;

	*ret = key.bytes + key.size;
	if (node.flags == 0)
		return 0;
	memcpy(&number, *ret, sizeof(number));
	if (number >= walk->pages || need > walk->pages - number)
		return walk_bad(walk, number, "is named, but not in use");
	grown = realloc(walk->overflow, need * walk->page_size);
	if (grown == NULL)
		return ERR_NO_MEMORY;
	walk->overflow = grown;
	err = walk_read(
		walk->fd, grown, need * walk->page_size, number * walk->page_size);
	if (err != 0)
		return err == ERR_CORRUPT ? walk_bad(walk, number, "is cut off") : err;
	head = page_head(grown);
	count = head.lower | (uint64_t)head.upper << 16;
	if (head.number != number || head.flags != LMDB_OVERFLOW || count < need ||
		count > walk->pages - number)
		return walk_bad(walk, number, "is not of the kind that belongs there");
	for (uint64_t i = 0; i < count && err == 0; i++)
		err = walk_claim(walk, number + i);
	*ret = grown + sizeof(head);
	return err;
}

/* {count, page numbers}: a record of the tree of free pages. */
static int walk_free_list(
	struct walk *walk, uint64_t page, const unsigned char *value, size_t size)
{
	uint64_t count, number, before = UINT64_MAX;
	int err = 0;

	if (size < 8 || size % 8 != 0)
		return walk_bad(walk, page, "has a list of free pages that is cut off");
	memcpy(&count, value, 8);
	if (count > size / 8 - 1)
		return walk_bad(walk, page, "has a list of free pages that is too long");
	for (uint64_t i = 1; i <= count && err == 0; i++) {
		memcpy(&number, value + 8 * i, 8);
		if (number >= before)
			return walk_bad(
				walk, page, "has a list of free pages in disorder");
		before = number;
		err = walk_claim(walk, number);
	}
	return err;
}

static int walk_leaf(struct walk *walk, const unsigned char *page)
{
	uint64_t number = page_head(page).number;
	uint32_t entries = page_entries(page);
	int err = 0;

	for (uint32_t i = 0; i < entries && err == 0; i++) {
		struct lmdb_node node = page_node(page, i);
		struct walk_key key = page_key(page, i);
		size_t size = node_data_size(&node);
		const unsigned char *value;

		err = walk_value(walk, page, i, &value);
		if (err != 0)
			break;
		err = walk->in_free
			      ? walk_free_list(walk, number, value, size)
			      : walk->fn(walk->ctx, key.bytes, key.size, value, size);
		if (err == ERR_CORRUPT && walk->end->why == NULL)
			err = walk_bad(walk, number, "has an entry of an unknown kind");
	}
	return err;
}

/* ---- trees --------------------------------------------------------------- */

static int walk_below(
	struct walk *walk, uint64_t number, uint32_t level, struct walk_range range)
{
	unsigned char *page = walk->levels[level];
	uint32_t entries;
	int err = walk_page(walk, number, page);

	if (err == 0)
		err = walk_head(walk, page, number, level);
	if (err == 0)
		err = walk_keys(walk, page, &range);
	if (err != 0 || level + 1 == walk->depth)
		return err != 0 ? err : walk_leaf(walk, page);
	entries = page_entries(page);
	for (uint32_t i = 0; i < entries && err == 0; i++) {
		struct lmdb_node node = page_node(page, i);
		struct walk_range part = range;

		if (i > 0)
			part.from = page_key(page, i);
		if (i + 1 < entries)
			part.to = page_key(page, i + 1);
		err = walk_below(walk, node_child(&node), level + 1, part);
	}
	return err;
}

static int walk_tree(struct walk *walk, const struct lmdb_tree *tree, bool in_free)
{
	static const struct walk_range all = {{NULL, 0}, {NULL, 0}};

	if (tree->root == LMDB_NO_PAGE)
		return 0;
	if (tree->depth == 0 || tree->depth > LMDB_DEPTH_MAX)
		return walk_bad(
			walk, tree->root, "is the root of a tree of a wrong depth");
	walk->in_free = in_free;
	walk->depth = tree->depth;
	for (uint32_t i = 0; i < walk->depth; i++) {
		if (walk->levels[i] == NULL)
			walk->levels[i] = malloc(walk->page_size);
		if (walk->levels[i] == NULL)
			return ERR_NO_MEMORY;
	}
	return walk_below(walk, tree->root, 0, all);
}

/* ---- the two meta pages -------------------------------------------------- */

static int walk_meta(struct walk *walk, uint64_t number, struct lmdb_meta *ret)
{
	unsigned char bytes[sizeof(struct lmdb_page) + sizeof(*ret)];
	int err = walk_read(walk->fd, bytes, sizeof(bytes), number * walk->page_size);
	uint32_t page_size;

	if (err != 0)
		return err == ERR_CORRUPT ? walk_bad(walk, number, "is cut off") : err;
	memcpy(ret, bytes + sizeof(struct lmdb_page), sizeof(*ret));
	page_size = ret->free.page_size;
	if (page_head(bytes).flags != LMDB_META || ret->magic != LMDB_MAGIC ||
		ret->version != LMDB_VERSION)
		return walk_bad(walk, number, "is no meta page of this format");
	if (!is_power_of_two(page_size) || page_size < LMDB_PAGE_MIN ||
		page_size > LMDB_PAGE_MAX || (number > 0 && page_size != walk->page_size))
		return walk_bad(walk, number, "tells a wrong size of pages");
	if (ret->free.flags != (LMDB_INTEGERKEY | LMDB_NOSUBDIR) || ret->main.flags != 0)
		return walk_bad(walk, number, "tells of other kinds of trees");
	walk->page_size = page_size;
	return 0;
}

/* As LMDB chooses. */
static int walk_metas(struct walk *walk, struct lmdb_meta *ret)
{
	struct lmdb_meta other;
	int err = walk_meta(walk, 0, ret);

	if (err == 0)
		err = walk_meta(walk, 1, &other);
	if (err != 0)
		return err;
	if (other.transaction > ret->transaction)
		*ret = other;
	return 0;
}

static int walk_file(struct walk *walk)
{
	struct lmdb_meta meta;
	struct stat file;
	int err = walk_metas(walk, &meta);

	if (err != 0)
		return err;
	if (fstat(walk->fd, &file) != 0)
		return ERR_IO;
	if (meta.last_page < 1 ||
		meta.last_page >= (uint64_t)file.st_size / walk->page_size)
		return walk_bad(walk, meta.last_page, "is cut off, the last one in use");
	walk->pages = meta.last_page + 1;
	walk->end->index_end = walk->pages * walk->page_size;
	(void)posix_fadvise(
		walk->fd, 0, (off_t)walk->end->index_end, POSIX_FADV_WILLNEED);
	walk->seen = calloc(walk->pages / 8 + 1, 1);
	walk->taken = malloc(walk->page_size / 2);
	if (walk->seen == NULL || walk->taken == NULL)
		return ERR_NO_MEMORY;
	err = walk_tree(walk, &meta.free, true);
	return err != 0 ? err : walk_tree(walk, &meta.main, false);
}

int walk_index(int fd, walk_fn fn, void *ctx, struct walk_end *ret)
{
	struct walk walk = {.fd = fd, .fn = fn, .ctx = ctx, .end = ret};
	int err;

	*ret = (struct walk_end){.index_end = 0};
	err = walk_file(&walk);
	for (uint32_t i = 0; i < LMDB_DEPTH_MAX; i++)
		free(walk.levels[i]);
	free(walk.overflow);
	free(walk.taken);
	free(walk.seen);
	return err;
}
