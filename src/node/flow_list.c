/*
 * flow_list.c - LIST: the keys of all objects, a page a message, with a cursor to go on.
 *
 *   SLOTS (one look at the pool) -> answer
 *   ENTRIES (those only on disk) -> KEYS, a job's -> the page -> answer
 *
 * The cursor is a slot number, and behind all slots that of an entry of the disk. The keys
 * of what is only on disk lie in the index there, and are fetched for a page at a time. An
 * object that comes in or leaves the pool while it is being listed may be told twice, or
 * not at all. Nothing is protected and nothing heated.
 */
#include "node/node_priv.h"

#include "base/check.h"

#include <string.h>

#define LIST_BUDGET 65536u

enum list_state {
	LISTS_START,
	LISTS_WAIT, /* for a job to be free */
	LISTS_KEYS, /* the job has it */
};

struct page {
	unsigned char *entries;
	size_t room, used;
	uint32_t count;
};

static struct page page_begin(struct node *node, const struct op *op)
{
	size_t overhead = MSG_HEADER_SIZE + 8;
	size_t room = op_reply_room(op);

	return (struct page){
		.entries = node->page, .room = room > overhead ? room - overhead : 0};
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

static void page_answer(
	struct node *node, struct op *op, const struct page *page, uint32_t next)
{
	struct msg_listed listed = {
		.next = next,
		.count = page->count,
		.entries = {page->entries, page->used},
	};

	op_reply(node, op, msg_listed_encode(node->out, sizeof(node->out), &listed));
}

/* ---- in the pool --------------------------------------------------------- */

static bool page_add_slot(struct node *node, struct page *page, uint32_t slot)
{
	const struct slot *there = &node->share->slots[slot];
	const struct msg_entry entry = {
		.key = {slot_key(node->share, there), there->klen},
		.size = there->size,
		.flags = there->flags & SLOT_SOFTPIN ? PUT_SOFTPIN : 0,
	};

	return page_add(page, &entry);
}

/* Fill the page; where to go on, or SLOT_NONE. */
static uint32_t page_fill(
	struct node *node, struct page *page, const struct msg_list *msg)
{
	uint64_t end = (uint64_t)msg->cursor + LIST_BUDGET;
	uint32_t at = msg->cursor;

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

/* The entries of a page, from the cursor on; 0: there are no more. */
static uint32_t keys_gather(struct node *node, struct keys_memory *memory, uint32_t from)
{
	uint32_t entry = master_disk_list(&node->master, from);
	uint32_t count = 0;

	while (entry != DISK_NONE && count < TIER_PIECES) {
		const struct disk_entry *there = disk_entry(&node->master.disk, entry);

		memory->entries[count] = entry;
		memory->generations[count] = there->generation;
		memory->ids[count] = (struct tier_id){
			{there->id.word[0], there->id.word[1]}};
		count++;
		entry = master_disk_list(&node->master, entry + 1);
	}
	return count;
}

void keys_call(struct node *node, struct job *job, uint32_t number)
{
	node->env.tier.keys(node->env.tier.ctx, number, job->keys->ids, job->count,
		job->keys->keys, sizeof(job->keys->keys));
}

/* Whether the entry still is what it was, and only on disk. */
static bool keys_stands(
	const struct node *node, const struct keys_memory *memory, uint32_t i)
{
	uint32_t entry = memory->entries[i];

	return master_disk_list(&node->master, entry) == entry &&
	       disk_entry(&node->master.disk, entry)->generation ==
		       memory->generations[i];
}

/* The next of the packed keys; false: there are no more. */
static bool keys_next(const struct keys_memory *memory, size_t *at, struct msg_bytes *ret)
{
	uint16_t size;

	if (*at + sizeof(size) > sizeof(memory->keys))
		return false;
	memcpy(&size, memory->keys + *at, sizeof(size));
	*at += sizeof(size);
	if (size > sizeof(memory->keys) - *at)
		return false;
	*ret = (struct msg_bytes){memory->keys + *at, size};
	*at += size;
	return true;
}

static bool has_prefix(struct msg_bytes key, struct msg_bytes prefix)
{
	return key.size >= prefix.size && memcmp(key.data, prefix.data, prefix.size) == 0;
}

/* Fill the page from a job's keys; where to go on. A key that did not fit into the job's
 * buffer is the first of the next. */
static uint32_t page_fill_keys(struct node *node, struct page *page,
	const struct job *job, struct msg_bytes prefix)
{
	const struct keys_memory *memory = job->keys;
	size_t at = 0;

	for (uint32_t i = 0; i < job->count; i++) {
		uint32_t entry = memory->entries[i];
		struct msg_entry told = {.flags = 0};

		if (!keys_next(memory, &at, &told.key))
			return slots_limit(node) + entry;
		if (!keys_stands(node, memory, i))
			continue;
		/* As the first of its page it would have fitted: there is no record. */
		if (told.key.size == 0 && i > 0)
			return slots_limit(node) + entry;
		if (told.key.size == 0 || !has_prefix(told.key, prefix))
			continue;
		told.size = disk_entry(&node->master.disk, entry)->size;
		told.flags = disk_entry(&node->master.disk, entry)->softpin ? PUT_SOFTPIN
									    : 0;
		if (!page_add(page, &told))
			return slots_limit(node) + entry;
	}
	return slots_limit(node) + memory->entries[job->count - 1] + 1;
}

void keys_job_done(struct node *node, struct job *job, int err)
{
	struct op *op = job->op;
	struct page page;
	struct msg_list msg;
	uint32_t next;

	tier_trouble(node, &node->tier.reading, "reading from the disk", err);
	if (op == NULL)
		return;
	op->job = NULL;
	list_del(&op->wait_entry);
	if (err != 0) {
		op_error(node, op, err, "the keys on disk could not be read: %s",
			err_text(err));
		return;
	}
	if (msg_list_decode(op->message, op->message_size, &msg) != 0)
		NOT_REACHED("it was decoded when it came");
	page = page_begin(node, op);
	next = page_fill_keys(node, &page, job, msg.prefix);
	page_answer(node, op, &page, next);
}

static void list_entries(struct node *node, struct op *op, uint32_t from)
{
	struct job *job = job_new(node, JOB_KEYS);
	struct page page = page_begin(node, op);

	list_move_tail(&node->tier.listing, &op->wait_entry);
	op->state = LISTS_WAIT;
	if (job == NULL)
		return;
	job->count = keys_gather(node, job->keys, from);
	if (job->count == 0) {
		list_del(&op->wait_entry);
		page_answer(node, op, &page, SLOT_NONE);
		return;
	}
	op->state = LISTS_KEYS;
	op->job = job;
	job->op = op;
	job_start(node, job);
}

/* ---- the flow ------------------------------------------------------------ */

void list_run(struct node *node, struct op *op)
{
	struct page page = page_begin(node, op);
	struct msg_list msg;
	uint32_t next;

	if (msg_list_decode(op->message, op->message_size, &msg) != 0) {
		refuse_broken(node, op);
		return;
	}
	if (msg.cursor >= slots_limit(node) && tier_is_there(node)) {
		list_entries(node, op, msg.cursor - slots_limit(node));
		return;
	}
	next = page_fill(node, &page, &msg);
	if (next == SLOT_NONE && tier_is_there(node) && node->master.disk.only > 0)
		next = slots_limit(node);
	page_answer(node, op, &page, next);
}

void list_cancel(struct node *node, struct op *op)
{
	(void)node;
	list_del(&op->wait_entry);
	if (op->job != NULL)
		op->job->op = NULL;
	op->job = NULL;
}

/* Jobs may be free for those that wait for one. */
void list_step(struct node *node)
{
	list_for_each_safe (at, &node->tier.listing) {
		struct op *op = container_of(at, struct op, wait_entry);

		if (op->state == LISTS_WAIT && job_new(node, JOB_KEYS) != NULL)
			op_wake(node, op);
	}
}
