/*
 * fault.c - the four fault calls, which return numbers and never raise what the library
 * says: a script that breaks things compares codes.
 *
 * The first two have no store and are functions of the module and methods of a Store; the
 * others arm and read the points of the daemon that the Store is attached to.
 */
#include "python/python_priv.h"

struct order {
	const char *name;
	const char *action;
	int64_t value;
	uint64_t from_hit;
	int64_t times;
};

static struct state *state_of(PyObject *self)
{
	return PyModule_Check(self) ? PyModule_GetState(self)
				    : ((struct store *)self)->state;
}

static int convert_number(PyObject *object, long long *ret)
{
	if (!object)
		return 0;
	*ret = PyLong_AsLongLong(object);
	return *ret == -1 && PyErr_Occurred() ? -1 : 0;
}

static int order_take(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
	PyObject *kwnames, struct order *ret)
{
	static const struct params params = {"inject_fault", 5, 2, 5,
		{PARAM_name, PARAM_action, PARAM_value, PARAM_from_hit, PARAM_times}};
	PyObject *in[5];
	long long value = 0, from_hit = 1, times = 1;

	if (py_params_take(state_of(self), &params, args, nargs, kwnames, in) < 0)
		return -1;
	ret->name = PyUnicode_AsUTF8AndSize(in[0], NULL);
	if (!ret->name)
		return -1;
	ret->action = PyUnicode_AsUTF8AndSize(in[1], NULL);
	if (!ret->action || convert_number(in[2], &value) < 0 ||
		convert_number(in[3], &from_hit) < 0 || convert_number(in[4], &times) < 0)
		return -1;
	if (from_hit < 0) {
		PyErr_SetString(PyExc_ValueError, "from_hit must be 0 or more");
		return -1;
	}
	ret->value = value;
	ret->from_hit = (uint64_t)from_hit;
	ret->times = times;
	return 0;
}

static const char *name_take(
	PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
	static const struct params params = {"get_fault_status", 1, 1, 1, {PARAM_name}};
	PyObject *in[1];

	if (py_params_take(state_of(self), &params, args, nargs, kwnames, in) < 0)
		return NULL;
	return PyUnicode_AsUTF8AndSize(in[0], NULL);
}

static PyObject *status_answer(int code, uint64_t hits, uint64_t fired)
{
	if (code < 0)
		return PyLong_FromLong(code);
	return Py_BuildValue("{s:K,s:K}", "hits", (unsigned long long)hits, "fired",
		(unsigned long long)fired);
}

FAST_METHOD(py_fault_inject)
{
	struct order order;

	if (order_take(self, args, nargs, kwnames, &order) < 0)
		return NULL;
	return PyLong_FromLong(cenote_inject_fault(
		order.name, order.action, order.value, order.from_hit, order.times));
}

FAST_METHOD(py_fault_status)
{
	const char *name = name_take(self, args, nargs, kwnames);
	uint64_t hits = 0, fired = 0;
	int code;

	if (!name)
		return NULL;
	code = cenote_get_fault_status(name, &hits, &fired);
	return status_answer(code, hits, fired);
}

FAST_METHOD(py_fault_inject_master)
{
	struct order order;
	struct home *home;
	int code;

	if (order_take(self, args, nargs, kwnames, &order) < 0)
		return NULL;
	home = py_store_enter(self);
	if (!home)
		return NULL;
	WITHOUT_LOCK(code = cenote_inject_fault_local_master(home->store, order.name,
			     order.action, order.value, order.from_hit, order.times));
	py_home_unref(home);
	return PyLong_FromLong(code);
}

FAST_METHOD(py_fault_status_master)
{
	const char *name = name_take(self, args, nargs, kwnames);
	uint64_t hits = 0, fired = 0;
	struct home *home;
	int code;

	if (!name)
		return NULL;
	home = py_store_enter(self);
	if (!home)
		return NULL;
	WITHOUT_LOCK(code = cenote_get_fault_status_local_master(
			     home->store, name, &hits, &fired));
	py_home_unref(home);
	return status_answer(code, hits, fired);
}
