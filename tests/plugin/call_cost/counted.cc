// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "tests/plugin/call_cost/counted.h"

#include <execinfo.h>
#include <malloc.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

// glibc's own functions, under the names that remain available when a program defines malloc().
extern "C"
{
  void *__libc_malloc (size_t n_bytes) noexcept;
  void *__libc_calloc (size_t n, size_t n_bytes) noexcept;
  void *__libc_realloc (void *memory, size_t n_bytes) noexcept;
  void *__libc_memalign (size_t alignment, size_t n_bytes) noexcept;
}

namespace {

// These must be constant-initialised, because malloc() is called before constructors run.
std::atomic<long> allocations;
std::atomic<long> sends;
std::atomic<long> receives;
std::atomic<long> waits;
std::atomic<long> wakes;
std::atomic<int> n_to_show;
thread_local bool excluded;

void
Count (std::atomic<long> &count)
{
  if (!excluded)
    count.fetch_add (1, std::memory_order_relaxed);
}

void
CountAllocation ()
{
  void *frames[24];
  int n_frames;

  Count (allocations);
  if (excluded || n_to_show.load () <= 0)
    return;
  excluded = true;
  n_to_show--;
  n_frames = backtrace (frames, 24);
  backtrace_symbols_fd (frames, n_frames, STDERR_FILENO);
  if (write (STDERR_FILENO, "\n", 1) < 0)
    abort ();
  excluded = false;
}

} // namespace

extern "C"
{
  void *
  malloc (size_t n_bytes) noexcept
  {
    CountAllocation ();
    return __libc_malloc (n_bytes);
  }

  void *
  calloc (size_t n, size_t n_bytes) noexcept
  {
    CountAllocation ();
    return __libc_calloc (n, n_bytes);
  }

  void *
  realloc (void *memory, size_t n_bytes) noexcept
  {
    CountAllocation ();
    return __libc_realloc (memory, n_bytes);
  }

  void *
  memalign (size_t alignment, size_t n_bytes) noexcept
  {
    CountAllocation ();
    return __libc_memalign (alignment, n_bytes);
  }

  void *
  aligned_alloc (size_t alignment, size_t n_bytes) noexcept
  {
    CountAllocation ();
    return __libc_memalign (alignment, n_bytes);
  }

  int
  posix_memalign (void **memory, size_t alignment, size_t n_bytes) noexcept
  {
    CountAllocation ();
    *memory = __libc_memalign (alignment, n_bytes);
    return *memory != nullptr ? 0 : ENOMEM;
  }

  ssize_t
  sendmsg (int fd, const struct msghdr *message, int flags)
  {
    Count (sends);
    return syscall (SYS_sendmsg, fd, message, flags);
  }

  ssize_t
  recvmsg (int fd, struct msghdr *message, int flags)
  {
    Count (receives);
    return syscall (SYS_recvmsg, fd, message, flags);
  }

  int
  epoll_wait (int epoll_fd, struct epoll_event *events, int max_events, int timeout_ms)
  {
    Count (waits);
    return (int) syscall (SYS_epoll_wait, epoll_fd, events, max_events, timeout_ms);
  }

  ssize_t
  write (int fd, const void *bytes, size_t n_bytes)
  {
    Count (wakes);
    return syscall (SYS_write, fd, bytes, n_bytes);
  }

} // extern "C"

namespace thriftps_test {

Counts
operator- (const Counts &a, const Counts &b)
{
  return { a.allocations - b.allocations, a.sends - b.sends, a.receives - b.receives,
           a.waits - b.waits, a.wakes - b.wakes };
}

Counts
CountedSoFar ()
{
  return { allocations.load (), sends.load (), receives.load (), waits.load (), wakes.load () };
}

void
DoNotCountThisThread ()
{
  excluded = true;
}

Counts
CountFromHere ()
{
  const char *to_show = getenv ("SHOW_ALLOCATIONS");
  if (to_show != nullptr)
    n_to_show = atoi (to_show);
  return CountedSoFar ();
}

} // namespace thriftps_test
