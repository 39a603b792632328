/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/pass/partition.h"

#include <vector>

#include <gtest/gtest.h>

namespace {

std::vector<guint>
owners_of (const std::vector<gint64> &n_bytes, guint n_servers)
{
  std::vector<guint> owners (n_bytes.size (), 12345);

  tps_partition_buckets (n_bytes.data (), (guint) n_bytes.size (), n_servers, owners.data ());
  return owners;
}

TEST (Partition, LargestBucketGoesFirstToTheEmptiestServer)
{
  EXPECT_EQ (owners_of ({ 4, 28, 9, 20 }, 2), (std::vector<guint> { 0, 0, 1, 1 }));
  EXPECT_EQ (owners_of ({ 5, 5, 5, 5 }, 3), (std::vector<guint> { 0, 1, 2, 0 }));
}

TEST (Partition, OneServerOwnsAllAndIdleServersAreAllowed)
{
  EXPECT_EQ (owners_of ({ 3, 2, 1 }, 1), (std::vector<guint> { 0, 0, 0 }));
  EXPECT_EQ (owners_of ({ 1, 2 }, 5), (std::vector<guint> { 1, 0 }));
  EXPECT_EQ (owners_of ({}, 5), (std::vector<guint> {}));
  EXPECT_EQ (owners_of ({ 0, 0 }, 2), (std::vector<guint> { 0, 0 }));
}

TEST (Partition, NoServerHasMoreThanAThirdAboveTheBest)
{
  std::vector<gint64> n_bytes;
  std::vector<gint64> totals (4);

  for (gint64 i = 0; i < 40; i++)
    n_bytes.push_back (1000 + i * i % 37 * 400);
  std::vector<guint> owners = owners_of (n_bytes, 4);
  gint64 all = 0;
  for (size_t i = 0; i < n_bytes.size (); i++)
    {
      ASSERT_LT (owners[i], 4u);
      totals[owners[i]] += n_bytes[i];
      all += n_bytes[i];
    }
  for (gint64 total : totals)
    EXPECT_LE (total * 3, all);
}

TEST (Partition, TrainersOfAServerAreThoseThatFindIt)
{
  for (guint n_trainers = 1; n_trainers < 12; n_trainers++)
    for (guint n_servers = 1; n_servers < 12; n_servers++)
      {
        guint next = 0;

        for (guint server = 0; server < n_servers; server++)
          {
            guint first, n;

            tps_partition_get_trainers (server, n_trainers, n_servers, &first, &n);
            EXPECT_EQ (first, next);
            EXPECT_GE (n, n_trainers / n_servers);
            EXPECT_LE (n, n_trainers / n_servers + 1);
            for (guint i = 0; i < n; i++)
              EXPECT_EQ (tps_partition_find_server (first + i, n_trainers, n_servers), server);
            next += n;
          }
        EXPECT_EQ (next, n_trainers);
      }
}

} // namespace
