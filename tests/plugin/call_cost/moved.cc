// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "tests/plugin/call_cost/moved.h"

#include <dlfcn.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

namespace {

struct Piece
{
  uintptr_t begin;
  uintptr_t end;
};
using Pieces = std::vector<Piece>;

std::mutex lock;
Pieces received;
Pieces sent;

void
Note (Pieces *pieces, const void *data, size_t n_bytes)
{
  std::lock_guard<std::mutex> guard (lock);
  auto begin = reinterpret_cast<uintptr_t> (data);

  pieces->push_back ({ begin, begin + n_bytes });
}

// Records the first `n_bytes` of the memory that the call names.
void
Note (Pieces *pieces, const struct msghdr *message, ssize_t n_bytes)
{
  std::lock_guard<std::mutex> guard (lock);
  size_t left = n_bytes > 0 ? (size_t) n_bytes : 0;

  for (size_t i = 0; i < message->msg_iovlen && left > 0; i++)
    {
      auto begin = reinterpret_cast<uintptr_t> (message->msg_iov[i].iov_base);
      size_t n = std::min (left, message->msg_iov[i].iov_len);

      pieces->push_back ({ begin, begin + n });
      left -= n;
    }
}

size_t
CountIn (const Pieces &pieces, uintptr_t begin, uintptr_t end)
{
  size_t n = 0;

  for (const Piece &piece : pieces)
    if (piece.begin < end && begin < piece.end)
      n += std::min (end, piece.end) - std::max (begin, piece.begin);
  return n;
}

std::atomic<size_t> n_copied;

// The copy is an instruction, because the compiler may replace a loop by a call of memcpy(). The
// ranges may overlap if `dest` is below `src`.
void
CopyForwards (void *dest, const void *src, size_t n_bytes)
{
  asm volatile("rep movsb" : "+D"(dest), "+S"(src), "+c"(n_bytes) : : "memory");
}

void
CopyBackwards (void *dest, const void *src, size_t n_bytes)
{
  auto *last_dest = static_cast<char *> (dest) + n_bytes - 1;
  auto *last_src = static_cast<const char *> (src) + n_bytes - 1;
  asm volatile("std\n\trep movsb\n\tcld"
               : "+D"(last_dest), "+S"(last_src), "+c"(n_bytes)
               :
               : "memory");
}

void *
Copy (void *dest, const void *src, size_t n_bytes)
{
  if (n_bytes >= thriftps_test::kLargeCopy)
    n_copied.fetch_add (n_bytes, std::memory_order_relaxed);
  if (reinterpret_cast<uintptr_t> (dest) - reinterpret_cast<uintptr_t> (src) >= n_bytes)
    CopyForwards (dest, src, n_bytes);
  else
    CopyBackwards (dest, src, n_bytes);
  return dest;
}

// Returns the function of another library that the function of this name replaces.
template <typename Function>
Function *
FindReplaced (const char *name)
{
  return reinterpret_cast<Function *> (dlsym (RTLD_NEXT, name));
}

} // namespace

extern "C"
{
  // The functions are defined by symbol, because <string.h> may have inline functions of these
  // names. The last two serve fortified code. They ignore their last argument, the size of `dest`,
  // which the tests never exceed.
  void *ReplacedMemcpy (void *dest, const void *src, size_t n_bytes) asm("memcpy");
  void *ReplacedMemmove (void *dest, const void *src, size_t n_bytes) asm("memmove");
  void *CheckedMemcpy (void *dest, const void *src, size_t n_bytes, size_t) asm("__memcpy_chk");
  void *CheckedMemmove (void *dest, const void *src, size_t n_bytes, size_t) asm("__memmove_chk");

  void *
  ReplacedMemcpy (void *dest, const void *src, size_t n_bytes)
  {
    return Copy (dest, src, n_bytes);
  }

  void *
  ReplacedMemmove (void *dest, const void *src, size_t n_bytes)
  {
    return Copy (dest, src, n_bytes);
  }

  void *
  CheckedMemcpy (void *dest, const void *src, size_t n_bytes, size_t)
  {
    return Copy (dest, src, n_bytes);
  }

  void *
  CheckedMemmove (void *dest, const void *src, size_t n_bytes, size_t)
  {
    return Copy (dest, src, n_bytes);
  }

  int
  SSL_read_ex (SSL *ssl, void *dest, size_t n_bytes, size_t *n_read)
  {
    static auto *const read = FindReplaced<decltype (SSL_read_ex)> ("SSL_read_ex");
    int rc = read (ssl, dest, n_bytes, n_read);

    if (rc == 1)
      Note (&received, dest, *n_read);
    return rc;
  }

  int
  SSL_write_ex (SSL *ssl, const void *src, size_t n_bytes, size_t *n_written)
  {
    static auto *const write = FindReplaced<decltype (SSL_write_ex)> ("SSL_write_ex");
    int rc = write (ssl, src, n_bytes, n_written);

    if (rc == 1)
      Note (&sent, src, *n_written);
    return rc;
  }

  ssize_t
  sendmsg (int fd, const struct msghdr *message, int flags)
  {
    ssize_t n = syscall (SYS_sendmsg, fd, message, flags);

    Note (&sent, message, n);
    return n;
  }

  ssize_t
  recvmsg (int fd, struct msghdr *message, int flags)
  {
    ssize_t n = syscall (SYS_recvmsg, fd, message, flags);

    Note (&received, message, n);
    return n;
  }

} // extern "C"

namespace thriftps_test {

void
ForgetMoved ()
{
  std::lock_guard<std::mutex> guard (lock);

  received.clear ();
  sent.clear ();
  n_copied = 0;
}

size_t
CopiedBytes ()
{
  return n_copied;
}

Moved
MovedIn (const void *begin, size_t n_bytes)
{
  std::lock_guard<std::mutex> guard (lock);
  auto at = reinterpret_cast<uintptr_t> (begin);

  return { CountIn (received, at, at + n_bytes), CountIn (sent, at, at + n_bytes) };
}

} // namespace thriftps_test
