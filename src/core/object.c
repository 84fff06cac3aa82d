#include "core/object.h"

#include "base/check.h"

void object_queue_init(struct object_queue *queue)
{
	queue->head = SLOT_NONE;
	queue->tail = SLOT_NONE;
	queue->count = 0;
}

void object_push_head(struct object_queue *queue, struct object *objects, uint32_t slot)
{
	objects[slot].prev = SLOT_NONE;
	objects[slot].next = queue->head;
	if (queue->head != SLOT_NONE)
		objects[queue->head].prev = slot;
	else
		queue->tail = slot;
	queue->head = slot;
	queue->count++;
}

void object_push_tail(struct object_queue *queue, struct object *objects, uint32_t slot)
{
	objects[slot].next = SLOT_NONE;
	objects[slot].prev = queue->tail;
	if (queue->tail != SLOT_NONE)
		objects[queue->tail].next = slot;
	else
		queue->head = slot;
	queue->tail = slot;
	queue->count++;
}

void object_push_behind(struct object_queue *queue, struct object *objects, uint32_t slot,
	uint32_t before)
{
	uint32_t next;

	if (before == SLOT_NONE) {
		object_push_head(queue, objects, slot);
		return;
	}
	next = objects[before].next;
	if (next == SLOT_NONE) {
		object_push_tail(queue, objects, slot);
		return;
	}
	objects[slot].prev = before;
	objects[slot].next = next;
	objects[before].next = objects[next].prev = slot;
	queue->count++;
}

void object_unlink(struct object_queue *queue, struct object *objects, uint32_t slot)
{
	struct object *object = &objects[slot];

	CHECK(queue->count > 0);
	if (object->prev != SLOT_NONE)
		objects[object->prev].next = object->next;
	else
		queue->head = object->next;
	if (object->next != SLOT_NONE)
		objects[object->next].prev = object->prev;
	else
		queue->tail = object->prev;
	queue->count--;
}
