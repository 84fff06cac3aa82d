/*
 * lane.c - connections, and the pins that came over them.
 *
 *   node_on_open -> stranger --HELLO--> its client's --BYE, end of the client--> stranger
 *   any --lane_close, node_on_close--> gone
 *
 * A close that the node asks for is done when the world reports it; until then the lane
 * is deaf.
 */
#include "node/node_priv.h"

#include "base/check.h"

#include <inttypes.h>
#include <string.h>

static struct list *lane_bucket(struct node *node, struct lane_id id)
{
	uint64_t mixed = id.value * 0x9e3779b97f4a7c15ull;

	return &node->lane_buckets[(uint32_t)(mixed >> 32) & node->lane_mask];
}

struct lane *lane_find(struct node *node, struct lane_id id)
{
	list_for_each (at, lane_bucket(node, id)) {
		struct lane *lane = container_of(at, struct lane, entry);

		if (lane->id.value == id.value)
			return lane;
	}
	return NULL;
}

void node_on_open(struct node *node, struct lane_id id, uint32_t uid)
{
	struct list *entry = list_first(&node->free_lanes);
	struct lane *lane;

	if (entry == NULL) {
		log_line(node->config.log, LOG_LEVEL_WARNING, "lane_refused",
			"uid=%" PRIu32 " lanes=%" PRIu64 " option=--max-lanes", uid,
			node->config.max_lanes);
		node->env.net.close(node->env.net.ctx, id);
		return;
	}
	list_del(entry);
	lane = container_of(entry, struct lane, entry);
	*lane = (struct lane){.id = id, .uid = uid};
	list_add_tail(lane_bucket(node, id), &lane->entry);
	list_init(&lane->client_entry);
	list_init(&lane->ops);
	list_init(&lane->pins);
	list_init(&lane->link_entry);
	node->lanes_used++;
}

void lane_close(struct node *node, struct lane *lane)
{
	if (lane->closing)
		return;
	lane->closing = true;
	node->env.net.close(node->env.net.ctx, lane->id);
}

static void pin_drop(struct node *node, struct pin *pin)
{
	uint32_t slot = pin->slot;

	list_move_tail(&node->free_pins, &pin->entry);
	node->pins_used--;
	master_unpin(&node->master, slot, node_now(node));
}

static struct op *lane_first_op(const struct lane *lane, const struct op *except)
{
	list_for_each (at, &lane->ops) {
		struct op *op = container_of(at, struct op, owner_entry);

		if (op != except)
			return op;
	}
	return NULL;
}

void lane_drop_pins(struct node *node, struct lane *lane)
{
	list_for_each_safe (at, &lane->pins)
		pin_drop(node, container_of(at, struct pin, entry));
}

void lane_leave(struct node *node, struct lane *lane, const struct op *except)
{
	struct op *op;

	/* From the start each time: a cancelled HELLO may end the client, and so come
	 * here. */
	while ((op = lane_first_op(lane, except)) != NULL)
		op_cancel(node, op);
	lane_drop_pins(node, lane);
	list_del(&lane->client_entry);
	lane->client = NULL;
}

void node_on_close(struct node *node, struct lane_id id)
{
	struct lane *lane = lane_find(node, id);
	struct client *client;

	if (lane == NULL)
		return;
	node_tick(node);
	lane->closing = true;
	client = lane->client;
	if (client != NULL)
		client->repeats = true;
	lane_leave(node, lane, NULL);
	if (client != NULL)
		client_lost_lane(node, client);
	list_del(&lane->entry);
	list_add_head(&node->free_lanes, &lane->entry);
	lane->id.value = 0;
	node->lanes_used--;
}

int lane_pin(struct node *node, struct lane *lane, uint32_t slot, uint64_t *ret_limit)
{
	struct list *entry = list_first(&node->free_pins);
	struct pin *pin;

	if (entry == NULL) {
		*ret_limit = node->config.max_pins;
		return ERR_TOO_MANY;
	}
	if (node->master.objects[slot].pins == UINT16_MAX) {
		*ret_limit = UINT16_MAX;
		return ERR_TOO_MANY;
	}
	pin = container_of(entry, struct pin, entry);
	pin->slot = slot;
	pin->life = slot_life_of(atomic_load_explicit(
		&node->share->slots[slot].state, memory_order_relaxed));
	list_move_tail(&lane->pins, &pin->entry);
	node->pins_used++;
	master_pin(&node->master, slot);
	return 0;
}

void lane_unpin(struct node *node, struct lane *lane, uint32_t slot, uint64_t life)
{
	list_for_each (at, &lane->pins) {
		struct pin *pin = container_of(at, struct pin, entry);

		if (pin->slot != slot || pin->life != life)
			continue;
		pin_drop(node, pin);
		return;
	}
}

void lane_error(struct node *node, struct lane *lane, int code, const char *text)
{
	struct msg_error msg = {.code = code, .text = {text, strlen(text)}};
	size_t size = msg_error_encode(node->out, sizeof(node->out), &msg);

	CHECK(size > 0);
	node->stats.errors++;
	if (lane->link != NULL)
		link_answer(node, lane, node->out, size);
	else
		node->env.net.send(node->env.net.ctx, lane->id, node->out, size, NULL);
}
