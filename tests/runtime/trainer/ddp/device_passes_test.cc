/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Whole passes of trainers that compute on devices of the library that the environment names. Host
 * code cannot access the memory of these devices. DEVICE_BACKENDS lists the process groups for
 * them. DEVICE_BITS=cpu means that the devices compute the same bits as the CPU. */

#include "runtime/trainer/pass/trainer.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/device/backend.h"
#include "runtime/trainer/pass/pass.h"
#include "tests/runtime/trainer/ddp/fleet.h"

namespace {

using testing::HasSubstr;

const char *const HOOKS[] = { "allreduce_hook", "hybrid_hook", "rpc_hook", "sparse_rpc_hook" };

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

TEST (DevicePasses, SumsInsteadOfMeans)
{
  Fleet servers_sum (2, 1, 20 * SECOND_NS, TPS_REDUCE_SUM);
  std::string expected;

  for (const std::string &backend : backends ())
    for (const char *hook : HOOKS)
      {
        Task task = on_devices (2, backend.c_str ());

        task.pass_name = backend + hook;
        task.hook = hook;
        task.reduce = "sum";
        std::string digest = servers_sum.digest_of_run (task, backend + ", " + hook);
        EXPECT_EQ (digest, expected.empty () ? digest : expected) << backend << ", " << hook;
        expected = digest;
      }
}

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

TEST (DevicePasses, SpansAreRecordedAsOnTheCpu)
{
  Fleet fleet (2);

  fleet.digest_of_run (on_devices (2), "rpc_hook");
  for (guint r = 0; r < 2; r++)
    {
      guint n_batches = r == 0 ? 3 : 2;

      EXPECT_EQ (fleet.count (r, "batch_level_metric,batch_all"), 6);
      EXPECT_EQ (fleet.count (r, "forward_metric,forward_pass"), 2 * n_batches);
      EXPECT_EQ (fleet.count (r, "backward_metric,backward"), 6);
    }
}

TEST (DevicePasses, MetricsNameTheGroupThatIsUsed)
{
  std::vector<std::string> all = backends ();
  bool has_nccl = std::find (all.begin (), all.end (), "nccl") != all.end ();
  Fleet fleet (2);

  for (const std::string &backend : all)
    {
      Task task = on_devices (2, backend.c_str ());
      std::string dense = backend == "multi" ? (has_nccl ? "nccl" : "gloo") : backend;
      std::string sparse = backend == "multi" ? "gloo" : backend;

      task.hook = "hybrid_hook";
      task.pass_name = backend;
      fleet.digest_of_run (task, backend);
      EXPECT_GT (fleet.count (0, "hook_future_metric," + dense + "_dense_allreduce"), 0) << backend;
      EXPECT_EQ (fleet.count (0, "hook_c10d_metric," + sparse + "_sparse_allreduce"), 6) << backend;
    }
}

TEST (DevicePasses, TheLossShows)
{
  Fleet fleet (2), plain (2);
  g_auto (TpsTrainStatus) status = {}, expected = {};

  fleet.digest_of_run (on_devices (2), "device");
  plain.digest_of_run (Task (), "CPU");
  tps_trainer_get_status (fleet.trainer (0), &status);
  tps_trainer_get_status (plain.trainer (0), &expected);
  EXPECT_TRUE (status.has_loss);
  EXPECT_NEAR (status.loss, expected.loss, 1e-6);
}

/* Failures */

TEST (DevicePasses, DevicesThatAreNotThereAreRefusedAtTheStart)
{
  Fleet fleet (1);
  Task task;

  task.devices = { "cuda:7" };
  EXPECT_THAT (fleet.start (task, 0),
               HasSubstr ("NOT_FOUND: unknown device \"cuda:7\"; known: cpu, cuda:0"));
  task.devices = { "" };
  fleet.digest_of_run (task, "no device named is the CPU");
}

TEST (DevicePasses, ATrainerForTheCpuOnlyRefusesADevice)
{
  static const TpsTrainerClass own = {
    "CpuTrainer", [] (const TpsTrainPlan *, GError **) -> gboolean { return TRUE; },
    [] (TpsPass *, GError **) -> gboolean { return TRUE; }
  };
  Fleet fleet (1);
  TpsTrainPlan *plan = fleet.make_plan (on_devices (1), 0);
  GError *error = nullptr;

  tps_trainer_class_register (&own);
  Fleet::set (&plan->trainer, "CpuTrainer");
  EXPECT_FALSE (tps_trainer_train (fleet.trainer (0), plan, &error));
  EXPECT_STREQ (error->message,
                "device is cuda, expected cpu: trainer CpuTrainer supports only the CPU");
  g_error_free (error);
}

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

TEST (DevicePasses, ADeadTrainerIsNamedAtTheDeadline)
{
  Fleet fleet (2, 1, SECOND_NS / 10);
  Task task = on_devices (2);

  task.timeout_ns = SECOND_NS / 10;
  EXPECT_EQ (fleet.start (task, 0), "");
  EXPECT_THAT (fleet.wait (0), HasSubstr ("FAILED: DEADLINE_EXCEEDED"));
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
