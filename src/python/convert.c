/*
 * convert.c - from Python's arguments to the library's, and back.
 *
 * Arguments come as CPython's vector calls pass them, without a tuple or dict in between;
 * py_params_take() sorts them. What is converted points into the caller's objects, which
 * live until the call returns.
 */
#include "python/python_priv.h"

#include <limits.h>
#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- arguments ----------------------------------------------------------- */

static int params_index(
	const struct state *state, const struct params *params, PyObject *name)
{
	int i;

	for (i = 0; i < params->count; i++) {
		if (state->params[params->names[i]] == name)
			return i;
	}
	/* Names built at run time are not interned. */
	for (i = 0; i < params->count; i++) {
		if (PyUnicode_Compare(state->params[params->names[i]], name) == 0)
			return i;
	}
	PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument %R",
		params->function, name);
	return -1;
}

static int params_take_named(const struct state *state, const struct params *params,
	PyObject *const *values, PyObject *kwnames, PyObject **ret)
{
	Py_ssize_t count = PyTuple_Size(kwnames), i;
	int at;

	for (i = 0; i < count; i++) {
		at = params_index(state, params, PyTuple_GetItem(kwnames, i));
		if (at < 0)
			return -1;
		if (ret[at]) {
			PyErr_Format(PyExc_TypeError,
				"%s() got multiple values for argument '%U'",
				params->function, state->params[params->names[at]]);
			return -1;
		}
		ret[at] = values[i];
	}
	return 0;
}

int py_params_take(const struct state *state, const struct params *params,
	PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, PyObject **ret)
{
	int i;

	if (nargs > params->positional) {
		PyErr_Format(PyExc_TypeError,
			"%s() takes at most %d positional arguments (%zd given)",
			params->function, params->positional, nargs);
		return -1;
	}
	for (i = 0; i < params->count; i++)
		ret[i] = i < nargs ? args[i] : NULL;
	if (kwnames && params_take_named(state, params, args + nargs, kwnames, ret) < 0)
		return -1;
	for (i = 0; i < params->required; i++) {
		if (!ret[i]) {
			PyErr_Format(PyExc_TypeError,
				"%s() missing required argument: '%U'", params->function,
				state->params[params->names[i]]);
			return -1;
		}
	}
	return 0;
}

int py_convert_key(PyObject *object, struct cenote_key *ret)
{
	Py_ssize_t size;

	if (PyUnicode_Check(object)) {
		ret->data = PyUnicode_AsUTF8AndSize(object, &size);
	} else if (PyBytes_Check(object)) {
		ret->data = PyBytes_AsString(object);
		size = PyBytes_Size(object);
	} else {
		PyErr_Format(PyExc_TypeError, "a key is str or bytes, not %R",
			Py_TYPE(object));
		return -1;
	}
	if (!ret->data)
		return -1;
	ret->size = (size_t)size;
	return 0;
}

PyObject *py_convert_key_back(const char *key, size_t size)
{
	PyObject *text = PyUnicode_DecodeUTF8(key, (Py_ssize_t)size, NULL);

	if (text || !PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
		return text;
	PyErr_Clear();
	return PyBytes_FromStringAndSize(key, (Py_ssize_t)size);
}

PyObject *py_convert_sequence(PyObject *object, const char *what)
{
	/* Both would do as a sequence, of characters. */
	if (PyUnicode_Check(object) || PyObject_CheckBuffer(object)) {
		PyErr_Format(PyExc_TypeError, "%s must be a sequence, not %R", what,
			Py_TYPE(object));
		return NULL;
	}
	return PySequence_Tuple(object);
}

/* Seconds to ms, rounded up, so that nothing but 0 becomes 0. */
static int convert_seconds(PyObject *object, const char *what, int64_t *ret_ms)
{
	double seconds = PyFloat_AsDouble(object);

	if (seconds == -1.0 && PyErr_Occurred())
		return -1;
	if (!(seconds >= 0)) {
		PyErr_Format(PyExc_ValueError, "%s must be 0 or more seconds, not %R",
			what, object);
		return -1;
	}
	/* Three hundred thousand years do for infinity. */
	*ret_ms = seconds < 1e13 ? (int64_t)ceil(seconds * 1e3) : (int64_t)1e16;
	return 0;
}

int py_convert_timeout(PyObject *object, int64_t *ret_ms)
{
	*ret_ms = 0;
	if (!object)
		return 0;
	if (object == Py_None) {
		*ret_ms = CENOTE_FOREVER;
		return 0;
	}
	if (convert_seconds(object, "timeout", ret_ms) < 0)
		return -1;
	if (*ret_ms == 0) /* which is the default */
		*ret_ms = 1;
	return 0;
}

int py_convert_flag(PyObject *object, bool *ret)
{
	int truth = object ? PyObject_IsTrue(object) : 0;

	if (truth < 0)
		return -1;
	*ret = truth;
	return 0;
}

int py_convert_number(PyObject *object, const char *what, uint64_t most, uint64_t *ret)
{
	PyObject *number = PyNumber_Index(object);
	unsigned long long value;
	bool fits;

	if (!number)
		return -1;
	value = PyLong_AsUnsignedLongLong(number);
	Py_DECREF(number);
	fits = value != ULLONG_MAX || !PyErr_Occurred();
	if (fits && value <= most) {
		*ret = value;
		return 0;
	}
	PyErr_Clear();
	PyErr_Format(PyExc_ValueError, "%s must be 0 to %llu, not %R", what,
		(unsigned long long)most, object);
	return -1;
}

static int convert_readers(PyObject *object, struct cenote_put_options *options)
{
	uint64_t readers = 0;

	if (object && object != Py_None &&
		py_convert_number(object, "readers", UINT16_MAX, &readers) < 0)
		return -1;
	options->readers = (uint16_t)readers;
	return 0;
}

static int convert_replicas(PyObject *object, struct cenote_put_options *options)
{
	uint64_t replicas = 1;

	if (object && object != Py_None &&
		py_convert_number(object, "replicas", CENOTE_REPLICAS_MAX, &replicas) < 0)
		return -1;
	options->replicas = (uint16_t)replicas;
	return 0;
}

int py_convert_put_options(PyObject *const *in, struct cenote_put_options *ret)
{
	PyObject *softpin = in[0], *ttl = in[1], *readers = in[2];
	PyObject *durable = in[3], *timeout = in[4], *replace = in[7];
	int64_t ttl_ms = 0;

	memset(ret, 0, sizeof(*ret));
	if (ttl && ttl != Py_None) {
		if (convert_seconds(ttl, "ttl", &ttl_ms) < 0)
			return -1;
		if (ttl_ms == 0) { /* which would be none */
			PyErr_SetString(PyExc_ValueError,
				"ttl must be more than 0 seconds, or None");
			return -1;
		}
	}
	ret->ttl_ms = (uint64_t)ttl_ms;
	if (py_convert_flag(softpin, &ret->softpin) < 0 ||
		py_convert_flag(durable, &ret->durable) < 0 ||
		py_convert_flag(replace, &ret->replace) < 0 ||
		convert_replicas(in[5], ret) < 0 ||
		py_convert_flag(in[6], &ret->replicas_required) < 0 ||
		py_convert_timeout(timeout, &ret->timeout_ms) < 0)
		return -1;
	return convert_readers(readers, ret);
}

/* ---- buffers of the caller ----------------------------------------------- */

static int gather_grow(struct gather *gather)
{
	size_t size = gather->size ? gather->size * 2 : 8;
	Py_buffer *buffers;
	struct cenote_part *parts;

	buffers = PyMem_Realloc(gather->buffers, size * sizeof(*buffers));
	if (buffers)
		gather->buffers = buffers;
	parts = PyMem_Realloc(gather->parts, size * sizeof(*parts));
	if (parts)
		gather->parts = parts;
	if (!buffers || !parts) {
		PyErr_NoMemory();
		return -1;
	}
	gather->size = size;
	return 0;
}

int py_gather_add(struct gather *gather, PyObject *object)
{
	Py_buffer *buffer;

	if (gather->count == gather->size && gather_grow(gather) < 0)
		return -1;
	buffer = &gather->buffers[gather->count];
	if (PyObject_GetBuffer(object, buffer, PyBUF_SIMPLE) < 0)
		return -1;
	gather->parts[gather->count].data = buffer->buf;
	gather->parts[gather->count].size = (uint64_t)buffer->len;
	gather->count++;
	return 0;
}

int py_gather_add_value(struct gather *gather, PyObject *object)
{
	PyObject *pieces;
	Py_ssize_t i;
	int result = 0;

	if (!PyList_Check(object) && !PyTuple_Check(object))
		return py_gather_add(gather, object);
	pieces = PySequence_Tuple(object);
	if (!pieces)
		return -1;
	for (i = 0; i < PyTuple_Size(pieces) && result == 0; i++)
		result = py_gather_add(gather, PyTuple_GetItem(pieces, i));
	Py_DECREF(pieces); /* each buffer keeps its object */
	return result;
}

void py_gather_fini(struct gather *gather)
{
	size_t i;

	for (i = 0; i < gather->count; i++)
		PyBuffer_Release(&gather->buffers[i]);
	PyMem_Free(gather->buffers);
	PyMem_Free(gather->parts);
}

/* ---- waits --------------------------------------------------------------- */

/* How long Ctrl-C may go unheard. */
#define SLICE_MS        500
#define DEFAULT_WAIT_MS 10000 /* cenote.h: a timeout_ms of 0 */

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void patience_cut(struct patience *patience, uint64_t now)
{
	uint64_t left = patience->end_ms > now ? patience->end_ms - now : 1;

	patience->slice_ms = left < SLICE_MS ? (int64_t)left : SLICE_MS;
}

/* Python runs its signal handlers in the main thread alone. */
void py_patience_init(struct patience *patience, bool wait, int64_t timeout_ms)
{
	uint64_t now;

	patience->slice_ms = timeout_ms;
	patience->sliced = wait && gettid() == getpid();
	if (!patience->sliced)
		return;
	now = now_ms();
	if (timeout_ms == CENOTE_FOREVER)
		patience->end_ms = UINT64_MAX;
	else
		patience->end_ms = now +
				   (uint64_t)(timeout_ms ? timeout_ms : DEFAULT_WAIT_MS);
	patience_cut(patience, now);
}

int py_patience_more(struct patience *patience, int code)
{
	uint64_t now;

	if (!patience->sliced || code != CENOTE_ERR_TIMEOUT)
		return 0;
	now = now_ms();
	if (now >= patience->end_ms)
		return 0;
	patience_cut(patience, now);
	return PyErr_CheckSignals() < 0 ? -1 : 1;
}
