/*
 * module.c - the module `cenote._cenote`: its state, and its functions.
 */
#include "python/doc.h"
#include "python/python_priv.h"

/* Called in a forked child: what was attached before is not this process's. */
static PyObject *module_after_fork(PyObject *module, PyObject *unused)
{
	struct state *state = PyModule_GetState(module);

	(void)unused;
	state->forks++;
	Py_RETURN_NONE;
}

static PyMethodDef module_methods[] = {
	METHOD("connect", py_store_connect, DOC_CONNECT),
	METHOD("inject_fault", py_fault_inject, DOC_INJECT_FAULT),
	METHOD("get_fault_status", py_fault_status, DOC_GET_FAULT_STATUS),
	{"_after_fork_in_child", module_after_fork, METH_NOARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static int params_init(struct state *state)
{
	static const char *const names[PARAM_COUNT] = {
#define PARAM(name) #name,
		PARAMS
#undef PARAM
	};
	int i;

	for (i = 0; i < PARAM_COUNT; i++) {
		state->params[i] = PyUnicode_InternFromString(names[i]);
		if (!state->params[i])
			return -1;
	}
	return 0;
}

static int hook_fork(PyObject *module)
{
	PyObject *os = PyImport_ImportModule("os");
	PyObject *hook = PyObject_GetAttrString(module, "_after_fork_in_child");
	PyObject *call = os ? PyObject_GetAttrString(os, "register_at_fork") : NULL;
	PyObject *args = PyTuple_New(0);
	PyObject *kwargs = hook ? Py_BuildValue("{s:O}", "after_in_child", hook) : NULL;
	PyObject *result = NULL;

	if (call && args && kwargs)
		result = PyObject_Call(call, args, kwargs);
	Py_XDECREF(kwargs);
	Py_XDECREF(args);
	Py_XDECREF(call);
	Py_XDECREF(hook);
	Py_XDECREF(os);
	Py_XDECREF(result);
	return result ? 0 : -1;
}

static int module_exec(PyObject *module)
{
	struct state *state = PyModule_GetState(module);
	char version[32];

	PyOS_snprintf(version, sizeof(version), "%d.%d.%d", CENOTE_VERSION_MAJOR,
		CENOTE_VERSION_MINOR, CENOTE_VERSION_PATCH);
	if (params_init(state) < 0 || py_errors_init(module, state) < 0 ||
		py_memory_init(module, state) < 0 || py_buffer_init(module, state) < 0 ||
		py_writer_init(module, state) < 0 || py_life_init(module, state) < 0 ||
		py_store_init(module, state) < 0 ||
		PyModule_AddStringConstant(module, "__version__", version) < 0)
		return -1;
	return hook_fork(module);
}

static int module_clear(PyObject *module)
{
	struct state *state = PyModule_GetState(module);
	int i;

	for (i = 0; i < PARAM_COUNT; i++)
		Py_CLEAR(state->params[i]);
	py_errors_fini(state);
	Py_CLEAR(state->store_type);
	Py_CLEAR(state->buffer_type);
	Py_CLEAR(state->writer_type);
	Py_CLEAR(state->export_type);
	Py_CLEAR(state->stat_type);
	Py_CLEAR(state->entry_type);
	return 0;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
	struct state *state = PyModule_GetState(module);
	size_t i;

	for (i = 0; i < ERROR_KINDS_MAX; i++)
		Py_VISIT(state->kinds[i]);
	Py_VISIT(state->error);
	Py_VISIT(state->store_type);
	Py_VISIT(state->buffer_type);
	Py_VISIT(state->writer_type);
	Py_VISIT(state->export_type);
	Py_VISIT(state->stat_type);
	Py_VISIT(state->entry_type);
	return 0;
}

static void module_free(void *module)
{
	(void)module_clear(module);
}

static PyModuleDef_Slot module_slots[] = {
	{Py_mod_exec, (void *)module_exec},
	{0, NULL},
};

static struct PyModuleDef module_def = {
	.m_base = PyModuleDef_HEAD_INIT,
	.m_name = "cenote._cenote",
	.m_doc = PyDoc_STR("The part of cenote that is in C; import cenote instead."),
	.m_size = sizeof(struct state),
	.m_methods = module_methods,
	.m_slots = module_slots,
	.m_traverse = module_traverse,
	.m_clear = module_clear,
	.m_free = module_free,
};

PyMODINIT_FUNC PyInit__cenote(void);

PyMODINIT_FUNC PyInit__cenote(void)
{
	return PyModuleDef_Init(&module_def);
}
