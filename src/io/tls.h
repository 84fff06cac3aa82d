/*
 * tls.h - TLS 1.3 for streams: who the other end must be. Over OpenSSL.
 *
 * Either both ends have one key (a file of 32 to 4,096 bytes, in any form, byte for byte the
 * same), or each has a certificate that the other's authority signed, or, towards a server
 * that asks for none, only the server's is checked.
 *
 * Memory    tls_free() after the last stream with it is closed.
 * Errors    ERR_BAD_ARGUMENT, ERR_IO, ERR_NO_MEMORY, with a text that names the file.
 * Thread    the loop's and the helpers'; a struct tls is not changed after it is made.
 */
#ifndef IO_TLS_H
#define IO_TLS_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>

#define TLS_KEY_MIN 32u
#define TLS_KEY_MAX 4096u

struct tls;

struct tls_config {
	const char *key_file;  /* of the key that both ends have; or NULL, and: */
	const char *cert_file; /* own certificate, PEM; NULL: none */
	const char *cert_key_file;
	const char *ca_file; /* who signs the others'; NULL: whom the system trusts, which
			      * is for servers alone: with a certificate it must be there */
	const char *host;    /* that the server's certificate must be for; NULL: any */
};

int tls_new(struct tls **ret, const struct tls_config *config, char *message,
	size_t message_size) MUST_CHECK;
void tls_free(struct tls *tls); /* NULL is fine */
/* Whether others can be let in with it: it has a key, or a certificate. */
bool tls_serves(const struct tls *tls);

#endif
