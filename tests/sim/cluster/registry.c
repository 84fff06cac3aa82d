/*
 * registry.c - the directory: dir/dir_mem.h behind calls that are late, cut off and lost.
 *
 *   call --due--> takes effect --due--> answered
 *          '--cut off--> lost    '--lost--> ERR_UNAVAILABLE
 *
 * A node's calls take effect and are answered in their order, as over one connection, unless
 * the seed has a directory with several ways to it.
 */
#include "sim/cluster/cluster.h"

#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>

#define REGISTRY_UNDO 64u
#define REGISTRY_NS   (200 * NS_US) /* one way */
#define REGISTRY_SLOW (150 * NS_MS)
#define REGISTRY_LATE (800 * NS_MS) /* a call that is not heard of for so long is lost */
#define HOLDERS_TEXT  (SIM_HOSTS * 16)

static struct letter *letter_of(struct list *entry)
{
	return container_of(entry, struct letter, entry);
}

/* ---- begin and end ------------------------------------------------------- */

void registry_init(struct sim *sim)
{
	struct registry *registry = &sim->registry;
	struct dir_mem_config config = {
		.seed = rng_next(&sim->rng), .undo_limit = REGISTRY_UNDO};

	registry->domains = sim_chance(sim, 60)
				    ? 1
				    : 1 + (unsigned)sim_pick(sim, SIM_DOMAINS);
	registry->reorders = sim_chance(sim, 15);
	config.domains = registry->domains;
	list_init(&registry->letters);
	CHECK(dir_mem_new(&registry->mem, &config) == 0);
}

void registry_fini(struct sim *sim)
{
	dir_mem_free(sim->registry.mem);
}

/* ---- ports --------------------------------------------------------------- */

static void port_done(void *ctx, struct dir_call *call)
{
	struct host *host = ctx;

	node_on_dir(host->world.node, call);
}

static void port_epoch(void *ctx, uint32_t domain, uint64_t epoch)
{
	struct host *host = ctx;

	trace_event(&host->sim->trace,
		"host %u hears of epoch %016" PRIx64 " of %" PRIu32, host->index, epoch,
		domain);
	node_on_epoch(host->world.node, domain, epoch);
}

struct dir registry_open(struct host *host)
{
	struct registry *registry = &host->sim->registry;
	const struct dir_events events = {host, port_done, port_epoch};
	struct office *office = &host->office;

	dir_mem_open_port(&office->port, registry->mem, &events, &office->dir);
	for (unsigned i = 0; i < registry->domains; i++) {
		dir_mem_set_cut(&office->port, i, office->cut);
		office->has_news[i] = false;
	}
	office->last_due_ns = 0;
	return office->dir;
}

void registry_close(struct host *host)
{
	list_for_each_safe (at, &host->sim->registry.letters) {
		if (letter_of(at)->host != host)
			continue;
		list_del(at);
		free(letter_of(at));
	}
	dir_mem_close_port(&host->office.port);
}

/* ---- calls --------------------------------------------------------------- */

static uint64_t letter_delay(struct sim *sim)
{
	return sim_about(sim, sim->registry.slow ? REGISTRY_SLOW : REGISTRY_NS);
}

static void letter_post(struct sim *sim, struct letter *letter)
{
	struct office *office = &letter->host->office;

	letter->due_ns = sim->now_ns + letter_delay(sim);
	if (sim->registry.reorders)
		return;
	letter->due_ns = MAX(letter->due_ns, office->last_due_ns + 1);
	office->last_due_ns = letter->due_ns;
}

void registry_call(struct host *host, struct dir_call *call)
{
	struct letter *letter = calloc(1, sizeof(*letter));

	CHECK(letter != NULL);
	host->office.dir.start(host->office.dir.ctx, call);
	letter->host = host;
	letter->call = call;
	hand_call(host, call, false);
	letter_post(host->sim, letter);
	list_add_tail(&host->sim->registry.letters, &letter->entry);
}

/* A host that is stopped does not hear the answer; the effect needs it no more. */
bool letter_is_due(const struct sim *sim, const struct letter *letter)
{
	return letter->due_ns <= sim->now_ns &&
	       (!letter->applied || letter->host->stopped_ns <= sim->now_ns);
}

static bool is_away(const struct sim *sim, const struct host *host)
{
	return sim->registry.away || host->office.cut;
}

static const char *letter_name(const struct letter *letter)
{
	static const char *const names[] = {"PUBLISH", "CONFIRM", "JOIN", "LOOKUP",
		"LOADED", "LEAVE", "TAKE_OUT", "HAND_OVER", "ANNOUNCE", "BURY", "RENEW",
		"RESIGN"};

	return names[letter->call->op];
}

static const char *letter_outcome(const struct letter *letter)
{
	static const char *const names[] = {
		"done", "absent", "exists", "gone", "removed", "older", "replaced"};

	return letter->lost ? "cut off" : names[letter->call->verdict];
}

/* The holders in the answer, "; 0 keeps, 3 copies": a keeper, who has a copy, who gets one. */
static const char *letter_holders(
	const struct sim *sim, const struct letter *letter, char text[HOLDERS_TEXT])
{
	static const char *const names[] = {[DIR_LOADING] = "loads",
		[DIR_SECONDARY] = "copies",
		[DIR_KEEPER] = "keeps"};
	const struct dir_entry *entry = &letter->call->entry;
	size_t at = 0;

	text[0] = '\0';
	for (uint32_t i = 0; !letter->lost && i < entry->holder_count; i++) {
		for (unsigned j = 0; j < sim->profile.hosts; j++) {
			if (sim->hosts[j].id == entry->holders[i].node)
				at += (size_t)snprintf(text + at, HOLDERS_TEXT - at,
					"%s %u %s", i == 0 ? ";" : ",", j,
					names[entry->holders[i].role]);
		}
	}
	return text;
}

static void letter_apply(struct sim *sim, struct letter *letter)
{
	char holders[HOLDERS_TEXT];

	letter->applied = true;
	letter_post(sim, letter);
	dir_mem_set_now(sim->registry.mem, sim->now_ns);
	if (dir_mem_apply(&letter->host->office.port, letter->call) != 0) {
		letter->lost = true;
		letter->due_ns = sim->now_ns + sim_pick(sim, REGISTRY_LATE);
	} else {
		hand_call(letter->host, letter->call, true);
		replicas_call(letter->host, letter->call);
	}
	trace_event(&sim->trace,
		"directory: host %u %s %08" PRIx64 " generation %" PRIx64 ": %s%s",
		letter->host->index, letter_name(letter), letter->call->id.word[0] >> 32,
		letter->call->generation, letter_outcome(letter),
		letter_holders(sim, letter, holders));
}

static void letter_answer(struct sim *sim, struct letter *letter)
{
	struct event event = {.kind = EVENT_DIR_ANSWER, .call = letter->call};
	struct host *host = letter->host;

	if (letter->lost || is_away(sim, host)) {
		event.kind = EVENT_DIR_LOST;
		sim_cover(sim, letter->lost ? COVER_DIR_LOST : COVER_DIR_ANSWER_LOST);
	}
	list_del(&letter->entry);
	free(letter);
	host_tell(host, &event);
}

void letter_step(struct sim *sim, struct letter *letter)
{
	if (letter->applied)
		letter_answer(sim, letter);
	else
		letter_apply(sim, letter);
}

/* ---- news ---------------------------------------------------------------- */

void registry_look(struct sim *sim)
{
	for (unsigned i = 0; i < sim->profile.hosts; i++) {
		struct host *host = &sim->hosts[i];
		struct office *office = &host->office;

		for (unsigned at = 0; host_is_up(host) && at < sim->registry.domains;
			at++) {
			bool has = dir_mem_has_news(&office->port, at);

			if (has && !office->has_news[at])
				office->news_ns[at] = sim->now_ns + letter_delay(sim) +
						      (sim_chance(sim, 20) ? sim_pick(sim,
										     NS_S)
									   : 0);
			office->has_news[at] = has;
		}
	}
}

static int office_find_due(const struct host *host)
{
	const struct office *office = &host->office;

	for (unsigned at = 0; at < host->sim->registry.domains; at++) {
		if (office->has_news[at] && office->news_ns[at] <= host->sim->now_ns)
			return (int)at;
	}
	return -1;
}

bool office_is_due(const struct host *host)
{
	return host_is_awake(host) && office_find_due(host) >= 0;
}

void office_step(struct host *host)
{
	struct event event = {
		.kind = EVENT_DIR_NEWS, .number = (uint32_t)office_find_due(host)};

	host->office.has_news[event.number] = false;
	host_tell(host, &event);
}

uint64_t registry_next(const struct sim *sim)
{
	uint64_t next = UINT64_MAX;

	list_for_each (at, &sim->registry.letters) {
		const struct letter *letter = letter_of(at);

		next = MIN(next, letter->applied
					 ? MAX(letter->due_ns, letter->host->stopped_ns)
					 : letter->due_ns);
	}
	for (unsigned i = 0; i < sim->profile.hosts; i++) {
		const struct host *host = &sim->hosts[i];

		for (unsigned at = 0; host_is_up(host) && at < sim->registry.domains;
			at++) {
			if (host->office.has_news[at])
				next = MIN(next,
					MAX(host->office.news_ns[at], host->stopped_ns));
		}
	}
	return next;
}

/* ---- what befalls it ----------------------------------------------------- */

static void office_cut(struct host *host, bool cut)
{
	host->office.cut = cut;
	for (unsigned at = 0; host_is_up(host) && at < host->sim->registry.domains; at++)
		dir_mem_set_cut(&host->office.port, at, cut);
}

void registry_cut(struct sim *sim, struct host *host, bool cut)
{
	if (host != NULL) {
		office_cut(host, cut);
		return;
	}
	sim->registry.away = cut;
	for (unsigned at = 0; at < sim->registry.domains; at++)
		dir_mem_set_away(sim->registry.mem, at, cut);
}

void registry_forget(struct sim *sim, unsigned domain, bool all)
{
	struct registry *registry = &sim->registry;

	dir_mem_set_now(registry->mem, sim->now_ns);
	registry->forgot_ns = sim->now_ns;
	if (all)
		dir_mem_flush(registry->mem, domain);
	else
		(void)dir_mem_fail_over(
			registry->mem, domain, (uint32_t)sim_pick(sim, REGISTRY_UNDO));
}
