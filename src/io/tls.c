/*
 * tls.c - what a struct tls is made of: contexts of OpenSSL for both directions.
 *
 * The key that both ends have is no password to try out: it comes from a file of at least
 * 32 bytes, and what the handshake uses is derived from all of them, so that its form
 * (binary, hex, base64) does not matter. With it there are no certificates at all: a client
 * refuses a server that shows one instead, since it trusts no authority.
 *
 * No session is ever resumed: each connection proves its ends anew.
 */
#include "base/check.h"
#include "base/err.h"
#include "io/tls_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/kdf.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PSK_IDENTITY "cenote"
#define PSK_LABEL    "cenote node key"

/* Why it cannot be made. */
struct refusal {
	char *message;
	size_t size;
};

static int PRINTF_LIKE(3, 4)
	refuse(const struct refusal *to, int err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(to->message, to->size, format, args);
	va_end(args);
	return err;
}

/* The file that OpenSSL did not like, and why: what the system said, if it did. */
static int refuse_file(const struct refusal *to, const char *what, const char *path)
{
	unsigned long error, last = 0;
	const char *reason;
	int number = 0;

	while ((error = ERR_get_error()) != 0) {
		last = error;
		if (ERR_SYSTEM_ERROR(error))
			number = ERR_GET_REASON(error);
	}
	reason = number != 0 ? strerror(number) : ERR_reason_error_string(last);
	return refuse(to, number != 0 ? ERR_IO : ERR_BAD_ARGUMENT, "%s: %s: %s", path,
		what, reason != NULL ? reason : "not understood");
}

/* ---- the key that both have ---------------------------------------------- */

/* Read all of the file, up to one byte more than may be in it; -1: errno. */
static ssize_t key_read(const char *path, unsigned char *bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t size = 0, got;
	int error;

	if (fd < 0)
		return -1;
	do {
		got = read(fd, bytes + size, TLS_KEY_MAX + 1 - (size_t)size);
		size += got > 0 ? got : 0;
	} while (got > 0 || (got < 0 && errno == EINTR));
	error = errno;
	(void)close(fd);
	errno = error;
	return got < 0 ? -1 : size;
}

static bool key_derive(const void *bytes, size_t size, unsigned char *psk)
{
	char digest[] = "SHA256", label[] = PSK_LABEL;
	/* The parameters take pointers to what they do not write. */
	union {
		const void *constant;
		void *plain;
	} key = {bytes};
	OSSL_PARAM params[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, key.plain, size),
		OSSL_PARAM_construct_octet_string(
			OSSL_KDF_PARAM_INFO, label, sizeof(label) - 1),
		OSSL_PARAM_construct_end(),
	};
	EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
	EVP_KDF_CTX *ctx = kdf != NULL ? EVP_KDF_CTX_new(kdf) : NULL;
	bool done = ctx != NULL && EVP_KDF_derive(ctx, psk, TLS_PSK_SIZE, params) > 0;

	EVP_KDF_CTX_free(ctx);
	EVP_KDF_free(kdf);
	return done;
}

static int key_load(const struct refusal *to, struct tls *tls, const char *path)
{
	unsigned char bytes[TLS_KEY_MAX + 1];
	ssize_t size = key_read(path, bytes);
	int err = 0;

	if (size < 0)
		return refuse(to, ERR_IO, "%s: %s", path, strerror(errno));
	if (size < TLS_KEY_MIN || size > TLS_KEY_MAX)
		err = refuse(to, ERR_BAD_ARGUMENT,
			"%s: a key has %u to %u bytes, this file has %s%zd", path,
			TLS_KEY_MIN, TLS_KEY_MAX, size > TLS_KEY_MAX ? "at least " : "",
			size);
	else if (!key_derive(bytes, (size_t)size, tls->psk))
		err = refuse(to, ERR_NO_MEMORY, "%s: no key can be derived", path);
	OPENSSL_cleanse(bytes, sizeof(bytes));
	tls->has_psk = err == 0;
	return err;
}

/* As if a session with this key had been kept; NULL: no memory. */
static SSL_SESSION *key_session(SSL *ssl)
{
	static const unsigned char aes_128_gcm_sha256[] = {0x13, 0x01};
	const struct tls *tls = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
	const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, aes_128_gcm_sha256);
	SSL_SESSION *session = SSL_SESSION_new();

	if (session != NULL && cipher != NULL &&
		SSL_SESSION_set1_master_key(session, tls->psk, TLS_PSK_SIZE) == 1 &&
		SSL_SESSION_set_cipher(session, cipher) == 1 &&
		SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1)
		return session;
	SSL_SESSION_free(session);
	return NULL;
}

static int key_use(SSL *ssl, const EVP_MD *digest, const unsigned char **ret_identity,
	size_t *ret_size, SSL_SESSION **ret_session)
{
	if (digest != NULL && !EVP_MD_is_a(digest, "SHA256")) {
		*ret_session =
			NULL; /* not of our cipher: the handshake fails without it */
		return 1;
	}
	*ret_session = key_session(ssl);
	*ret_identity = (const unsigned char *)PSK_IDENTITY;
	*ret_size = strlen(PSK_IDENTITY);
	return *ret_session != NULL;
}

static int key_find(
	SSL *ssl, const unsigned char *identity, size_t size, SSL_SESSION **ret_session)
{
	*ret_session = NULL;
	if (size != strlen(PSK_IDENTITY) || memcmp(identity, PSK_IDENTITY, size) != 0)
		return 1; /* a stranger, whom the handshake refuses */
	*ret_session = key_session(ssl);
	return *ret_session != NULL;
}

/* ---- contexts ------------------------------------------------------------ */

/* A key under a pass phrase: nobody sits here to be asked for it. */
static int no_phrase(char *buffer, int size, int writing, void *arg)
{
	(void)buffer, (void)size, (void)writing, (void)arg;
	return 0;
}

static SSL_CTX *context_new(struct tls *tls, const SSL_METHOD *method)
{
	SSL_CTX *ctx = SSL_CTX_new(method);

	if (ctx == NULL)
		return NULL;
	SSL_CTX_set_app_data(ctx, tls);
	SSL_CTX_set_default_passwd_cb(ctx, no_phrase);
	(void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	/* A write may go on from another place in memory: what waits is in a buffer that
	 * grows. */
	(void)SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE |
					    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
					    SSL_MODE_RELEASE_BUFFERS);
	if (SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) != 1 ||
		SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) != 1 ||
		SSL_CTX_set_num_tickets(ctx, 0) != 1) {
		SSL_CTX_free(ctx);
		return NULL;
	}
	return ctx;
}

static int contexts_new(const struct refusal *to, struct tls *tls, bool both)
{
	static const unsigned char context[] = PSK_IDENTITY;

	tls->method = tls_method_new();
	tls->client = context_new(tls, TLS_client_method());
	tls->server = both ? context_new(tls, TLS_server_method()) : NULL;
	if (tls->method == NULL || tls->client == NULL || (both && tls->server == NULL))
		return refuse(to, ERR_NO_MEMORY, "OpenSSL gives no TLS 1.3");
	SSL_CTX_set_verify(tls->client, SSL_VERIFY_PEER, NULL);
	if (!both)
		return 0;
	SSL_CTX_set_verify(
		tls->server, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	/* OpenSSL takes a key for a session that goes on, and such a one has a context. */
	if (SSL_CTX_set_session_id_context(tls->server, context, sizeof(context) - 1) !=
		1)
		return refuse(to, ERR_NO_MEMORY, "OpenSSL takes no context of sessions");
	return 0;
}

static int contexts_take_key(const struct refusal *to, struct tls *tls)
{
	SSL_CTX *both[] = {tls->client, tls->server};

	for (size_t i = 0; i < ARRAY_LEN(both); i++) {
		if (SSL_CTX_set_ciphersuites(both[i], "TLS_AES_128_GCM_SHA256") != 1)
			return refuse(to, ERR_NO_MEMORY,
				"OpenSSL has no TLS_AES_128_GCM_SHA256");
	}
	SSL_CTX_set_psk_use_session_callback(tls->client, key_use);
	SSL_CTX_set_psk_find_session_callback(tls->server, key_find);
	return 0;
}

static int context_take_certificate(
	const struct refusal *to, SSL_CTX *ctx, const struct tls_config *config)
{
	const char *key = config->cert_key_file;

	if (SSL_CTX_use_certificate_chain_file(ctx, config->cert_file) != 1)
		return refuse_file(to, "no certificate in PEM", config->cert_file);
	if (SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) != 1)
		return refuse_file(to, "no private key in PEM", key);
	if (SSL_CTX_check_private_key(ctx) != 1)
		return refuse_file(to, "not the key of the certificate", key);
	return 0;
}

static int context_take_authority(
	const struct refusal *to, SSL_CTX *ctx, const struct tls_config *config)
{
	if (config->ca_file == NULL) {
		(void)SSL_CTX_set_default_verify_paths(ctx);
		return 0;
	}
	if (SSL_CTX_load_verify_file(ctx, config->ca_file) != 1)
		return refuse_file(
			to, "no certificates of an authority in PEM", config->ca_file);
	return 0;
}

static int contexts_take_certificates(
	const struct refusal *to, struct tls *tls, const struct tls_config *config)
{
	int err = context_take_authority(to, tls->client, config);

	if (err != 0 || config->cert_file == NULL)
		return err;
	err = context_take_certificate(to, tls->client, config);
	if (err == 0)
		err = context_take_authority(to, tls->server, config);
	if (err == 0)
		err = context_take_certificate(to, tls->server, config);
	return err;
}

/* ---- begin and end ------------------------------------------------------- */

static int config_check(const struct refusal *to, const struct tls_config *config)
{
	bool has_cert = config->cert_file != NULL;

	if (config->key_file != NULL && (has_cert || config->ca_file != NULL))
		return refuse(to, ERR_BAD_ARGUMENT,
			"%s: either both ends have one key, or each has a certificate; "
			"not both",
			config->key_file);
	if (has_cert != (config->cert_key_file != NULL))
		return refuse(to, ERR_BAD_ARGUMENT,
			"%s: a certificate and its key go together, and one is missing",
			has_cert ? config->cert_file : config->cert_key_file);
	if (has_cert && config->ca_file == NULL)
		return refuse(to, ERR_BAD_ARGUMENT,
			"%s: with an own certificate, the authority that signs the "
			"others' "
			"must be named",
			config->cert_file);
	if (config->host != NULL &&
		strlen(config->host) >= sizeof(((struct tls *)0)->host))
		return refuse(to, ERR_BAD_ARGUMENT, "%.100s...: no host has such a name",
			config->host);
	return 0;
}

static int tls_make(
	const struct refusal *to, struct tls *tls, const struct tls_config *config)
{
	bool has_key = config->key_file != NULL;
	int err = contexts_new(to, tls, has_key || config->cert_file != NULL);

	if (config->host != NULL)
		(void)snprintf(tls->host, sizeof(tls->host), "%s", config->host);
	if (err == 0 && has_key)
		err = key_load(to, tls, config->key_file);
	if (err == 0)
		err = has_key ? contexts_take_key(to, tls)
			      : contexts_take_certificates(to, tls, config);
	return err;
}

int tls_new(struct tls **ret, const struct tls_config *config, char *message,
	size_t message_size)
{
	const struct refusal to = {message, message_size};
	int err = config_check(&to, config);
	struct tls *tls;

	if (err != 0)
		return err;
	tls = calloc(1, sizeof(*tls));
	if (tls == NULL)
		return refuse(&to, ERR_NO_MEMORY, "no memory");
	err = tls_make(&to, tls, config);
	if (err != 0) {
		tls_free(tls);
		return err;
	}
	*ret = tls;
	return 0;
}

void tls_free(struct tls *tls)
{
	if (tls == NULL)
		return;
	SSL_CTX_free(tls->client);
	SSL_CTX_free(tls->server);
	BIO_meth_free(tls->method);
	OPENSSL_cleanse(tls->psk, sizeof(tls->psk));
	free(tls);
}

bool tls_serves(const struct tls *tls)
{
	return tls->server != NULL;
}
