/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/group/gloo/gloo_mesh.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>

#include "runtime/trainer/group/gloo/gloo_ports.h"

namespace tps {

namespace {

milliseconds
remaining (Clock::time_point deadline)
{
  auto left = std::chrono::ceil<milliseconds> (deadline - Clock::now ());

  return std::max (left, milliseconds (1)); /* 0 would mean an unlimited wait */
}

[[noreturn]] void
fail_with_peer (unsigned peer, const std::exception &e)
{
  throw Failure (TPS_ERROR_GROUP_BROKEN, "rank " + std::to_string (peer) + ": " + e.what ());
}

} /* namespace */

Mesh::Mesh (const TpsProcessGroupOptions *options)
    : rank_ (options->rank), size_ (options->size),
      timeout_ (std::max<int64_t> (1, options->timeout_ns / 1000000))
{
  SigpipeBlock block;
  JoinStore store (options, Clock::now () + timeout_);
  std::shared_ptr<gloo::transport::Device> device = make_gloo_device (options);

  context_ = std::make_shared<gloo::rendezvous::Context> (static_cast<int> (rank_),
                                                          static_cast<int> (size_));
  context_->setTimeout (timeout_);
  context_->connectFullMesh (store, device);
}

void
Mesh::begin (Clock::time_point deadline)
{
  sequence_++;
  deadline_ = deadline;
}

void
Mesh::start_send (Transfers *sends, const void *data, size_t n_bytes, unsigned peer, uint64_t part)
{
  BufferPtr buffer = context_->createUnboundBuffer (const_cast<void *> (data), n_bytes);

  try
    {
      buffer->send (static_cast<int> (peer), sequence_ << 24 | part);
    }
  catch (const std::exception &e)
    {
      fail_with_peer (peer, e);
    }
  sends->emplace_back (peer, std::move (buffer));
}

void
Mesh::start_recv (Transfers *recvs, void *data, size_t n_bytes, unsigned peer, uint64_t part)
{
  BufferPtr buffer = context_->createUnboundBuffer (data, n_bytes);

  try
    {
      buffer->recv (static_cast<int> (peer), sequence_ << 24 | part);
    }
  catch (const std::exception &e)
    {
      fail_with_peer (peer, e);
    }
  recvs->emplace_back (peer, std::move (buffer));
}

void
Mesh::set_waiting (Buffer *buffer)
{
  std::lock_guard<std::mutex> lock (mutex_);

  if (buffer != nullptr && aborted_)
    throw Failure (TPS_ERROR_ABORTED, "aborted");
  waiting_ = buffer;
}

void
Mesh::wait (Buffer *buffer, bool for_recv, unsigned peer)
{
  bool completed;

  set_waiting (buffer);
  try
    {
      completed = for_recv ? buffer->waitRecv (remaining (deadline_))
                           : buffer->waitSend (remaining (deadline_));
    }
  catch (const std::exception &e)
    {
      set_waiting (nullptr);
      fail_with_peer (peer, e);
    }
  set_waiting (nullptr);
  if (!completed)
    throw Failure (TPS_ERROR_ABORTED, "aborted");
}

void
Mesh::wait_for_recvs (Transfers *recvs)
{
  for (auto &[peer, buffer] : *recvs)
    wait (buffer.get (), true, peer);
}

void
Mesh::wait_for_sends (Transfers *sends)
{
  for (auto &[peer, buffer] : *sends)
    wait (buffer.get (), false, peer);
}

void
Mesh::gather_counts (uint64_t mine, std::vector<uint64_t> *counts)
{
  Transfers sends, recvs;

  counts->resize (size_);
  (*counts)[rank_] = mine;
  for (unsigned peer = 0; peer < size_; peer++)
    {
      if (peer == rank_)
        continue;
      start_recv (&recvs, &(*counts)[peer], sizeof mine, peer, 0);
      start_send (&sends, &mine, sizeof mine, peer, 0);
    }
  wait_for_recvs (&recvs);
  wait_for_sends (&sends);
}

/* Adds the counts of all ranks. */
size_t
Mesh::add_counts (const std::vector<uint64_t> &counts) const
{
  size_t n_bytes = 0;

  for (unsigned peer = 0; peer < size_; peer++)
    {
      if (counts[peer] > SIZE_MAX / 2 - n_bytes)
        throw Failure (TPS_ERROR_RESOURCE_EXHAUSTED,
                       "rank " + std::to_string (peer) + " announces too many bytes");
      n_bytes += counts[peer];
    }
  return n_bytes;
}

void
Mesh::gather_bytes (const void *sent, size_t n_bytes, gsize *counts, TpsBuffer **gathered)
{
  Transfers sends, recvs;
  std::vector<uint64_t> announced;
  size_t n_bytes_of_all, offset = 0;

  gather_counts (n_bytes, &announced);
  n_bytes_of_all = add_counts (announced);
  *gathered = tps_buffer_pool_get (tps_buffer_pool_get_default (), n_bytes_of_all, NULL);
  if (*gathered == nullptr)
    throw Failure (TPS_ERROR_RESOURCE_EXHAUSTED,
                   "no memory for " + std::to_string (n_bytes_of_all) + " bytes");

  for (unsigned peer = 0; peer < size_; offset += announced[peer], peer++)
    {
      guint8 *place = tps_buffer_get_data (*gathered) + offset;

      counts[peer] = announced[peer];
      if (peer == rank_ && n_bytes > 0)
        memcpy (place, sent, n_bytes);
      if (peer != rank_ && announced[peer] > 0)
        start_recv (&recvs, place, announced[peer], peer, 1);
      if (peer != rank_ && n_bytes > 0)
        start_send (&sends, sent, n_bytes, peer, 1);
    }
  wait_for_recvs (&recvs);
  wait_for_sends (&sends);
}

void
Mesh::abort () noexcept
{
  std::lock_guard<std::mutex> lock (mutex_);

  aborted_ = true;
  if (waiting_ != nullptr)
    {
      waiting_->abortWaitRecv ();
      waiting_->abortWaitSend ();
    }
}

void
Mesh::close () noexcept
{
  try
    {
      context_->closeConnections ();
    }
  catch (const std::exception &)
    {
      /* The pair may be closed already. */
    }
}

} /* namespace tps */
