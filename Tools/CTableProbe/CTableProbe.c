#include "CTableProbe.h"

#include <string.h>

enum { STRIDE = 12, BATCH = 32, REMOVED = 0x4000, RELAY = 0x0FFF };

static inline const unsigned char *place_of(
  const struct relay_probe_table *table, uint64_t factor, const struct relay_probe_token *token) {
  uint64_t mixed = (token->high ^ table->secret) + (uint64_t)token->low * UINT64_C(0xD6E8FEB86659FD93);
  unsigned __int128 product = (unsigned __int128)mixed * factor;
  uint64_t folded = (uint64_t)(product >> 64) ^ (uint64_t)product;
  uint64_t index = (uint64_t)(((unsigned __int128)folded * table->capacity) >> 64);
  return (const unsigned char *)table->slots + index * STRIDE;
}

/* The entry's bits; 0 when the token is not there. */
static inline uint32_t bits_of(
  const struct relay_probe_table *table, const struct relay_probe_token *token, const unsigned char *slot) {
  const unsigned char *end = (const unsigned char *)table->slots + table->capacity * STRIDE;
  for (;;) {
    uint32_t word;
    uint64_t high;
    memcpy(&word, slot, sizeof word);
    if (word == 0) return 0;
    memcpy(&high, slot + 4, sizeof high);
    if ((word >> 16) == token->low && high == token->high) return word & REMOVED ? 0 : word & 0xFFFF;
    slot += STRIDE;
    if (slot == end) slot = table->slots;
  }
}

struct relay_probe_found relay_probe(
  struct relay_probe_table table, const struct relay_probe_token *tokens, size_t count) {
  /* The order of operations is TokenSlots': another factor would be another place. */
  const uint64_t factor = table.secret * UINT64_C(0x9E3779B97F4A7C15) | 1;
  const unsigned char *places[BATCH];
  struct relay_probe_found found = {0, 0};
  for (size_t first = 0; first < count; first += BATCH) {
    size_t size = count - first < BATCH ? count - first : BATCH;
    for (size_t index = 0; index < size; index++) {
      places[index] = place_of(&table, factor, &tokens[first + index]);
      __builtin_prefetch(places[index], 0, 3);
    }
    for (size_t index = 0; index < size; index++) {
      uint32_t bits = bits_of(&table, &tokens[first + index], places[index]);
      if (bits == 0) continue;
      found.count += 1;
      found.relays += bits & RELAY;
    }
  }
  return found;
}
