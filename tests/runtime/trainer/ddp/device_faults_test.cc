/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Passes on failing devices. The pass must fail, but the process must continue, and no memory may
 * leak. */

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/device/backend.h"
#include "runtime/trainer/pass/pass.h"
#include "tests/runtime/trainer/ddp/fleet.h"
#include "tests/runtime/fake_device/fake_device.h"

namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;

/* Returns the library's device, which is built from the same sources as this test. */
TpsDevice *
device ()
{
  return tps_device_find ("cuda:0", nullptr);
}

Task
on_one_device ()
{
  Task task;

  task.devices = { "cuda:0", "cuda:0" };
  return task;
}

/* Loses the device in the second epoch of trainer 0. */
gboolean
losing_step (TpsPass *pass, guint epoch, guint index, const TpsTrainBatch *batch, GError **error)
{
  if (pass->plan->rank == 0 && epoch == 1)
    tps_fake_device_set_lost (pass->device, TRUE);
  return tps_iteration_step_find ("basic_iteration_step", nullptr)
      ->run (pass, epoch, index, batch, error);
}

TEST (DeviceFaults, ALostDeviceFailsItsPassesAndNothingElse)
{
  static const TpsIterationStep step = { "losing_step", losing_step };
  Fleet fleet (2, 1, 10 * SECOND_NS);

  tps_iteration_step_register (&step);
  for (const char *hook : HOOKS)
    {
      Task task;

      task.devices = { "cuda:0", "cuda:1" };
      task.hook = hook;
      task.pass_name = std::string ("lost ") + hook;
      task.iteration_step = "losing_step";
      task.timeout_ns = 10 * SECOND_NS;
      fleet.run (task);
      EXPECT_THAT (fleet.wait (0), StartsWith ("FAILED: DEVICE_LOST: cuda:0")) << hook;
      EXPECT_THAT (fleet.wait (1), StartsWith ("FAILED: ")) << hook;
      EXPECT_THAT (fleet.start (task, 0), StartsWith ("DEVICE_LOST: cuda:0")) << hook;

      /* The CPU and other devices must continue, and so must this device after its recovery. */
      task.iteration_step = "basic_iteration_step";
      task.timeout_ns = 20 * SECOND_NS;
      task.devices = { "cpu", "cuda:1" };
      task.pass_name = std::string ("others ") + hook;
      fleet.run (task);
      EXPECT_EQ (fleet.digest (0), fleet.digest (1)) << hook;
      tps_fake_device_set_lost (device (), FALSE);
      task.devices = { "cuda:0", "cuda:0" };
      task.pass_name = std::string ("again ") + hook;
      fleet.run (task);
      EXPECT_EQ (fleet.digest (0), fleet.digest (1)) << hook;
    }
}

TEST (DeviceFaults, PassesReleaseTheirMemory)
{
  gsize n_bytes = tps_fake_device_get_n_bytes (device ());

  for (const char *hook : HOOKS)
    {
      Fleet fleet (2);
      Task task = on_one_device ();

      task.hook = hook;
      fleet.run (task);
      EXPECT_EQ (fleet.digest (0), fleet.digest (1)) << hook;
      EXPECT_EQ (tps_fake_device_get_n_bytes (device ()), n_bytes) << hook;
    }
}

TEST (DeviceFaults, AnyAllocationMayFail)
{
  Fleet fleet (1);
  gsize n_bytes = tps_fake_device_get_n_bytes (device ());
  guint n_failed = 0;

  for (const char *hook : { "rpc_hook", "allreduce_hook" })
    for (guint n = 1;; n++)
      {
        Task task = on_one_device ();
        std::string what = std::string (hook) + ", allocation " + std::to_string (n), refusal;

        task.hook = hook;
        task.pass_name = what;
        fleet.reset_servers ();
        guint n_before = tps_fake_device_get_n_allocs (device ());
        tps_fake_device_fail_alloc (device (), n);
        refusal = fleet.start (task, 0);
        std::string end = refusal.empty () ? fleet.wait (0) : "FAILED: " + refusal;
        bool was_reached = tps_fake_device_get_n_allocs (device ()) - n_before >= n;
        tps_fake_device_fail_alloc (device (), 0);
        if (!was_reached)
          {
            EXPECT_EQ (end, "SUCCEEDED") << what;
            break;
          }
        EXPECT_THAT (end, StartsWith ("FAILED: RESOURCE_EXHAUSTED")) << what;
        EXPECT_EQ (tps_fake_device_get_n_bytes (device ()), n_bytes) << what;
        n_failed++;
      }
  EXPECT_GT (n_failed, 20u);
}

/* Expects that a step allocates nothing after the first epoch. */
gboolean
counting_step (TpsPass *pass, guint epoch, guint index, const TpsTrainBatch *batch, GError **error)
{
  static guint n_allocs;
  guint n;

  if (!tps_iteration_step_find ("basic_iteration_step", nullptr)
           ->run (pass, epoch, index, batch, error))
    return FALSE;
  n = tps_fake_device_get_n_allocs (pass->device);
  if (epoch > 1)
    {
      EXPECT_EQ (n, n_allocs) << "epoch " << epoch << ", step " << index;
    }
  n_allocs = n;
  return TRUE;
}

TEST (DeviceFaults, StepsAllocateNothingInTheEnd)
{
  static const TpsIterationStep step = { "counting_step", counting_step };
  Fleet fleet (1);

  tps_iteration_step_register (&step);
  for (const char *hook : HOOKS)
    {
      Task task = on_one_device ();

      task.hook = hook;
      task.pass_name = hook;
      task.epochs = 4;
      task.iteration_step = "counting_step";
      fleet.run (task);
      EXPECT_EQ (fleet.wait (0), "SUCCEEDED") << hook;
    }
}

} /* namespace */
