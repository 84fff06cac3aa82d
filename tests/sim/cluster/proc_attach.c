/*
 * proc_attach.c - a client's connection to its daemon, and its HELLO: first as a stranger,
 * then with its token.
 */
#include "sim/cluster/cluster.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

#define RETRY_NS (20 * NS_MS)

bool proc_has_lane(const struct proc *proc)
{
	return host_is_up(proc->host) && proc->lane.value != 0 &&
	       sim_lane_is_open(&proc->host->world, proc->lane);
}

bool proc_has_answer(const struct proc *proc)
{
	return proc_has_lane(proc) &&
	       proc->host->world.lanes[(uint32_t)proc->lane.value - 1].first != NULL;
}

static void hello_send(struct proc *proc)
{
	struct sim *sim = proc->host->sim;
	struct msg_hello hello = {.version = WIRE_VERSION};

	memcpy(hello.token, proc->token, sizeof(hello.token));
	proc->hello_sent = true;
	host_tick(proc->host);
	(void)sim_send(&proc->host->world, proc->lane, sim->out,
		msg_hello_encode(sim->out, sizeof(sim->out), &hello));
	host_called(proc->host);
}

/* An empty TELL: from then on only the process's end ends the client. */
static void is_here(struct proc *proc)
{
	struct sim *sim = proc->host->sim;
	struct msg_tell tell = {.slot = SLOT_NONE};

	proc_send(proc, msg_tell_encode(sim->out, sizeof(sim->out), &tell));
}

static void proc_attach(struct proc *proc, const struct msg_welcome *welcome)
{
	proc->attached = true;
	proc->cid = welcome->cid;
	proc->incarnation = welcome->incarnation;
	memcpy(proc->token, welcome->token, sizeof(proc->token));
	proc->holder.counts = sim_counts(
		&proc->host->world, proc->cid, proc->incarnation);
	if (proc->holder.counts == NULL)
		sim_fail(proc->host->sim, "client %u.%u has no counts file",
			proc->host->index, proc->index);
}

static void proc_welcomed(struct proc *proc, const struct sim_message *reply)
{
	struct sim *sim = proc->host->sim;
	struct msg_welcome welcome;

	if (msg_welcome_decode(reply->bytes, reply->size, &welcome) != 0)
		sim_fail(sim, "client %u.%u may not attach", proc->host->index,
			proc->index);
	proc->greeted = true;
	if (!proc->attached) {
		proc_attach(proc, &welcome);
		is_here(proc);
	} else if (memcmp(welcome.token, proc->token, sizeof(proc->token)) != 0) {
		sim_fail(sim, "client %u.%u came back as another", proc->host->index,
			proc->index);
	} else {
		sim_cover(sim, COVER_REATTACHED);
	}
}

void proc_greeting(struct proc *proc)
{
	struct sim_message *reply = sim_receive(&proc->host->world, proc->lane);

	proc_welcomed(proc, reply);
	free(reply);
}

static void proc_dial(struct proc *proc)
{
	struct host *host = proc->host;

	proc->hello_sent = proc->greeted = false;
	if (!host_is_up(host)) {
		proc->wait_ns = host->sim->now_ns + sim_about(host->sim, RETRY_NS);
		return;
	}
	host_tick(host);
	proc->lane = sim_connect(&host->world, proc->pid);
	host_called(host);
}

bool proc_connect(struct proc *proc)
{
	if (!proc_has_lane(proc))
		proc_dial(proc);
	else if (!proc->hello_sent)
		hello_send(proc);
	else if (!proc->greeted)
		proc_greeting(proc);
	return proc_has_lane(proc) && proc->greeted;
}
