#pragma once
#include <hiredis/hiredis.h>
#include <hiredis/async.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
