/*
 * admin.c - requests that look at the daemon itself: INFO, and the fault table's.
 *
 * Each is done in one go, and bounded.
 */
#include "node/node_priv.h"

#include <inttypes.h>
#include <string.h>

/* What INFO can ask for: cenote.h's enum cenote_info. */
enum info_what {
	INFO_STATS,
	INFO_CONFIG,
	INFO_CHECK
};

void refuse_broken(struct node *node, struct op *op)
{
	op_error(node, op, ERR_PROTOCOL, "%s: its fields are not those of its type",
		msg_name(op->service->type));
}

/* ---- INFO ---------------------------------------------------------------- */

static int64_t info_check(const struct node *node, char *text, size_t size)
{
	const char *broken = node_check(node);

	if (broken == NULL)
		broken = "ok";
	if (strlen(broken) >= size)
		return ERR_BUFFER_TOO_SMALL;
	memcpy(text, broken, strlen(broken) + 1);
	return (int64_t)strlen(broken);
}

static int64_t info_make(const struct node *node, uint32_t what, char *text, size_t size)
{
	switch (what) {
	case INFO_STATS:
		return info_stats(node, text, size);
	case INFO_CONFIG:
		return info_config(node, text, size);
	case INFO_CHECK:
		return info_check(node, text, size);
	default:
		return ERR_BAD_ARGUMENT;
	}
}

void info_run(struct node *node, struct op *op)
{
	struct msg_info msg;
	struct msg_info_text reply;
	int64_t length;

	if (msg_info_decode(op->message, op->message_size, &msg) != 0) {
		refuse_broken(node, op);
		return;
	}
	length = info_make(
		node, msg.what, (char *)node->page, sizeof(node->page) - MSG_HEADER_SIZE);
	if (length < 0) {
		op_error(node, op, (int)length, "INFO %" PRIu32 ": %s", msg.what,
			length == ERR_BAD_ARGUMENT
				? "there is no such text"
				: "the text is too long for a message");
		return;
	}
	reply.text = (struct msg_bytes){node->page, (size_t)length};
	op_reply(node, op, msg_info_text_encode(node->out, sizeof(node->out), &reply));
}

/* ---- faults -------------------------------------------------------------- */

/* The text NUL-ended in `buffer`; too long for any name
 * becomes one that does not exist. */
static const char *text_of(struct msg_bytes text, char *buffer, size_t size)
{
	size_t length = MIN(text.size, size - 1);

	memcpy(buffer, text.data, length);
	buffer[length] = '\0';
	return buffer;
}

void fault_run(struct node *node, struct op *op)
{
	char name[64], action_name[32];
	enum fault_action action = FAULT_NONE;
	struct msg_fault msg;
	int err;

	if (msg_fault_decode(op->message, op->message_size, &msg) != 0) {
		refuse_broken(node, op);
		return;
	}
	text_of(msg.name, name, sizeof(name));
	text_of(msg.action, action_name, sizeof(action_name));
	err = fault_action_parse(action_name, &action);
	if (err == 0)
		err = fault_arm(node->faults, name, action, msg.value,
			(int64_t)MIN(msg.from_hit, (uint64_t)INT64_MAX), msg.times);
	if (err != 0)
		op_error(node, op, err, "%s",
			err == ERR_NOT_SUPPORTED ? "this daemon was built without faults"
						 : "no such point or action, or a value "
						   "that the action does not take");
	else
		op_done(node, op, 0);
}

void fault_status_run(struct node *node, struct op *op)
{
	struct msg_fault_status msg;
	struct msg_fault_counts counts;
	char name[64];
	int err;

	if (msg_fault_status_decode(op->message, op->message_size, &msg) != 0) {
		refuse_broken(node, op);
		return;
	}
	err = fault_status(node->faults, text_of(msg.name, name, sizeof(name)),
		&counts.hits, &counts.fired);
	if (err != 0)
		op_error(node, op, err,
			"no point has the name %s, or this daemon was built "
			"without faults",
			name);
	else
		op_reply(node, op,
			msg_fault_counts_encode(node->out, sizeof(node->out), &counts));
}
