/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests "nccl" and "multi" as programs load them: from the library of the devices. In this test it
 * uses fakes of CUDA and NCCL. */

#include <string>
#include <vector>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/device/backend.h"
#include "runtime/trainer/ports/process_group.h"
#include "tests/runtime/trainer/ddp/collectives.h"
#include "tests/runtime/trainer/ddp/fakes.h"

namespace {

class LoadedGroups : public testing::TestWithParam<const char *>
{
};

INSTANTIATE_TEST_SUITE_P (Backends, LoadedGroups, testing::Values ("nccl", "multi"));

TEST_P (LoadedGroups, SumMemoryOfTheDeviceAndOfTheHost)
{
  std::vector<TpsProcessGroup *> groups = join_groups (GetParam (), 3);

  run_ranks (3, [&] (guint r) {
    TpsDevice *device = tps_device_find (r % 2 == 0 ? "cuda:0" : "cuda:1", nullptr);
    TpsStream *stream = device->ops->stream_new (device, nullptr);
    TpsBuffer *buffer = device->ops->alloc (device, 8, nullptr);
    gfloat values[2] = { 1.0f + static_cast<gfloat> (r), 10 };

    EXPECT_STREQ (groups[r]->ops->name, GetParam ());
    device->ops->copy (stream, tps_buffer_get_data (buffer), values, sizeof values);
    EXPECT_EQ (all_reduce (groups[r], values, 2), "");
    EXPECT_EQ (values[0], 6);
    EXPECT_EQ (values[1], 30);
    EXPECT_EQ (all_reduce (groups[r], tps_buffer_get_data (buffer), 2), "");
    device->ops->copy (stream, values, tps_buffer_get_data (buffer), sizeof values);
    EXPECT_EQ (values[0], 6);
    EXPECT_EQ (values[1], 30);
    tps_buffer_unref (buffer);
    device->ops->stream_free (stream);
  });
  free_groups (groups);
}

TEST_P (LoadedGroups, AbortEndsBothKinds)
{
  std::vector<TpsProcessGroup *> groups = join_groups (GetParam (), 2);

  run_ranks (2, [&] (guint r) {
    gfloat value = 1;

    groups[r]->ops->abort (groups[r]);
    EXPECT_EQ (all_reduce (groups[r], &value, 1),
               "GROUP_BROKEN: the process group was closed by this rank");
    groups[r]->ops->free (groups[r]);
  });
}

TEST (LoadedGroup, OneRankWithADeviceUsesNccl)
{
  TpsProcessGroupOptions options = {};

  options.size = 1;
  options.timeout_ns = G_GINT64_CONSTANT (30000000000);
  options.device = tps_device_find ("cuda:1", nullptr);
  TpsProcessGroup *group = tps_process_group_new ("multi", &options, nullptr);
  ASSERT_NE (group, nullptr);
  EXPECT_STREQ (group->ops->name, "nccl");
  group->ops->free (group);
}

} /* namespace */
