/*
 * redis_reply.c - errors by their first word, numbers digit by digit.
 */
#include "dir/redis_reply.h"

#include "dir/redis_slots.h"

#include <string.h>

/* ---- errors -------------------------------------------------------------- */

struct error_word {
	const char *word;
	enum redis_answer answer;
};

static const struct error_word error_words[] = {
	{"LOADING ", ANSWER_LATER},
	{"BUSY ", ANSWER_LATER},
	{"TRYAGAIN ", ANSWER_LATER},
	{"CLUSTERDOWN ", ANSWER_LATER},
	{"NOREPLICAS ", ANSWER_LATER},
	{"MISCONF ", ANSWER_LATER},
	{"READONLY ", ANSWER_LOST},
	{"MASTERDOWN ", ANSWER_LOST},
	{"NOAUTH ", ANSWER_LOST},
	{"MOVED ", ANSWER_MOVED},
	{"ASK ", ANSWER_ASK},
	{"NOSCRIPT ", ANSWER_NOSCRIPT},
	{"OOM ", ANSWER_FULL},
};

enum redis_answer redis_answer_of(const redisReply *reply)
{
	if (reply->type != REDIS_REPLY_ERROR)
		return ANSWER_DATA;
	for (size_t i = 0; i < ARRAY_LEN(error_words); i++) {
		const char *word = error_words[i].word;

		if (strncmp(reply->str, word, strlen(word)) == 0)
			return error_words[i].answer;
	}
	/* Before Redis 7, what a script's command was refused for stands within. */
	if (strstr(reply->str, "-OOM ") != NULL)
		return ANSWER_FULL;
	return strstr(reply->str, "-READONLY ") != NULL ? ANSWER_LOST : ANSWER_BAD;
}

bool redis_redirect_parse(
	const redisReply *reply, uint32_t *ret_slot, struct address *ret_address)
{
	const char *slot = strchr(reply->str, ' ');
	const char *host = slot != NULL ? strchr(slot + 1, ' ') : NULL;
	const char *colon = host != NULL ? strrchr(host, ':') : NULL;
	uint64_t number, port;
	size_t size;

	if (colon == NULL)
		return false;
	slot++;
	size = (size_t)(host - slot);
	if (!parse_decimal(slot, size, REDIS_SLOTS - 1, &number) ||
		!parse_decimal(colon + 1, strlen(colon + 1), UINT16_MAX, &port) ||
		port == 0)
		return false;
	host++;
	size = (size_t)(colon - host);
	if (size >= sizeof(ret_address->host))
		return false;
	*ret_address = (struct address){.port = (uint16_t)port};
	memcpy(ret_address->host, host, size);
	*ret_slot = (uint32_t)number;
	return true;
}

/* ---- data ---------------------------------------------------------------- */

bool reply_is_text(const redisReply *reply)
{
	return reply->type == REDIS_REPLY_STRING && strlen(reply->str) == reply->len;
}

bool reply_is_array(const redisReply *reply, size_t least)
{
	return reply->type == REDIS_REPLY_ARRAY && reply->elements >= least;
}

bool parse_hex16(const char *text, uint64_t *ret)
{
	uint64_t value = 0;

	for (int i = 0; i < 16; i++) {
		char c = text[i];

		if (c >= '0' && c <= '9')
			value = value << 4 | (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value << 4 | (uint64_t)(c - 'a' + 10);
		else
			return false;
	}
	*ret = value;
	return true;
}

bool parse_decimal(const char *text, size_t size, uint64_t most, uint64_t *ret)
{
	uint64_t value = 0;

	if (size == 0 || size > 19)
		return false;
	for (size_t i = 0; i < size; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		value = value * 10 + (uint64_t)(text[i] - '0');
	}
	if (value > most)
		return false;
	*ret = value;
	return true;
}
