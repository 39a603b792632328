// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Counts calls of the C library by threads. counted.cc replaces malloc() and its relatives, and the
// system calls of the data plane. All threads of a program that links it are counted, except those
// that opt out. Blocks of GLib's slice allocator are visible only if G_SLICE=always-malloc is set
// (see BUILD).

#pragma once

namespace thriftps_test {

struct Counts
{
  long allocations; // malloc, calloc, realloc and the aligned variants
  long sends;       // sendmsg
  long receives;    // recvmsg
  long waits;       // epoll_wait
  long wakes;       // write, mostly to an eventfd
};

Counts operator- (const Counts &a, const Counts &b);

// Returns the counts of all threads since the start of the program.
Counts CountedSoFar ();

// Excludes the calling thread from all later counts.
void DoNotCountThisThread ();

// Returns the same counts as CountedSoFar(). Call it at the start of a measurement. If the
// environment has SHOW_ALLOCATIONS=N, it also makes the next N allocations print their call stacks,
// which helps to find them.
Counts CountFromHere ();

} // namespace thriftps_test
