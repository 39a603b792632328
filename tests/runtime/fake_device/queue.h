/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Streams that run their work only when it is waited for, and events. */

#pragma once

#include <functional>
#include <vector>

#include "tests/runtime/fake_device/memory.h"

namespace fake_device {

/* Streams and events, for the table of operations. */
void fill_queue_operations (TpsDeviceOps *ops);

/* One operation on its way into a stream; holds the lock. */
class Call
{
public:
  Call (TpsStream *stream, const char *name) : guard_ (lock ()), stream_ (stream), name_ (name)
  {
  }

  /* The accessible address of `n` elements of device memory or page-locked memory. If n is 0, there
   * may be no memory. */
  template <typename T>
  T *
  at (T *elements, size_t n)
  {
    return static_cast<T *> (find (elements, n * sizeof (T), false));
  }
  template <typename T>
  const T *
  at (const T *elements, size_t n)
  {
    return static_cast<const T *> (find (elements, n * sizeof (T), false));
  }
  gpointer
  bytes_at (gconstpointer bytes, size_t n_bytes)
  {
    return find (bytes, n_bytes, false);
  }
  /* The same, and any other host memory too. */
  gpointer
  anywhere (gconstpointer bytes, size_t n_bytes)
  {
    return find (bytes, n_bytes, true);
  }

  /* `work` on the CPU, whose operations are complete when they return. */
  using Work = std::function<void (const TpsDeviceOps *cpu, TpsStream *stream)>;
  void enqueue (Work work);

private:
  gpointer find (gconstpointer bytes, size_t n_bytes, bool may_be_pageable);

  std::lock_guard<std::mutex> guard_;
  TpsStream *stream_;
  const char *name_;
  std::vector<std::shared_ptr<Block>> blocks_;
};

} // namespace fake_device
