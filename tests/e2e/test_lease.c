/*
 * Tests of leases, by the local call that plays a reader on another node, and of what else
 * the library has for a disk.
 */
#include "e2e.h"

#include <stdio.h>
#include <string.h>

#define KEY(text) cenote_key(text)
#define LARGE     (4ull << 20)

static struct e2e_node *node_with_disk(struct e2e *t)
{
	char disk[512];

	(void)snprintf(disk, sizeof(disk), "%s/disk", e2e_dir(t));
	return e2e_node_start(
		t, "--pool", "64M", "--disk", disk, "--disk-size", "512M", NULL);
}

static void lease_has_a_length_and_ends_once(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct cenote_lease lease;

	E2E_ERR(cenote_lease(store, KEY("k"), 0, &lease), CENOTE_ERR_NOT_FOUND);
	e2e_put_softpin(store, "k", LARGE, 1);
	E2E_ERR(cenote_lease(store, KEY("k"), -1, &lease), CENOTE_ERR_BAD_ARGUMENT);
	E2E_ERR(cenote_lease_release(store, NULL), CENOTE_ERR_BAD_ARGUMENT);
	E2E_OK(cenote_lease(store, KEY("k"), 0, &lease));
	E2E_EQ(lease.length_ms, 2000);
	E2E_OK(cenote_lease_release(store, &lease));
	E2E_ERR(cenote_lease_release(store, &lease), CENOTE_ERR_NOT_FOUND);
	E2E_OK(cenote_lease(store, KEY("k"), 60000, &lease));
	E2E_EQ(lease.length_ms, 30000);
	E2E_EQ(e2e_stat(store, "pool.leases"), 1);
	E2E_OK(cenote_lease_release(store, &lease));
	cenote_close(store);
}

/* The bytes stay for who has the lease, and go with its early end. */
static void lease_outlives_the_removal(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct cenote_lease lease;

	e2e_put_softpin(store, "k", LARGE, 1);
	E2E_OK(cenote_lease(store, KEY("k"), 30000, &lease));
	E2E_OK(cenote_remove(store, KEY("k")));
	E2E_EQ(cenote_exists(store, KEY("k")), 0);
	E2E_EQ(e2e_stat(store, "pool.condemned"), LARGE);
	E2E_OK(cenote_lease_release(store, &lease));
	e2e_expect_in_use(store, 0);
	e2e_check(store);
	cenote_close(store);
}

static void lease_of_before_the_restart_is_ignored(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct cenote_lease lease;

	e2e_put_softpin(store, "k", LARGE, 1);
	E2E_OK(cenote_lease(store, KEY("k"), 0, &lease));
	e2e_node_kill(node);
	e2e_node_restart(node);
	E2E_ERR(cenote_lease_release(store, &lease), CENOTE_ERR_NOT_FOUND);
	e2e_verify(store, "k", LARGE, 1);
	cenote_close(store);
}

/* An object that is only on disk is loaded for a lease, and stays where a wait finds it. */
static void lease_and_wait_know_what_is_on_disk(struct e2e *t)
{
	struct e2e_node *node = node_with_disk(t);
	struct cenote *store = e2e_connect(node);
	struct cenote_lease lease;
	struct cenote_stat stat = {.in_pool = true};
	char key[32];

	for (int i = 0; i < 32; i++) {
		(void)snprintf(key, sizeof(key), "k%d", i);
		e2e_put_softpin(store, key, LARGE, 1);
	}
	for (int i = 0; stat.in_pool; i++) {
		E2E_TRUE(i < 32);
		(void)snprintf(key, sizeof(key), "k%d", i);
		E2E_OK(cenote_stat(store, KEY(key), &stat));
	}
	E2E_TRUE(stat.on_disk);
	E2E_OK(cenote_wait(store, KEY(key), 1000));
	E2E_OK(cenote_stat(store, KEY(key), &stat));
	E2E_TRUE(!stat.in_pool);
	E2E_OK(cenote_lease(store, KEY(key), 0, &lease));
	E2E_EQ(lease.generation, stat.generation);
	E2E_OK(cenote_stat(store, KEY(key), &stat));
	E2E_TRUE(stat.in_pool && stat.on_disk);
	E2E_OK(cenote_lease_release(store, &lease));
	e2e_verify(store, key, LARGE, 1);
	e2e_check(store);
	cenote_close(store);
}

static const struct e2e_case cases[] = {
	E2E_CASE(lease_has_a_length_and_ends_once),
	E2E_CASE(lease_outlives_the_removal),
	E2E_CASE(lease_of_before_the_restart_is_ignored),
	E2E_CASE(lease_and_wait_know_what_is_on_disk),
};

E2E_MAIN_ALONE(cases)
