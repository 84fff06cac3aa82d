/*
 * put.c - put, upsert, put_parts, create.
 */
#include "python/python_priv.h"

PyObject *py_put_value(int code)
{
	if (code < 0)
		return NULL;
	return code > 0 ? PyLong_FromLong(code) : Py_NewRef(Py_None);
}

/* `in`: key, data, and the options of a put. */
static PyObject *put_one(PyObject *self, PyObject *const *in)
{
	struct cenote_put_options options;
	struct cenote_key key;
	struct home *home;
	Py_buffer data;
	int code = -1;

	if (py_convert_key(in[0], &key) < 0 ||
		py_convert_put_options(in + 2, &options) < 0 ||
		PyObject_GetBuffer(in[1], &data, PyBUF_SIMPLE) < 0)
		return NULL;
	home = py_store_enter(self);
	if (home) {
		WITHOUT_LOCK(code = cenote_put(home->store, key, data.buf,
				     (uint64_t)data.len, &options));
		code = py_store_leave(home, code, &key);
	}
	PyBuffer_Release(&data);
	return py_put_value(code);
}

FAST_METHOD(py_put_whole)
{
	static const struct params params = {"put", 2, 2, 10,
		{PARAM_key, PARAM_data, PARAM_softpin, PARAM_ttl, PARAM_readers,
			PARAM_durable, PARAM_timeout, PARAM_replicas,
			PARAM_replicas_required, PARAM_replace}};
	PyObject *in[10];

	if (py_params_take(store_state(self), &params, args, nargs, kwnames, in) < 0)
		return NULL;
	return put_one(self, in);
}

FAST_METHOD(py_put_upsert)
{
	static const struct params params = {"upsert", 2, 2, 9,
		{PARAM_key, PARAM_data, PARAM_softpin, PARAM_ttl, PARAM_readers,
			PARAM_durable, PARAM_timeout, PARAM_replicas,
			PARAM_replicas_required}};
	PyObject *in[10];

	if (py_params_take(store_state(self), &params, args, nargs, kwnames, in) < 0)
		return NULL;
	in[9] = Py_True;
	return put_one(self, in);
}

/* One buffer of an iterable after the other. */
static int gather_parts(struct gather *gather, PyObject *object)
{
	PyObject *parts = py_convert_sequence(object, "parts");
	int result;

	if (!parts)
		return -1;
	result = py_gather_add_value(gather, parts);
	Py_DECREF(parts);
	return result;
}

FAST_METHOD(py_put_parts)
{
	static const struct params params = {"put_parts", 2, 2, 10,
		{PARAM_key, PARAM_parts, PARAM_softpin, PARAM_ttl, PARAM_readers,
			PARAM_durable, PARAM_timeout, PARAM_replicas,
			PARAM_replicas_required, PARAM_replace}};
	struct state *state = store_state(self);
	struct cenote_put_options options;
	struct gather gather = {0};
	struct cenote_key key;
	PyObject *in[10];
	struct home *home;
	int code = -1;

	if (py_params_take(state, &params, args, nargs, kwnames, in) < 0 ||
		py_convert_key(in[0], &key) < 0 ||
		py_convert_put_options(in + 2, &options) < 0)
		return NULL;
	home = gather_parts(&gather, in[1]) < 0 ? NULL : py_store_enter(self);
	if (home) {
		WITHOUT_LOCK(code = cenote_put_parts(home->store, key, gather.parts,
				     gather.count, &options));
		code = py_store_leave(home, code, &key);
	}
	py_gather_fini(&gather);
	return py_put_value(code);
}

FAST_METHOD(py_put_create)
{
	static const struct params params = {"create", 2, 2, 10,
		{PARAM_key, PARAM_size, PARAM_softpin, PARAM_ttl, PARAM_readers,
			PARAM_durable, PARAM_timeout, PARAM_replicas,
			PARAM_replicas_required, PARAM_replace}};
	struct state *state = store_state(self);
	struct cenote_put_options options;
	struct cenote_writer writer;
	struct cenote_key key;
	PyObject *in[10], *result;
	struct home *home;
	uint64_t size;
	int code;

	if (py_params_take(state, &params, args, nargs, kwnames, in) < 0 ||
		py_convert_key(in[0], &key) < 0 ||
		py_convert_number(in[1], "size", UINT64_MAX, &size) < 0 ||
		py_convert_put_options(in + 2, &options) < 0)
		return NULL;
	home = py_store_enter(self);
	if (!home)
		return NULL;
	WITHOUT_LOCK(code = cenote_create(home->store, key, size, &options, &writer));
	result = code < 0 ? NULL : py_writer_new(home, &writer, key);
	py_store_leave(home, code, &key);
	return result;
}
