/*
 * Tests of node/config.h: what follows from the settings, and what is refused.
 */
#include "node/config.h"

#include "base/err.h"
#include "unit.h"

#include <string.h>

static struct node_config config;

static int setup(void **state)
{
	(void)state;
	config_defaults(&config);
	return 0;
}

static void refused(const char *part)
{
	char message[OPTION_MESSAGE_MAX] = "";

	assert_int_equal(config_finish(&config, 0, message), ERR_BAD_ARGUMENT);
	if (strstr(message, part) == NULL)
		fail_msg("\"%s\" does not say \"%s\"", message, part);
}

static void test_defaults_are_whole(void **state)
{
	char message[OPTION_MESSAGE_MAX];

	(void)state;
	assert_int_equal(config_finish(&config, 1000, message), 0);
	assert_string_equal(config.socket_path, "/run/cenote/cenote.sock");
	assert_string_equal(config.shm_path, "/run/cenote/shm");
	assert_string_equal(config.allow_uid, "0,1000");
	assert_int_equal(config.uid_count, 2);
	assert_int_equal(config.socket_mode_bits, 0660);
	assert_int_equal(config_log_level(&config), LOG_LEVEL_INFO);
}

static void test_list_of_users_replaces_the_default(void **state)
{
	char message[OPTION_MESSAGE_MAX];

	(void)state;
	config.allow_uid = "7,4294967295";
	assert_int_equal(config_finish(&config, 1000, message), 0);
	assert_int_equal(config.uid_count, 2);
	assert_int_equal(config.uids[0], 7);
	assert_int_equal(config.uids[1], UINT32_MAX);
}

static void test_wrong_lists_are_refused(void **state)
{
	static const char *const lists[] = {
		"", "1,", ",1", "1,,2", "a", "4294967296", "-1"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		config.allow_uid = lists[i];
		refused("--allow-uid=");
	}
}

static void test_wrong_modes_are_refused(void **state)
{
	static const char *const modes[] = {"", "8", "01000", "0660x"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
		config.socket_mode = modes[i];
		refused("--socket-mode=");
	}
}

static void test_watermarks_must_be_in_order(void **state)
{
	(void)state;
	config.low = 25;
	refused("--low=2.5% is above --high=2.0%");
}

static void test_leases_must_be_in_order(void **state)
{
	(void)state;
	config.lease_min = config.lease_max + 1000000;
	refused("--lease-min=30001ms is above --lease-max=30000ms");
}

static void test_long_paths_are_refused(void **state)
{
	static char path[CONFIG_PATH_MAX + 1];

	(void)state;
	memset(path, 'p', CONFIG_PATH_MAX);
	config.run_dir = path;
	refused("--socket=");
	config.run_dir = "/run/cenote";
	config.shm_dir = path;
	refused("--shm-dir=");
}

#define TEST(name) cmocka_unit_test_setup(name, setup)

static const struct CMUnitTest tests[] = {
	TEST(test_defaults_are_whole),
	TEST(test_list_of_users_replaces_the_default),
	TEST(test_wrong_lists_are_refused),
	TEST(test_wrong_modes_are_refused),
	TEST(test_watermarks_must_be_in_order),
	TEST(test_leases_must_be_in_order),
	TEST(test_long_paths_are_refused),
};

UNIT_MAIN(tests)
