/*
 * tls_session.c - one connection: OpenSSL over a socket that is written to without SIGPIPE.
 *
 * OpenSSL's own socket BIO writes with write(), which a closed connection answers with a
 * signal; so the BIO here is one that sends with MSG_NOSIGNAL, and remembers what befell
 * the socket.
 */
#include "base/err.h"
#include "io/tls_priv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define WHY_MAX 200

struct tls_session {
	SSL *ssl;
	struct tls *tls;
	int fd;
	bool wants_write;
	bool has_more;   /* other records follow what is written now */
	bool is_shaken;  /* the handshake is over */
	bool has_heard;  /* and something came after it: the other end accepts us */
	bool at_end;     /* the socket was closed at the other end */
	bool is_resting; /* nothing more is taken from the socket until tls_ready() */
	int sock_number; /* errno of what broke it; 0: nothing did */
	char why[WHY_MAX];
};

/* ---- the socket as OpenSSL sees it --------------------------------------- */

static bool is_for_later(int number)
{
	return number == EAGAIN || number == EINTR;
}

static int bio_write(BIO *bio, const char *bytes, int size)
{
	struct tls_session *session = BIO_get_data(bio);
	ssize_t sent = send(session->fd, bytes, (size_t)size,
		MSG_NOSIGNAL | (session->has_more ? MSG_MORE : 0));

	BIO_clear_retry_flags(bio);
	if (sent < 0 && is_for_later(errno))
		BIO_set_retry_write(bio);
	else if (sent < 0)
		session->sock_number = errno;
	return (int)sent;
}

static int bio_read(BIO *bio, char *bytes, int size)
{
	struct tls_session *session = BIO_get_data(bio);
	ssize_t got;

	BIO_clear_retry_flags(bio);
	if (session->is_resting) {
		BIO_set_retry_read(bio);
		return -1;
	}
	got = recv(session->fd, bytes, (size_t)size, 0);
	session->is_resting = got > 0 && got < size;
	if (got == 0)
		session->at_end = true;
	else if (got < 0 && is_for_later(errno))
		BIO_set_retry_read(bio);
	else if (got < 0)
		session->sock_number = errno;
	return (int)got;
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
	const struct tls_session *session = BIO_get_data(bio);

	(void)number, (void)pointer;
	switch (command) {
	case BIO_CTRL_FLUSH:
		return 1;
	case BIO_CTRL_EOF:
		return session->at_end;
	default:
		return 0;
	}
}

BIO_METHOD *tls_method_new(void)
{
	BIO_METHOD *method = BIO_meth_new(
		BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "cenote socket");

	if (method != NULL && BIO_meth_set_write(method, bio_write) == 1 &&
		BIO_meth_set_read(method, bio_read) == 1 &&
		BIO_meth_set_ctrl(method, bio_ctrl) == 1)
		return method;
	BIO_meth_free(method);
	return NULL;
}

/* ---- begin and end ------------------------------------------------------- */

static bool is_numeric(const char *host)
{
	unsigned char address[sizeof(struct in6_addr)];

	return inet_pton(AF_INET, host, address) == 1 ||
	       inet_pton(AF_INET6, host, address) == 1;
}

/* Whom the server's certificate must name. */
static bool session_expect(const struct tls_session *session)
{
	char *host = session->tls->host; /* not const for OpenSSL's macro alone */

	if (host[0] == '\0')
		return true;
	if (is_numeric(host))
		return X509_VERIFY_PARAM_set1_ip_asc(
			       SSL_get0_param(session->ssl), host) == 1;
	return SSL_set1_host(session->ssl, host) == 1 &&
	       SSL_set_tlsext_host_name(session->ssl, host) == 1;
}

static bool session_make(struct tls_session *session, bool is_server)
{
	BIO *bio = BIO_new(session->tls->method);

	if (bio == NULL)
		return false;
	BIO_set_data(bio, session);
	BIO_set_init(bio, 1);
	session->ssl = SSL_new(is_server ? session->tls->server : session->tls->client);
	if (session->ssl == NULL) {
		BIO_free(bio);
		return false;
	}
	SSL_set_bio(session->ssl, bio, bio);
	SSL_set_read_ahead(session->ssl, 1);
	if (is_server)
		SSL_set_accept_state(session->ssl);
	else
		SSL_set_connect_state(session->ssl);
	return is_server || session_expect(session);
}

int tls_start(struct tls *tls, int fd, bool is_server, struct tls_session **ret)
{
	struct tls_session *session;

	if (is_server && tls->server == NULL)
		return ERR_BAD_ARGUMENT;
	session = calloc(1, sizeof(*session));
	if (session == NULL)
		return ERR_NO_MEMORY;
	session->tls = tls;
	session->fd = fd;
	if (!session_make(session, is_server)) {
		ERR_clear_error();
		tls_stop(session);
		return ERR_NO_MEMORY;
	}
	*ret = session;
	return 0;
}

void tls_stop(struct tls_session *session)
{
	if (session == NULL)
		return;
	SSL_free(session->ssl);
	free(session);
}

/* ---- what befell it ------------------------------------------------------ */

static int session_broke(struct tls_session *session, int err, const char *why)
{
	(void)snprintf(session->why, sizeof(session->why), "%s", why);
	ERR_clear_error();
	return err;
}

/* The handshake failed, or the first answer says that the other end refused it: with
 * certificates, the one who connects learns of that only there. */
static int session_refused(struct tls_session *session)
{
	const char *reason = ERR_reason_error_string(ERR_peek_last_error());
	long verdict = SSL_get_verify_result(session->ssl);

	(void)snprintf(session->why, sizeof(session->why), "TLS: %s%s%s%s",
		reason != NULL ? reason : "the handshake failed",
		verdict != X509_V_OK ? ": " : "",
		verdict != X509_V_OK ? X509_verify_cert_error_string(verdict) : "",
		session->tls->has_psk ? " (do both ends have the same key?)" : "");
	ERR_clear_error();
	return ERR_NOT_PERMITTED;
}

/* Why `result` came: an error, or ERR_BUSY if it only has to wait. */
static int session_error(struct tls_session *session, int result)
{
	int kind = SSL_get_error(session->ssl, result);

	session->wants_write = kind == SSL_ERROR_WANT_WRITE;
	if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE)
		return ERR_BUSY;
	if (kind == SSL_ERROR_SYSCALL && session->sock_number != 0)
		return session_broke(
			session, ERR_UNAVAILABLE, strerror(session->sock_number));
	if (session->at_end || kind == SSL_ERROR_ZERO_RETURN)
		return session_broke(session, ERR_UNAVAILABLE,
			session->is_shaken ? "the other end closed the connection"
					   : "the other end closed the connection during "
					     "the TLS handshake");
	if (session->has_heard)
		return session_broke(
			session, ERR_UNAVAILABLE, "TLS: what came is no valid record");
	return session_refused(session);
}

/* ---- use ----------------------------------------------------------------- */

int tls_shake(struct tls_session *session)
{
	int result;

	ERR_clear_error();
	session->wants_write = false;
	result = SSL_do_handshake(session->ssl);
	if (result != 1)
		return session_error(session, result);
	/* A server with a certificate that some authority signed is still not one that has
	 * the key. */
	if (session->tls->has_psk && SSL_session_reused(session->ssl) != 1)
		return session_broke(session, ERR_NOT_PERMITTED,
			"TLS: the other end did not use the key");
	session->is_shaken = true;
	return 0;
}

int64_t tls_read(struct tls_session *session, void *bytes, size_t size)
{
	size_t got = 0;
	int result, err;

	ERR_clear_error();
	session->wants_write = false;
	result = SSL_read_ex(session->ssl, bytes, size, &got);
	if (result == 1) {
		session->has_heard = true;
		return (int64_t)got;
	}
	err = session_error(session, result);
	return err == ERR_BUSY ? 0 : err;
}

int64_t tls_write(struct tls_session *session, const void *bytes, size_t size, bool more)
{
	size_t sent = 0;
	int result, err;

	ERR_clear_error();
	session->has_more = more || size > SSL3_RT_MAX_PLAIN_LENGTH;
	result = SSL_write_ex(session->ssl, bytes, size, &sent);
	session->has_more = false;
	if (result == 1)
		return (int64_t)sent;
	err = session_error(session, result);
	return err == ERR_BUSY ? 0 : err;
}

void tls_ready(struct tls_session *session)
{
	session->is_resting = false;
}

void tls_rest(struct tls_session *session)
{
	session->is_resting = true;
}

void tls_read_no_further(struct tls_session *session)
{
	SSL_set_read_ahead(session->ssl, 0);
}

bool tls_wants_write(const struct tls_session *session)
{
	return session->wants_write;
}

const char *tls_why(const struct tls_session *session)
{
	return session->why;
}
