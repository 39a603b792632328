// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Counts calls of the C library by threads: counted.cc replaces malloc() and its relatives, and the
// system calls of the data plane. A program that links it counts all its threads except those that
// opt out. Blocks of GLib's slice allocator are visible if G_SLICE=always-malloc is set (BUILD).

#pragma once

namespace thriftps_test {

struct Counts
{
  long allocations; // malloc, calloc, realloc, aligned ones
  long sends;       // sendmsg
  long receives;    // recvmsg
  long waits;       // epoll_wait
  long wakes;       // write, mostly to an eventfd
};

Counts operator- (const Counts &a, const Counts &b);

// The counts of all threads since the start of the program.
Counts CountedSoFar ();

// Excludes the calling thread from now on.
void DoNotCountThisThread ();

// The same as CountedSoFar(); call it at the start of a measurement. If SHOW_ALLOCATIONS=N is in
// the environment, the call stacks of the next N allocations are printed, to help find them.
Counts CountFromHere ();

} // namespace thriftps_test
