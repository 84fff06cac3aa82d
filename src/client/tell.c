/*
 * tell.c - the end of a hold, and the message that the daemon asked for then.
 *
 * It goes over a socket of its own, one way, and is dropped rather than waited for: the
 * daemon also looks by itself. When a daemon came back, the socket is replaced in place
 * by dup3(), so that no thread ever sends into a number that was closed and reused.
 */
#include "client/client_priv.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* Connect again, without a wait: HELLO and what follows it are sent behind each other,
 * the WELCOME is read by nobody, or by who says BYE. */
static void tell_reopen(struct attachment *attachment)
{
	struct msg_hello hello = {
		.version = WIRE_VERSION,
		.flags = attachment->store->read_only ? HELLO_READ_ONLY : 0,
	};
	unsigned char message[128];
	int fd;

	if (socket_connect(attachment->store->socket_path, &fd) != 0)
		return;
	memcpy(hello.token, attachment->token, sizeof(hello.token));
	if (socket_send(fd, message, msg_hello_encode(message, sizeof(message), &hello),
		    NULL, 0, 0) == 0)
		(void)dup3(fd, attachment->tell_fd, O_CLOEXEC);
	(void)close(fd);
}

int attachment_send(struct attachment *attachment, const void *message, size_t size,
	uint64_t deadline)
{
	int err = socket_send(attachment->tell_fd, message, size, NULL, 0, deadline);

	if (err != ERR_UNAVAILABLE || atomic_flag_test_and_set(&attachment->telling))
		return err;
	tell_reopen(attachment);
	atomic_flag_clear(&attachment->telling);
	return socket_send(attachment->tell_fd, message, size, NULL, 0, deadline);
}

void attachment_tell(struct attachment *attachment, uint32_t slot)
{
	struct msg_tell tell = {.slot = slot};
	unsigned char message[32];

	if (atomic_load_explicit(&attachment->is_stale, memory_order_relaxed))
		return;
	/* With no daemon it is lost: the next one looks when it starts. */
	(void)attachment_send(
		attachment, message, msg_tell_encode(message, sizeof(message), &tell), 0);
}

/* A holder for one give, that meets the fault point where the hold is gone and the daemon
 * does not know yet. */
struct give {
	struct holder holder;
	struct attachment *attachment;
	bool is_told;
	int fault;
};

static void give_on_tell(struct holder *holder, uint32_t slot)
{
	struct give *give = container_of(holder, struct give, holder);

	give->is_told = true;
	give->fault = client_fault(FAULT_CLIENT_AFTER_RELEASE);
	attachment_tell(give->attachment, slot);
}

/* hold_give(), with that point. */
static inline bool give_faulty(
	struct attachment *attachment, uint32_t slot, int *ret_fault)
{
	struct give give = {
		.holder = {.counts = attachment->holder.counts, .tell = give_on_tell},
		.attachment = attachment,
	};

	if (!hold_give(&give.holder, attachment->share.slots, slot))
		return false;
	if (!give.is_told)
		give.fault = client_fault(FAULT_CLIENT_AFTER_RELEASE);
	*ret_fault = give.fault;
	return true;
}

/* Two threads released one hold at once: take back what was too much. The daemon may have
 * met it and taken it for a hold. */
static void give_take_back(struct attachment *attachment, uint32_t slot)
{
	atomic_fetch_add_explicit(
		&attachment->holder.counts[slot], 1, memory_order_seq_cst);
	if (atomic_load_explicit(
		    &attachment->share.slots[slot].want, memory_order_seq_cst))
		attachment_tell(attachment, slot);
}

bool attachment_give(struct attachment *attachment, uint32_t slot, int *ret_fault)
{
	_Atomic uint16_t *count = &attachment->holder.counts[slot];
	bool given;

	*ret_fault = 0;
	if ((atomic_load_explicit(count, memory_order_relaxed) & HOLD_COUNT) == 0)
		return false;
	if (FAULT_BUILD)
		given = give_faulty(attachment, slot, ret_fault);
	else
		given = hold_give(&attachment->holder, attachment->share.slots, slot);
	if (!given)
		give_take_back(attachment, slot);
	return given;
}
