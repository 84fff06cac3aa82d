/*
 * dir_mem.c - ports, calls on their way, and what befalls the domains.
 */
#include "dir/dir_mem.h"

#include "base/check.h"
#include "base/err.h"
#include "base/rng.h"
#include "dir/dir_call.h"
#include "dir/mem_domain.h"

#include <stdlib.h>

struct dir_mem {
	struct mem_domain *domains; /* [domain_count] */
	uint32_t domain_count;
	struct list ports;
	struct rng rng;
	uint64_t now;
};

/* ---- begin and end ------------------------------------------------------- */

static void begin_epoch(struct dir_mem *mem, uint32_t domain)
{
	CHECK(domain < mem->domain_count);
	do {
		mem->domains[domain].epoch = rng_next(&mem->rng);
	} while (mem->domains[domain].epoch == 0);
}

int dir_mem_new(struct dir_mem **ret, const struct dir_mem_config *config)
{
	struct dir_mem *mem = calloc(1, sizeof(*mem));
	int err = 0;

	CHECK(config->domains > 0 && config->domains <= DIR_DOMAINS);
	if (mem == NULL)
		return ERR_NO_MEMORY;
	list_init(&mem->ports);
	rng_init(&mem->rng, config->seed);
	mem->domains = calloc(config->domains, sizeof(*mem->domains));
	if (mem->domains == NULL)
		err = ERR_NO_MEMORY;
	while (err == 0 && mem->domain_count < config->domains) {
		err = mem_domain_init(
			&mem->domains[mem->domain_count++], config->undo_limit);
		begin_epoch(mem, mem->domain_count - 1);
	}
	if (err != 0) {
		dir_mem_free(mem);
		return err;
	}
	*ret = mem;
	return 0;
}

void dir_mem_free(struct dir_mem *mem)
{
	if (mem == NULL)
		return;
	CHECK(list_is_empty(&mem->ports));
	for (uint32_t i = 0; i < mem->domain_count; i++)
		mem_domain_free(&mem->domains[i]);
	free(mem->domains);
	free(mem);
}

void dir_mem_set_now(struct dir_mem *mem, uint64_t now)
{
	CHECK(now >= mem->now);
	mem->now = now;
}

/* ---- ports --------------------------------------------------------------- */

static uint32_t domain_of(const struct dir_mem *mem, const struct dir_call *call)
{
	if (call->op == DIR_OP_RENEW || call->op == DIR_OP_RESIGN)
		return 0;
	return (uint32_t)(call->id.word[0] % mem->domain_count);
}

static void port_start(void *ctx, struct dir_call *call)
{
	struct dir_mem_port *port = ctx;

	dir_call_check(call);
	dir_call_clear(call);
	list_add_tail(&port->queued, &call->list_entry);
}

static uint32_t port_domain_of(void *ctx, const struct dir_id *id)
{
	const struct dir_mem_port *port = ctx;

	return (uint32_t)(id->word[0] % port->mem->domain_count);
}

void dir_mem_open_port(struct dir_mem_port *port, struct dir_mem *mem,
	const struct dir_events *events, struct dir *ret_dir)
{
	*port = (struct dir_mem_port){.mem = mem, .events = *events};
	list_add_tail(&mem->ports, &port->entry);
	list_init(&port->queued);
	list_init(&port->applied);
	*ret_dir = (struct dir){
		.ctx = port, .start = port_start, .domain_of = port_domain_of};
}

static void forget_calls(struct list *calls)
{
	list_for_each_safe (at, calls)
		list_del(at);
}

void dir_mem_close_port(struct dir_mem_port *port)
{
	forget_calls(&port->queued);
	forget_calls(&port->applied);
	list_del(&port->entry);
}

static bool is_reachable(const struct dir_mem_port *port, uint32_t domain)
{
	return !port->mem->domains[domain].away && !port->cut[domain];
}

/* ---- calls --------------------------------------------------------------- */

int dir_mem_apply(struct dir_mem_port *port, struct dir_call *call)
{
	struct dir_mem *mem = port->mem;
	uint32_t number = domain_of(mem, call);
	struct mem_domain *domain = &mem->domains[number];

	if (!is_reachable(port, number))
		return ERR_UNAVAILABLE;
	call->err = mem_domain_run(domain, call, mem->now);
	if (call->err != 0)
		dir_call_fail(call, call->err);
	call->domain = number;
	call->epoch = domain->epoch;
	list_move_tail(&port->applied, &call->list_entry);
	return 0;
}

void dir_mem_read_epoch(struct dir_mem_port *port, struct dir_call *call)
{
	call->epoch = port->mem->domains[call->domain].epoch;
}

static void report_epoch(struct dir_mem_port *port, uint32_t domain, uint64_t epoch)
{
	port->told[domain] = epoch;
	port->heard[domain] = true;
	port->events.epoch(port->events.ctx, domain, epoch);
}

void dir_mem_answer(struct dir_mem_port *port, struct dir_call *call)
{
	/* Of an older one there was news already, or will be of the newer. */
	bool is_current = call->epoch == port->mem->domains[call->domain].epoch;

	list_del(&call->list_entry);
	if (is_current &&
		(!port->heard[call->domain] || port->told[call->domain] != call->epoch))
		report_epoch(port, call->domain, call->epoch);
	port->events.done(port->events.ctx, call);
}

void dir_mem_lose(struct dir_mem_port *port, struct dir_call *call)
{
	list_del(&call->list_entry);
	dir_call_fail(call, ERR_UNAVAILABLE);
	port->events.done(port->events.ctx, call);
}

/* ---- news ---------------------------------------------------------------- */

static uint64_t epoch_seen(const struct dir_mem_port *port, uint32_t domain)
{
	return is_reachable(port, domain) ? port->mem->domains[domain].epoch : 0;
}

bool dir_mem_has_news(const struct dir_mem_port *port, uint32_t domain)
{
	CHECK(domain < port->mem->domain_count);
	return !port->heard[domain] || port->told[domain] != epoch_seen(port, domain);
}

void dir_mem_tell(struct dir_mem_port *port, uint32_t domain)
{
	CHECK(domain < port->mem->domain_count);
	report_epoch(port, domain, epoch_seen(port, domain));
}

/* ---- all at once --------------------------------------------------------- */

/* False: nothing was to be done. */
static bool run_port(struct dir_mem_port *port)
{
	struct list *first = list_first(&port->queued);
	struct dir_call *call;

	for (uint32_t i = 0; i < port->mem->domain_count; i++) {
		if (dir_mem_has_news(port, i))
			dir_mem_tell(port, i);
	}
	if (first != NULL) {
		call = container_of(first, struct dir_call, list_entry);
		if (dir_mem_apply(port, call) != 0)
			dir_mem_lose(port, call);
	}
	if (!list_is_empty(&port->applied)) {
		first = list_first(&port->applied);
		dir_mem_answer(port, container_of(first, struct dir_call, list_entry));
	}
	return first != NULL;
}

bool dir_mem_run(struct dir_mem *mem, uint32_t limit)
{
	bool more = true;

	while (more) {
		more = false;
		list_for_each (at, &mem->ports) {
			struct dir_mem_port *port = container_of(
				at, struct dir_mem_port, entry);

			if (limit == 0 && !list_is_empty(&port->queued))
				return false;
			if (run_port(port)) {
				more = true;
				limit--;
			}
		}
	}
	return true;
}

/* ---- what befalls the server --------------------------------------------- */

void dir_mem_flush(struct dir_mem *mem, uint32_t domain)
{
	begin_epoch(mem, domain);
	mem_domain_clear(&mem->domains[domain]);
}

uint32_t dir_mem_fail_over(struct dir_mem *mem, uint32_t domain, uint32_t lost)
{
	begin_epoch(mem, domain);
	return mem_domain_undo(&mem->domains[domain], lost);
}

void dir_mem_set_away(struct dir_mem *mem, uint32_t domain, bool away)
{
	CHECK(domain < mem->domain_count);
	mem->domains[domain].away = away;
}

void dir_mem_set_cut(struct dir_mem_port *port, uint32_t domain, bool cut)
{
	CHECK(domain < port->mem->domain_count);
	port->cut[domain] = cut;
}

void dir_mem_set_full(struct dir_mem *mem, uint32_t domain, bool full)
{
	CHECK(domain < mem->domain_count);
	mem->domains[domain].full = full;
}

/* ---- from outside -------------------------------------------------------- */

uint64_t dir_mem_epoch(const struct dir_mem *mem, uint32_t domain)
{
	CHECK(domain < mem->domain_count);
	return mem->domains[domain].epoch;
}

bool dir_mem_look(
	const struct dir_mem *mem, const struct dir_id *id, struct dir_entry *ret)
{
	uint32_t domain = (uint32_t)(id->word[0] % mem->domain_count);

	return mem_domain_look(&mem->domains[domain], id, mem->now, ret);
}

uint32_t dir_mem_keys(const struct dir_mem *mem, uint32_t domain)
{
	CHECK(domain < mem->domain_count);
	return mem->domains[domain].entry_count;
}

const char *dir_mem_check(const struct dir_mem *mem)
{
	for (uint32_t i = 0; i < mem->domain_count; i++) {
		const char *broken = mem_domain_check(&mem->domains[i]);

		if (broken != NULL)
			return broken;
	}
	return NULL;
}
