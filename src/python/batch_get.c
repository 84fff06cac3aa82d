/*
 * py_batch_get.c - the batches that get, and that can wait for their keys.
 */
#include "python/python_priv.h"

#include <string.h>

/* ---- waiting ------------------------------------------------------------- */

/* One of the library's calls, for items of its own kind. */
struct ask {
	size_t (*call)(struct cenote *store, void *items, size_t count,
		const struct cenote_get_options *options);
	size_t item_size;
	size_t result_offset; /* of the int in an item */
};

static int *ask_result(const struct ask *ask, void *items, size_t i)
{
	return (int *)(void *)((char *)items + i * ask->item_size + ask->result_offset);
}

static void ask_once(const struct ask *ask, const struct batch *batch, void *items,
	size_t count, const struct cenote_get_options *options)
{
	WITHOUT_LOCK((void)ask->call(batch->home->store, items, count, options));
}

/* Copy the items that timed out to `late`, or back from there; how many they are. */
static size_t ask_move_late(
	const struct ask *ask, const struct batch *batch, char *late, bool back)
{
	size_t size = ask->item_size, count = 0, i;
	char *item = batch->items;

	for (i = 0; i < batch->count; i++, item += size) {
		if (*ask_result(ask, item, 0) != CENOTE_ERR_TIMEOUT)
			continue;
		if (back)
			memcpy(item, late + count * size, size);
		else
			memcpy(late + count * size, item, size);
		count++;
	}
	return count;
}

/* A slice was too short for some: ask for these again, until the wait is over. -1: a
 * signal handler has raised, or memory is out; the items are as far as they came. */
static int ask_patiently(const struct ask *ask, const struct batch *batch,
	struct cenote_get_options *options)
{
	struct patience patience;
	size_t count;
	int more = 0;
	char *late;

	py_patience_init(&patience, options->wait, options->timeout_ms);
	options->timeout_ms = patience.slice_ms;
	ask_once(ask, batch, batch->items, batch->count, options);
	if (!patience.sliced)
		return 0;
	late = PyMem_Calloc(batch->count ? batch->count : 1, ask->item_size);
	if (!late) {
		PyErr_NoMemory();
		return -1;
	}
	for (;;) {
		count = ask_move_late(ask, batch, late, false);
		more = count > 0 ? py_patience_more(&patience, CENOTE_ERR_TIMEOUT) : 0;
		if (more <= 0)
			break;
		options->timeout_ms = patience.slice_ms;
		ask_once(ask, batch, late, count, options);
		(void)ask_move_late(ask, batch, late, true);
	}
	PyMem_Free(late);
	return more;
}

/* ---- get and take -------------------------------------------------------- */

static size_t call_get(struct cenote *store, void *items, size_t count,
	const struct cenote_get_options *options)
{
	return cenote_get_batch(store, items, count, options);
}

static size_t call_take(struct cenote *store, void *items, size_t count,
	const struct cenote_get_options *options)
{
	return cenote_take_batch(store, items, count, options);
}

static const struct ask ask_get = {call_get, sizeof(struct cenote_get_item),
	offsetof(struct cenote_get_item, result)};
static const struct ask ask_take = {call_take, sizeof(struct cenote_get_item),
	offsetof(struct cenote_get_item, result)};

static int hold_fill(const struct batch *batch)
{
	struct cenote_get_item *items = batch->items;
	size_t i;

	for (i = 0; i < batch->count; i++) {
		if (py_batch_key(batch, i, &items[i].key) < 0)
			return -1;
	}
	return 0;
}

/* Every view becomes a Buffer or is released, also when memory runs out in between. */
static PyObject *hold_results(const struct batch *batch)
{
	const struct cenote_get_item *items = batch->items;
	PyObject *list = PyList_New((Py_ssize_t)batch->count);
	size_t i;

	for (i = 0; i < batch->count; i++) {
		PyObject *buffer = NULL;

		if (items[i].result >= 0)
			buffer = py_buffer_new(batch->home, &items[i].view);
		if (!list)
			Py_XDECREF(buffer);
		else if (py_batch_set(batch, list, i, items[i].result, &items[i].key,
				 buffer) < 0)
			Py_CLEAR(list);
	}
	return list;
}

static void hold_give_back(const struct batch *batch)
{
	struct cenote_get_item *items = batch->items;
	size_t i;

	for (i = 0; i < batch->count; i++) {
		if (items[i].result >= 0)
			(void)cenote_release(batch->home->store, &items[i].view);
	}
}

static PyObject *hold_batch(PyObject *self, const struct ask *ask, PyObject *const *in)
{
	struct cenote_get_options options = {0};
	PyObject *result = NULL;
	struct batch batch;

	if (py_convert_flag(in[1], &options.wait) < 0 ||
		py_convert_timeout(in[2], &options.timeout_ms) < 0)
		return NULL;
	if (py_batch_enter(&batch, self, in[0], NULL, NULL,
		    sizeof(struct cenote_get_item)) == 0 &&
		hold_fill(&batch) == 0) {
		if (ask_patiently(ask, &batch, &options) < 0)
			hold_give_back(&batch);
		else
			result = hold_results(&batch);
	}
	py_batch_leave(&batch);
	return result;
}

FAST_METHOD(py_batch_get)
{
	static const struct params params = {
		"get_batch", 1, 1, 3, {PARAM_keys, PARAM_wait, PARAM_timeout}};
	PyObject *in[3];

	if (py_params_take(store_state(self), &params, args, nargs, kwnames, in) < 0)
		return NULL;
	return hold_batch(self, &ask_get, in);
}

FAST_METHOD(py_batch_take)
{
	static const struct params params = {
		"take_batch", 1, 1, 3, {PARAM_keys, PARAM_wait, PARAM_timeout}};
	PyObject *in[3];

	if (py_params_take(store_state(self), &params, args, nargs, kwnames, in) < 0)
		return NULL;
	return hold_batch(self, &ask_take, in);
}

/* ---- get_into ------------------------------------------------------------ */

static size_t call_get_into(struct cenote *store, void *items, size_t count,
	const struct cenote_get_options *options)
{
	return cenote_get_into_batch(store, items, count, options);
}

static const struct ask ask_get_into = {call_get_into,
	sizeof(struct cenote_get_into_item),
	offsetof(struct cenote_get_into_item, result)};

/* The number of buffers taken, which are to be given back; fewer than all: failed. */
static size_t into_fill(const struct batch *batch, Py_buffer *buffers)
{
	struct cenote_get_into_item *items = batch->items;
	size_t i;

	for (i = 0; i < batch->count; i++) {
		if (py_batch_key(batch, i, &items[i].key) < 0 ||
			PyObject_GetBuffer(py_batch_second(batch, i), &buffers[i],
				PyBUF_WRITABLE) < 0)
			return i;
		items[i].buffer = buffers[i].buf;
		items[i].buffer_size = (uint64_t)buffers[i].len;
	}
	return i;
}

static PyObject *into_results(const struct batch *batch)
{
	const struct cenote_get_into_item *items = batch->items;
	PyObject *list = PyList_New((Py_ssize_t)batch->count);
	size_t i;

	for (i = 0; list && i < batch->count; i++) {
		PyObject *size = NULL;

		if (items[i].result >= 0)
			size = PyLong_FromUnsignedLongLong(items[i].size);
		if (py_batch_set(batch, list, i, items[i].result, &items[i].key, size) <
			0)
			Py_CLEAR(list);
	}
	return list;
}

static PyObject *into_run(const struct batch *batch, struct cenote_get_options *options)
{
	Py_buffer *buffers = PyMem_Calloc(
		batch->count ? batch->count : 1, sizeof(*buffers));
	PyObject *result = NULL;
	size_t taken, i;

	if (!buffers)
		return PyErr_NoMemory();
	taken = into_fill(batch, buffers);
	if (taken == batch->count && ask_patiently(&ask_get_into, batch, options) == 0)
		result = into_results(batch);
	for (i = 0; i < taken; i++)
		PyBuffer_Release(&buffers[i]);
	PyMem_Free(buffers);
	return result;
}

FAST_METHOD(py_batch_get_into)
{
	static const struct params params = {"get_into_batch", 2, 2, 4,
		{PARAM_keys, PARAM_buffers, PARAM_wait, PARAM_timeout}};
	struct cenote_get_options options = {0};
	PyObject *result = NULL, *in[4];
	struct batch batch;

	if (py_params_take(store_state(self), &params, args, nargs, kwnames, in) < 0 ||
		py_convert_flag(in[2], &options.wait) < 0 ||
		py_convert_timeout(in[3], &options.timeout_ms) < 0)
		return NULL;
	if (py_batch_enter(&batch, self, in[0], in[1], "buffers",
		    sizeof(struct cenote_get_into_item)) == 0)
		result = into_run(&batch, &options);
	py_batch_leave(&batch);
	return result;
}
