/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Whole passes of trainers that compute on devices of the library that the environment names. Host
 * code cannot access the memory of these devices. DEVICE_BACKENDS lists the process groups for
 * them. DEVICE_BITS=cpu means that the devices compute the same bits as the CPU. */

#include "runtime/trainer/pass/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/device/backend.h"
#include "runtime/trainer/pass/pass.h"
#include "tests/runtime/trainer/ddp/fleet.h"

namespace {

using testing::HasSubstr;

std::vector<std::string>
backends ()
{
  gchar **split = g_strsplit (g_getenv ("DEVICE_BACKENDS"), " ", -1);
  std::vector<std::string> names (split, split + g_strv_length (split));

  g_strfreev (split);
  return names;
}

bool
has_bits_of_cpu ()
{
  return g_strcmp0 (g_getenv ("DEVICE_BITS"), "cpu") == 0;
}

Task
on_devices (guint n_trainers, const char *backend = "gloo")
{
  Task task;

  task.devices.assign (n_trainers, "cuda");
  task.backend = backend;
  return task;
}

class DevicePasses : public testing::TestWithParam<guint>
{
};

TEST_P (DevicePasses, AllHooksAndGroupsGiveTheSameBits)
{
  /* With 5 batches, some of 2 or 3 trainers take part without data. */
  for (bool sparse : { true, false })
    {
      Fleet fleet (GetParam (), 2);
      Task plain;
      std::string expected;

      plain.sparse = sparse;
      if (has_bits_of_cpu ())
        expected = fleet.digest_of_run (plain, "the CPU");
      for (const std::string &backend : backends ())
        for (const char *hook : HOOKS)
          {
            Task task = on_devices (GetParam (), backend.c_str ());
            std::string what = backend + ", " + hook + (sparse ? ", sparse" : ", dense");

            task.pass_name = backend + hook;
            task.hook = hook;
            task.sparse = sparse;
            std::string digest = fleet.digest_of_run (task, what);
            EXPECT_EQ (digest, expected.empty () ? digest : expected) << what;
            expected = digest;
          }
    }
}

INSTANTIATE_TEST_SUITE_P (Worlds, DevicePasses, testing::Values (1, 2, 3));

TEST (DevicePasses, TrainersOfTheCpuAndOfDevicesWorkTogether)
{
  Fleet fleet (2);

  for (const std::string &backend : backends ())
    for (const char *hook : HOOKS)
      {
        Task task;

        task.devices = { "cpu", "cuda" };
        task.backend = backend.c_str ();
        task.pass_name = backend + hook;
        task.hook = hook;
        fleet.digest_of_run (task, backend + ", " + hook);
      }
}

TEST (DevicePasses, CompressedGradientsAreThoseOfTheCpu)
{
  Fleet fleet (2);

  for (const char *compress : { "fp16", "bf16", "topk:0.25" })
    for (const char *hook : { "allreduce_hook", "rpc_hook" })
      {
        Task plain, task = on_devices (2);
        std::string what = std::string (compress) + ", " + hook;

        plain.compress = task.compress = compress;
        plain.hook = task.hook = hook;
        plain.pass_name = "plain " + what;
        task.pass_name = what;
        std::string digest = fleet.digest_of_run (task, what);
        if (has_bits_of_cpu ())
          {
            EXPECT_EQ (digest, fleet.digest_of_run (plain, what)) << what;
          }
      }
}

/* Failures */

TEST (DevicePasses, BatchesThatDoNotFitAreRefusedWhileTheHostCanReadThem)
{
  Fleet fleet (1);
  TpsTrainPlan *plan = fleet.make_plan (on_devices (1), 0);
  GError *error = nullptr;

  static_cast<gint64 *> (tps_tensor_data (&plan->batches[1].input))[3] = 40;
  EXPECT_FALSE (tps_trainer_train (fleet.trainer (0), plan, &error));
  EXPECT_THAT (error->message, HasSubstr ("batches[1]: batch: input element 3 is 40"));
  g_error_free (error);
}

TEST (DevicePasses, CancelEndsAPassThatWaitsAndTheNextOneWorks)
{
  Fleet fleet (2);

  for (const std::string &backend : backends ())
    for (const char *hook : HOOKS)
      {
        Task task = on_devices (2, backend.c_str ());

        task.hook = hook;
        task.pass_name = "cancelled " + backend + hook;
        EXPECT_EQ (fleet.start (task, 0), "");
        tps_trainer_cancel (fleet.trainer (0));
        EXPECT_EQ (fleet.wait (0), "CANCELLED");
        task.pass_name = "complete " + backend + hook;
        fleet.digest_of_run (task, backend + ", " + hook);
      }
}

TEST (DevicePasses, MayBeFreedWhileItsPassRuns)
{
  for (const char *hook : HOOKS)
    {
      Fleet fleet (2);
      Task task = on_devices (2);

      task.hook = hook;
      EXPECT_EQ (fleet.start (task, 0), "");
    }
}

} /* namespace */
