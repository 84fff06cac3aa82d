/*
 * loop.c - epoll, a timerfd and a signalfd.
 *
 * Sources are called level by level: whoever does not read all of its input is called
 * again in the next turn, behind the others, so that none starves them.
 */
#include "io/loop.h"

#include "base/check.h"
#include "base/err.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000ull

static int loop_error(int number)
{
	return number == ENOMEM || number == ENOSPC ? ERR_NO_MEMORY : ERR_IO;
}

/* ---- clocks and chance --------------------------------------------------- */

uint64_t loop_boot_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t loop_wall_us(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

void loop_random(void *buffer, size_t size)
{
	unsigned char *at = buffer;

	while (size > 0) {
		ssize_t got = getrandom(at, size, 0);

		CHECK(got > 0 || errno == EINTR);
		if (got < 0)
			continue;
		at += got;
		size -= (size_t)got;
	}
}

/* ---- sources ------------------------------------------------------------- */

int loop_add(struct loop *loop, struct loop_source *source)
{
	struct epoll_event event = {.events = EPOLLIN, .data = {.ptr = source}};

	if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, source->fd, &event) != 0)
		return loop_error(errno);
	return 0;
}

void loop_want(struct loop *loop, struct loop_source *source, bool read, bool write)
{
	struct epoll_event event = {.events = (read ? (uint32_t)EPOLLIN : 0) |
					      (write ? (uint32_t)EPOLLOUT : 0),
		.data = {.ptr = source}};

	CHECK(epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, source->fd, &event) == 0);
}

void loop_remove(struct loop *loop, struct loop_source *source)
{
	CHECK(epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL) == 0);
	for (size_t i = 0; i < loop->pending_count; i++) {
		if (loop->pending[i] == source)
			loop->pending[i] = NULL;
	}
}

/* ---- timer --------------------------------------------------------------- */

static void loop_on_timer(struct loop_source *source)
{
	struct loop *loop = container_of(source, struct loop, timer);
	uint64_t times;

	if (read(source->fd, &times, sizeof(times)) == (ssize_t)sizeof(times))
		loop->timer_when = UINT64_MAX; /* it has gone off */
}

void loop_set_timer(struct loop *loop, uint64_t when)
{
	struct itimerspec spec = {0};

	/* Going off too early costs a look; being set costs a system call each time. */
	if (when >= loop->timer_when)
		return;
	loop->timer_when = when;
	/* All zero would turn it off. */
	spec.it_value.tv_sec = (time_t)(when / NS_PER_S);
	spec.it_value.tv_nsec = (long)(when % NS_PER_S) + (when == 0);
	CHECK(timerfd_settime(loop->timer.fd, TFD_TIMER_ABSTIME, &spec, NULL) == 0);
}

/* ---- signals ------------------------------------------------------------- */

static void loop_on_signal(struct loop_source *source)
{
	struct loop *loop = container_of(source, struct loop, signals);
	struct signalfd_siginfo info;

	if (read(source->fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		loop->signal = (int)info.ssi_signo;
}

int loop_take_signals(struct loop *loop, const int *signals)
{
	sigset_t set;

	(void)sigemptyset(&set);
	for (; *signals != 0; signals++)
		(void)sigaddset(&set, *signals);
	if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
		return loop_error(errno);
	loop->signals.fd = signalfd(loop->signals.fd, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (loop->signals.fd < 0)
		return loop_error(errno);
	return loop_add(loop, &loop->signals);
}

/* ---- the loop ------------------------------------------------------------ */

int loop_open(struct loop *loop)
{
	*loop = (struct loop){
		.epoll_fd = epoll_create1(EPOLL_CLOEXEC),
		.timer = {.fd = timerfd_create(
				  CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK),
			.on_ready = loop_on_timer},
		.signals = {.fd = -1, .on_ready = loop_on_signal},
		.timer_when = UINT64_MAX,
	};
	if (loop->epoll_fd < 0 || loop->timer.fd < 0)
		return loop_error(errno);
	return loop_add(loop, &loop->timer);
}

void loop_close(struct loop *loop)
{
	int fds[] = {loop->signals.fd, loop->timer.fd, loop->epoll_fd};

	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		if (fds[i] >= 0)
			(void)close(fds[i]);
	}
	loop->signals.fd = loop->timer.fd = loop->epoll_fd = -1;
}

int loop_turn(struct loop *loop, bool wait, int *ret_signal)
{
	struct epoll_event events[LOOP_EVENTS];
	int count = epoll_wait(loop->epoll_fd, events, LOOP_EVENTS, wait ? -1 : 0);

	if (count < 0 && errno != EINTR)
		return loop_error(errno);
	loop->signal = 0;
	loop->pending_count = count > 0 ? (size_t)count : 0;
	for (size_t i = 0; i < loop->pending_count; i++)
		loop->pending[i] = events[i].data.ptr;
	for (size_t i = 0; i < loop->pending_count; i++) {
		struct loop_source *source = loop->pending[i];

		loop->pending[i] = NULL;
		if (source != NULL)
			source->on_ready(source);
	}
	loop->pending_count = 0;
	*ret_signal = loop->signal;
	return 0;
}
