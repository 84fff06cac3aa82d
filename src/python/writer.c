/*
 * writer.c - Writer: a put in two steps, written in place.
 *
 *	OPEN ── seal(), or its with block ends well ────────▶ OVER, the object is there
 *	  ├── abort(), or an exception leaves the block ────▶ OVER, nothing is there
 *	  └── nobody has the Writer any more ───────────────▶ OVER, nothing is there
 *
 * No view may outlive a seal: it could change bytes that others read, or, once the object
 * is gone, bytes of another one. So seal() refuses while one lives. An exception that
 * leaves the block aborts all the same, since its traceback may keep any array alive.
 */
#include "python/doc.h"
#include "python/python_priv.h"

#include <string.h>

struct writer {
	struct memory memory;
	struct cenote_writer writer;
	struct cenote_key key; /* own copy */
	int keepers;           /* as its seal said */
};

PyObject *py_writer_new(
	struct home *home, const struct cenote_writer *writer, struct cenote_key key)
{
	struct writer *self = NULL;
	char *copy = PyMem_Malloc(key.size);

	if (copy)
		self = PyObject_New(struct writer, home->state->writer_type);
	if (!self) {
		struct cenote_writer lost = *writer;

		PyMem_Free(copy);
		(void)cenote_abort(home->store, &lost);
		return PyErr_NoMemory();
	}
	memcpy(copy, key.data, key.size);
	py_memory_set(&self->memory, home, writer->data, writer->size);
	self->memory.read_only = false;
	self->memory.end = NULL; /* it never leaves by halves */
	self->writer = *writer;
	self->keepers = 0;
	self->key.data = copy;
	self->key.size = key.size;
	return (PyObject *)self;
}

typedef int (*writer_end_fn)(struct cenote *store, struct cenote_writer *writer);

/* Seal or abort, and raise what went wrong. A seal that found no daemon may be tried
 * again. */
static int writer_finish(struct writer *self, writer_end_fn end)
{
	struct home *home = self->memory.home;
	struct cenote_writer writer = self->writer;
	void *data = self->memory.data;
	int code;

	/* Over for other threads from here on. */
	self->memory.data = NULL;
	py_home_ref(home);
	WITHOUT_LOCK(code = end(home->store, &writer));
	self->writer = writer;
	if (code == CENOTE_ERR_UNAVAILABLE && writer.data)
		self->memory.data = data;
	self->keepers = code > 0 ? code : 0;
	return py_store_leave(home, code, &self->key);
}

/* While an exception may be under way, which an abort must neither meet nor replace. */
static void writer_abandon(struct writer *self)
{
	PyObject *type, *value, *traceback;

	if (!self->memory.data)
		return;
	PyErr_Fetch(&type, &value, &traceback);
	if (writer_finish(self, cenote_abort) < 0)
		PyErr_Clear();
	PyErr_Restore(type, value, traceback);
}

static void writer_dealloc(PyObject *self)
{
	struct writer *writer = (struct writer *)self;
	PyTypeObject *type = Py_TYPE(self);

	writer_abandon(writer);
	py_home_unref(writer->memory.home);
	PyMem_Free((void *)(uintptr_t)writer->key.data);
	PyObject_Free(self);
	Py_DECREF((PyObject *)type);
}

static PyObject *writer_close(PyObject *self, writer_end_fn end, const char *what)
{
	struct writer *writer = (struct writer *)self;

	if (!writer->memory.data) {
		PyErr_Format(PyExc_ValueError, "cannot %s: it is over", what);
		return NULL;
	}
	if (py_memory_check_alone(&writer->memory, what) < 0)
		return NULL;
	return py_put_value(writer_finish(writer, end));
}

static PyObject *writer_seal(PyObject *self, PyObject *unused)
{
	(void)unused;
	return writer_close(self, cenote_seal, "seal the writer");
}

static PyObject *writer_abort(PyObject *self, PyObject *unused)
{
	(void)unused;
	return writer_close(self, cenote_abort, "abort the writer");
}

static PyObject *writer_enter(PyObject *self, PyObject *unused)
{
	(void)unused;
	if (!((struct memory *)self)->data) {
		PyErr_SetString(PyExc_ValueError, "the writer is over");
		return NULL;
	}
	return Py_NewRef(self);
}

static PyObject *writer_exit(PyObject *self, PyObject *args)
{
	struct writer *writer = (struct writer *)self;
	PyObject *type, *value, *traceback, *result;

	if (!PyArg_UnpackTuple(args, "__exit__", 3, 3, &type, &value, &traceback))
		return NULL;
	if (!writer->memory.data) /* sealed or aborted within the block */
		Py_RETURN_NONE;
	if (type != Py_None) {
		writer_abandon(writer);
		Py_RETURN_NONE;
	}
	result = writer_seal(self, NULL);
	/* An exception says that nothing was put. Where the daemon was away the writer
	 * stays open, so that seal() may be tried again. */
	if (!result && PyErr_ExceptionMatches(PyExc_BufferError))
		writer_abandon(writer);
	return result;
}

/* Through a memoryview, which has all the checks. */
static int writer_ass_subscript(PyObject *self, PyObject *index, PyObject *value)
{
	PyObject *view;
	int result;

	if (!value) {
		PyErr_SetString(
			PyExc_TypeError, "the bytes of a Writer cannot be deleted");
		return -1;
	}
	view = PyMemoryView_FromObject(self);
	result = view ? PyObject_SetItem(view, index, value) : -1;
	Py_XDECREF(view);
	return result;
}

static PyObject *writer_get_size(PyObject *self, void *closure)
{
	(void)closure;
	return PyLong_FromUnsignedLongLong(((struct memory *)self)->size);
}

static PyObject *writer_get_keepers(PyObject *self, void *closure)
{
	(void)closure;
	return py_put_value(((struct writer *)self)->keepers);
}

static PyObject *writer_repr(PyObject *self)
{
	const struct memory *memory = (struct memory *)self;

	return PyUnicode_FromFormat("<cenote.Writer of %llu bytes, %s>",
		(unsigned long long)memory->size, memory->data ? "open" : "over");
}

static PyMethodDef writer_methods[] = {
	{"seal", writer_seal, METH_NOARGS, PyDoc_STR(DOC_SEAL)},
	{"abort", writer_abort, METH_NOARGS, PyDoc_STR(DOC_ABORT)},
	{"__enter__", writer_enter, METH_NOARGS, NULL},
	{"__exit__", writer_exit, METH_VARARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static PyGetSetDef writer_getset[] = {
	{"size", writer_get_size, NULL, PyDoc_STR("Bytes to be written."), NULL},
	{"keepers", writer_get_keepers, NULL, PyDoc_STR("What its seal() returned."),
		NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot writer_slots[] = {
	{Py_tp_dealloc, (void *)writer_dealloc},
	{Py_tp_repr, (void *)writer_repr},
	{Py_tp_methods, writer_methods},
	{Py_tp_getset, writer_getset},
	{Py_bf_getbuffer, (void *)py_memory_getbuffer},
	{Py_bf_releasebuffer, (void *)py_memory_releasebuffer},
	{Py_mp_length, (void *)py_memory_length},
	{Py_mp_subscript, (void *)py_memory_subscript},
	{Py_mp_ass_subscript, (void *)writer_ass_subscript},
	DOC_SLOT(DOC_WRITER),
	{0, NULL},
};

static PyType_Spec writer_spec = {
	.name = "cenote.Writer",
	.basicsize = sizeof(struct writer),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = writer_slots,
};

int py_writer_init(PyObject *module, struct state *state)
{
	state->writer_type = (PyTypeObject *)PyType_FromModuleAndSpec(
		module, &writer_spec, NULL);
	if (!state->writer_type)
		return -1;
	return PyModule_AddType(module, state->writer_type);
}
