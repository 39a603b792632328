/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Streams and events. A stream runs its work only when a thread waits for it. */

#pragma once

#include <functional>
#include <vector>

#include "tests/runtime/fake_device/memory.h"

namespace fake_device {

/* Fills in the operations of streams and events. */
void fill_queue_operations (TpsDeviceOps *ops);

/* One operation that is being added to a stream. Holds the lock during its lifetime. */
class Call
{
public:
  Call (TpsStream *stream, const char *name) : guard_ (lock ()), stream_ (stream), name_ (name)
  {
  }

  /* Returns the accessible address of `n` elements of device memory or page-locked memory. If `n`
   * is 0, there may be no memory. */
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
  /* Like bytes_at(), but also accepts any host memory. */
  gpointer
  anywhere (gconstpointer bytes, size_t n_bytes)
  {
    return find (bytes, n_bytes, true);
  }

  /* Queues `work`. It runs on the CPU, whose operations are complete when they return. */
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
