// Tells the thread sanitizer of the ways in which Swift's own libraries order threads: they are not instrumented, and
// what they order would be reported as races of their users. Preloaded by scripts/test-threads.sh.

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SWIFT __attribute__((swiftcall))
#define SELF __attribute__((swift_context))

// The sanitizer's, in the program that is tested; missing in every other program.
__attribute__((weak)) void __tsan_acquire(void *place);
__attribute__((weak)) void __tsan_release(void *place);

// Swift's runtime tells the sanitizer of what starts and resumes a task, once it is told that there is one. The
// sanitizer does that by itself on other systems only.
void __tsan_on_initialize(void) __attribute__((weak));
extern bool _swift_tsan_enabled __attribute__((weak));

// `Mutex`: the compiler puts a lock that is free and an unlock that nobody waits for into the caller, where they are
// instrumented. These are the others: the kernel hands the lock on in them.
#define LOCK_SLOW "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define UNLOCK_SLOW "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"

static SWIFT void (*swifts_lock)(uint32_t thread, SELF void *lock);
static SWIFT void (*swifts_unlock)(SELF void *lock);

SWIFT void lock_slow(uint32_t thread, SELF void *lock) __asm__(LOCK_SLOW);
SWIFT void lock_slow(uint32_t thread, SELF void *lock) {
  swifts_lock(thread, lock);
  if (__tsan_acquire) __tsan_acquire(lock);
}

SWIFT void unlock_slow(SELF void *lock) __asm__(UNLOCK_SLOW);
SWIFT void unlock_slow(SELF void *lock) {
  if (__tsan_release) __tsan_release(lock);
  swifts_unlock(lock);
}

__attribute__((constructor)) static void begin(void) {
  swifts_lock = dlsym(RTLD_NEXT, LOCK_SLOW);
  swifts_unlock = dlsym(RTLD_NEXT, UNLOCK_SLOW);
  if (__tsan_acquire && __tsan_on_initialize && &_swift_tsan_enabled && !_swift_tsan_enabled) __tsan_on_initialize();
}
