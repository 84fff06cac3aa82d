/*
 * Tests of many clients: all at once coming, all at once dying, and one too many.
 */
#include "e2e.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY(text) cenote_key(text)
#define CLIENTS   64
#define OBJECTS   100

static void role_comer(struct e2e_self *self)
{
	struct cenote *store;

	e2e_self_say(self, "there");
	e2e_self_await(self, "go");
	store = e2e_self_connect(self);
	e2e_verify(store, "0", 1000, 0);
	e2e_self_say(self, "attached");
	e2e_self_await(self, "leave");
	cenote_close(store);
}

static void k4_11_64_clients_attach_at_once(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct e2e_role *comers[CLIENTS];

	e2e_put_softpin(store, "0", 1000, 0);
	for (int i = 0; i < CLIENTS; i++)
		comers[i] = e2e_role_start(t, node, "comer", NULL);
	for (int i = 0; i < CLIENTS; i++)
		e2e_role_expect(comers[i], "there");
	for (int i = 0; i < CLIENTS; i++)
		e2e_role_tell(comers[i], "go");
	for (int i = 0; i < CLIENTS; i++)
		e2e_role_expect(comers[i], "attached");
	E2E_EQ(e2e_stat(store, "node.clients"), CLIENTS + 1);
	for (int i = 0; i < CLIENTS; i++)
		e2e_role_tell(comers[i], "leave");
	for (int i = 0; i < CLIENTS; i++)
		e2e_role_end(comers[i]);
	E2E_EQ(e2e_stat(store, "node.clients"), 1);
	e2e_check(store);
	cenote_close(store);
}

static void role_holder(struct e2e_self *self)
{
	struct cenote *store = e2e_self_connect(self);
	struct cenote_writer writer;
	struct cenote_view views[OBJECTS];
	char key[24];

	for (int i = 0; i < OBJECTS; i++) {
		(void)snprintf(key, sizeof(key), "%d", i);
		E2E_OK(cenote_get(store, KEY(key), NULL, &views[i]));
	}
	E2E_OK(cenote_create(store, KEY(e2e_self_arg(self, 0)), 10000, NULL, &writer));
	e2e_self_say(self, "holds");
	e2e_self_await(self, "never told");
}

/* One that goes on working and checking all the while. */
static void role_worker(struct e2e_self *self)
{
	struct cenote *store = e2e_self_connect(self);
	char key[24];

	e2e_self_say(self, "works");
	for (int round = 0; round < 200; round++) {
		(void)snprintf(key, sizeof(key), "worker %d", round % 7);
		e2e_put(store, key, 100000, (uint64_t)round);
		e2e_verify(store, key, 100000, (uint64_t)round);
		E2E_OK(cenote_remove(store, KEY(key)));
	}
	e2e_self_say(self, "done");
	cenote_close(store);
}

static void k3_05_64_clients_with_100_holds_die_at_once(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote *store = e2e_connect(node);
	struct e2e_role *holders[CLIENTS], *worker;
	char key[24];

	for (int i = 0; i < OBJECTS; i++) {
		(void)snprintf(key, sizeof(key), "%d", i);
		e2e_put_softpin(store, key, 1000, (uint64_t)i);
	}
	for (int i = 0; i < CLIENTS; i++) {
		(void)snprintf(key, sizeof(key), "open %d", i);
		holders[i] = e2e_role_start(t, node, "holder", key, NULL);
	}
	for (int i = 0; i < CLIENTS; i++)
		e2e_role_expect(holders[i], "holds");
	for (int i = 0; i < OBJECTS; i++) {
		(void)snprintf(key, sizeof(key), "%d", i);
		E2E_OK(cenote_remove(store, KEY(key)));
	}
	worker = e2e_role_start(t, node, "worker", NULL);
	e2e_role_expect(worker, "works");
	for (int i = 0; i < CLIENTS; i++)
		E2E_EQ(kill(e2e_role_pid(holders[i]), SIGKILL), 0);
	for (int i = 0; i < CLIENTS; i++)
		e2e_role_dies(holders[i], SIGKILL);
	e2e_role_expect(worker, "done");
	e2e_role_end(worker);
	E2E_UNTIL(e2e_stat(store, "node.clients") == 1, e2e_second_ms());
	e2e_expect_in_use(store, 0);
	e2e_check(store);
	cenote_close(store);
}

static void the_257th_client_is_refused(struct e2e *t)
{
	struct e2e_node *node = e2e_node_start(t, "--pool", "64M", NULL);
	struct cenote_connect_options options = {.socket_path = e2e_node_socket(node)};
	struct cenote *stores[256], *one_more;

	for (int i = 0; i < 256; i++)
		stores[i] = e2e_connect(node);
	E2E_ERR(cenote_connect(&one_more, &options), CENOTE_ERR_TOO_MANY);
	E2E_DETAIL("256");
	e2e_put(stores[0], "k", 1000, 1);
	e2e_verify(stores[255], "k", 1000, 1);
	cenote_close(stores[17]);
	E2E_OK(cenote_connect(&one_more, &options));
	e2e_verify(one_more, "k", 1000, 1);
	stores[17] = one_more;
	for (int i = 0; i < 256; i++)
		cenote_close(stores[i]);
}

static const struct e2e_case cases[] = {
	E2E_CASE(k4_11_64_clients_attach_at_once),
	E2E_CASE(k3_05_64_clients_with_100_holds_die_at_once),
	E2E_CASE(the_257th_client_is_refused),
};

static const struct e2e_role_spec roles[] = {
	E2E_ROLE(comer),
	E2E_ROLE(holder),
	E2E_ROLE(worker),
};

E2E_MAIN(cases, roles)
