/*
 * hush.c - a table small enough to be walked.
 */
#include "net/hush.h"

#include <stdio.h>
#include <string.h>

/* That of the host, or the one to use for it. */
static struct hush_host *hush_find(struct hush *hush, const char *host)
{
	struct hush_host *oldest = &hush->hosts[0];

	for (uint32_t i = 0; i < HUSH_HOSTS; i++) {
		struct hush_host *at = &hush->hosts[i];

		if (at->host[0] == '\0' || strcmp(at->host, host) == 0)
			return at;
		if (at->told_ns < oldest->told_ns)
			oldest = at;
	}
	return oldest;
}

bool hush_may_tell(struct hush *hush, const char *host, uint64_t now, uint64_t *ret_kept)
{
	struct hush_host *at = hush_find(hush, host);

	if (strcmp(at->host, host) != 0) {
		*at = (struct hush_host){.told_ns = now};
		(void)snprintf(at->host, sizeof(at->host), "%s", host);
		*ret_kept = 0;
		return true;
	}
	if (now < at->told_ns + HUSH_NS) {
		at->kept++;
		return false;
	}
	at->told_ns = now;
	*ret_kept = at->kept;
	at->kept = 0;
	return true;
}
