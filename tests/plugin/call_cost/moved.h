// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Records the memory that holds the bytes of messages. moved.cc replaces sendmsg(), recvmsg(),
// SSL_write_ex() and SSL_read_ex(), and records the memory of each call by any thread of a program
// that links it. It also replaces memcpy() and memmove(), and counts the bytes of large copies,
// including those inside OpenSSL.

#pragma once

#include <cstddef>

namespace thriftps_test {

struct Moved
{
  size_t received; // by recvmsg() or SSL_read_ex() into the memory
  size_t sent;     // by sendmsg() or SSL_write_ex() from the memory
};

// Drops all records and counts.
void ForgetMoved ();

// Returns the moves into and out of the bytes [begin, begin + n_bytes) since ForgetMoved().
Moved MovedIn (const void *begin, size_t n_bytes);

// CopiedBytes() returns the total size of all copies of at least kLargeCopy bytes since
// ForgetMoved().
constexpr size_t kLargeCopy = 256;
size_t CopiedBytes ();

} // namespace thriftps_test
