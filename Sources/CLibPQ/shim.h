#pragma once
#include <libpq-fe.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>

// Names the calling thread for tools. prctl is variadic, which Swift does not import.
static inline void relay_name_thread(const char *name) { prctl(PR_SET_NAME, name, 0, 0, 0); }
