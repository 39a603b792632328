// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "tests/plugin/call_cost/moved.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
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

// Records the first `n_bytes` of the call's memory.
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

} // namespace

extern "C"
{
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
}

Moved
MovedIn (const void *begin, size_t n_bytes)
{
  std::lock_guard<std::mutex> guard (lock);
  auto at = reinterpret_cast<uintptr_t> (begin);

  return { CountIn (received, at, at + n_bytes), CountIn (sent, at, at + n_bytes) };
}

} // namespace thriftps_test
