/*
 * python_priv.h - what the files of the extension module share.
 *
 * One Store object of Python has one struct home: the attached store, and how many use
 * it. Buffers, Writers and calls under way use it too, so that Store.close() and
 * Store.reattach() never take the pool away from under a view or another thread.
 *
 *	Store ──┐
 *	Buffer ─┼─▶ home ─▶ struct cenote
 *	Writer ─┘    the last one to leave closes it
 *	  ▲
 *	Export ◀── memoryview, numpy array, torch tensor
 *
 * A view of a Buffer or Writer holds an Export, not the Buffer itself: "does any view
 * live?" is then "is there an Export?", also for those who keep a reference to the
 * exporter and give the buffer back at once, as torch does.
 *
 * The library is linked into the module, so names that leave a file begin with py_.
 *
 * Units     Python has seconds as float, the library ms; bytes elsewhere.
 * Memory    the state belongs to the module, which every type and so every object keeps.
 * Errors    as CPython has them: NULL or -1 with an exception set.
 * Thread    all of it under the interpreter lock; calls into the library that may wait or
 *           copy are made without it.
 */
#ifndef PYTHON_PYTHON_PRIV_H
#define PYTHON_PYTHON_PRIV_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cenote/cenote.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The keyword arguments of all functions; PARAM(name). */
#define PARAMS                   \
	PARAM(action)            \
	PARAM(buffer)            \
	PARAM(buffers)           \
	PARAM(data)              \
	PARAM(durable)           \
	PARAM(end)               \
	PARAM(from_hit)          \
	PARAM(key)               \
	PARAM(keys)              \
	PARAM(name)              \
	PARAM(parts)             \
	PARAM(prefix)            \
	PARAM(read_only)         \
	PARAM(readers)           \
	PARAM(regex)             \
	PARAM(replace)           \
	PARAM(replicas)          \
	PARAM(replicas_required) \
	PARAM(size)              \
	PARAM(sizes)             \
	PARAM(socket)            \
	PARAM(softpin)           \
	PARAM(timeout)           \
	PARAM(times)             \
	PARAM(ttl)               \
	PARAM(value)             \
	PARAM(values)            \
	PARAM(wait)              \
	PARAM(what)

enum param {
#define PARAM(name) PARAM_##name,
	PARAMS
#undef PARAM
		PARAM_COUNT
};

/* What METHOD() puts into a table of methods. */
#define FAST_METHOD(name)                                                       \
	PyObject *name(PyObject *self, PyObject *const *args, Py_ssize_t nargs, \
		PyObject *kwnames)

#define METHOD(name, function, doc)                                   \
	{                                                             \
		name, (PyCFunction)(void (*)(void))(function),        \
			METH_FASTCALL | METH_KEYWORDS, PyDoc_STR(doc) \
	}

/* Do this without the interpreter lock, since it may wait or copy. */
#define WITHOUT_LOCK(...)                                           \
	do {                                                        \
		PyThreadState *without_lock_ = PyEval_SaveThread(); \
		__VA_ARGS__;                                        \
		PyEval_RestoreThread(without_lock_);                \
	} while (0)

/* The docstring of a type; slots take no pointer to const. */
#define DOC_SLOT(doc)                                        \
	{                                                    \
		Py_tp_doc, (void *)(uintptr_t)PyDoc_STR(doc) \
	}

#define ERROR_KINDS_MAX 40

struct state {
	PyObject *params[PARAM_COUNT]; /* interned names */
	PyObject *error;               /* class CenoteError */
	PyObject *kinds[ERROR_KINDS_MAX];
	PyTypeObject *store_type;
	PyTypeObject *buffer_type;
	PyTypeObject *writer_type;
	PyTypeObject *export_type;
	PyTypeObject *stat_type;
	PyTypeObject *entry_type;
	unsigned long forks; /* how often this process is a forked child */
};

/* ---- home.c: the attached store ------------------------------------------ */

struct home {
	struct state *state;
	struct cenote *store;
	size_t users;
	unsigned long forks; /* state->forks when it was attached */
	pid_t pid;           /* of the process that attached it */
};

struct home *py_home_new(struct state *state, struct cenote *store);
void py_home_ref(struct home *home);
void py_home_unref(struct home *home);
static inline bool home_is_forked(const struct home *home)
{
	return home->forks != home->state->forks;
}

/* ---- errors.c ------------------------------------------------------------ */

int py_errors_init(PyObject *module, struct state *state);
void py_errors_fini(struct state *state);
/* A new exception for a code of the library. `key` may be NULL; `detail` NULL: none. */
PyObject *py_error_new(
	struct state *state, int code, const struct cenote_key *key, const char *detail);
/* Raise it; returns NULL. */
PyObject *py_error_raise_text(
	struct state *state, int code, const struct cenote_key *key, const char *detail);
/* Raise it with the detail of this thread's last call; returns NULL. */
PyObject *py_error_raise(struct state *state, int code, const struct cenote_key *key);

/* ---- convert.c: arguments in, results out -------------------------------- */

/* What a function takes: its parameters in order, of which `positional` may be given
 * without their name and `required` must be given. */
struct params {
	const char *function;
	unsigned char positional;
	unsigned char required;
	unsigned char count;
	unsigned char names[10];
};

/* Sort the arguments into ret[params->count]: borrowed, NULL where not given. */
int py_params_take(const struct state *state, const struct params *params,
	PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, PyObject **ret);

/* str (as UTF-8) or bytes; points into the object. */
int py_convert_key(PyObject *object, struct cenote_key *ret);
/* str where the bytes are UTF-8, else bytes. */
PyObject *py_convert_key_back(const char *key, size_t size);
/* A list of keys and the like, as a new tuple; one str or bytes-like is refused. */
PyObject *py_convert_sequence(PyObject *object, const char *what);
/* None = for ever, NULL = the library's default. */
int py_convert_timeout(PyObject *object, int64_t *ret_ms);
int py_convert_flag(PyObject *object, bool *ret);
int py_convert_number(PyObject *object, const char *what, uint64_t most, uint64_t *ret);
/* `in`: softpin, ttl, readers, durable, timeout, replace, as all puts have them. */
int py_convert_put_options(PyObject *const *in, struct cenote_put_options *ret);

/* Memory of many Python objects, as parts of a put; zero is empty. */
struct gather {
	Py_buffer *buffers;
	struct cenote_part *parts;
	size_t count;
	size_t size;
};

/* Add one buffer. */
int py_gather_add(struct gather *gather, PyObject *object);
/* Add a buffer, or all buffers of a list or tuple. */
int py_gather_add_value(struct gather *gather, PyObject *object);
void py_gather_fini(struct gather *gather);

/* A wait that Ctrl-C can end: the main thread's is done in slices. */
struct patience {
	int64_t slice_ms; /* for the next call */
	uint64_t end_ms;  /* UINT64_MAX: never */
	bool sliced;
};

void py_patience_init(struct patience *patience, bool wait, int64_t timeout_ms);
/* After a call that ended with `code`: 1 = call again, 0 = that was it, -1 = a signal
 * handler has raised. */
int py_patience_more(struct patience *patience, int code);

/* ---- memory.c: what a Buffer and a Writer have in common ----------------- */

/* Bytes of the pool, and who looks at them. Each of the two structs begins with it. */
struct memory {
	PyObject ob_base;
	struct home *home;
	void *data; /* NULL: over, no view any more */
	uint64_t size;
	PyObject *export; /* borrowed; there while a view lives */
	bool read_only;
	bool leaving;                   /* ends with its last view */
	void (*end)(struct memory *it); /* called for one that is leaving */
};

int py_memory_init(PyObject *module, struct state *state);
void py_memory_set(
	struct memory *memory, struct home *home, const void *data, uint64_t size);
/* BufferError if a view lives; `what` is in its text. */
int py_memory_check_alone(const struct memory *memory, const char *what);
int py_memory_getbuffer(PyObject *self, Py_buffer *view, int flags);
void py_memory_releasebuffer(PyObject *self, Py_buffer *view);
Py_ssize_t py_memory_length(PyObject *self);
PyObject *py_memory_subscript(PyObject *self, PyObject *index);

/* ---- the types, and the methods of Store --------------------------------- */

int py_buffer_init(PyObject *module, struct state *state);
PyObject *py_buffer_new(struct home *home, const struct cenote_view *view);

/* What a put returned: None, or how many nodes keep it; NULL of an error. */
PyObject *py_put_value(int code);

int py_writer_init(PyObject *module, struct state *state);
PyObject *py_writer_new(
	struct home *home, const struct cenote_writer *writer, struct cenote_key key);

struct store {
	PyObject ob_base;
	struct state *state;
	struct home *home; /* NULL: closed */
	char *socket_path; /* NULL: the default */
	int64_t timeout_ms;
	bool read_only;
};

int py_store_init(PyObject *module, struct state *state);
/* A function of the module. */
FAST_METHOD(py_store_connect);
/* The store's home, with the caller as a user of it; NULL and ValueError: closed. */
struct home *py_store_enter(PyObject *self);
/* Leave it again, and raise unless code is 0 or more. */
int py_store_leave(struct home *home, int code, const struct cenote_key *key);

static inline struct state *store_state(PyObject *self)
{
	return ((struct store *)self)->state;
}

/* Methods of Store. */
FAST_METHOD(py_put_whole);
FAST_METHOD(py_put_upsert);
FAST_METHOD(py_put_parts);
FAST_METHOD(py_put_create);
FAST_METHOD(py_get_hold);
FAST_METHOD(py_get_into);
FAST_METHOD(py_get_take);
FAST_METHOD(py_get_wait);
FAST_METHOD(py_life_list);
FAST_METHOD(py_life_drain);
PyObject *py_life_exists(PyObject *self, PyObject *key);
PyObject *py_life_stat(PyObject *self, PyObject *key);
PyObject *py_life_touch(PyObject *self, PyObject *key);
PyObject *py_life_remove(PyObject *self, PyObject *key);
PyObject *py_life_remove_prefix(PyObject *self, PyObject *prefix);
PyObject *py_life_remove_regex(PyObject *self, PyObject *pattern);
PyObject *py_life_info(PyObject *self, PyObject *what);
PyObject *py_life_pool_region(PyObject *self, PyObject *unused);
int py_life_init(PyObject *module, struct state *state);
/* A Stat. */
PyObject *py_stat_new(struct state *state, const struct cenote_stat *stat);

/* ---- batch.c, batch_get.c ------------------------------------------------- */

/* Arguments that all batches begin with, and what must be undone in the end. */
struct batch {
	struct home *home;
	PyObject *keys; /* a tuple */
	PyObject *seconds;
	size_t count;
	void *items;
};

/* Enter with `keys`, perhaps `seconds` of the same length, and items of `item_size`
 * zeroed bytes. Leave in any case. */
int py_batch_enter(struct batch *batch, PyObject *self, PyObject *keys, PyObject *seconds,
	const char *what, size_t item_size);
void py_batch_leave(struct batch *batch);
int py_batch_key(const struct batch *batch, size_t i, struct cenote_key *ret);
/* Borrowed. */
PyObject *py_batch_second(const struct batch *batch, size_t i);
/* Put a key's result into the list: `value`, which it takes over, or the exception that
 * `code` stands for. -1: Python is out of memory. */
int py_batch_set(const struct batch *batch, PyObject *list, size_t i, int code,
	const struct cenote_key *key, PyObject *value);

FAST_METHOD(py_batch_put);
FAST_METHOD(py_batch_create);
FAST_METHOD(py_batch_get);
FAST_METHOD(py_batch_get_into);
FAST_METHOD(py_batch_take);
FAST_METHOD(py_batch_exists);
FAST_METHOD(py_batch_stat);
FAST_METHOD(py_batch_touch);
FAST_METHOD(py_batch_remove);

/* ---- fault.c ------------------------------------------------------------- */

/* `self` is a Store or the module. */
FAST_METHOD(py_fault_inject);
FAST_METHOD(py_fault_status);
FAST_METHOD(py_fault_inject_master);
FAST_METHOD(py_fault_status_master);

#endif
