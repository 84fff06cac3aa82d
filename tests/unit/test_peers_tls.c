/*
 * Tests of net/peers.h under TLS: who is let in, by key and by certificate, and that in each
 * way of securing them control and data work.
 */
#include "cert_fixture.h"
#include "net_fixture.h"

static struct rig rig;
static struct side *const a = &rig.a, *const b = &rig.b;
static struct cert_dir dir;
static struct tls *tls_a, *tls_b;

static int setup(void **state)
{
	(void)state;
	(void)alarm(STUCK_AFTER);
	cert_open(&dir);
	tls_a = tls_b = NULL;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_close(&rig);
	tls_free(tls_a);
	tls_free(tls_b);
	cert_close(&dir);
	return 0;
}

static struct tls *with_key(const char *name)
{
	char path[CERT_PATH_MAX], message[256];
	struct tls *tls = NULL;

	assert_int_equal(
		tls_new(&tls,
			&(struct tls_config){.key_file = cert_path(&dir, name, path)},
			message, sizeof(message)),
		0);
	return tls;
}

static struct tls *with_cert(const char *name, const char *authority)
{
	char cert[CERT_PATH_MAX], key[CERT_PATH_MAX], ca[CERT_PATH_MAX], file[64];
	char message[256];
	struct tls *tls = NULL;

	(void)snprintf(file, sizeof(file), "%s.pem", name);
	(void)cert_path(&dir, file, cert);
	(void)snprintf(file, sizeof(file), "%s.key", name);
	(void)cert_path(&dir, file, key);
	assert_int_equal(tls_new(&tls,
				 &(struct tls_config){.cert_file = cert,
					 .cert_key_file = key,
					 .ca_file = cert_path(&dir, authority, ca)},
				 message, sizeof(message)),
		0);
	return tls;
}

static void open_with(enum peers_secure secure, struct tls *at_a, struct tls *at_b)
{
	tls_a = at_a;
	tls_b = at_b;
	rig_open(&rig, secure, tls_a, tls_b);
}

/* ---- who is let in -------------------------------------------------------- */

/* Both ways stand, something is answered, and 3 MiB go from b to a. */
static void all_works(void)
{
	struct peer_offer offer = {
		.slot = 1, .life = LIFE, .generation = 8, .off = 77, .size = 3 * MIB};
	struct peer_fetch fetch = {.peer = 3,
		.generation = 8,
		.pool_off = 4096,
		.size = 3 * MIB,
		.seed = 2,
		.deadline_ns = loop_boot_ns() + FAR_NS};

	side_connect(a, 3, b);
	rig_until(&rig, a->ups[3] == 1 && b->link_count == 1);
	b->echoes = true;
	side_ask(a, 3, 5, 30000);
	rig_until(&rig, a->answers == 1);
	for (size_t i = 0; i < 4 * MIB; i++)
		b->share.pool[i] = (unsigned char)(i * 31 + i / 8191);
	atomic_store(&b->share.slots[1].state, SLOT_STATE(SLOT_READY, LIFE));
	__atomic_store_n(&b->share.slots[1].lease_end, UINT64_MAX, __ATOMIC_RELAXED);
	assert_int_equal(b->env.offer(b->env.ctx, &offer, &fetch.ticket), 0);
	a->fetch_err[0] = NOT_YET;
	a->env.fetch(a->env.ctx, 0, &fetch);
	rig_until(&rig, a->fetches == 1);
	assert_int_equal(a->fetch_err[0], 0);
	assert_memory_equal(a->share.pool + 4096, b->share.pool + 77, 3 * MIB);
	assert_true(
		a->fetch_checksum[0] == hash_bytes_seed(b->share.pool + 77, 3 * MIB, 2));
	assert_int_equal(a->warns + b->warns + a->downs[3] + b->closes, 0);
}

static void test_one_key_and_data_in_the_clear(void **state)
{
	(void)state;
	open_with(PEERS_SECURE_CONTROL, with_key("a.psk"), with_key("a.psk"));
	all_works();
}

static void test_one_key_for_all(void **state)
{
	(void)state;
	open_with(PEERS_SECURE_ALL, with_key("a.psk"), with_key("a.psk"));
	all_works();
}

static void test_certificates_and_data_in_the_clear(void **state)
{
	(void)state;
	open_with(PEERS_SECURE_CONTROL, with_cert("node", "ca.pem"),
		with_cert("node", "ca.pem"));
	all_works();
}

static void test_certificates_for_all(void **state)
{
	(void)state;
	open_with(PEERS_SECURE_ALL, with_cert("node", "ca.pem"),
		with_cert("node", "ca.pem"));
	all_works();
}

/* ---- who is not ----------------------------------------------------------- */

/* a is refused by b, or refuses it, and each says so once. Who is refused may learn of it by
 * a connection that breaks alone. */
static void nobody_is_let_in(unsigned a_knows)
{
	for (unsigned i = 0; i < 3; i++) {
		side_connect(a, 3, b);
		rig_until(&rig, a->downs[3] == i + 1);
		assert_true(a->down_err == ERR_NOT_PERMITTED ||
			    (!a_knows && a->down_err == ERR_UNAVAILABLE));
	}
	rig_until(&rig, b->warns == 1);
	rig_idle(&rig);
	assert_int_equal(a->ups[3] + b->link_count + b->asked, 0);
	assert_int_equal(b->warns, 1);
	assert_true(a->warns == 1 || (!a_knows && a->warns == 0));
	assert_non_null(strstr(b->warning, "TLS"));
}

static void test_another_key(void **state)
{
	(void)state;
	open_with(PEERS_SECURE_CONTROL, with_key("a.psk"), with_key("b.psk"));
	nobody_is_let_in(1);
}

static void test_a_certificate_of_another_authority(void **state)
{
	(void)state;
	open_with(PEERS_SECURE_CONTROL, with_cert("other", "ca.pem"),
		with_cert("node", "ca.pem"));
	nobody_is_let_in(0);
}

static void test_another_authority_at_the_other_end(void **state)
{
	(void)state;
	open_with(PEERS_SECURE_CONTROL, with_cert("node", "ca.pem"),
		with_cert("other", "ca.pem"));
	nobody_is_let_in(1);
}

static void test_a_certificate_whose_time_is_over(void **state)
{
	(void)state;
	open_with(PEERS_SECURE_ALL, with_cert("old", "ca.pem"),
		with_cert("node", "ca.pem"));
	nobody_is_let_in(0);
	assert_non_null(strstr(b->warning, "expired"));
}

static void test_a_key_against_a_certificate(void **state)
{
	(void)state;
	open_with(PEERS_SECURE_CONTROL, with_key("a.psk"), with_cert("node", "ca.pem"));
	nobody_is_let_in(1);
}

/* ---- strangers in the clear ------------------------------------------------ */

static void test_control_in_the_clear_is_refused(void **state)
{
	unsigned char bytes[GREETING_SIZE];
	struct greeting greeting;
	int fd;

	(void)state;
	open_with(PEERS_SECURE_CONTROL, with_key("a.psk"), with_key("a.psk"));
	fd = stranger_connect(peers_port(b->peers));
	stranger_greet(fd, NET_VERSION, NET_CONTROL, 0);
	assert_true(stranger_hear(&rig, fd, bytes, sizeof(bytes)));
	assert_int_equal(greeting_read(bytes, &greeting), 0);
	assert_int_equal(greeting.verdict, NET_REFUSED);
	assert_true(stranger_is_closed(&rig, fd));
	assert_int_equal(b->link_count, 0);
	assert_non_null(strstr(b->warning, "not under TLS"));
	(void)close(fd);
}

static void test_data_in_the_clear_is_refused_where_all_is_secure(void **state)
{
	unsigned char byte;
	int fd;

	(void)state;
	open_with(PEERS_SECURE_ALL, with_key("a.psk"), with_key("a.psk"));
	fd = stranger_connect(peers_port(b->peers));
	stranger_greet(fd, NET_VERSION, NET_DATA, 0);
	while (stranger_hear(&rig, fd, &byte, 1))
		assert_true(
			byte == 0x15 || byte != 'C'); /* an alert of TLS, no greeting */
	rig_until(&rig, b->warns == 1);
	assert_non_null(strstr(b->warning, "TLS"));
	(void)close(fd);
}

/* Without a ticket, who has no key gets nothing by data in the clear. */
static void test_data_in_the_clear_without_a_ticket(void **state)
{
	unsigned char bytes[CHUNK_ASK_SIZE] = {0}, head_bytes[CHUNK_HEAD_SIZE];
	struct chunk_head head;
	int fd;

	(void)state;
	open_with(PEERS_SECURE_CONTROL, with_key("a.psk"), with_key("a.psk"));
	fd = stranger_connect(peers_port(b->peers));
	stranger_greet(fd, NET_VERSION, NET_DATA, 0);
	assert_true(stranger_hear(&rig, fd, head_bytes, GREETING_SIZE));
	for (unsigned i = 0; i < 3; i++) {
		bytes[0] = (unsigned char)i;
		stranger_say(fd, bytes, sizeof(bytes));
		assert_true(stranger_hear(&rig, fd, head_bytes, sizeof(head_bytes)));
		assert_int_equal(chunk_head_read(head_bytes, &head), 0);
		assert_int_equal(head.status, CHUNK_NO_TICKET);
		assert_int_equal(head.size, 0);
	}
	(void)close(fd);
}

/* What is only good to check a server lets nobody in. */
static void test_an_authority_alone_is_not_enough(void **state)
{
	char ca[CERT_PATH_MAX], message[256];
	const struct tls_config wanted = {.ca_file = cert_path(&dir, "ca.pem", ca)};
	struct peers_config config;
	struct peers *peers = NULL;
	struct tls *tls = NULL;

	(void)state;
	open_with(PEERS_SECURE_CONTROL, with_key("a.psk"), with_key("a.psk"));
	assert_int_equal(tls_new(&tls, &wanted, message, sizeof(message)), 0);
	config = side_config(a, PEERS_SECURE_CONTROL, tls);
	assert_int_equal(
		peers_open(&peers, &config, message, sizeof(message)), ERR_BAD_ARGUMENT);
	assert_non_null(strstr(message, "key or certificates"));
	tls_free(tls);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	TEST(test_one_key_and_data_in_the_clear),
	TEST(test_one_key_for_all),
	TEST(test_certificates_and_data_in_the_clear),
	TEST(test_certificates_for_all),
	TEST(test_another_key),
	TEST(test_a_certificate_of_another_authority),
	TEST(test_another_authority_at_the_other_end),
	TEST(test_a_certificate_whose_time_is_over),
	TEST(test_a_key_against_a_certificate),
	TEST(test_an_authority_alone_is_not_enough),
	TEST(test_control_in_the_clear_is_refused),
	TEST(test_data_in_the_clear_is_refused_where_all_is_secure),
	TEST(test_data_in_the_clear_without_a_ticket),
};

UNIT_MAIN(tests)
