#pragma once

/* Asks for the cache line of an address that will be read soon. Swift has no word for it. */
static inline void relay_prefetch(const void *address) { __builtin_prefetch(address, 0, 3); }
