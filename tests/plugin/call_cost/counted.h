// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// What threads ask of the C library, counted: counted.cc stands in for malloc() and its relatives,
// and for the calls into the kernel that the data plane makes. A program that links it counts all
// its threads but those that say they do not count. Blocks from GLib's slice allocator are seen
// where G_SLICE=always-malloc is set (BUILD).

#pragma once

namespace thriftps_test {

struct Counts
{
  long allocations; // malloc, calloc, realloc, aligned ones
  long sends;       // sendmsg
  long receives;    // recvmsg
  long waits;       // epoll_wait
  long wakes;       // write, to an eventfd or whatever
};

Counts operator- (const Counts &a, const Counts &b);

// All threads together, since the program began.
Counts CountedSoFar ();

// What the calling thread does from now on is not counted.
void DoNotCountThisThread ();

// The same, at the beginning of what is to be counted. Where the environment has
// SHOW_ALLOCATIONS=N, the call stacks of the next N allocations are printed, for whoever looks for
// them.
Counts CountFromHere ();

} // namespace thriftps_test
