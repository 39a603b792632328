/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A registry for one connection, and helpers for its tests. */

#pragma once

#include "plugin/memory/segment_registry.h"

#include <gtest/gtest.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "runtime/base/error.h"

namespace tps_test {

constexpr gsize kPage = 4096;

struct SharingUnref
{
  void
  operator() (TpsSharing *sharing) const
  {
    tps_sharing_unref (sharing);
  }
};

using Sharing = std::unique_ptr<TpsSharing, SharingUnref>;

void
count (gpointer counter)
{
  ++*static_cast<int *> (counter);
}

class SegmentRegistry : public testing::Test
{
protected:
  void
  SetUp () override
  {
    make (1 << 20, 8);
  }

  void
  TearDown () override
  {
    tps_segment_registry_unref (registry);
    EXPECT_EQ (tps_budget_get_held (account), 0u);
    tps_budget_unref (account);
  }

  void
  make (gsize max_bytes, guint max_segments)
  {
    TpsSegmentLimits limits = { max_bytes, max_segments, nullptr, account };

    g_clear_pointer (&registry, tps_segment_registry_unref);
    registry = tps_segment_registry_new (&limits);
  }

  gint64
  open (TpsSegmentUse use, gsize n_bytes, GError **error = nullptr)
  {
    gint64 id = -1;
    gsize size = 0;
    gint fd = -1;

    if (!tps_segment_registry_open (registry, use, n_bytes, &id, &size, &fd, nullptr, error))
      {
        EXPECT_EQ (fd, -1);
        return -1;
      }
    EXPECT_EQ (size, (n_bytes + kPage - 1) / kPage * kPage);
    EXPECT_GE (fd, 0);
    close (fd);
    return id;
  }

  Sharing
  receive (int *released)
  {
    return Sharing (tps_segment_registry_receive (registry, count, released));
  }

  Sharing
  answer ()
  {
    return Sharing (tps_segment_registry_answer (registry));
  }

  bool
  release (gint64 id)
  {
    return tps_segment_registry_release (registry, &id, 1, nullptr);
  }

  bool
  close_segment (gint64 id)
  {
    return tps_segment_registry_close (registry, &id, 1, nullptr);
  }

  bool
  place (const Sharing &sharing, gsize n_bytes, TpsSharedSlice *slice)
  {
    std::vector<guint8> bytes (n_bytes, 'x');

    return sharing->ops->place (sharing.get (), bytes.data (), n_bytes, slice);
  }

  TpsBudget *account = tps_budget_new (nullptr, "shared memory", 1 << 21);
  TpsSegmentRegistry *registry = nullptr;
};

} // namespace tps_test
