/*
 * memory.c - bytes of the pool as Python sees them, and the Export that says whether
 * anybody does.
 *
 *	view = memoryview(buffer)      Export made, keeps the Buffer
 *	numpy.frombuffer(buffer, ...)  the same Export
 *	del of all of them             Export gone, and with it its claim on the Buffer
 *
 * The bytes stay while the Buffer or the Writer has them; that has them while an Export
 * lives. Views in a forked child are refused where they are made; the pool is not mapped
 * there, so using an older one ends the child.
 */
#include "python/python_priv.h"

struct exporter {
	PyObject ob_base;
	struct memory *memory; /* kept */
};

void py_memory_set(
	struct memory *memory, struct home *home, const void *data, uint64_t size)
{
	py_home_ref(home);
	memory->home = home;
	/* An empty object has no place, a view must have one. The cast takes nothing
	 * away: read_only is what views obey. */
	memory->data = size ? (void *)(uintptr_t)data : (void *)memory;
	memory->size = size;
	memory->export = NULL;
	memory->leaving = false;
}

int py_memory_check_alone(const struct memory *memory, const char *what)
{
	if (!memory->export)
		return 0;
	PyErr_Format(PyExc_BufferError,
		"cannot %s while views live (memoryview, numpy array, tensor): del them "
		"first",
		what);
	return -1;
}

static int memory_check_open(const struct memory *memory)
{
	if (!memory->data || memory->leaving) {
		PyErr_SetString(PyExc_ValueError,
			"the buffer was released, or its block has ended");
		return -1;
	}
	if (home_is_forked(memory->home)) {
		py_error_raise_text(memory->home->state, CENOTE_ERR_FORKED, NULL, NULL);
		return -1;
	}
	return 0;
}

/* The one Export of this memory, as a new reference. */
static PyObject *memory_export(struct memory *memory)
{
	struct exporter *export;

	if (memory->export)
		return Py_NewRef(memory->export);
	export = PyObject_New(struct exporter, memory->home->state->export_type);
	if (!export)
		return NULL;
	export->memory = memory;
	Py_INCREF((PyObject *)memory);
	memory->export = (PyObject *)export;
	return (PyObject *)export;
}

int py_memory_getbuffer(PyObject *self, Py_buffer *view, int flags)
{
	struct memory *memory = (struct memory *)self;
	PyObject *export;
	int result;

	view->obj = NULL;
	if (memory_check_open(memory) < 0)
		return -1;
	export = memory_export(memory);
	if (!export)
		return -1;
	result = PyBuffer_FillInfo(view, export, memory->data, (Py_ssize_t)memory->size,
		memory->read_only, flags);
	Py_DECREF(export); /* the view has its own */
	return result;
}

/* Does nothing. That there is one makes numpy keep a memoryview, and so the Export,
 * where it would otherwise keep the Buffer. */
void py_memory_releasebuffer(PyObject *self, Py_buffer *view)
{
	(void)self;
	(void)view;
}

Py_ssize_t py_memory_length(PyObject *self)
{
	return (Py_ssize_t)((struct memory *)self)->size;
}

PyObject *py_memory_subscript(PyObject *self, PyObject *index)
{
	PyObject *view = PyMemoryView_FromObject(self);
	PyObject *result = view ? PyObject_GetItem(view, index) : NULL;

	Py_XDECREF(view);
	return result;
}

/* ---- Export -------------------------------------------------------------- */

static int export_getbuffer(PyObject *self, Py_buffer *view, int flags)
{
	const struct memory *memory = ((struct exporter *)self)->memory;

	view->obj = NULL;
	if (!memory->data) { /* a Writer that an exception has ended */
		PyErr_SetString(PyExc_ValueError, "the writer is over");
		return -1;
	}
	return PyBuffer_FillInfo(view, self, memory->data, (Py_ssize_t)memory->size,
		memory->read_only, flags);
}

static void export_dealloc(PyObject *self)
{
	struct memory *memory = ((struct exporter *)self)->memory;
	PyTypeObject *type = Py_TYPE(self);

	memory->export = NULL;
	if (memory->leaving)
		memory->end(memory);
	PyObject_Free(self);
	Py_DECREF((PyObject *)type);
	Py_DECREF((PyObject *)memory);
}

static PyType_Slot export_slots[] = {
	{Py_tp_dealloc, (void *)export_dealloc},
	{Py_bf_getbuffer, (void *)export_getbuffer},
	DOC_SLOT("What views of a Buffer or Writer keep; never made by hand."),
	{0, NULL},
};

static PyType_Spec export_spec = {
	.name = "cenote.Export",
	.basicsize = sizeof(struct exporter),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = export_slots,
};

int py_memory_init(PyObject *module, struct state *state)
{
	state->export_type = (PyTypeObject *)PyType_FromModuleAndSpec(
		module, &export_spec, NULL);
	return state->export_type ? 0 : -1;
}
