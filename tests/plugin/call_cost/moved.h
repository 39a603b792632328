// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// The memory that holds the bytes of messages: moved.cc replaces sendmsg() and recvmsg(), and
// records the memory of each call by any thread of a program that links it.

#pragma once

#include <cstddef>

namespace thriftps_test {

struct Moved
{
  size_t received; // by recvmsg() into the memory
  size_t sent;     // by sendmsg() from there
};

void ForgetMoved ();

// Since ForgetMoved(), of the bytes [begin, begin + n_bytes).
Moved MovedIn (const void *begin, size_t n_bytes);

} // namespace thriftps_test
