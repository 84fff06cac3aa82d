/*
 * buffer.c - Buffer: an object of the store, read in place.
 *
 *	HELD ── release(), no view ─────────────────▶ RELEASED
 *	  │ end of its with block, views live
 *	  ├──────────────▶ LEAVING ── last view ends ─▶ RELEASED
 *	  └── nobody has the Buffer or a view of it ──▶ RELEASED
 *
 * Until RELEASED the hold stands and no byte of it changes.
 */
#include "python/doc.h"
#include "python/python_priv.h"

struct buffer {
	struct memory memory;
	struct cenote_view view;
};

/*
 * End the hold; the library's answer. A Buffer that could not be released is still held,
 * but in a forked child, where the hold is the parent's.
 *
 * This keeps the interpreter lock: a release is a decrement, and at most a message that
 * is dropped rather than waited for.
 */
static int buffer_release_view(struct buffer *buffer)
{
	struct memory *memory = &buffer->memory;
	int code = 0;

	if (memory->data)
		code = cenote_release(memory->home->store, &buffer->view);
	if (code >= 0 || !buffer->view.data || code == CENOTE_ERR_FORKED)
		memory->data = NULL;
	return code;
}

static void buffer_end(struct memory *memory)
{
	(void)buffer_release_view((struct buffer *)memory);
}

PyObject *py_buffer_new(struct home *home, const struct cenote_view *view)
{
	struct buffer *buffer = PyObject_New(struct buffer, home->state->buffer_type);

	if (!buffer) {
		struct cenote_view copy = *view;

		(void)cenote_release(home->store, &copy);
		return NULL;
	}
	py_memory_set(&buffer->memory, home, view->data, view->size);
	buffer->memory.read_only = true;
	buffer->memory.end = buffer_end;
	buffer->view = *view;
	return (PyObject *)buffer;
}

static void buffer_dealloc(PyObject *self)
{
	struct memory *memory = (struct memory *)self;
	PyTypeObject *type = Py_TYPE(self);

	buffer_end(memory);
	py_home_unref(memory->home);
	PyObject_Free(self);
	Py_DECREF((PyObject *)type);
}

static PyObject *buffer_release(PyObject *self, PyObject *unused)
{
	struct memory *memory = (struct memory *)self;
	int code;

	(void)unused;
	if (py_memory_check_alone(memory, "release the buffer") < 0)
		return NULL;
	code = buffer_release_view((struct buffer *)self);
	if (code < 0)
		return py_error_raise(memory->home->state, code, NULL);
	Py_RETURN_NONE;
}

static PyObject *buffer_enter(PyObject *self, PyObject *unused)
{
	(void)unused;
	if (!((struct memory *)self)->data) {
		PyErr_SetString(PyExc_ValueError, "the buffer was released");
		return NULL;
	}
	return Py_NewRef(self);
}

static PyObject *buffer_exit(PyObject *self, PyObject *args)
{
	struct memory *memory = (struct memory *)self;

	(void)args;
	memory->leaving = true;
	if (!memory->export)
		buffer_end(memory);
	Py_RETURN_NONE;
}

static PyObject *buffer_get_size(PyObject *self, void *closure)
{
	(void)closure;
	return PyLong_FromUnsignedLongLong(((struct memory *)self)->size);
}

static PyObject *buffer_get_generation(PyObject *self, void *closure)
{
	(void)closure;
	return PyLong_FromUnsignedLongLong(((struct buffer *)self)->view.generation);
}

static PyObject *buffer_get_released(PyObject *self, void *closure)
{
	(void)closure;
	return PyBool_FromLong(!((struct memory *)self)->data);
}

static PyObject *buffer_repr(PyObject *self)
{
	const struct memory *memory = (struct memory *)self;

	return PyUnicode_FromFormat("<cenote.Buffer of %llu bytes, %s>",
		(unsigned long long)memory->size, memory->data ? "held" : "released");
}

static PyMethodDef buffer_methods[] = {
	{"release", buffer_release, METH_NOARGS, PyDoc_STR(DOC_RELEASE)},
	{"__enter__", buffer_enter, METH_NOARGS, NULL},
	{"__exit__", buffer_exit, METH_VARARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static PyGetSetDef buffer_getset[] = {
	{"size", buffer_get_size, NULL, PyDoc_STR("Bytes of the object."), NULL},
	{"generation", buffer_get_generation, NULL,
		PyDoc_STR("Tells put, remove, put of one key apart."), NULL},
	{"released", buffer_get_released, NULL, PyDoc_STR("Whether the hold has ended."),
		NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot buffer_slots[] = {
	{Py_tp_dealloc, (void *)buffer_dealloc},
	{Py_tp_repr, (void *)buffer_repr},
	{Py_tp_methods, buffer_methods},
	{Py_tp_getset, buffer_getset},
	{Py_bf_getbuffer, (void *)py_memory_getbuffer},
	{Py_bf_releasebuffer, (void *)py_memory_releasebuffer},
	{Py_mp_length, (void *)py_memory_length},
	{Py_mp_subscript, (void *)py_memory_subscript},
	DOC_SLOT(DOC_BUFFER),
	{0, NULL},
};

static PyType_Spec buffer_spec = {
	.name = "cenote.Buffer",
	.basicsize = sizeof(struct buffer),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = buffer_slots,
};

int py_buffer_init(PyObject *module, struct state *state)
{
	state->buffer_type = (PyTypeObject *)PyType_FromModuleAndSpec(
		module, &buffer_spec, NULL);
	if (!state->buffer_type)
		return -1;
	return PyModule_AddType(module, state->buffer_type);
}
