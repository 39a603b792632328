/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Plans that tps_trainer_train() must refuse before anything runs. */

#include "runtime/tensor/train_plan.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/trainer/ddp/fleet.h"

namespace {

using testing::HasSubstr;

struct Refusal
{
  const char *name;
  std::function<void (TpsTrainPlan *)> spoil;
  const char *text;
};

class RefusedPlan : public testing::TestWithParam<Refusal>
{
};

TEST_P (RefusedPlan, IsNamedAndNothingRuns)
{
  Fleet fleet (2);
  TpsTrainPlan *plan = fleet.make_plan (Task (), 1);
  GError *error = nullptr;
  g_auto (TpsTrainStatus) status = {};

  GetParam ().spoil (plan);
  EXPECT_FALSE (tps_trainer_train (fleet.trainer (1), plan, &error));
  ASSERT_NE (error, nullptr);
  EXPECT_EQ (error->code, TPS_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT (error->message, HasSubstr (GetParam ().text));
  g_error_free (error);
  tps_trainer_get_status (fleet.trainer (1), &status);
  EXPECT_EQ (status.state, TPS_TRAIN_IDLE);
}

INSTANTIATE_TEST_SUITE_P (
    Plans, RefusedPlan,
    testing::Values (
        Refusal { "Rank", [] (TpsTrainPlan *p) { p->rank = 2; }, "rank is 2 of world_size 2" },
        Refusal { "World", [] (TpsTrainPlan *p) { p->world_size = 0; }, "world_size 0" },
        Refusal { "Epochs", [] (TpsTrainPlan *p) { p->epochs = 0; }, "epochs is 0" },
        Refusal { "NoSteps", [] (TpsTrainPlan *p) { p->steps_per_epoch = 0; },
                  "steps_per_epoch is 0" },
        Refusal { "FewSteps", [] (TpsTrainPlan *p) { p->steps_per_epoch = 1; },
                  "2 batches for 1 steps_per_epoch" },
        Refusal { "Timeout", [] (TpsTrainPlan *p) { p->rpc_timeout_ns = 0; },
                  "rpc_timeout is 0 ns" },
        Refusal { "Rate", [] (TpsTrainPlan *p) { p->learning_rate = NAN; },
                  "learning_rate is nan" },
        Refusal { "Bucket", [] (TpsTrainPlan *p) { p->bucket_cap_mib = -1; },
                  "bucket_cap_mib is -1" },
        Refusal { "Reduce", [] (TpsTrainPlan *p) { Fleet::set (&p->reduce, "max"); },
                  "reduce is 'max', expected mean or sum" },
        Refusal { "Compress", [] (TpsTrainPlan *p) { Fleet::set (&p->compress, "zip"); },
                  "compress: unknown compression \"zip\"; known: none, fp16, bf16, topk" },
        Refusal { "Trainer", [] (TpsTrainPlan *p) { Fleet::set (&p->trainer, "X"); },
                  "trainer: unknown trainer \"X\"; known: DdpTrainer" },
        Refusal { "Model", [] (TpsTrainPlan *p) { Fleet::set (&p->model_class, "X"); },
                  "model_class: unknown model" },
        Refusal { "Preprocess", [] (TpsTrainPlan *p) { Fleet::set (&p->preprocess_data, "X"); },
                  "preprocess_data: unknown preprocessing \"X\"; known: preprocess_dummy_data" },
        Refusal { "Criterion", [] (TpsTrainPlan *p) { Fleet::set (&p->create_criterion, "X"); },
                  "create_criterion: unknown" },
        Refusal { "DdpModel", [] (TpsTrainPlan *p) { Fleet::set (&p->create_ddp_model, "X"); },
                  "create_ddp_model: unknown ddp model \"X\"; known: basic_ddp_model" },
        Refusal { "HookState", [] (TpsTrainPlan *p) { Fleet::set (&p->hook_state, "X"); },
                  "hook_state: unknown hook state \"X\"; known: BasicHookState" },
        Refusal { "Hook", [] (TpsTrainPlan *p) { Fleet::set (&p->ddp_hook, "X"); },
                  "ddp_hook: unknown ddp hook \"X\"" },
        Refusal { "Step", [] (TpsTrainPlan *p) { Fleet::set (&p->iteration_step, "X"); },
                  "iteration_step: unknown iteration step \"X\"; known: basic_iteration_step" },
        Refusal { "Backend", [] (TpsTrainPlan *p) { Fleet::set (&p->backend, "mpi"); },
                  "backend: unknown backend \"mpi\"; known: gloo, multi, nccl" },
        Refusal { "NoServers", [] (TpsTrainPlan *p) { tps_train_plan_clear_servers (p); },
                  "servers: rpc_hook needs at least one parameter server" },
        Refusal { "Batch",
                  [] (TpsTrainPlan *p) {
                    static_cast<gint64 *> (tps_tensor_data (&p->batches[1].input))[3] = 40;
                  },
                  "batches[1]: " },
        Refusal { "TrainerConfig",
                  [] (TpsTrainPlan *p) {
                    g_variant_unref (p->trainer_config);
                    p->trainer_config = g_variant_ref_sink (
                        g_variant_new_parsed ("{'momentum': <0.9>}"));
                  },
                  "momentum" }),
    [] (const testing::TestParamInfo<Refusal> &refusal) { return refusal.param.name; });

} /* namespace */
