/*
 * flow_list.c - LIST: the keys of all objects, a page a message, with a cursor to go on.
 *
 *   SLOTS (one look at the pool) -> answer
 *   ENTRIES (those only on disk) -> keys.c -> the page -> answer
 *   another node's: asked for a page -> the page, or nothing if it cannot say -> answer
 *
 * The low half of the cursor is a slot number, and behind all slots that of an entry of the
 * disk; the high half says whose: 0 is this node, else the place of a peer and 1. In a
 * cluster each node tells what it keeps, so that nothing comes twice from its copies; an
 * object that has several keepers comes from each. What a node keeps that cannot be asked is
 * not told. An object that comes in or leaves the pool, or changes its keeper, while it is
 * being listed may be told twice, or not at all. Nothing is protected and nothing heated.
 */
#include "node/node_priv.h"

#include "base/check.h"

#include <string.h>

#define LIST_BUDGET 65536u

/* Of a LISTED message without entries. */
#define PAGE_OVERHEAD (MSG_HEADER_SIZE + 12u)

struct page {
	unsigned char *entries;
	size_t room, used;
	uint32_t count;
};

static struct page page_begin(
	struct node *node, const struct op *op, const struct msg_list *msg)
{
	size_t room = op_reply_room(op);

	if (msg->room != 0)
		room = MIN(room, (size_t)msg->room);
	return (struct page){
		.entries = node->page,
		.room = room > PAGE_OVERHEAD ? room - PAGE_OVERHEAD : 0,
	};
}

/* False: the page is full. */
static bool page_add(struct page *page, const struct msg_entry *entry)
{
	size_t size = msg_entry_encode(
		page->entries + page->used, page->room - page->used, entry);

	page->used += size;
	page->count += size > 0;
	return size > 0;
}

/* ---- whose page ---------------------------------------------------------- */

static uint32_t cursor_place(uint64_t cursor)
{
	return (uint32_t)(cursor >> 32) - 1;
}

/* The first page of the next peer, from this place on; UINT64_MAX: there is none. */
static uint64_t cursor_of_next(
	const struct node *node, const struct op *op, uint32_t place)
{
	if (!node->cluster.there || op->lane->link != NULL)
		return UINT64_MAX;
	for (; place < PEER_LIMIT; place++) {
		if (peer_is_up(&node->cluster.peers[place]))
			return (uint64_t)(place + 1) << 32;
	}
	return UINT64_MAX;
}

static void page_answer(
	struct node *node, struct op *op, const struct page *page, uint64_t next)
{
	struct msg_listed listed = {
		.next = next,
		.count = page->count,
		.entries = {page->entries, page->used},
	};

	op_reply(node, op, msg_listed_encode(node->out, sizeof(node->out), &listed));
}

/* This node's: `next` SLOT_NONE is its end. */
static void page_answer_own(
	struct node *node, struct op *op, const struct page *page, uint32_t next)
{
	page_answer(
		node, op, page, next != SLOT_NONE ? next : cursor_of_next(node, op, 0));
}

/* ---- in the pool --------------------------------------------------------- */

static bool page_add_slot(struct node *node, struct page *page, uint32_t slot)
{
	const struct slot *there = &node->share->slots[slot];
	const struct msg_entry entry = {
		.key = {slot_key(node->share, there), there->klen},
		.size = there->size,
		.flags = (there->flags & SLOT_SOFTPIN ? PUT_SOFTPIN : 0u) |
			 (there->wanted > 1 ? ENTRY_REPLICATED : 0u),
	};

	return (there->flags & SLOT_SECONDARY) || page_add(page, &entry);
}

/* Fill the page; where to go on, or SLOT_NONE. */
static uint32_t page_fill(
	struct node *node, struct page *page, const struct msg_list *msg)
{
	uint32_t at = (uint32_t)msg->cursor;
	uint64_t end = (uint64_t)at + LIST_BUDGET;

	while (at != SLOT_NONE && at < end) {
		uint32_t next;
		uint32_t slot = master_list(&node->master, at, msg->prefix.data,
			(uint32_t)msg->prefix.size, (uint32_t)(end - at), &next);

		if (slot != SLOT_NONE && !page_add_slot(node, page, slot))
			return slot;
		at = next;
	}
	return at;
}

/* ---- on disk ------------------------------------------------------------- */

static uint32_t slots_limit(const struct node *node)
{
	return node->share->header->slots_limit;
}

static bool has_prefix(struct msg_bytes key, struct msg_bytes prefix)
{
	return key.size >= prefix.size && memcmp(key.data, prefix.data, prefix.size) == 0;
}

/* Fill the page from a job's keys; where to go on. */
static uint32_t page_fill_keys(struct node *node, struct page *page,
	const struct job *job, struct msg_bytes prefix)
{
	struct keys_at at = {.i = 0};
	struct msg_bytes key;

	while (keys_next(node, job, &at, &key)) {
		const struct disk_entry *there = disk_entry(&node->master.disk, at.entry);
		const struct msg_entry told = {
			.key = key,
			.size = there->size,
			.flags = (there->softpin ? PUT_SOFTPIN : 0u) |
				 (there->wanted > 1 ? ENTRY_REPLICATED : 0u),
		};

		if (has_prefix(key, prefix) && !page_add(page, &told))
			break;
	}
	return slots_limit(node) + at.entry;
}

static struct msg_list list_message(const struct op *op)
{
	struct msg_list msg;

	if (msg_list_decode(op->message, op->message_size, &msg) != 0)
		NOT_REACHED("it was decoded when it came");
	return msg;
}

static void list_keys_came(
	struct node *node, struct op *op, const struct job *job, int err)
{
	struct msg_list msg = list_message(op);
	struct page page;
	uint32_t next;

	if (err != 0) {
		op_error(node, op, err, "the keys on disk could not be read: %s",
			err_text(err));
		return;
	}
	page = page_begin(node, op, &msg);
	next = page_fill_keys(node, &page, job, msg.prefix);
	page_answer_own(node, op, &page, next);
}

static void list_own(struct node *node, struct op *op, const struct msg_list *msg)
{
	struct page page = page_begin(node, op, msg);
	uint32_t from = (uint32_t)msg->cursor, next;

	if (from >= slots_limit(node) && tier_is_there(node)) {
		if (!keys_ask(node, op, from - slots_limit(node), TIER_PIECES,
			    list_keys_came))
			page_answer_own(node, op, &page, SLOT_NONE);
		return;
	}
	next = page_fill(node, &page, msg);
	if (next == SLOT_NONE && tier_is_there(node) && node->master.disk.only > 0)
		next = slots_limit(node);
	page_answer_own(node, op, &page, next);
}

/* ---- another node's ------------------------------------------------------ */

static void list_peer_came(
	struct node *node, struct ask *ask, int err, const void *message, size_t size);

static void list_peer(struct node *node, struct op *op, const struct msg_list *msg)
{
	uint64_t cursor = cursor_of_next(node, op, cursor_place(msg->cursor));
	const struct page page = {.entries = node->page};
	const struct msg_list peers = {
		.prefix = msg->prefix,
		.cursor = (uint32_t)msg->cursor,
		.room = (uint32_t)op_reply_room(op),
	};
	size_t request;

	/* Another's first page, or the end. */
	if (cursor == UINT64_MAX || cursor >> 32 != msg->cursor >> 32) {
		page_answer(node, op, &page, cursor);
		return;
	}
	request = msg_list_encode(node->out, sizeof(node->out), &peers);
	if (ask_send_for(node, op, cursor_place(cursor), request, list_peer_came) == NULL)
		unsettled_add(node, op);
}

static bool entries_are_whole(const struct msg_listed *listed)
{
	struct msg_bytes entries = listed->entries;
	struct msg_entry entry;
	uint32_t count = 0;
	int got;

	while ((got = msg_entry_next(&entries, &entry)) == 1)
		count++;
	return got == 0 && count == listed->count;
}

/* Other items of its batch may have taken room meanwhile: then it is asked for less. */
static void list_peer_came(
	struct node *node, struct ask *ask, int err, const void *message, size_t size)
{
	struct op *op = ask->op;
	struct msg_list msg = list_message(op);
	struct page page = {.entries = node->page};
	uint64_t next = cursor_of_next(node, op, ask->peer + 1);
	struct msg_listed listed;

	if (err != 0 || msg_listed_decode(message, size, &listed) != 0 ||
		!entries_are_whole(&listed)) {
		page_answer(node, op, &page, next);
		return;
	}
	if (size > op_reply_room(op)) {
		list_peer(node, op, &msg);
		return;
	}
	if (listed.next < UINT32_MAX)
		next = (uint64_t)(ask->peer + 1) << 32 | listed.next;
	memcpy(page.entries, listed.entries.data, listed.entries.size);
	page.used = listed.entries.size;
	page.count = listed.count;
	page_answer(node, op, &page, next);
}

/* ---- the flow ------------------------------------------------------------ */

void list_run(struct node *node, struct op *op)
{
	const struct page nothing = {.entries = node->page};
	struct msg_list msg;

	if (op->job != NULL || !list_is_empty(&op->asks))
		return; /* what it waits for comes */
	list_del(&op->wait_entry);
	if (msg_list_decode(op->message, op->message_size, &msg) != 0)
		refuse_broken(node, op);
	else if (msg.cursor >> 32 == 0)
		list_own(node, op, &msg);
	else if (!node->cluster.there || op->lane->link != NULL)
		page_answer(node, op, &nothing, UINT64_MAX);
	else
		list_peer(node, op, &msg);
}

void list_cancel(struct node *node, struct op *op)
{
	keys_leave(op);
	asks_forget_all(node, op);
}
