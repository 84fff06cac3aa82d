/*
 * life.c - what one asks about objects and does to them: exists, stat, list, touch,
 * remove; and what one asks about the node.
 */
#include "python/python_priv.h"

#include <stdlib.h>
#include <string.h>

/* ---- Stat and Entry ------------------------------------------------------ */

static PyStructSequence_Field stat_fields[] = {
	{"size", PyDoc_STR("Bytes.")},
	{"generation", PyDoc_STR("Tells put, remove, put of one key apart.")},
	{"expires_in", PyDoc_STR("Seconds left to live, None = no time to live.")},
	{"holds", PyDoc_STR("Holds of all clients of this node, now.")},
	{"softpin", PyDoc_STR("Whether it stays until its owner removes it.")},
	{"in_pool", PyDoc_STR("Whether its bytes are in this node's memory, now.")},
	{"on_disk", PyDoc_STR("Whether they are on its disk, now.")},
	{"readers_left",
		PyDoc_STR("Ended reads until it is removed, 0 = they are not counted.")},
	{NULL, NULL},
};

static PyStructSequence_Desc stat_desc = {
	.name = "cenote.Stat",
	.doc = PyDoc_STR("What is known about an object; from Store.stat()."),
	.fields = stat_fields,
	.n_in_sequence = 8,
};

static PyStructSequence_Field entry_fields[] = {
	{"key", PyDoc_STR("str, or bytes if it is no UTF-8.")},
	{"size", PyDoc_STR("Bytes.")},
	{"softpin", PyDoc_STR("Whether it stays until its owner removes it.")},
	{NULL, NULL},
};

static PyStructSequence_Desc entry_desc = {
	.name = "cenote.Entry",
	.doc = PyDoc_STR("An object in a list; from Store.list()."),
	.fields = entry_fields,
	.n_in_sequence = 3,
};

int py_life_init(PyObject *module, struct state *state)
{
	state->stat_type = PyStructSequence_NewType(&stat_desc);
	if (!state->stat_type || PyModule_AddType(module, state->stat_type) < 0)
		return -1;
	state->entry_type = PyStructSequence_NewType(&entry_desc);
	if (!state->entry_type)
		return -1;
	return PyModule_AddType(module, state->entry_type);
}

/* A new one of `fields`, which it takes over; NULL if any of them is. */
static PyObject *sequence_new(PyTypeObject *type, PyObject **fields, int count)
{
	PyObject *result = PyStructSequence_New(type);
	bool whole = result != NULL;
	int i;

	for (i = 0; i < count; i++) {
		whole = whole && fields[i];
		if (result)
			PyStructSequence_SetItem(result, i, fields[i]);
		else
			Py_XDECREF(fields[i]);
	}
	if (!whole)
		Py_CLEAR(result);
	return result;
}

PyObject *py_stat_new(struct state *state, const struct cenote_stat *stat)
{
	PyObject *fields[8];

	fields[0] = PyLong_FromUnsignedLongLong(stat->size);
	fields[1] = PyLong_FromUnsignedLongLong(stat->generation);
	fields[2] = stat->expires_in_ms < 0
			    ? Py_NewRef(Py_None)
			    : PyFloat_FromDouble((double)stat->expires_in_ms / 1e3);
	fields[3] = PyLong_FromUnsignedLong(stat->holds);
	fields[4] = PyBool_FromLong(stat->softpin);
	fields[5] = PyBool_FromLong(stat->in_pool);
	fields[6] = PyBool_FromLong(stat->on_disk);
	fields[7] = PyLong_FromUnsignedLong(stat->readers_left);
	return sequence_new(state->stat_type, fields, 8);
}

/* ---- one key ------------------------------------------------------------- */

typedef int (*key_fn)(struct cenote *store, struct cenote_key key);

/* What the library answers for a key, or -1 with an exception; `spared` is an error that
 * is no exception, but 0. */
static int call_key(PyObject *self, key_fn call, PyObject *object, int spared)
{
	struct cenote_key key;
	struct home *home;
	int code;

	if (py_convert_key(object, &key) < 0)
		return -1;
	home = py_store_enter(self);
	if (!home)
		return -1;
	WITHOUT_LOCK(code = call(home->store, key));
	return py_store_leave(home, code == spared ? 0 : code, &key);
}

PyObject *py_life_exists(PyObject *self, PyObject *object)
{
	int there = call_key(self, cenote_exists, object, 0);

	return there < 0 ? NULL : PyBool_FromLong(there);
}

PyObject *py_life_touch(PyObject *self, PyObject *object)
{
	return call_key(self, cenote_touch, object, 0) < 0 ? NULL : Py_NewRef(Py_None);
}

static int remove_one(struct cenote *store, struct cenote_key key)
{
	int code = cenote_remove(store, key);

	return code == CENOTE_OK ? 1 : code;
}

PyObject *py_life_remove(PyObject *self, PyObject *object)
{
	int removed = call_key(self, remove_one, object, CENOTE_ERR_NOT_FOUND);

	return removed < 0 ? NULL : PyBool_FromLong(removed);
}

PyObject *py_life_stat(PyObject *self, PyObject *object)
{
	struct cenote_stat stat;
	struct cenote_key key;
	struct home *home;
	int code;

	if (py_convert_key(object, &key) < 0)
		return NULL;
	home = py_store_enter(self);
	if (!home)
		return NULL;
	WITHOUT_LOCK(code = cenote_stat(home->store, key, &stat));
	if (py_store_leave(home, code, &key) < 0)
		return NULL;
	return py_stat_new(store_state(self), &stat);
}

/* ---- many keys ----------------------------------------------------------- */

/* What the library lists, copied as it comes, without the interpreter lock. */
struct listing {
	char *bytes; /* entry, key, entry, key, ... */
	size_t used;
	size_t size;
	size_t count;
};

struct listed {
	size_t key_size;
	uint64_t size;
	bool softpin;
};

static int listing_add(void *arg, const struct cenote_list_entry *entry)
{
	struct listed head = {entry->key_size, entry->size, entry->softpin};
	struct listing *listing = arg;
	size_t need = listing->used + sizeof(head) + entry->key_size;
	char *bytes;

	if (need > listing->size) {
		bytes = realloc(listing->bytes, need * 2);
		if (!bytes)
			return CENOTE_ERR_NO_MEMORY;
		listing->bytes = bytes;
		listing->size = need * 2;
	}
	memcpy(listing->bytes + listing->used, &head, sizeof(head));
	memcpy(listing->bytes + listing->used + sizeof(head), entry->key,
		entry->key_size);
	listing->used = need;
	listing->count++;
	return 0;
}

static PyObject *listing_convert(struct state *state, const struct listing *listing)
{
	PyObject *list = PyList_New((Py_ssize_t)listing->count);
	const char *at = listing->bytes;
	PyObject *fields[3], *entry;
	struct listed head;
	size_t i;

	for (i = 0; list && i < listing->count; i++) {
		memcpy(&head, at, sizeof(head));
		at += sizeof(head);
		fields[0] = py_convert_key_back(at, head.key_size);
		fields[1] = PyLong_FromUnsignedLongLong(head.size);
		fields[2] = PyBool_FromLong(head.softpin);
		at += head.key_size;
		entry = sequence_new(state->entry_type, fields, 3);
		if (!entry)
			Py_CLEAR(list);
		else
			PyList_SetItem(list, (Py_ssize_t)i, entry);
	}
	return list;
}

/* A regular expression as the library takes it: text that ends with a NUL. */
static int convert_pattern(PyObject *object, const char **ret)
{
	struct cenote_key text;

	if (!PyUnicode_Check(object) && !PyBytes_Check(object)) {
		PyErr_Format(PyExc_TypeError,
			"a regular expression is str or bytes, not %R", Py_TYPE(object));
		return -1;
	}
	if (py_convert_key(object, &text) < 0)
		return -1;
	if (strlen(text.data) != text.size) {
		PyErr_SetString(PyExc_ValueError, "a regular expression has no NUL");
		return -1;
	}
	*ret = text.data;
	return 0;
}

static int list_into(struct listing *listing, struct cenote *store,
	struct cenote_key prefix, const char *pattern)
{
	if (pattern)
		return cenote_list_regex(store, prefix, pattern, listing_add, listing);
	return cenote_list(store, prefix, listing_add, listing);
}

FAST_METHOD(py_life_list)
{
	static const struct params params = {
		"list", 2, 0, 2, {PARAM_prefix, PARAM_regex}};
	struct cenote_key prefix = {"", 0};
	struct listing listing = {0};
	PyObject *result = NULL, *in[2];
	const char *pattern = NULL;
	struct home *home;
	int code;

	if (py_params_take(store_state(self), &params, args, nargs, kwnames, in) < 0 ||
		(in[0] && py_convert_key(in[0], &prefix) < 0) ||
		(in[1] && in[1] != Py_None && convert_pattern(in[1], &pattern) < 0))
		return NULL;
	home = py_store_enter(self);
	if (!home)
		return NULL;
	WITHOUT_LOCK(code = list_into(&listing, home->store, prefix, pattern));
	if (py_store_leave(home, code, prefix.size && !pattern ? &prefix : NULL) == 0)
		result = listing_convert(store_state(self), &listing);
	free(listing.bytes);
	return result;
}

PyObject *py_life_remove_prefix(PyObject *self, PyObject *object)
{
	struct cenote_key prefix;
	struct home *home;
	uint64_t count;
	int code;

	if (py_convert_key(object, &prefix) < 0)
		return NULL;
	home = py_store_enter(self);
	if (!home)
		return NULL;
	WITHOUT_LOCK(code = cenote_remove_prefix(home->store, prefix, &count));
	if (py_store_leave(home, code, prefix.size ? &prefix : NULL) < 0)
		return NULL;
	return PyLong_FromUnsignedLongLong(count);
}

PyObject *py_life_remove_regex(PyObject *self, PyObject *object)
{
	const char *pattern;
	struct home *home;
	uint64_t count;
	int code;

	if (convert_pattern(object, &pattern) < 0)
		return NULL;
	home = py_store_enter(self);
	if (!home)
		return NULL;
	WITHOUT_LOCK(code = cenote_remove_regex(home->store, pattern, &count));
	if (py_store_leave(home, code, NULL) < 0)
		return NULL;
	return PyLong_FromUnsignedLongLong(count);
}

/* ---- the node ------------------------------------------------------------ */

static int convert_info(PyObject *object, enum cenote_info *ret)
{
	static const char *const names[] = {
		[CENOTE_INFO_STATS] = "stats",
		[CENOTE_INFO_CONFIG] = "config",
		[CENOTE_INFO_CHECK] = "check",
	};
	const char *name = PyUnicode_AsUTF8AndSize(object, NULL);
	unsigned int i;

	if (!name)
		return -1;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(names[i], name) == 0) {
			*ret = (enum cenote_info)i;
			return 0;
		}
	}
	PyErr_Format(
		PyExc_ValueError, "what is 'stats', 'config' or 'check', not %R", object);
	return -1;
}

PyObject *py_life_info(PyObject *self, PyObject *object)
{
	enum cenote_info what;
	struct home *home;
	PyObject *result;
	char *text = NULL;
	int code;

	if (convert_info(object, &what) < 0)
		return NULL;
	home = py_store_enter(self);
	if (!home)
		return NULL;
	WITHOUT_LOCK(code = cenote_info(home->store, what, &text));
	if (py_store_leave(home, code, NULL) < 0)
		return NULL;
	result = PyUnicode_FromString(text);
	cenote_free(text);
	return result;
}

FAST_METHOD(py_life_drain)
{
	static const struct params params = {"drain", 1, 0, 1, {PARAM_end}};
	bool end = false;
	struct home *home;
	PyObject *in[1];
	int code;

	if (py_params_take(store_state(self), &params, args, nargs, kwnames, in) < 0 ||
		py_convert_flag(in[0], &end) < 0)
		return NULL;
	home = py_store_enter(self);
	if (!home)
		return NULL;
	WITHOUT_LOCK(code = cenote_drain(home->store, !end));
	if (py_store_leave(home, code, NULL) < 0)
		return NULL;
	Py_RETURN_NONE;
}

PyObject *py_life_pool_region(PyObject *self, PyObject *unused)
{
	struct home *home = py_store_enter(self);
	const void *base = NULL;
	size_t size = 0;
	int code;

	(void)unused;
	if (!home)
		return NULL;
	code = cenote_pool_region(home->store, &base, &size);
	if (py_store_leave(home, code, NULL) < 0)
		return NULL;
	return Py_BuildValue(
		"(Nn)", PyLong_FromVoidPtr((void *)(uintptr_t)base), (Py_ssize_t)size);
}
