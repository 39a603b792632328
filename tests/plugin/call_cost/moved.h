// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Where the bytes of messages come from and go to: moved.cc stands in for sendmsg() and recvmsg()
// and notes which memory each of them was given. All threads of a program that links it.

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
