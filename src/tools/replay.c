/*
 * replay.c - the requests of a trace, one after the other.
 */
#include "tools/replay.h"

#include "tools/interrupt.h"
#include "tools/pattern.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPLAY_FAILURES_MAX 64
#define REPLAY_KEY_MAX      40

struct replay {
	const struct replay_job *job;
	struct replay_result *result;
	char *block; /* block_bytes of them */
	uint64_t failures;
};

static struct cenote_key replay_key(uint64_t id, char text[REPLAY_KEY_MAX])
{
	int length = snprintf(text, REPLAY_KEY_MAX, "block/%" PRIu64, id);

	return (struct cenote_key){text, (size_t)length};
}

static void replay_note(
	struct replay *replay, const char *verb, const char *key, const char *what)
{
	replay->failures++;
	if (replay->result->first_error[0] == '\0')
		(void)snprintf(replay->result->first_error, REPLAY_ERROR_MAX,
			"%s \"%s\": %s", verb, key, what);
}

static void replay_failed(
	struct replay *replay, const char *verb, const char *key, int error)
{
	char what[REPLAY_ERROR_MAX / 2];

	(void)snprintf(what, sizeof(what), "%s: %s", cenote_error_name(error),
		cenote_error_detail());
	replay_note(replay, verb, key, what);
	/* Without a daemon every call would take its whole time to fail. */
	if (error == CENOTE_ERR_UNAVAILABLE)
		replay->failures = REPLAY_FAILURES_MAX;
}

static uint64_t replay_wrong_bytes(const struct replay *replay, struct cenote_key key,
	const struct cenote_view *view)
{
	if (view->size != replay->job->block_bytes)
		return MAX(view->size, replay->job->block_bytes);
	return pattern_wrong(view->data, view->size, pattern_seed(key.data, key.size, 0));
}

/* Whether the block is there. */
static bool replay_get(struct replay *replay, uint64_t id)
{
	struct replay_result *result = replay->result;
	char text[REPLAY_KEY_MAX];
	struct cenote_key key = replay_key(id, text);
	uint64_t start_ns = tool_now_ns(), wrong;
	struct cenote_view view;
	struct cenote_get_options options = {.timeout_ms = replay->job->timeout_ms};
	int answer = cenote_get(replay->job->store, key, &options, &view);

	if (answer == CENOTE_ERR_NOT_FOUND) {
		hist_add(&result->miss_ns, tool_now_ns() - start_ns);
		return false;
	}
	if (answer != 0) {
		result->failed_gets++;
		replay_failed(replay, "get", text, answer);
		return false;
	}
	hist_add(&result->get_ns, tool_now_ns() - start_ns);
	wrong = replay_wrong_bytes(replay, key, &view);
	if (wrong != 0)
		replay_note(replay, "get", text, "wrong bytes");
	result->wrong_bytes += wrong;
	result->get_bytes += view.size;
	answer = cenote_release(replay->job->store, &view);
	if (answer != 0) {
		result->failed_gets++;
		replay_failed(replay, "release", text, answer);
	}
	return true;
}

static void replay_put(struct replay *replay, uint64_t id)
{
	struct replay_result *result = replay->result;
	struct cenote_put_options options = {.timeout_ms = replay->job->timeout_ms};
	uint64_t size = replay->job->block_bytes, start_ns;
	char text[REPLAY_KEY_MAX];
	struct cenote_key key = replay_key(id, text);
	int answer;

	pattern_write(replay->block, size, pattern_seed(key.data, key.size, 0));
	start_ns = tool_now_ns();
	answer = cenote_put(replay->job->store, key, replay->block, size, &options);
	if (answer == 0) {
		hist_add(&result->put_ns, tool_now_ns() - start_ns);
		result->puts++;
		result->put_bytes += size;
	} else if (answer == CENOTE_ERR_EXISTS) {
		result->put_exists++;
	} else {
		result->failed_puts++;
		replay_failed(replay, "put", text, answer);
	}
}

static bool replay_goes_on(const struct replay *replay)
{
	return !interrupt_came() && replay->failures < REPLAY_FAILURES_MAX;
}

static void replay_request(struct replay *replay, const struct trace_request *request)
{
	const uint64_t *ids = replay->job->trace->ids + request->first;
	size_t at = 0;

	while (at < request->count && replay_get(replay, ids[at]))
		at++;
	replay->result->prefix_hits += at;
	for (; at < request->count && replay_goes_on(replay); at++)
		replay_put(replay, ids[at]);
	replay->result->touches += request->count;
	replay->result->requests++;
}

static void replay_requests(struct replay *replay)
{
	const struct trace *trace = replay->job->trace;
	struct replay_result *result = replay->result;

	for (size_t i = 0; i < trace->request_count && replay_goes_on(replay); i++) {
		char note[80];

		replay_request(replay, &trace->requests[i]);
		(void)snprintf(note, sizeof(note),
			"request %zu of %zu, prefix hits %.1f %%", i + 1,
			trace->request_count, replay_hit_ratio(result) * 100);
		progress_update(replay->job->progress, i + 1, note);
	}
	result->broken_off = result->requests < trace->request_count;
}

int replay_run(const struct replay_job *job, struct replay_result *ret)
{
	struct replay replay = {.job = job, .result = ret};
	uint64_t start_ns = tool_now_ns();

	memset(ret, 0, sizeof(*ret));
	replay.block = malloc(job->block_bytes);
	if (replay.block == NULL) {
		tool_complain("replay: no memory for a block of %" PRIu64 " bytes",
			job->block_bytes);
		return TOOL_FAILED;
	}
	replay_requests(&replay);
	ret->took_ns = tool_now_ns() - start_ns;
	free(replay.block);
	return TOOL_OK;
}

double replay_hit_ratio(const struct replay_result *result)
{
	return result->touches == 0
		       ? 0
		       : (double)result->prefix_hits / (double)result->touches;
}

bool replay_passed(const struct replay_result *result)
{
	return !result->broken_off && result->wrong_bytes == 0 &&
	       result->failed_puts == 0 && result->failed_gets == 0;
}
