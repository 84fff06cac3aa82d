/*
 * redis_rig.h - real redis-servers for tests: one, or a cluster, on ports of their own of
 * 127.0.0.1, in a temporary directory, without anything kept on disk.
 *
 * A server ends with redis_rig_kill(), at the program's end, and with the program.
 */
#ifndef UNIT_REDIS_RIG_H
#define UNIT_REDIS_RIG_H

#include "unit.h"

#include <hiredis/hiredis.h>
#include <sys/types.h>

#define REDIS_RIG_ARGS    16
#define REDIS_RIG_WAIT_NS 20000000000ull

struct redis_rig {
	pid_t pid; /* 0: it does not run */
	uint16_t port, bus_port;
	char path[128];                   /* of its directory */
	const char *args[REDIS_RIG_ARGS]; /* beside the usual ones, NULL-ended */
	bool in_cluster;
	redisContext *admin;
};

uint16_t redis_rig_free_port(void);
/* False: there is no redis-server on this machine. */
bool redis_rig_can(void);
/* Start it, and wait until it serves. `args`: NULL-ended words, or NULL. */
void redis_rig_start(struct redis_rig *rig, const char *const *args);
void redis_rig_start_in_cluster(struct redis_rig *rig);
/* The same server again, on its old port, with nothing in it. */
void redis_rig_restart(struct redis_rig *rig);
void redis_rig_stop(struct redis_rig *rig);  /* SIGKILL; it may be restarted */
void redis_rig_kill(struct redis_rig *rig);  /* SIGKILL, for good */
void redis_rig_pause(struct redis_rig *rig); /* it answers nothing, */
void redis_rig_go_on(struct redis_rig *rig); /* and then all at once */

/* A command that must not fail; free the reply. */
redisReply *redis_rig_ask(struct redis_rig *rig, const char *format, ...);
void redis_rig_do(struct redis_rig *rig, const char *format, ...);
/* Whether what it answers has this text in it. */
bool redis_rig_says(struct redis_rig *rig, const char *text, const char *format, ...);
/* Whether it answers with this number. */
bool redis_rig_counts(struct redis_rig *rig, long long count, const char *format, ...);
/* Ask until it says so. */
void redis_rig_await(struct redis_rig *rig, const char *text, const char *command);

/* `count` masters that share the slots evenly, and know each other. */
void redis_rig_join(struct redis_rig *rigs, size_t count);
/* A replica of the master, and in step with it. */
void redis_rig_add_replica(struct redis_rig *replica, struct redis_rig *master);
/* Its id in the cluster. */
const char *redis_rig_node(struct redis_rig *rig, char id[64]);

#endif
