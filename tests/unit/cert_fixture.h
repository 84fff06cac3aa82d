/*
 * cert_fixture.h - keys and certificates in files, made when a test needs them.
 *
 * cert_open() makes a directory and, in it: ca.pem, and signed by it node.pem (for the name
 * node.test and the address 127.0.0.1) and old.pem, whose time is over; other_ca.pem and
 * other.pem, signed by that; a key file "<name>.key" beside each; a.psk and b.psk.
 */
#ifndef UNIT_CERT_FIXTURE_H
#define UNIT_CERT_FIXTURE_H

#include "unit.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

#define CERT_PATH_MAX 256

struct cert_dir {
	char path[128];
};

/* Who signs; NULL: itself. */
struct cert {
	X509 *x509;
	EVP_PKEY *key;
};

static inline const char *cert_path(
	const struct cert_dir *dir, const char *name, char *path)
{
	(void)snprintf(path, CERT_PATH_MAX, "%s/%s", dir->path, name);
	return path;
}

static inline void cert_write(
	const struct cert_dir *dir, const char *name, const void *bytes, size_t size)
{
	char path[CERT_PATH_MAX];
	FILE *file = fopen(cert_path(dir, name, path), "we");

	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, size, file), size);
	assert_int_equal(fclose(file), 0);
}

static inline void cert_extend(X509 *x509, int nid, const char *value)
{
	X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);

	assert_non_null(extension);
	assert_int_equal(X509_add_ext(x509, extension, -1), 1);
	X509_EXTENSION_free(extension);
}

static inline void cert_save(
	const struct cert_dir *dir, const char *name, const struct cert *cert)
{
	char file[64], path[CERT_PATH_MAX];
	FILE *to;

	(void)snprintf(file, sizeof(file), "%s.pem", name);
	to = fopen(cert_path(dir, file, path), "we");
	assert_non_null(to);
	assert_int_equal(PEM_write_X509(to, cert->x509), 1);
	assert_int_equal(fclose(to), 0);
	(void)snprintf(file, sizeof(file), "%s.key", name);
	to = fopen(cert_path(dir, file, path), "we");
	assert_non_null(to);
	assert_int_equal(
		PEM_write_PrivateKey(to, cert->key, NULL, NULL, 0, NULL, NULL), 1);
	assert_int_equal(fclose(to), 0);
}

static inline struct cert cert_make(const struct cert_dir *dir, const char *name,
	const struct cert *signer, long from_s, long until_s)
{
	struct cert cert = {X509_new(), EVP_EC_gen("P-256")};
	X509_NAME *subject = X509_get_subject_name(cert.x509);
	union {
		const char *text;
		const unsigned char *bytes;
	} common = {name};

	assert_true(cert.x509 != NULL && cert.key != NULL);
	assert_int_equal(X509_set_version(cert.x509, X509_VERSION_3), 1);
	ASN1_INTEGER_set(X509_get_serialNumber(cert.x509), (long)strlen(name) + 1);
	assert_non_null(X509_gmtime_adj(X509_getm_notBefore(cert.x509), from_s));
	assert_non_null(X509_gmtime_adj(X509_getm_notAfter(cert.x509), until_s));
	assert_int_equal(X509_set_pubkey(cert.x509, cert.key), 1);
	assert_int_equal(X509_NAME_add_entry_by_txt(
				 subject, "CN", MBSTRING_ASC, common.bytes, -1, -1, 0),
		1);
	assert_int_equal(X509_set_issuer_name(cert.x509,
				 signer ? X509_get_subject_name(signer->x509) : subject),
		1);
	cert_extend(cert.x509, NID_basic_constraints,
		signer ? "critical,CA:FALSE" : "critical,CA:TRUE");
	if (signer != NULL)
		cert_extend(
			cert.x509, NID_subject_alt_name, "DNS:node.test,IP:127.0.0.1");
	assert_true(
		X509_sign(cert.x509, signer ? signer->key : cert.key, EVP_sha256()) > 0);
	cert_save(dir, name, &cert);
	return cert;
}

static inline void cert_drop(struct cert *cert)
{
	X509_free(cert->x509);
	EVP_PKEY_free(cert->key);
}

static inline void cert_open(struct cert_dir *dir)
{
	struct cert ca, other_ca, made[3];
	const char *tmp = getenv("TMPDIR");

	(void)snprintf(dir->path, sizeof(dir->path), "%s/cenote-cert-XXXXXX",
		tmp != NULL ? tmp : "/tmp");
	assert_non_null(mkdtemp(dir->path));
	ca = cert_make(dir, "ca", NULL, -3600, 3600);
	other_ca = cert_make(dir, "other_ca", NULL, -3600, 3600);
	made[0] = cert_make(dir, "node", &ca, -3600, 3600);
	made[1] = cert_make(dir, "old", &ca, -7200, -3600);
	made[2] = cert_make(dir, "other", &other_ca, -3600, 3600);
	for (size_t i = 0; i < 3; i++)
		cert_drop(&made[i]);
	cert_drop(&ca);
	cert_drop(&other_ca);
	cert_write(dir, "a.psk", "0123456789abcdef0123456789abcdef", 32);
	cert_write(dir, "b.psk", "0123456789abcdef0123456789abcdeg", 32);
}

static inline void cert_close(struct cert_dir *dir)
{
	static const char *const names[] = {"ca.pem", "ca.key", "other_ca.pem",
		"other_ca.key", "node.pem", "node.key", "old.pem", "old.key", "other.pem",
		"other.key", "a.psk", "b.psk", "x"};
	char path[CERT_PATH_MAX];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		(void)unlink(cert_path(dir, names[i], path));
	assert_int_equal(rmdir(dir->path), 0);
}

#endif
