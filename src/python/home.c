/*
 * home.c - the attached store that Python's objects share; the last to leave closes it.
 */
#include "python/python_priv.h"

#include <unistd.h>

struct home *py_home_new(struct state *state, struct cenote *store)
{
	struct home *home = PyMem_Calloc(1, sizeof(*home));

	if (!home) {
		cenote_close(store);
		PyErr_NoMemory();
		return NULL;
	}
	home->state = state;
	home->store = store;
	home->users = 1;
	home->forks = state->forks;
	home->pid = getpid();
	return home;
}

void py_home_ref(struct home *home)
{
	home->users++;
}

void py_home_unref(struct home *home)
{
	if (--home->users > 0)
		return;
	WITHOUT_LOCK(cenote_close(home->store));
	PyMem_Free(home);
}
