/*
 * attach.c - become a client of the node's daemon, and cease to be one.
 *
 *   cenote_connect -> attachment (socket, HELLO, WELCOME with descriptors, segments
 * mapped) |  the daemon does not know it any more: another pool, other files
 *                       '-> one more attachment, by the next call that needs a daemon
 *   fork() in the child -> every call answers FORKED
 *   cenote_close -> BYE, unmapped
 *
 * The list of stores exists for fork() alone: a child's handler must find them. It is one
 * of the three mutable globals of the library, beside the fault table and error.c.
 */
#include "client/client_priv.h"

#include "base/bytes.h"
#include "ipc/segment.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEFAULT_SOCKET "/run/cenote/cenote.sock"
#define BYE_WAIT_NS    1000000000ull

static struct {
	pthread_once_t once;
	pthread_mutex_t lock;
	struct list stores;
} registry = {
	.once = PTHREAD_ONCE_INIT,
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.stores = {&registry.stores, &registry.stores},
};

/* ---- fork ---------------------------------------------------------------- */

/* All locks are taken, so that the child gets lists that are whole. */
static void fork_prepare(void)
{
	pthread_mutex_lock(&registry.lock);
	list_for_each (at, &registry.stores)
		pthread_mutex_lock(&container_of(at, struct cenote, registered)->lock);
}

static void fork_parent(void)
{
	list_for_each (at, &registry.stores)
		pthread_mutex_unlock(&container_of(at, struct cenote, registered)->lock);
	pthread_mutex_unlock(&registry.lock);
}

static void fork_child(void)
{
	list_for_each (at, &registry.stores) {
		struct cenote *store = container_of(at, struct cenote, registered);

		atomic_store(&store->is_forked, true);
		atomic_store(&store->attachment, NULL);
	}
	fork_parent();
}

static void library_init(void)
{
	(void)pthread_atfork(fork_prepare, fork_parent, fork_child);
}

/* ---- an attachment ------------------------------------------------------- */

static void attachment_on_tell(struct holder *holder, uint32_t slot)
{
	attachment_tell(container_of(holder, struct attachment, holder), slot);
}

static void attachment_unmap(struct attachment *attachment)
{
	segment_unmap(attachment->share.index, attachment->index_size);
	segment_unmap(
		(void *)(uintptr_t)attachment->holder.counts, attachment->holds_size);
	segment_unmap(attachment->share.pool, attachment->pool_size);
}

/* Say BYE over the tell socket; true: it was answered. */
static bool attachment_try_bye(struct attachment *attachment, uint64_t deadline)
{
	struct msg_bye msg = {.reason = 0};
	unsigned char message[64], reply[2048];
	enum msg_type type = MSG_TYPE_WELCOME;
	size_t size = msg_bye_encode(message, sizeof(message), &msg);

	if (attachment_send(attachment, message, size, deadline) != 0)
		return false;
	/* WELCOMEs of a tell socket that was renewed stand before the answer. */
	while (type == MSG_TYPE_WELCOME) {
		int64_t got = socket_receive(
			attachment->tell_fd, reply, sizeof(reply), deadline, NULL);

		if (got < 0 || msg_type(reply, (size_t)got, &type) != 0)
			return false;
	}
	return true;
}

/* Leave the daemon, or the one that came after it. The answer is waited for, shortly: who
 * looks then sees the client gone. */
static void attachment_bye(struct attachment *attachment)
{
	uint64_t deadline = socket_now() + BYE_WAIT_NS;

	/* The second time when the daemon went away before it answered. */
	if (!attachment_try_bye(attachment, deadline))
		(void)attachment_try_bye(attachment, deadline);
}

static void attachment_end(struct attachment *attachment)
{
	attachment_unmap(attachment);
	if (!atomic_load(&attachment->is_stale))
		attachment_bye(attachment);
	(void)close(attachment->tell_fd);
	free(attachment);
}

/* Whether a file is as long as was said: beyond its end there is a SIGBUS. */
static bool file_has(int fd, uint64_t size)
{
	struct stat file;

	return fstat(fd, &file) == 0 && size > 0 && (uint64_t)file.st_size >= size;
}

static int welcome_check(
	const struct msg_welcome *welcome, const struct socket_extra *extra)
{
	if (welcome->version != WIRE_VERSION)
		return client_fail(ERR_VERSION,
			"the daemon speaks protocol %u, this library %u",
			welcome->version, WIRE_VERSION);
	if (extra->count != SEGMENT_FDS ||
		!file_has(extra->fds[SEGMENT_FD_INDEX], welcome->index_size) ||
		!file_has(extra->fds[SEGMENT_FD_HOLDS], welcome->holds_size) ||
		!file_has(extra->fds[SEGMENT_FD_POOL], welcome->pool_size))
		return client_fail(ERR_PROTOCOL, "the daemon's segments are not as large "
						 "as it says, or not there");
	return 0;
}

static int header_check(
	const struct share_header *header, const struct msg_welcome *welcome)
{
	if (header->magic != SHARE_MAGIC || header->version != SHARE_VERSION)
		return client_fail(ERR_VERSION,
			"the index is of layout %u, this library reads %u",
			header->version, SHARE_VERSION);
	if (header->pool_size != welcome->pool_size ||
		share_index_size(header->slots_limit) != welcome->index_size ||
		share_holds_size(header->slots_limit) != welcome->holds_size)
		return client_fail(
			ERR_PROTOCOL, "the index and the daemon differ on sizes");
	return 0;
}

static int attachment_map(struct attachment *attachment,
	const struct msg_welcome *welcome, const struct socket_extra *extra)
{
	bool writable = !attachment->store->read_only;
	void *index = NULL, *holds = NULL, *pool = NULL;
	int err = welcome_check(welcome, extra);

	if (err != 0)
		return err;
	err = segment_map(
		extra->fds[SEGMENT_FD_INDEX], welcome->index_size, false, &index);
	if (err == 0)
		err = segment_map(
			extra->fds[SEGMENT_FD_HOLDS], welcome->holds_size, true, &holds);
	if (err == 0)
		err = segment_map(
			extra->fds[SEGMENT_FD_POOL], welcome->pool_size, writable, &pool);
	if (index != NULL)
		share_init(&attachment->share, index, pool);
	attachment->holder.counts = holds;
	if (err != 0)
		return client_fail(err, "map a pool of %" PRIu64 " bytes: %s",
			welcome->pool_size, strerror(errno));
	return header_check(attachment->share.header, welcome);
}

static struct attachment *attachment_new(
	struct cenote *store, int fd, const struct msg_welcome *welcome)
{
	size_t pieces = (size_t)(welcome->pool_size >> POPULATE_SHIFT) + 1;
	struct attachment *attachment = calloc(
		1, sizeof(*attachment) + (pieces + 63) / 64 * sizeof(uint64_t));

	if (attachment == NULL)
		return NULL;
	attachment->store = store;
	attachment->holder.tell = attachment_on_tell;
	attachment->index_size = welcome->index_size;
	attachment->holds_size = welcome->holds_size;
	attachment->pool_size = welcome->pool_size;
	attachment->cid = welcome->cid;
	attachment->incarnation = welcome->incarnation;
	attachment->small_limit = MIN(welcome->small_limit, MSG_SMALL_MAX);
	memcpy(attachment->token, welcome->token, sizeof(attachment->token));
	memcpy(attachment->pool_id, welcome->pool_id, sizeof(attachment->pool_id));
	attachment->tell_fd = fd;
	atomic_flag_clear(&attachment->telling);
	return attachment;
}

int attach_hello(struct cenote *store, int fd, const uint8_t *token, uint64_t deadline,
	struct msg_welcome *ret_welcome, struct socket_extra *ret_extra)
{
	struct msg_hello hello = {
		.version = WIRE_VERSION,
		.flags = store->read_only ? HELLO_READ_ONLY : 0,
	};
	unsigned char message[128], reply[2048];
	int64_t got;
	int err;

	memcpy(hello.token, token, sizeof(hello.token));
	err = socket_send(fd, message, msg_hello_encode(message, sizeof(message), &hello),
		NULL, 0, deadline);
	if (err != 0)
		return client_fail_socket(store, err);
	got = socket_receive(fd, reply, sizeof(reply), deadline, ret_extra);
	if (got < 0)
		return client_fail_socket(store, (int)got);
	err = reply_expect(reply, (size_t)got, MSG_TYPE_WELCOME);
	if (err == 0 && msg_welcome_decode(reply, (size_t)got, ret_welcome) != 0)
		err = reply_broken(MSG_TYPE_WELCOME);
	return err;
}

/* What follows once the daemon has welcomed us; on failure it is told that we left. */
static int attachment_make(struct cenote *store, int fd,
	const struct msg_welcome *welcome, const struct socket_extra *extra,
	struct attachment **ret)
{
	struct attachment *attachment = attachment_new(store, fd, welcome);
	int err;

	if (attachment == NULL) {
		(void)close(fd);
		return client_fail(ERR_NO_MEMORY, "no memory to attach");
	}
	err = attachment_map(attachment, welcome, extra);
	/* An empty TELL: until the daemon hears it, a closed socket ends this client. */
	if (err == 0)
		attachment_tell(attachment, SLOT_NONE);
	if (err == 0)
		err = client_fault(FAULT_CLIENT_AFTER_ATTACH);
	if (err == 0)
		*ret = attachment;
	else
		attachment_end(attachment);
	return err;
}

/* One try. ERR_UNAVAILABLE, ERR_BUSY: worth another. */
static int attach_try(struct cenote *store, uint64_t deadline, struct attachment **ret)
{
	static const uint8_t no_token[16];
	struct socket_extra extra = {.count = 0};
	struct msg_welcome welcome;
	int fd, err;

	err = socket_connect(store->socket_path, &fd);
	if (err != 0)
		return client_fail_socket(store, err);
	err = client_fault(FAULT_CLIENT_BEFORE_ATTACH);
	if (err == 0)
		err = attach_hello(store, fd, no_token, deadline, &welcome, &extra);
	if (err == 0)
		err = attachment_make(store, fd, &welcome, &extra, ret);
	else
		(void)close(fd);
	for (size_t i = 0; i < extra.count; i++)
		(void)close(extra.fds[i]);
	return err;
}

/* ---- the store's attachments --------------------------------------------- */

int store_refuse(const struct cenote *store)
{
	if (store == NULL)
		return client_fail(ERR_BAD_ARGUMENT, "the store is NULL");
	return client_fail(ERR_FORKED,
		"the store belongs to the parent process; a child connects anew");
}

int store_attach(struct cenote *store, uint64_t deadline, struct attachment **ret)
{
	struct attachment *old = atomic_load(&store->attachment);
	struct attachment *made;
	int err;

	if (old != NULL && !atomic_load(&old->is_stale)) {
		*ret = old;
		return 0;
	}
	err = attach_try(store, deadline, &made);
	if (err != 0)
		return err;
	pthread_mutex_lock(&store->lock);
	*ret = atomic_load(&store->attachment);
	if (*ret == old) {
		made->older = store->attachments;
		store->attachments = made;
		atomic_store(&store->attachment, made);
		*ret = made;
	}
	pthread_mutex_unlock(&store->lock);
	/* Another thread was faster: its client is the store's. */
	if (*ret != made)
		attachment_end(made);
	return 0;
}

struct attachment *store_owner(struct cenote *store, const void *data)
{
	struct attachment *at;

	pthread_mutex_lock(&store->lock);
	for (at = store->attachments; at != NULL; at = at->older) {
		if ((uintptr_t)data - (uintptr_t)at->share.pool < at->pool_size)
			break;
	}
	pthread_mutex_unlock(&store->lock);
	return at;
}

/* Whether the piece had been marked already; it is now. */
static bool populate_mark(struct attachment *attachment, uint64_t piece)
{
	_Atomic uint64_t *word = &attachment->populated[piece / 64];
	uint64_t bit = 1ull << piece % 64;

	if (atomic_load_explicit(word, memory_order_relaxed) & bit)
		return true;
	return atomic_fetch_or_explicit(word, bit, memory_order_relaxed) & bit;
}

void attachment_populate(struct attachment *attachment, uint64_t offset, uint64_t size)
{
	uint64_t piece = offset >> POPULATE_SHIFT;
	uint64_t end = size > 0 ? ((offset + size - 1) >> POPULATE_SHIFT) + 1 : piece;

	while (piece < end) {
		uint64_t from = piece << POPULATE_SHIFT, to;

		if (populate_mark(attachment, piece++))
			continue;
		while (piece < end && !populate_mark(attachment, piece))
			piece++;
		to = MIN(piece << POPULATE_SHIFT, attachment->pool_size);
		/* Where it cannot be done the copy faults page by page. */
		(void)madvise(
			attachment->share.pool + from, to - from, MADV_POPULATE_WRITE);
	}
}

/* ---- connect, close ------------------------------------------------------ */

static int store_set_path(struct cenote *store, const char *path)
{
	if (path == NULL) {
		path = getenv("CENOTE_SOCKET");
		if (path == NULL || path[0] == '\0')
			path = DEFAULT_SOCKET;
	}
	if (path[0] == '\0')
		return client_fail(ERR_BAD_ARGUMENT,
			"socket path of 0 bytes: it takes 1 to %zu, or none for the "
			"default",
			sizeof(store->socket_path) - 1);
	if (strlen(path) >= sizeof(store->socket_path))
		return client_fail(ERR_BAD_ARGUMENT,
			"socket path of %zu bytes: the limit is %zu", strlen(path),
			sizeof(store->socket_path) - 1);
	memcpy(store->socket_path, path, strlen(path) + 1);
	return 0;
}

static struct cenote *store_new(void)
{
	struct cenote *store = calloc(1, sizeof(*store));

	if (store == NULL)
		return NULL;
	pthread_mutex_init(&store->lock, NULL);
	pthread_mutex_init(&store->reads_lock, NULL);
	list_init(&store->reads);
	list_init(&store->lanes);
	list_init(&store->idle);
	pthread_mutex_lock(&registry.lock);
	list_add_tail(&registry.stores, &store->registered);
	pthread_mutex_unlock(&registry.lock);
	return store;
}

static void store_free_lanes(struct cenote *store, bool is_child)
{
	list_for_each_safe (at, &store->lanes) {
		struct lane *lane = container_of(at, struct lane, all_entry);

		/* The parent's connection goes on. */
		if (is_child && lane->fd >= 0)
			(void)close(lane->fd);
		else
			lane_close(lane);
		lane_free(lane);
	}
}

void cenote_close(struct cenote *store)
{
	bool is_child;

	if (store == NULL)
		return;
	is_child = atomic_load(&store->is_forked);
	pthread_mutex_lock(&registry.lock);
	list_del(&store->registered);
	pthread_mutex_unlock(&registry.lock);
	if (!is_child && atomic_load(&store->read_count) > 0)
		reads_send(store);
	reads_free(store);
	store_free_lanes(store, is_child);
	while (store->attachments != NULL) {
		struct attachment *attachment = store->attachments;

		store->attachments = attachment->older;
		if (!is_child) {
			attachment_end(attachment);
			continue;
		}
		/* Its segments were never mapped in the child. */
		(void)close(attachment->tell_fd);
		free(attachment);
	}
	free(store->orphans);
	pthread_mutex_destroy(&store->lock);
	free(store);
}

int cenote_connect(
	struct cenote **ret_store, const struct cenote_connect_options *options)
{
	static const struct cenote_connect_options defaults;
	struct call call;
	struct cenote *store;
	uint64_t deadline;
	int err;

	if (options == NULL)
		options = &defaults;
	(void)pthread_once(&registry.once, library_init);
	err = client_deadline(options->timeout_ms, CALL_TIMEOUT_MS, &deadline);
	if (err != 0)
		return err;
	store = store_new();
	if (store == NULL)
		return client_fail(ERR_NO_MEMORY, "no memory for a store");
	store->read_only = options->read_only;
	err = store_set_path(store, options->socket_path);
	if (err == 0)
		err = call_open(&call, store, deadline);
	if (err != 0) {
		cenote_close(store);
		return err;
	}
	call_end(&call);
	*ret_store = store;
	return 0;
}

int cenote_pool_region(struct cenote *store, const void **ret_base, size_t *ret_size)
{
	int err = 0;
	struct attachment *attachment = store_attachment(store, &err);

	if (attachment == NULL)
		return err;
	*ret_base = attachment->share.pool;
	*ret_size = attachment->pool_size;
	return 0;
}
