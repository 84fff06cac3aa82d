#include "sim/cluster/cluster.h"

#include "base/check.h"

/* ---- what happens -------------------------------------------------------- */

static struct span *span_find_open(
	struct troubles *trouble, enum trouble_kind kind, uint32_t a, uint32_t b)
{
	for (uint32_t i = trouble->count; i-- > 0;) {
		struct span *span = &trouble->spans[i];

		if (span->kind == kind && span->a == a && span->b == b &&
			span->to_ns == UINT64_MAX)
			return span;
	}
	return NULL;
}

void trouble_begins(struct sim *sim, enum trouble_kind kind, uint32_t a, uint32_t b)
{
	struct troubles *trouble = &sim->trouble;

	if (span_find_open(trouble, kind, a, b) != NULL)
		return;
	CHECK(trouble->count < TROUBLES_MOST);
	trouble->spans[trouble->count++] = (struct span){
		.kind = kind,
		.a = a,
		.b = b,
		.from_ns = sim->now_ns,
		.to_ns = UINT64_MAX,
	};
}

void trouble_ends(struct sim *sim, enum trouble_kind kind, uint32_t a, uint32_t b)
{
	struct span *span = span_find_open(&sim->trouble, kind, a, b);

	if (span != NULL)
		span->to_ns = sim->now_ns;
}

void trouble_note(struct sim *sim, enum trouble_kind kind, uint32_t a, uint32_t b)
{
	if (span_find_open(&sim->trouble, kind, a, b) != NULL)
		return;
	trouble_begins(sim, kind, a, b);
	trouble_ends(sim, kind, a, b);
}

/* ---- what happened ------------------------------------------------------- */

static bool overlaps(const struct span *span, uint64_t from, uint64_t to)
{
	return span->from_ns <= to && span->to_ns >= from;
}

static bool is_at(const struct span *span, uint32_t host)
{
	return span->a == host || span->a == TROUBLE_ALL ||
	       (span->kind == TROUBLE_CUT && span->b == host);
}

static bool is_between(const struct span *span, uint32_t asker, uint32_t asked)
{
	switch (span->kind) {
	case TROUBLE_DOWN:
	case TROUBLE_STOPPED:
		return span->a == asked;
	case TROUBLE_CUT:
		return (span->a == asker && span->b == asked) ||
		       (span->a == asked && span->b == asker);
	case TROUBLE_DIR:
		return false;
	}
	NOT_REACHED("no such trouble");
}

bool trouble_was(const struct sim *sim, uint64_t from, uint64_t to)
{
	for (uint32_t i = sim->trouble.count; i-- > 0;) {
		if (overlaps(&sim->trouble.spans[i], from, to))
			return true;
	}
	return false;
}

bool trouble_was_at(const struct sim *sim, uint32_t host, uint64_t from, uint64_t to)
{
	for (uint32_t i = sim->trouble.count; i-- > 0;) {
		const struct span *span = &sim->trouble.spans[i];

		if (overlaps(span, from, to) && is_at(span, host))
			return true;
	}
	return false;
}

bool trouble_cut_off(const struct sim *sim, uint32_t host, uint64_t from, uint64_t to)
{
	for (uint32_t i = sim->trouble.count; i-- > 0;) {
		const struct span *span = &sim->trouble.spans[i];

		if (span->kind != TROUBLE_DIR && overlaps(span, from, to) &&
			is_at(span, host))
			return true;
	}
	return false;
}

bool trouble_was_between(
	const struct sim *sim, uint32_t asker, uint32_t asked, uint64_t from, uint64_t to)
{
	for (uint32_t i = sim->trouble.count; i-- > 0;) {
		const struct span *span = &sim->trouble.spans[i];

		if (overlaps(span, from, to) && is_between(span, asker, asked))
			return true;
	}
	return false;
}

bool trouble_was_dir(const struct sim *sim, uint64_t from, uint64_t to)
{
	for (uint32_t i = sim->trouble.count; i-- > 0;) {
		const struct span *span = &sim->trouble.spans[i];

		if (overlaps(span, from, to) && span->kind == TROUBLE_DIR)
			return true;
	}
	return false;
}

bool trouble_paused_at(
	const struct sim *sim, uint32_t host, uint64_t from, uint64_t to, uint64_t ns)
{
	uint64_t whole_ns = from; /* no trouble seen from then on */

	/* Spans lie in the order of their begins. */
	for (uint32_t i = 0; i < sim->trouble.count; i++) {
		const struct span *span = &sim->trouble.spans[i];

		if (!is_at(span, host) || span->to_ns < whole_ns)
			continue;
		if (span->from_ns >= whole_ns + ns || span->from_ns > to)
			break;
		if (span->to_ns == UINT64_MAX)
			return false;
		whole_ns = span->to_ns;
	}
	return to >= whole_ns && to - whole_ns >= ns;
}
