// Has libFuzzer look only at the coverage of the modules that a decoder lies in: it reads every counter after every
// input, and the counters of all modules took two thirds of a fuzzer's time.
//
// The program is linked with --wrap for both functions. RELAY_FUZZ_COUNTERS names the counters, from the first one on, as
// "0-5514,40000-73763"; without it all count.

#include <stdint.h>
#include <stdlib.h>

void __real___sanitizer_cov_8bit_counters_init(uint8_t *start, uint8_t *stop);
void __real___sanitizer_cov_pcs_init(const uintptr_t *start, const uintptr_t *stop);

// A counter has a byte, and a pair of words in the other table.
enum { WORDS_OF_COUNTER = 2 };

// Reads "first-end", moves past it. Returns 0 at the end, or where it is none.
static int next_range(const char **text, size_t count, size_t *first, size_t *end) {
  char *rest;
  if (!**text) return 0;
  *first = strtoull(*text, &rest, 10);
  if (*rest != '-') return 0;
  *end = strtoull(rest + 1, &rest, 10);
  if (*end > count) *end = count;
  *text = *rest == ',' ? rest + 1 : rest;
  return *first < *end;
}

// Each object calls these with the tables of the whole program: once is enough.
void __wrap___sanitizer_cov_8bit_counters_init(uint8_t *start, uint8_t *stop) {
  static int is_done;
  const char *ranges = getenv("RELAY_FUZZ_COUNTERS");
  size_t first, end;
  if (is_done++) return;
  if (!ranges) return __real___sanitizer_cov_8bit_counters_init(start, stop);
  while (next_range(&ranges, stop - start, &first, &end))
    __real___sanitizer_cov_8bit_counters_init(start + first, start + end);
}

void __wrap___sanitizer_cov_pcs_init(const uintptr_t *start, const uintptr_t *stop) {
  static int is_done;
  const char *ranges = getenv("RELAY_FUZZ_COUNTERS");
  size_t first, end;
  if (is_done++) return;
  if (!ranges) return __real___sanitizer_cov_pcs_init(start, stop);
  while (next_range(&ranges, (stop - start) / WORDS_OF_COUNTER, &first, &end))
    __real___sanitizer_cov_pcs_init(start + first * WORDS_OF_COUNTER, start + end * WORDS_OF_COUNTER);
}
