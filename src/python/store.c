/*
 * store.c - Store: one attached node. How it comes and goes, and the table of what it can
 * do; the methods are in put.c, get.c, life.c, batch.c and fault.c.
 *
 * Every method has the same shape: take the arguments, enter the home, call the library
 * without the interpreter lock, leave the home and raise or convert. While a call is
 * under way it is a user of the home, so another thread may close the Store meanwhile.
 */
#include "python/doc.h"
#include "python/python_priv.h"

#include <string.h>
#include <unistd.h>

struct home *py_store_enter(PyObject *self)
{
	struct home *home = ((struct store *)self)->home;

	if (!home) {
		PyErr_SetString(PyExc_ValueError, "the store is closed");
		return NULL;
	}
	py_home_ref(home);
	return home;
}

int py_store_leave(struct home *home, int code, const struct cenote_key *key)
{
	/* In this order: closing the last home overwrites the detail. */
	if (code < 0)
		py_error_raise(home->state, code, key);
	py_home_unref(home);
	return code < 0 ? -1 : code;
}

/* Attach as the store's own fields say. */
static struct home *store_attach(const struct store *self)
{
	struct cenote_connect_options options = {
		.socket_path = self->socket_path,
		.read_only = self->read_only,
		.timeout_ms = self->timeout_ms,
	};
	struct cenote *store;
	int code;

	WITHOUT_LOCK(code = cenote_connect(&store, &options));
	if (code < 0) {
		py_error_raise(self->state, code, NULL);
		return NULL;
	}
	return py_home_new(self->state, store);
}

/* A path as the system has it: str, bytes or os.PathLike; NULL for None. */
static int convert_path(PyObject *object, char **ret)
{
	PyObject *bytes;
	const char *text;

	*ret = NULL;
	if (!object || object == Py_None)
		return 0;
	if (!PyUnicode_FSConverter(object, &bytes))
		return -1;
	text = PyBytes_AsString(bytes);
	*ret = text ? PyMem_Malloc(strlen(text) + 1) : NULL;
	if (*ret)
		strcpy(*ret, text);
	else
		PyErr_NoMemory();
	Py_DECREF(bytes);
	return *ret ? 0 : -1;
}

FAST_METHOD(py_store_connect)
{
	static const struct params params = {
		"connect", 3, 0, 3, {PARAM_socket, PARAM_read_only, PARAM_timeout}};
	struct state *state = PyModule_GetState(self);
	struct store *store;
	PyObject *in[3];

	if (py_params_take(state, &params, args, nargs, kwnames, in) < 0)
		return NULL;
	store = PyObject_New(struct store, state->store_type);
	if (!store)
		return NULL;
	store->state = state;
	store->home = NULL;
	store->socket_path = NULL;
	if (convert_path(in[0], &store->socket_path) == 0 &&
		py_convert_flag(in[1], &store->read_only) == 0 &&
		py_convert_timeout(in[2], &store->timeout_ms) == 0)
		store->home = store_attach(store);
	if (!store->home)
		Py_CLEAR(store);
	return (PyObject *)store;
}

static void store_detach(struct store *self)
{
	struct home *home = self->home;

	self->home = NULL;
	if (home)
		py_home_unref(home);
}

static void store_dealloc(PyObject *self)
{
	struct store *store = (struct store *)self;
	PyTypeObject *type = Py_TYPE(self);

	store_detach(store);
	PyMem_Free(store->socket_path);
	PyObject_Free(self);
	Py_DECREF((PyObject *)type);
}

static PyObject *store_close(PyObject *self, PyObject *unused)
{
	(void)unused;
	store_detach((struct store *)self);
	Py_RETURN_NONE;
}

static PyObject *store_reattach(PyObject *self, PyObject *unused)
{
	struct store *store = (struct store *)self;
	struct home *home = py_store_enter(self);

	(void)unused;
	if (!home)
		return NULL;
	py_home_unref(home); /* the Store itself keeps it */
	if (home->pid == getpid())
		Py_RETURN_NONE;
	home = store_attach(store);
	if (!home)
		return NULL;
	store_detach(store);
	store->home = home;
	Py_RETURN_NONE;
}

static PyObject *store_with(PyObject *self, PyObject *unused)
{
	struct home *home = py_store_enter(self);

	(void)unused;
	if (!home)
		return NULL;
	py_home_unref(home);
	return Py_NewRef(self);
}

static PyObject *store_without(PyObject *self, PyObject *args)
{
	(void)args;
	return store_close(self, NULL);
}

static PyObject *path_back(const struct store *store)
{
	if (!store->socket_path)
		Py_RETURN_NONE;
	return PyUnicode_DecodeFSDefault(store->socket_path);
}

/* Pickled, for a process that was not forked, it is a connect() there. */
static PyObject *store_reduce(PyObject *self, PyObject *unused)
{
	const struct store *store = (struct store *)self;
	PyObject *module, *connect, *timeout;

	(void)unused;
	module = PyType_GetModule(Py_TYPE(self));
	connect = module ? PyObject_GetAttrString(module, "connect") : NULL;
	if (store->timeout_ms == CENOTE_FOREVER)
		timeout = Py_NewRef(Py_None);
	else
		timeout = PyFloat_FromDouble(
			store->timeout_ms ? (double)store->timeout_ms / 1e3 : 10.0);
	return Py_BuildValue("N(NNN)", connect, path_back(store),
		PyBool_FromLong(store->read_only), timeout);
}

/* ---- the type ------------------------------------------------------------ */

static PyObject *store_get_closed(PyObject *self, void *closure)
{
	(void)closure;
	return PyBool_FromLong(!((struct store *)self)->home);
}

static PyObject *store_get_read_only(PyObject *self, void *closure)
{
	(void)closure;
	return PyBool_FromLong(((struct store *)self)->read_only);
}

static PyObject *store_get_socket(PyObject *self, void *closure)
{
	(void)closure;
	return path_back((struct store *)self);
}

static PyMethodDef store_methods[] = {
	METHOD("put", py_put_whole, DOC_PUT),
	METHOD("upsert", py_put_upsert, DOC_UPSERT),
	METHOD("put_parts", py_put_parts, DOC_PUT_PARTS),
	METHOD("create", py_put_create, DOC_CREATE),
	METHOD("get", py_get_hold, DOC_GET),
	METHOD("get_buffer", py_get_hold, DOC_GET_BUFFER),
	METHOD("get_into", py_get_into, DOC_GET_INTO),
	METHOD("take", py_get_take, DOC_TAKE),
	METHOD("wait", py_get_wait, DOC_WAIT),
	{"exists", py_life_exists, METH_O, PyDoc_STR(DOC_EXISTS)},
	{"stat", py_life_stat, METH_O, PyDoc_STR(DOC_STAT)},
	METHOD("list", py_life_list, DOC_LIST),
	{"touch", py_life_touch, METH_O, PyDoc_STR(DOC_TOUCH)},
	{"remove", py_life_remove, METH_O, PyDoc_STR(DOC_REMOVE)},
	{"remove_prefix", py_life_remove_prefix, METH_O, PyDoc_STR(DOC_REMOVE_PREFIX)},
	{"remove_regex", py_life_remove_regex, METH_O, PyDoc_STR(DOC_REMOVE_REGEX)},
	METHOD("put_batch", py_batch_put, DOC_PUT_BATCH),
	METHOD("create_batch", py_batch_create, DOC_CREATE_BATCH),
	METHOD("get_batch", py_batch_get, DOC_GET_BATCH),
	METHOD("get_into_batch", py_batch_get_into, DOC_GET_INTO_BATCH),
	METHOD("take_batch", py_batch_take, DOC_TAKE_BATCH),
	METHOD("exists_batch", py_batch_exists, DOC_EXISTS_BATCH),
	METHOD("stat_batch", py_batch_stat, DOC_STAT_BATCH),
	METHOD("touch_batch", py_batch_touch, DOC_TOUCH_BATCH),
	METHOD("remove_batch", py_batch_remove, DOC_REMOVE_BATCH),
	{"info", py_life_info, METH_O, PyDoc_STR(DOC_INFO)},
	METHOD("drain", py_life_drain, DOC_DRAIN),
	{"pool_region", py_life_pool_region, METH_NOARGS, PyDoc_STR(DOC_POOL_REGION)},
	{"reattach", store_reattach, METH_NOARGS, PyDoc_STR(DOC_REATTACH)},
	{"close", store_close, METH_NOARGS, PyDoc_STR(DOC_CLOSE)},
	METHOD("inject_fault", py_fault_inject, DOC_STORE_INJECT_FAULT),
	METHOD("get_fault_status", py_fault_status, DOC_STORE_GET_FAULT_STATUS),
	METHOD("inject_fault_local_master", py_fault_inject_master,
		DOC_INJECT_FAULT_LOCAL_MASTER),
	METHOD("get_fault_status_local_master", py_fault_status_master,
		DOC_GET_FAULT_STATUS_LOCAL_MASTER),
	{"__enter__", store_with, METH_NOARGS, NULL},
	{"__exit__", store_without, METH_VARARGS, NULL},
	{"__reduce__", store_reduce, METH_NOARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static PyGetSetDef store_getset[] = {
	{"closed", store_get_closed, NULL, PyDoc_STR("Whether close() was called."),
		NULL},
	{"read_only", store_get_read_only, NULL, PyDoc_STR("As given to connect()."),
		NULL},
	{"socket", store_get_socket, NULL, PyDoc_STR("As given to connect()."), NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot store_slots[] = {
	{Py_tp_dealloc, (void *)store_dealloc},
	{Py_tp_methods, store_methods},
	{Py_tp_getset, store_getset},
	DOC_SLOT(DOC_STORE),
	{0, NULL},
};

static PyType_Spec store_spec = {
	.name = "cenote.Store",
	.basicsize = sizeof(struct store),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = store_slots,
};

int py_store_init(PyObject *module, struct state *state)
{
	state->store_type = (PyTypeObject *)PyType_FromModuleAndSpec(
		module, &store_spec, NULL);
	if (!state->store_type)
		return -1;
	return PyModule_AddType(module, state->store_type);
}
