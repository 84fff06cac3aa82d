/*
 * gate.c - places where a fault may be armed: kills, and the gates of what is no op.
 *
 * An op parks itself at its gate (op.c). A move, a growth or a job of the disk has an entry
 * of node.gates instead; whoever meets it goes away while it sleeps and comes by again when
 * its timer has rung.
 */
#include "node/node_priv.h"

#include "base/check.h"

enum fault_action node_fault(
	struct node *node, enum fault_point point, int64_t *ret_value)
{
	enum fault_action action = fault_hit(node->faults, point, ret_value);

	if (action == FAULT_NONE)
		return action;
	node->stats.faults++;
	log_line(node->config.log, LOG_LEVEL_INFO, "fault", "point=%s action=%d",
		fault_point_name(point), (int)action);
	if (action == FAULT_KILL && node->env.die != NULL) {
		node->env.die(node->env.die_ctx);
		NOT_REACHED("the process outlived its end");
	}
	return action;
}

bool gate_pass(struct node *node, uint32_t gate, enum fault_point point, int *ret_err)
{
	struct gate *at = &node->gates[gate];
	int64_t value = 0;

	if (at->slept) {
		at->slept = false;
		return true;
	}
	switch (node_fault(node, point, &value)) {
	case FAULT_SLEEP:
		at->asleep = true;
		heap_set(&node->timers, timer_of_gate(node, gate),
			time_after(node_now(node), fault_ns(value)));
		return false;
	case FAULT_RETURN_ERROR:
		*ret_err = (int)value;
		return true;
	case FAULT_NONE:
	case FAULT_KILL:
	case FAULT_RESET:
		break;
	}
	return true;
}

void gate_on_timer(struct node *node, uint32_t gate)
{
	node->gates[gate].asleep = false;
	node->gates[gate].slept = true;
	if (gate >= GATE_FETCHES)
		fetch_go_on(node, gate - GATE_FETCHES);
	else if (gate >= GATE_JOBS)
		job_go_on(node, gate - GATE_JOBS);
}
