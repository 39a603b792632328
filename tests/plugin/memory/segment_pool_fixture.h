/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A pool and the registry of its server, with helpers that exchange calls and replies. */

#pragma once

#include "plugin/memory/segment_pool.h"
#include "tests/plugin/memory/pool_pair.h"

namespace thriftps {

constexpr gsize MIB = 1 << 20;

class SegmentPool : public testing::Test
{
protected:
  ~SegmentPool () override
  {
    pair_.reset ();
    EXPECT_EQ (count_mappings (), 0);
  }

  void
  make (gsize client_max_bytes, gsize server_max_bytes)
  {
    pair_ = std::make_unique<PoolPair> (client_max_bytes, server_max_bytes);
  }

  /* Returns a lease with tensors of these sizes. `*n_placed` is the number that fitted. */
  TpsSharing *
  write (const std::vector<gsize> &sizes, int *n_placed = nullptr)
  {
    TpsSharing *lease = tps_segment_pool_lease (pair_->pool);
    int n = 0;

    for (gsize size : sizes)
      {
        std::string bytes (size, 'x');

        n += lease->ops->place (lease, bytes.data (), size, &slice_);
      }
    tps_segment_lease_written (lease);
    if (n_placed != nullptr)
      *n_placed = n;
    return lease;
  }

  void
  end (TpsSharing *lease, gboolean given_back = TRUE)
  {
    tps_segment_lease_end (lease, given_back);
    tps_sharing_unref (lease);
  }

  /* Makes one call with one tensor. Returns true if the tensor fitted into a segment. */
  bool
  push (gsize size, gboolean given_back = TRUE)
  {
    int n_placed;

    end (write ({ size }, &n_placed), given_back);
    return n_placed == 1;
  }

  /* Makes the server reply with tensors. Returns the encoded reply. */
  TpsMessage *
  make_answer (const std::vector<std::vector<float>> &tensors)
  {
    TpsSharing *sharing = tps_segment_registry_answer (pair_->registry);
    TpsMessage *message = make_message (sharing, tensors);

    if (sharing != nullptr)
      {
        tps_segment_registry_commit (sharing);
        tps_sharing_unref (sharing);
      }
    return message;
  }

  /* Does the same, and makes the client receive the reply. */
  TpsMessage *
  answer (const std::vector<std::vector<float>> &tensors)
  {
    TpsMessage *message = make_answer (tensors);

    message->sharing = tps_segment_pool_receive (pair_->pool, message);
    return message;
  }

  std::unique_ptr<PoolPair> pair_;
  TpsSharedSlice slice_ = {};
};

inline const std::vector<float> LARGE (MIB / 4, 1.5f); /* 1 MiB */

}
