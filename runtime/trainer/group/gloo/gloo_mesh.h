/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Messages between the ranks of a group, over the Gloo library's connections. C++; internal to this
 * folder.
 *
 * Sizes must match on both sides: Gloo terminates the process if a message is larger than the
 * buffer that receives it. `part`, at most MAX_PART, distinguishes the messages of one collective;
 * both sides must compute the same value.
 *
 * Thread: one at a time, except for abort(). All functions except abort() and close() throw Failure
 * or Gloo's exceptions.
 */

#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <gloo/rendezvous/context.h>
#include <gloo/transport/unbound_buffer.h>

#include "runtime/trainer/group/gloo/gloo_join_store.h"
#include "runtime/trainer/group/gloo/sigpipe_block.h"

namespace tps {

class Mesh
{
public:
  using Buffer = gloo::transport::UnboundBuffer;
  using BufferPtr = std::unique_ptr<Buffer>;
  /* Transfers, each with the rank at the other end. */
  using Transfers = std::vector<std::pair<unsigned, BufferPtr>>;

  static constexpr uint64_t MAX_PART = (1 << 24) - 1;

  /* Joins the group and blocks until all ranks have joined. `options` is borrowed for the call. */
  explicit Mesh (const TpsProcessGroupOptions *options);

  Mesh (const Mesh &) = delete;
  Mesh &operator= (const Mesh &) = delete;

  unsigned
  rank () const
  {
    return rank_;
  }

  unsigned
  size () const
  {
    return size_;
  }

  milliseconds
  timeout () const
  {
    return timeout_;
  }

  Clock::time_point
  deadline () const
  {
    return deadline_;
  }

  /* Starts the next collective, which must end by `deadline`. The messages of different collectives
   * have different tags. */
  void begin (Clock::time_point deadline);

  /* Start a transfer and append it to the list, or wait until all transfers of a list have ended,
   * at most until the collective's deadline. The bytes stay borrowed until the wait has
   * returned. */
  void start_send (Transfers *sends, const void *data, size_t n_bytes, unsigned peer,
                   uint64_t part);
  void start_recv (Transfers *recvs, void *data, size_t n_bytes, unsigned peer, uint64_t part);
  void wait_for_recvs (Transfers *recvs);
  void wait_for_sends (Transfers *sends);

  /* Gathers one number from every rank into `counts` [size], as messages of part 0. May be used
   * within a collective or as a collective by itself. */
  void gather_counts (uint64_t mine, std::vector<uint64_t> *counts);

  /* As TpsProcessGroupOps.all_gather_bytes(), but blocks. Must be a collective by itself. */
  void gather_bytes (const void *sent, size_t n_bytes, gsize *counts, TpsBuffer **gathered);

  /* Makes pending and later waits fail. Thread: any. */
  void abort () noexcept;

  /* Closes the connections, so that the other ranks detect the end of this rank at once. */
  void close () noexcept;

private:
  size_t add_counts (const std::vector<uint64_t> &counts) const;
  void set_waiting (Buffer *buffer);
  void wait (Buffer *buffer, bool for_recv, unsigned peer);

  const unsigned rank_;
  const unsigned size_;
  const milliseconds timeout_;
  std::shared_ptr<gloo::rendezvous::Context> context_;
  uint64_t sequence_ = 0; /* number of the collective; tags its messages */
  Clock::time_point deadline_;

  std::mutex mutex_; /* guards everything below */
  bool aborted_ = false;
  Buffer *waiting_ = nullptr; /* the buffer that abort() must wake */
};

} /* namespace tps */
