/*
 * copy.c - large copies that do not push everything else out of the cache.
 *
 * A streaming store writes memory without reading the line before, which saves a third of
 * the traffic. From COPY_STREAM_MIN on, about half of a core's own cache, it is faster even
 * for who reads the copy at once: memcpy() would have to fetch the lines that the reader
 * then finds. The fence at the end orders the stores before the message that shows the
 * object. Loads are left to the machine's prefetcher: asking for lines ahead was slower.
 */
#include "client/client_priv.h"

#include <string.h>

#define COPY_STREAM_MIN (256u << 10)

#if defined(__x86_64__)
#include <immintrin.h>

#define COPY_BLOCK 128u

/* `to` is on a line, `size` a multiple of COPY_BLOCK. */
static void copy_stream_sse2(unsigned char *to, const unsigned char *from, size_t size)
{
	for (size_t at = 0; at < size; at += COPY_BLOCK) {
		for (size_t i = 0; i < COPY_BLOCK; i += 16) {
			__m128i piece = _mm_loadu_si128((const void *)(from + at + i));

			_mm_stream_si128((void *)(to + at + i), piece);
		}
	}
	_mm_sfence();
}

__attribute__((target("avx"))) static void copy_stream_avx(
	unsigned char *to, const unsigned char *from, size_t size)
{
	for (size_t at = 0; at < size; at += COPY_BLOCK) {
		__m256i a = _mm256_loadu_si256((const void *)(from + at));
		__m256i b = _mm256_loadu_si256((const void *)(from + at + 32));
		__m256i c = _mm256_loadu_si256((const void *)(from + at + 64));
		__m256i d = _mm256_loadu_si256((const void *)(from + at + 96));

		_mm256_stream_si256((void *)(to + at), a);
		_mm256_stream_si256((void *)(to + at + 32), b);
		_mm256_stream_si256((void *)(to + at + 64), c);
		_mm256_stream_si256((void *)(to + at + 96), d);
	}
	_mm_sfence();
}

static void copy_stream(unsigned char *to, const unsigned char *from, size_t size)
{
	size_t head = -(uintptr_t)to % 64;
	size_t body = (size - head) / COPY_BLOCK * COPY_BLOCK;

	memcpy(to, from, head);
	if (__builtin_cpu_supports("avx"))
		copy_stream_avx(to + head, from + head, body);
	else
		copy_stream_sse2(to + head, from + head, body);
	memcpy(to + head + body, from + head + body, size - head - body);
}

#else

static void copy_stream(unsigned char *to, const unsigned char *from, size_t size)
{
	memcpy(to, from, size);
}

#endif

void copy_bytes(void *to, const void *from, size_t size)
{
	if (size >= COPY_STREAM_MIN)
		copy_stream(to, from, size);
	else if (size > 0)
		memcpy(to, from, size);
}
