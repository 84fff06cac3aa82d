#include "core/master_priv.h"

#include <string.h>

static uint32_t *head_of(const struct master *master, uint64_t hash)
{
	return &master->map[hash & master->map_mask];
}

bool slot_has_key(const struct master *master, uint32_t slot, const struct index_key *key)
{
	const struct slot *there = slot_at(master, slot);

	return there->hash == key->hash && there->klen == key->size &&
	       memcmp(slot_key(master->share, there), key->data, key->size) == 0;
}

/* Heads hold slot number + 1, so that zeroed memory is an empty map. */
uint32_t map_find(const struct master *master, const struct index_key *key)
{
	uint32_t slot = *head_of(master, key->hash) - 1;

	while (slot != SLOT_NONE && !slot_has_key(master, slot, key))
		slot = object_at(master, slot)->chain;
	return slot;
}

void map_add(struct master *master, uint32_t slot)
{
	uint32_t *head = head_of(master, slot_at(master, slot)->hash);
	struct object *object = object_at(master, slot);

	CHECK(!object->mapped);
	object->chain = *head - 1;
	object->mapped = true;
	*head = slot + 1;
}

void map_del(struct master *master, uint32_t slot)
{
	uint32_t *head = head_of(master, slot_at(master, slot)->hash);
	struct object *object = object_at(master, slot);
	uint32_t at = *head - 1;

	CHECK(object->mapped);
	object->mapped = false;
	if (at == slot) {
		*head = object->chain + 1;
		return;
	}
	while (object_at(master, at)->chain != slot)
		at = object_at(master, at)->chain;
	object_at(master, at)->chain = object->chain;
}
