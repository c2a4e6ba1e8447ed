#pragma once

#include <stddef.h>
#include <stdint.h>

/* Look-ups in the very memory of a token table (Sources/Directory/Table/TokenSlots.swift), as bare C does them: what the
   benchmark holds the table's own look-ups against. */

/* As Swift lays a ContactToken out: 16 bytes from one to the next. */
struct relay_probe_token {
  uint64_t high;
  uint16_t low;
};

struct relay_probe_table {
  /* `capacity` slots of 12 bytes, the first at a multiple of 4, some of them free. */
  const void *slots;
  uint64_t capacity;
  /* What a token's place depends on. */
  uint64_t secret;
};

struct relay_probe_found {
  uint64_t count;
  /* The sum of the relays' numbers of those that were found. */
  uint64_t relays;
};

/* Looks `count` tokens up, so that their cache misses overlap. Nobody writes to the table meanwhile. */
struct relay_probe_found relay_probe(
  struct relay_probe_table table, const struct relay_probe_token *tokens, size_t count);
