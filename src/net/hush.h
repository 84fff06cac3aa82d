/*
 * hush.h - who was complained about lately: one line a minute for each host.
 *
 * Units     ns of CLOCK_BOOTTIME.
 * Memory    a fixed table; of more hosts than it has, the one told of longest ago goes.
 * Errors    none.
 * Thread    its owner's.
 */
#ifndef NET_HUSH_H
#define NET_HUSH_H

#include "io/address.h"

#define HUSH_HOSTS 64u
#define HUSH_NS    60000000000ull

struct hush_host {
	char host[ADDRESS_HOST_MAX]; /* "": none */
	uint64_t told_ns;
	uint64_t kept; /* complaints since then that were not told */
};

struct hush {
	struct hush_host hosts[HUSH_HOSTS];
};

/* Whether to tell; if so, *ret_kept: how often it was not since the last time. */
bool hush_may_tell(struct hush *hush, const char *host, uint64_t now, uint64_t *ret_kept);

#endif
