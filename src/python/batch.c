/*
 * batch.c - many keys in one call: what all batches share, and those that do not get; the
 * others are in py_batch_get.c.
 *
 * The result is a list in the order of the keys; what went wrong with a key is the
 * exception object in its place, so that one key's failure hides no other's result.
 *
 * Memory    the tuple of keys is a copy: a list could change while the interpreter lock
 *           is given up, and the keys' bytes are read in place.
 */
#include "python/python_priv.h"

#include <string.h>

int py_batch_enter(struct batch *batch, PyObject *self, PyObject *keys, PyObject *seconds,
	const char *what, size_t item_size)
{
	memset(batch, 0, sizeof(*batch));
	batch->keys = py_convert_sequence(keys, "keys");
	if (!batch->keys)
		return -1;
	batch->count = (size_t)PyTuple_Size(batch->keys);
	if (seconds) {
		batch->seconds = py_convert_sequence(seconds, what);
		if (!batch->seconds)
			return -1;
		if ((size_t)PyTuple_Size(batch->seconds) != batch->count) {
			PyErr_Format(PyExc_ValueError, "%zu keys, but %zd %s",
				batch->count, PyTuple_Size(batch->seconds), what);
			return -1;
		}
	}
	batch->items = PyMem_Calloc(batch->count ? batch->count : 1, item_size);
	if (!batch->items) {
		PyErr_NoMemory();
		return -1;
	}
	batch->home = py_store_enter(self);
	return batch->home ? 0 : -1;
}

void py_batch_leave(struct batch *batch)
{
	if (batch->home)
		py_home_unref(batch->home);
	PyMem_Free(batch->items);
	Py_XDECREF(batch->seconds);
	Py_XDECREF(batch->keys);
}

int py_batch_key(const struct batch *batch, size_t i, struct cenote_key *ret)
{
	return py_convert_key(PyTuple_GetItem(batch->keys, (Py_ssize_t)i), ret);
}

PyObject *py_batch_second(const struct batch *batch, size_t i)
{
	return PyTuple_GetItem(batch->seconds, (Py_ssize_t)i);
}

int py_batch_set(const struct batch *batch, PyObject *list, size_t i, int code,
	const struct cenote_key *key, PyObject *value)
{
	if (code < 0)
		value = py_error_new(batch->home->state, code, key, NULL);
	if (!value)
		return -1;
	return PyList_SetItem(list, (Py_ssize_t)i, value);
}

/* ---- put ----------------------------------------------------------------- */

/* The parts of item i, first by their number, since the array may still move. */
static int put_gather(const struct batch *batch, struct gather *gather)
{
	struct cenote_put_item *items = batch->items;
	size_t i, at = 0;

	for (i = 0; i < batch->count; i++) {
		size_t before = gather->count;

		if (py_batch_key(batch, i, &items[i].key) < 0 ||
			py_gather_add_value(gather, py_batch_second(batch, i)) < 0)
			return -1;
		items[i].count = gather->count - before;
	}
	for (i = 0; i < batch->count; i++) {
		items[i].parts = gather->parts + at;
		at += items[i].count;
	}
	return 0;
}

static PyObject *put_results(const struct batch *batch)
{
	const struct cenote_put_item *items = batch->items;
	PyObject *list = PyList_New((Py_ssize_t)batch->count);
	size_t i;

	for (i = 0; list && i < batch->count; i++) {
		PyObject *value = py_put_value(items[i].result);

		if (py_batch_set(batch, list, i, items[i].result, &items[i].key, value) <
			0)
			Py_CLEAR(list);
	}
	return list;
}

FAST_METHOD(py_batch_put)
{
	static const struct params params = {"put_batch", 2, 2, 10,
		{PARAM_keys, PARAM_values, PARAM_softpin, PARAM_ttl, PARAM_readers,
			PARAM_durable, PARAM_timeout, PARAM_replicas,
			PARAM_replicas_required, PARAM_replace}};
	struct state *state = store_state(self);
	struct cenote_put_options options;
	struct gather gather = {0};
	PyObject *result = NULL, *in[10];
	struct batch batch;

	if (py_params_take(state, &params, args, nargs, kwnames, in) < 0 ||
		py_convert_put_options(in + 2, &options) < 0)
		return NULL;
	if (py_batch_enter(&batch, self, in[0], in[1], "values",
		    sizeof(struct cenote_put_item)) == 0 &&
		put_gather(&batch, &gather) == 0) {
		WITHOUT_LOCK((void)cenote_put_batch(
			batch.home->store, batch.items, batch.count, &options));
		result = put_results(&batch);
	}
	py_gather_fini(&gather);
	py_batch_leave(&batch);
	return result;
}

/* ---- create -------------------------------------------------------------- */

static int create_fill(const struct batch *batch)
{
	struct cenote_create_item *items = batch->items;
	size_t i;

	for (i = 0; i < batch->count; i++) {
		if (py_batch_key(batch, i, &items[i].key) < 0 ||
			py_convert_number(py_batch_second(batch, i), "size", UINT64_MAX,
				&items[i].size) < 0)
			return -1;
	}
	return 0;
}

/* Every item becomes a Writer or is aborted, also when memory runs out in between. */
static PyObject *create_results(const struct batch *batch)
{
	struct cenote_create_item *items = batch->items;
	PyObject *list = PyList_New((Py_ssize_t)batch->count);
	size_t i;

	for (i = 0; i < batch->count; i++) {
		PyObject *writer = NULL;

		if (items[i].result >= 0)
			writer = py_writer_new(
				batch->home, &items[i].writer, items[i].key);
		if (list && py_batch_set(batch, list, i, items[i].result, &items[i].key,
				    writer) < 0)
			Py_CLEAR(list);
		else if (!list)
			Py_XDECREF(writer);
	}
	return list;
}

FAST_METHOD(py_batch_create)
{
	static const struct params params = {"create_batch", 2, 2, 10,
		{PARAM_keys, PARAM_sizes, PARAM_softpin, PARAM_ttl, PARAM_readers,
			PARAM_durable, PARAM_timeout, PARAM_replicas,
			PARAM_replicas_required, PARAM_replace}};
	struct state *state = store_state(self);
	struct cenote_put_options options;
	PyObject *result = NULL, *in[10];
	struct batch batch;

	if (py_params_take(state, &params, args, nargs, kwnames, in) < 0 ||
		py_convert_put_options(in + 2, &options) < 0)
		return NULL;
	if (py_batch_enter(&batch, self, in[0], in[1], "sizes",
		    sizeof(struct cenote_create_item)) == 0 &&
		create_fill(&batch) == 0) {
		WITHOUT_LOCK((void)cenote_create_batch(
			batch.home->store, batch.items, batch.count, &options));
		result = create_results(&batch);
	}
	py_batch_leave(&batch);
	return result;
}

/* ---- exists, touch, remove ----------------------------------------------- */

typedef size_t (*key_batch_fn)(
	struct cenote *store, struct cenote_key_item *items, size_t count);

static PyObject *exists_value(int code)
{
	return code < 0 ? NULL : PyBool_FromLong(code);
}

static PyObject *touch_value(int code)
{
	return code < 0 ? NULL : Py_NewRef(Py_None);
}

/* An absent key counts as removed, and is told apart. */
static PyObject *remove_value(int code)
{
	return code < 0 ? NULL : Py_NewRef(Py_True);
}

static PyObject *key_results(
	const struct batch *batch, int spared, PyObject *(*value)(int code))
{
	const struct cenote_key_item *items = batch->items;
	PyObject *list = PyList_New((Py_ssize_t)batch->count), *one;
	size_t i;
	int code;

	for (i = 0; list && i < batch->count; i++) {
		code = items[i].result;
		if (spared && code == spared) {
			code = 0;
			one = Py_NewRef(Py_False);
		} else {
			one = value(code);
		}
		if (py_batch_set(batch, list, i, code, &items[i].key, one) < 0)
			Py_CLEAR(list);
	}
	return list;
}

static PyObject *key_batch(PyObject *self, const struct params *params,
	PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, key_batch_fn call,
	int spared, PyObject *(*value)(int code))
{
	PyObject *result = NULL, *in[1];
	struct cenote_key_item *items;
	struct batch batch;
	size_t i = 0;

	if (py_params_take(store_state(self), params, args, nargs, kwnames, in) < 0)
		return NULL;
	if (py_batch_enter(&batch, self, in[0], NULL, NULL, sizeof(*items)) == 0) {
		items = batch.items;
		while (i < batch.count && py_batch_key(&batch, i, &items[i].key) == 0)
			i++;
		if (i == batch.count) {
			WITHOUT_LOCK((void)call(batch.home->store, items, batch.count));
			result = key_results(&batch, spared, value);
		}
	}
	py_batch_leave(&batch);
	return result;
}

FAST_METHOD(py_batch_exists)
{
	static const struct params params = {"exists_batch", 1, 1, 1, {PARAM_keys}};

	return key_batch(self, &params, args, nargs, kwnames, cenote_exists_batch, 0,
		exists_value);
}

FAST_METHOD(py_batch_touch)
{
	static const struct params params = {"touch_batch", 1, 1, 1, {PARAM_keys}};

	return key_batch(
		self, &params, args, nargs, kwnames, cenote_touch_batch, 0, touch_value);
}

FAST_METHOD(py_batch_remove)
{
	static const struct params params = {"remove_batch", 1, 1, 1, {PARAM_keys}};

	return key_batch(self, &params, args, nargs, kwnames, cenote_remove_batch,
		CENOTE_ERR_NOT_FOUND, remove_value);
}

/* ---- stat ---------------------------------------------------------------- */

static PyObject *stat_results(const struct batch *batch)
{
	const struct cenote_stat_item *items = batch->items;
	PyObject *list = PyList_New((Py_ssize_t)batch->count);
	size_t i;

	for (i = 0; list && i < batch->count; i++) {
		PyObject *stat = NULL;

		if (items[i].result >= 0)
			stat = py_stat_new(batch->home->state, &items[i].stat);
		if (py_batch_set(batch, list, i, items[i].result, &items[i].key, stat) <
			0)
			Py_CLEAR(list);
	}
	return list;
}

FAST_METHOD(py_batch_stat)
{
	static const struct params params = {"stat_batch", 1, 1, 1, {PARAM_keys}};
	PyObject *result = NULL, *in[1];
	struct cenote_stat_item *items;
	struct batch batch;
	size_t i = 0;

	if (py_params_take(store_state(self), &params, args, nargs, kwnames, in) < 0)
		return NULL;
	if (py_batch_enter(&batch, self, in[0], NULL, NULL, sizeof(*items)) == 0) {
		items = batch.items;
		while (i < batch.count && py_batch_key(&batch, i, &items[i].key) == 0)
			i++;
		if (i == batch.count) {
			WITHOUT_LOCK((void)cenote_stat_batch(
				batch.home->store, items, batch.count));
			result = stat_results(&batch);
		}
	}
	py_batch_leave(&batch);
	return result;
}
