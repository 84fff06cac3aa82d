/*
 * tls_priv.h - one TLS connection over a socket that does not block.
 *
 * What it writes goes by send() with MSG_NOSIGNAL. After an error tls_why() says what it
 * was, and the connection is good for nothing but tls_stop().
 *
 * Units     bytes; those moved, 0: none now.
 * Memory    the socket is the caller's.
 * Errors    ERR_BUSY: not now, and tls_wants_write() tells for what it waits;
 *           ERR_NOT_PERMITTED: the other end could not be proven, or does not accept us;
 *           ERR_UNAVAILABLE: it broke.
 * Thread    that of the stream.
 */
#ifndef IO_TLS_PRIV_H
#define IO_TLS_PRIV_H

#include "io/tls.h"

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>

#define TLS_PSK_SIZE 32u
/* Of a record on the wire, with all that is around its bytes: so much may be in hand. */
#define TLS_RECORD_MAX (17u << 10)

struct tls {
	SSL_CTX *client, *server; /* server NULL: only good for connecting */
	BIO_METHOD *method;
	unsigned char psk[TLS_PSK_SIZE];
	bool has_psk;
	char host[256]; /* "": any */
};

struct tls_session;

/* tls_session.c: what both contexts are to use */
BIO_METHOD *tls_method_new(void);

int tls_start(
	struct tls *tls, int fd, bool is_server, struct tls_session **ret) MUST_CHECK;
void tls_stop(struct tls_session *session); /* NULL is fine */
/* 0: the other end is proven. */
int tls_shake(struct tls_session *session) MUST_CHECK;
int64_t tls_read(struct tls_session *session, void *bytes, size_t size) MUST_CHECK;
/* A record at most. After a 0 the same bytes must come again, perhaps with more behind them.
 * `more`: others follow at once. */
int64_t tls_write(struct tls_session *session, const void *bytes, size_t size,
	bool more) MUST_CHECK;
bool tls_wants_write(const struct tls_session *session);
/* The socket may have bytes again: of one that was read empty nothing is asked before. */
void tls_ready(struct tls_session *session);
/* From now on only what was taken from the socket already is read, until tls_ready(). */
void tls_rest(struct tls_session *session);
/* At first all that has come is taken from the socket in one go; from now on record by record,
 * so that what was not read lies there, and a long one goes where it is to be. */
void tls_read_no_further(struct tls_session *session);
const char *tls_why(const struct tls_session *session);

#endif
