/*
 * node_peers_disk.h - the world of node_peers.h with the disk of node_disk.h beside it, of four
 * times the pool's size.
 */
#ifndef UNIT_NODE_PEERS_DISK_H
#define UNIT_NODE_PEERS_DISK_H

#include "node_disk.h"
#include "node_peers.h"

static inline int setup_disk_among_peers(void **state)
{
	(void)state;
	open_world_on_disk(DISK);
	return fake_start();
}

static inline int teardown_disk_among_peers(void **state)
{
	int err = teardown_peers(state);

	sim_tier_close(&tier);
	return err;
}

/* The host was off: what there is is on disk alone. Its clients are gone. */
static inline void node_loses_its_pool(struct guest *guest)
{
	sim_process_end(&world, guest->pid);
	node_dies();
	sim_tier_lose_host(&tier);
	sim_world_lose(&world);
	node_starts_again();
	turn(5 * SECOND);
}

#define DISK_AMONG_PEERS(name)           \
	cmocka_unit_test_setup_teardown( \
		name, setup_disk_among_peers, teardown_disk_among_peers)

#endif
