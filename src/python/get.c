/*
 * get.c - get, get_into, take, and the wait for a key.
 */
#include "python/python_priv.h"

typedef int (*hold_fn)(struct cenote *store, struct cenote_key key,
	const struct cenote_get_options *options, struct cenote_view *ret_view);

static PyObject *hold_patiently(struct home *home, hold_fn hold, struct cenote_key key,
	struct cenote_get_options *options)
{
	struct patience patience;
	struct cenote_view view;
	int code, more;

	py_patience_init(&patience, options->wait, options->timeout_ms);
	do {
		options->timeout_ms = patience.slice_ms;
		WITHOUT_LOCK(code = hold(home->store, key, options, &view));
		more = py_patience_more(&patience, code);
	} while (more > 0);
	if (more < 0)
		return NULL;
	return code < 0 ? py_error_raise(home->state, code, &key)
			: py_buffer_new(home, &view);
}

static PyObject *hold_one(PyObject *self, hold_fn hold, PyObject *const *in)
{
	struct cenote_get_options options = {0};
	struct cenote_key key;
	struct home *home;
	PyObject *result;

	if (py_convert_key(in[0], &key) < 0 ||
		py_convert_flag(in[1], &options.wait) < 0 ||
		py_convert_timeout(in[2], &options.timeout_ms) < 0)
		return NULL;
	home = py_store_enter(self);
	if (!home)
		return NULL;
	result = hold_patiently(home, hold, key, &options);
	py_home_unref(home);
	return result;
}

FAST_METHOD(py_get_hold)
{
	static const struct params params = {
		"get", 1, 1, 3, {PARAM_key, PARAM_wait, PARAM_timeout}};
	PyObject *in[3];

	if (py_params_take(store_state(self), &params, args, nargs, kwnames, in) < 0)
		return NULL;
	return hold_one(self, cenote_get, in);
}

FAST_METHOD(py_get_take)
{
	static const struct params params = {
		"take", 1, 1, 3, {PARAM_key, PARAM_wait, PARAM_timeout}};
	PyObject *in[3];

	if (py_params_take(store_state(self), &params, args, nargs, kwnames, in) < 0)
		return NULL;
	return hold_one(self, cenote_take, in);
}

/* The size of the object, or -1 with an exception. */
static int64_t copy_patiently(struct home *home, struct cenote_key key,
	const Py_buffer *buffer, struct cenote_get_options *options)
{
	struct patience patience;
	uint64_t size = 0;
	int code, more;

	py_patience_init(&patience, options->wait, options->timeout_ms);
	do {
		options->timeout_ms = patience.slice_ms;
		WITHOUT_LOCK(code = cenote_get_into(home->store, key, buffer->buf,
				     (uint64_t)buffer->len, options, &size));
		more = py_patience_more(&patience, code);
	} while (more > 0);
	if (more == 0 && code < 0)
		py_error_raise(home->state, code, &key);
	return more < 0 || code < 0 ? -1 : (int64_t)size;
}

FAST_METHOD(py_get_into)
{
	static const struct params params = {"get_into", 2, 2, 4,
		{PARAM_key, PARAM_buffer, PARAM_wait, PARAM_timeout}};
	struct cenote_get_options options = {0};
	struct cenote_key key;
	Py_buffer buffer;
	PyObject *in[4];
	struct home *home;
	int64_t size = -1;

	if (py_params_take(store_state(self), &params, args, nargs, kwnames, in) < 0 ||
		py_convert_key(in[0], &key) < 0 ||
		py_convert_flag(in[2], &options.wait) < 0 ||
		py_convert_timeout(in[3], &options.timeout_ms) < 0 ||
		PyObject_GetBuffer(in[1], &buffer, PyBUF_WRITABLE) < 0)
		return NULL;
	home = py_store_enter(self);
	if (home) {
		size = copy_patiently(home, key, &buffer, &options);
		py_home_unref(home);
	}
	PyBuffer_Release(&buffer);
	return size < 0 ? NULL : PyLong_FromLongLong(size);
}

FAST_METHOD(py_get_wait)
{
	static const struct params params = {"wait", 1, 1, 2, {PARAM_key, PARAM_timeout}};
	struct patience patience;
	struct cenote_key key;
	PyObject *in[2];
	struct home *home;
	int64_t timeout_ms;
	int code, more;

	if (py_params_take(store_state(self), &params, args, nargs, kwnames, in) < 0 ||
		py_convert_key(in[0], &key) < 0 ||
		py_convert_timeout(in[1], &timeout_ms) < 0)
		return NULL;
	home = py_store_enter(self);
	if (!home)
		return NULL;
	py_patience_init(&patience, true, timeout_ms);
	do {
		WITHOUT_LOCK(code = cenote_wait(home->store, key, patience.slice_ms));
		more = py_patience_more(&patience, code);
	} while (more > 0);
	if (py_store_leave(home, more < 0 ? 0 : code, &key) < 0 || more < 0)
		return NULL;
	Py_RETURN_NONE;
}
