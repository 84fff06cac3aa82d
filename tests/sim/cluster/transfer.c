/*
 * transfer.c - objects on their way from pool to pool, a small piece at a time.
 *
 *   begin --the ticket is good--> admitted --pieces--> whole --> told, with the checksum
 *     '---- refused, cut, late, stopped, an end died ----------> told, with the error
 *
 * As the real transport has it: before each chunk the source looks at the slot's life and at
 * lease_end by its own clock, and once more when the chunk is out; bytes that the source has
 * used again meanwhile thus never count. What has crossed lies in the destination's pool even
 * if its chunk did not count. A chunk is a few pieces here, and anything happens between two
 * of them.
 */
#include "sim/cluster/cluster.h"

#include "base/check.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK_PIECES 3u

static struct transfer *transfer_of(struct list *entry)
{
	return container_of(entry, struct transfer, entry);
}

/* ---- tickets ------------------------------------------------------------- */

static struct offer *offer_find(struct host *host, const struct peer_ticket *ticket)
{
	for (unsigned i = 0; i < SIM_OFFERS; i++) {
		if (host->offers[i].used &&
			memcmp(&host->offers[i].ticket, ticket, sizeof(*ticket)) == 0)
			return &host->offers[i];
	}
	return NULL;
}

int transfer_offer(
	struct host *host, const struct peer_offer *what, struct peer_ticket *ret_ticket)
{
	struct offer *offer = host->offers;
	const struct share *share = &host->world.share;

	while (offer < host->offers + SIM_OFFERS && offer->used)
		offer++;
	if (offer == host->offers + SIM_OFFERS)
		return ERR_TOO_MANY;
	if (what->slot >= atomic_load(&share->header->nslots) ||
		what->off + what->size > share->header->pool_size)
		sim_fail(host->sim, "host %u offers what lies nowhere", host->index);
	offer->used = true;
	offer->what = *what;
	offer->key = sim_key_of(host, what->slot);
	for (size_t i = 0; i < sizeof(offer->ticket.bytes); i++)
		offer->ticket.bytes[i] = (uint8_t)rng_next(&host->sim->rng);
	*ret_ticket = offer->ticket;
	return 0;
}

void transfer_withdraw(struct host *host, const struct peer_ticket *ticket)
{
	struct offer *offer = offer_find(host, ticket);

	if (offer != NULL)
		offer->used = false;
}

/* ---- begin --------------------------------------------------------------- */

static void transfer_fails(struct sim *sim, struct transfer *transfer, int err)
{
	if (transfer->err != 0)
		return;
	transfer->err = err;
	transfer->due_ns = sim->now_ns + sim_about(sim, sim->profile.far_ns);
}

static struct transfer *transfer_find(struct host *host, uint32_t number)
{
	list_for_each (at, &host->sim->transfers) {
		struct transfer *transfer = transfer_of(at);

		if (transfer->to == host && transfer->to_life == host->life &&
			transfer->number == number)
			return transfer;
	}
	return NULL;
}

/* Whose object is to lie there. */
static uint32_t key_at_off(const struct host *host, uint64_t off)
{
	const struct share *share = &host->world.share;
	uint32_t nslots = atomic_load(&share->header->nslots);

	for (uint32_t at = 0; at < nslots; at++) {
		if (share->slots[at].off == off &&
			slot_kind_of(atomic_load(&share->slots[at].state)) ==
				SLOT_WRITING)
			return sim_key_of(host, at);
	}
	return SIM_KEYS;
}

void transfer_begin(struct host *host, uint32_t number, const struct peer_fetch *what)
{
	struct sim *sim = host->sim;
	const struct wire *wire = wire_find(host, what->peer);
	struct transfer *transfer = calloc(1, sizeof(*transfer));

	CHECK(transfer != NULL);
	if (number >= PEER_TRANSFERS || transfer_find(host, number) != NULL)
		sim_fail(sim, "host %u begins fetch %" PRIu32 ", which is under way",
			host->index, number);
	if (what->pool_off + what->size > host->world.share.header->pool_size)
		sim_fail(sim, "host %u fetches to where no pool is", host->index);
	trace_event(&sim->trace, "host %u fetches %" PRIu64 " bytes, number %" PRIu32,
		host->index, what->size, number);
	transfer->to = host;
	transfer->to_life = host->life;
	transfer->number = number;
	transfer->what = *what;
	transfer->due_ns = sim->now_ns + sim_about(sim, sim->profile.far_ns);
	if (wire != NULL) {
		transfer->from = wire->hosts[WIRE_DIALED];
		transfer->from_life = wire->lives[WIRE_DIALED];
		hand_pull(transfer->from, host, key_at_off(host, what->pool_off));
	} else {
		transfer_fails(sim, transfer, ERR_TRANSFER_FAIL);
	}
	list_add_tail(&sim->transfers, &transfer->entry);
}

void transfer_stop(struct host *host, uint32_t number)
{
	struct transfer *transfer = transfer_find(host, number);

	if (transfer == NULL)
		sim_fail(host->sim, "host %u stops fetch %" PRIu32 ", which is over",
			host->index, number);
	sim_cover(host->sim, COVER_FETCH_STOPPED);
	transfer_fails(host->sim, transfer, ERR_TRANSFER_FAIL);
}

void transfers_break(struct sim *sim, const struct wire *wire)
{
	list_for_each (at, &sim->transfers) {
		struct transfer *transfer = transfer_of(at);

		if (transfer->to == wire->hosts[WIRE_DIALER] &&
			transfer->to_life == wire->lives[WIRE_DIALER] &&
			transfer->what.peer == wire->place)
			transfer_fails(sim, transfer, ERR_TRANSFER_FAIL);
	}
}

void transfer_host_died(struct host *host)
{
	list_for_each_safe (at, &host->sim->transfers) {
		struct transfer *transfer = transfer_of(at);

		if (transfer->to == host) {
			list_del(at);
			free(transfer);
		} else if (transfer->from == host) {
			transfer_fails(host->sim, transfer, ERR_TRANSFER_FAIL);
		}
	}
	for (unsigned i = 0; i < SIM_OFFERS; i++)
		host->offers[i].used = false;
}

/* ---- the source ---------------------------------------------------------- */

/* 0, or why the bytes do not count. */
static int source_look(const struct transfer *transfer)
{
	const struct peer_offer *offer = &transfer->offer;
	const struct slot *slot = &transfer->from->world.share.slots[offer->slot];
	uint64_t state = atomic_load(&slot->state);

	if (slot_life_of(state) != offer->life ||
		slot->lease_end <= host_boot_ns(transfer->from))
		return ERR_LEASE_EXPIRED;
	return 0;
}

static int source_admit(struct transfer *transfer)
{
	struct offer *offer = offer_find(transfer->from, &transfer->what.ticket);

	if (offer == NULL)
		return ERR_TRANSFER_FAIL;
	transfer->offer = offer->what;
	transfer->key = offer->key;
	offer->used = false;
	if (transfer->offer.generation != transfer->what.generation ||
		transfer->offer.size != transfer->what.size)
		return ERR_TRANSFER_FAIL;
	transfer->admitted = true;
	return source_look(transfer);
}

/* ---- steps --------------------------------------------------------------- */

static void move_piece(struct sim *sim, struct transfer *transfer)
{
	uint64_t left = transfer->chunk_end - transfer->moved;
	uint64_t size = MIN(sim->profile.piece, left);

	memcpy(transfer->to->world.share.pool + transfer->what.pool_off + transfer->moved,
		transfer->from->world.share.pool + transfer->offer.off + transfer->moved,
		size);
	transfer->moved += size;
}

static int move_step(struct sim *sim, struct transfer *transfer)
{
	int err = 0;

	if (transfer->moved == transfer->chunk_end) {
		uint64_t chunk = sim->profile.piece * CHUNK_PIECES;

		transfer->chunk_end += MIN(chunk, transfer->what.size - transfer->moved);
		err = source_look(transfer);
	}
	if (err == 0)
		move_piece(sim, transfer);
	if (err == 0 && noise_is_due(sim))
		err = ERR_CORRUPT; /* the piece's own checksum told */
	if (err == 0 && transfer->moved == transfer->chunk_end)
		err = source_look(transfer);
	return err;
}

/* All chunks counted. The checksum would tell the destination, but must not have to. */
static uint64_t whole_checksum(struct sim *sim, const struct transfer *transfer)
{
	const struct peer_fetch *what = &transfer->what;
	const unsigned char *bytes = transfer->to->world.share.pool + what->pool_off;

	(void)judge_bytes(sim, transfer->key, bytes, what->size, what->generation);
	return hash_key(bytes, what->size, what->seed);
}

static void transfer_ends(struct sim *sim, struct transfer *transfer, int err)
{
	struct host *host = transfer->to;
	struct event event = {
		.kind = EVENT_FETCH, .number = transfer->number, .err = err};

	if (err == 0)
		event.checksum = whole_checksum(sim, transfer);
	if (err == ERR_CORRUPT)
		sim_cover(sim, COVER_CORRUPTED);
	if (err == ERR_LEASE_EXPIRED)
		sim_cover(sim, COVER_FETCH_EXPIRED);
	if (err == ERR_TIMEOUT)
		sim_cover(sim, COVER_FETCH_LATE);
	if (err == ERR_TRANSFER_FAIL)
		sim_cover(sim, COVER_FETCH_FAILED);
	trace_event(&sim->trace, "fetch %" PRIu32 " of host %u ends: %s",
		transfer->number, host->index, err_name(err));
	list_del(&transfer->entry);
	free(transfer);
	host_tell(host, &event);
}

static bool is_stalled(const struct sim *sim, const struct transfer *transfer)
{
	return transfer->from->stopped_ns > sim->now_ns ||
	       !hosts_are_joined(sim, transfer->from, transfer->to);
}

/* The daemon that was asked is there no more. */
static bool source_is_gone(const struct transfer *transfer)
{
	return !host_is_up(transfer->from) || transfer->from->life != transfer->from_life;
}

void transfer_step(struct sim *sim, struct transfer *transfer)
{
	if (transfer->err != 0) {
		transfer_ends(sim, transfer, transfer->err);
		return;
	}
	transfer->due_ns = sim->now_ns + sim_pick(sim, 2 * sim->profile.far_ns);
	if (host_boot_ns(transfer->to) >= transfer->what.deadline_ns)
		transfer_fails(sim, transfer, ERR_TIMEOUT);
	else if (source_is_gone(transfer))
		transfer_fails(sim, transfer, ERR_TRANSFER_FAIL);
	else if (is_stalled(sim, transfer))
		transfer->due_ns = sim->now_ns + 20 * NS_MS;
	else if (!transfer->admitted)
		transfer_fails(sim, transfer, source_admit(transfer));
	else if (transfer->moved < transfer->what.size)
		transfer_fails(sim, transfer, move_step(sim, transfer));
	else
		transfer_ends(sim, transfer, 0);
}

bool transfer_is_due(const struct sim *sim, const struct transfer *transfer)
{
	return transfer->due_ns <= sim->now_ns && transfer->to->stopped_ns <= sim->now_ns;
}

uint64_t transfers_next(const struct sim *sim)
{
	uint64_t next = UINT64_MAX;

	list_for_each (at, &sim->transfers) {
		const struct transfer *transfer = transfer_of(at);

		next = MIN(next, MAX(transfer->due_ns, transfer->to->stopped_ns));
	}
	return next;
}

void transfers_free(struct sim *sim)
{
	list_for_each_safe (at, &sim->transfers) {
		list_del(at);
		free(transfer_of(at));
	}
}
