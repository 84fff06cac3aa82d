/*
 * errors.c - one exception class per kind of error, all under CenoteError.
 *
 * Each exception says in its text what went wrong, the key and the library's detail, and
 * has `code`, the library's number, and `key`, None where there is none. A number of no
 * known kind, as a fault point may return it, is a plain CenoteError.
 *
 * Where Python has an exception of the same meaning, the class is one of these too, so
 * that `except KeyError` and `except TimeoutError` do what they seem to.
 */
#include "python/python_priv.h"

#include <stdio.h>
#include <string.h>

static const struct {
	int code;
	const char *name;
	PyObject **also; /* NULL: of CenoteError alone */
	const char *doc;
} kinds[] = {
	{CENOTE_ERR_INTERNAL, "InternalError", NULL, "A bug in Cenote."},
	{CENOTE_ERR_BUFFER_TOO_SMALL, "BufferTooSmall", &PyExc_ValueError,
		"The object is larger than the buffer; both sizes are in the text."},
	{CENOTE_ERR_STALE, "Stale", NULL,
		"The pool that this store had attached is gone; connect anew."},
	{CENOTE_ERR_NO_SPACE, "NoSpace", NULL,
		"Until the deadline there was no room in pool, disk or, if required, "
		"other nodes; or there is none in the directory."},
	{CENOTE_ERR_VERSION, "VersionError", NULL,
		"Library and daemon speak other protocols; both versions are in the "
		"text."},
	{CENOTE_ERR_BAD_KEY, "BadKey", &PyExc_ValueError,
		"A key is 1 to 1,024 bytes without NUL; str counts as UTF-8."},
	{CENOTE_ERR_BAD_ARGUMENT, "BadArgument", &PyExc_ValueError,
		"An argument is out of its range."},
	{CENOTE_ERR_NOT_PERMITTED, "NotPermitted", &PyExc_PermissionError,
		"This user may not attach, or the store was connected with read_only."},
	{CENOTE_ERR_NOT_READY, "NotReady", NULL, "The object is not ready yet."},
	{CENOTE_ERR_NOT_FOUND, "NotFound", &PyExc_KeyError, "No object has this key."},
	{CENOTE_ERR_EXISTS, "Exists", NULL,
		"The key has an object already, which is as it was."},
	{CENOTE_ERR_LEASE_EXPIRED, "LeaseExpired", NULL,
		"The bytes came from another node more slowly than its promise to keep "
		"them lasts; ask again."},
	{CENOTE_ERR_BUSY, "Busy", NULL, "Kept for programs that know it."},
	{CENOTE_ERR_TOO_LARGE, "TooLarge", NULL, "It can never fit into this pool."},
	{CENOTE_ERR_REMOVED, "Removed", NULL,
		"The object was removed before its put ended."},
	{CENOTE_ERR_TOO_MANY, "TooMany", NULL,
		"A limit on a number of things was reached."},
	{CENOTE_ERR_LOST, "Lost", NULL,
		"Every copy of the object is gone; the last node that kept it is named."},
	{CENOTE_ERR_FORKED, "ForkedError", NULL,
		"The store belongs to the parent of this forked process: call "
		"Store.reattach(), or connect anew."},
	{CENOTE_ERR_TRANSFER_FAIL, "TransferFailed", NULL,
		"The bytes could not be moved from the nodes that have them; ask again."},
	{CENOTE_ERR_CORRUPT, "Corrupt", NULL, "The bytes do not match their checksum."},
	{CENOTE_ERR_RPC_FAIL, "RpcFailed", NULL, "Kept for programs that know it."},
	{CENOTE_ERR_TIMEOUT, "Timeout", &PyExc_TimeoutError, "The deadline has passed."},
	{CENOTE_ERR_UNAVAILABLE, "Unavailable", &PyExc_ConnectionError,
		"Before the deadline no daemon answered; or not the node that has the "
		"object; or neither the directory nor all other nodes. Or the node is "
		"being drained or ended, or too few came for replicas_required."},
	{CENOTE_ERR_NOT_SUPPORTED, "NotSupported", NULL,
		"Not in this build or configuration."},
	{CENOTE_ERR_PROTOCOL, "ProtocolError", NULL,
		"The other side broke the protocol."},
	{CENOTE_ERR_NO_MEMORY, "NoMemory", &PyExc_MemoryError,
		"This process is out of memory."},
	{CENOTE_ERR_IO, "IoError", &PyExc_OSError, "Input or output failed."},
};

#define KIND_COUNT (sizeof(kinds) / sizeof(kinds[0]))
_Static_assert(KIND_COUNT <= ERROR_KINDS_MAX, "struct state has room for every kind");

/* KeyError would show its text as a literal. */
static PyObject *error_str(PyObject *self)
{
	PyObject *args = PyObject_GetAttrString(self, "args");
	PyObject *text;

	if (!args)
		return NULL;
	if (PyTuple_Check(args) && PyTuple_Size(args) == 1)
		text = PyObject_Str(PyTuple_GetItem(args, 0));
	else
		text = PyObject_Str(args);
	Py_DECREF(args);
	return text;
}

static PyType_Slot error_slots[] = {
	{Py_tp_str, (void *)error_str},
	DOC_SLOT("What every error of Cenote is.\n\n"
		 "code: the number, as in cenote.h.\n"
		 "key: the key in question, or None."),
	{0, NULL},
};

static PyType_Spec error_spec = {
	.name = "cenote.CenoteError",
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
	.slots = error_slots,
};

static PyObject *kind_new(struct state *state, size_t kind)
{
	PyObject *bases, *class;
	char name[64];

	if (kinds[kind].also)
		bases = PyTuple_Pack(2, state->error, *kinds[kind].also);
	else
		bases = PyTuple_Pack(1, state->error);
	if (!bases)
		return NULL;
	snprintf(name, sizeof(name), "cenote.%s", kinds[kind].name);
	class = PyErr_NewExceptionWithDoc(name, kinds[kind].doc, bases, NULL);
	Py_DECREF(bases);
	return class;
}

int py_errors_init(PyObject *module, struct state *state)
{
	PyObject *bases = PyTuple_Pack(1, PyExc_Exception);
	size_t i;

	if (!bases)
		return -1;
	state->error = PyType_FromModuleAndSpec(module, &error_spec, bases);
	Py_DECREF(bases);
	if (!state->error || PyObject_SetAttrString(state->error, "code", Py_None) < 0 ||
		PyObject_SetAttrString(state->error, "key", Py_None) < 0 ||
		PyModule_AddObjectRef(module, "CenoteError", state->error) < 0)
		return -1;
	for (i = 0; i < KIND_COUNT; i++) {
		state->kinds[i] = kind_new(state, i);
		if (!state->kinds[i] ||
			PyModule_AddObjectRef(module, kinds[i].name, state->kinds[i]) < 0)
			return -1;
	}
	return 0;
}

void py_errors_fini(struct state *state)
{
	size_t i;

	for (i = 0; i < KIND_COUNT; i++)
		Py_CLEAR(state->kinds[i]);
	Py_CLEAR(state->error);
}

static PyObject *error_class(const struct state *state, int code)
{
	size_t i;

	for (i = 0; i < KIND_COUNT; i++) {
		if (kinds[i].code == code)
			return state->kinds[i];
	}
	return state->error;
}

/* Whether the text names the key, as the library's details do: "the key a/b has ...". */
static bool text_names(PyObject *text, PyObject *key)
{
	PyObject *words = PyUnicode_FromFormat("key %S", key);
	int found = words ? PyUnicode_Contains(text, words) : -1;

	Py_XDECREF(words);
	if (found < 0)
		PyErr_Clear();
	return found > 0;
}

/* "NOT_FOUND: no such object: key 'a/b'" */
static PyObject *error_text(int code, PyObject *key, const char *detail)
{
	PyObject *head, *text;

	head = PyUnicode_FromFormat("%s: %s", cenote_error_name(code),
		detail && *detail ? detail : cenote_error_text(code));
	if (!head || !key || text_names(head, key))
		return head;
	text = PyUnicode_FromFormat("%U: key %R", head, key);
	Py_DECREF(head);
	return text;
}

static PyObject *error_build(
	struct state *state, int code, PyObject *key, const char *detail)
{
	PyObject *text = error_text(code, key, detail);
	PyObject *number, *error;

	if (!text)
		return NULL;
	error = PyObject_CallFunctionObjArgs(error_class(state, code), text, NULL);
	Py_DECREF(text);
	number = PyLong_FromLong(code);
	if (!error || !number || PyObject_SetAttrString(error, "code", number) < 0 ||
		PyObject_SetAttrString(error, "key", key ? key : Py_None) < 0)
		Py_CLEAR(error);
	Py_XDECREF(number);
	return error;
}

PyObject *py_error_new(
	struct state *state, int code, const struct cenote_key *key, const char *detail)
{
	PyObject *shown = NULL, *error;

	if (key && key->data) {
		shown = py_convert_key_back(key->data, key->size);
		if (!shown)
			return NULL;
	}
	error = error_build(state, code, shown, detail);
	Py_XDECREF(shown);
	return error;
}

PyObject *py_error_raise_text(
	struct state *state, int code, const struct cenote_key *key, const char *detail)
{
	PyObject *error = py_error_new(state, code, key, detail);

	if (error) {
		PyErr_SetObject((PyObject *)Py_TYPE(error), error);
		Py_DECREF(error);
	}
	return NULL;
}

PyObject *py_error_raise(struct state *state, int code, const struct cenote_key *key)
{
	/* A copy: anything that Python does from here on may call the library. */
	char detail[2048];

	snprintf(detail, sizeof(detail), "%s", cenote_error_detail());
	return py_error_raise_text(state, code, key, detail);
}
