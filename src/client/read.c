/*
 * read.c - reports of reads that ended, for objects put with `readers`.
 *
 *   noted, under the hold --> queue --reads_flush--> READ, answered --> gone
 *                               ^_______ no answer: stays, asked again __|
 *
 * The daemon counts a report once by its number, if they come in order: so one thread at a
 * time sends, the oldest first. What no daemon heard goes with the next call that reaches
 * one; with this process it is lost, which only delays the object's end.
 */
#include "client/client_priv.h"

#include <stdlib.h>
#include <string.h>

#define REPORT_WAIT_NS 1000000000ull

struct report {
	struct list entry; /* of store.reads, oldest first */
	struct attachment *attachment;
	uint64_t generation, sequence;
	size_t key_size;
	unsigned char key[];
};

bool read_note(struct attachment *attachment, uint32_t slot)
{
	struct cenote *store = attachment->store;
	const struct slot *there = &attachment->share.slots[slot];
	struct report *report;

	if (!there->counted)
		return false;
	/* Without memory the report is lost. */
	report = malloc(sizeof(*report) + there->klen);
	if (report == NULL)
		return false;
	report->attachment = attachment;
	report->generation = there->generation;
	report->key_size = there->klen;
	memcpy(report->key, slot_key(&attachment->share, there), there->klen);
	pthread_mutex_lock(&store->lock);
	report->sequence = ++store->read_sequence;
	list_add_tail(&store->reads, &report->entry);
	store->read_count++;
	pthread_mutex_unlock(&store->lock);
	return true;
}

static struct report *oldest(struct cenote *store)
{
	struct list *entry;

	pthread_mutex_lock(&store->lock);
	entry = list_first(&store->reads);
	pthread_mutex_unlock(&store->lock);
	return entry == NULL ? NULL : container_of(entry, struct report, entry);
}

static void drop(struct cenote *store, struct report *report)
{
	pthread_mutex_lock(&store->lock);
	list_del(&report->entry);
	store->read_count--;
	pthread_mutex_unlock(&store->lock);
	free(report);
}

/* 0: the daemon has counted it, or has no such object. */
static int send_one(struct call *call, const struct report *report)
{
	struct msg_read msg = {
		.key = {.data = report->key, .size = report->key_size},
		.generation = report->generation,
		.sequence = report->sequence,
	};
	int err = CALL_AGAIN;

	while (err == CALL_AGAIN && report->attachment == call->lane->attachment)
		err = call_exchange(call,
			msg_read_encode(call->lane->out, MSG_SIZE_MAX, &msg),
			CALL_CLIENT);
	/* Of another pool: nobody counts it. */
	return err == CALL_AGAIN ? 0 : err;
}

void reads_flush(struct call *call)
{
	struct cenote *store = call->store;
	struct report *report;

	pthread_mutex_lock(&store->reads_lock);
	while ((report = oldest(store)) != NULL) {
		if (send_one(call, report) != 0)
			break;
		drop(store, report);
	}
	pthread_mutex_unlock(&store->reads_lock);
}

void reads_send(struct cenote *store)
{
	struct call call;

	if (call_begin(&call, store, socket_now() + REPORT_WAIT_NS) == 0)
		call_end(&call);
}

void reads_free(struct cenote *store)
{
	list_for_each_safe (at, &store->reads) {
		list_del(at);
		free(container_of(at, struct report, entry));
	}
	pthread_mutex_destroy(&store->reads_lock);
}
