/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Whole passes with compressed gradients: equal bits with all hooks, and the loss of accuracy. */

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/oracle/vectors.h"
#include "tests/runtime/trainer/ddp/collectives.h"
#include "tests/runtime/trainer/ddp/fleet.h"
#include "tests/runtime/trainer/ddp/trainee.h"

namespace {

using testing::HasSubstr;

/* Trainers with different options */

TEST (Compress, GroupsRefuseTrainersThatCompressInAnotherWay)
{
  for (const char *other : { "none", "bf16", "topk:0.1", "topk:0.2" })
    {
      Fleet fleet (2);
      Task task;

      task.hook = "allreduce_hook";
      task.compress = "topk:0.25";
      EXPECT_EQ (fleet.start (task, 0), "");
      task.compress = other;
      EXPECT_EQ (fleet.start (task, 1), "");
      for (guint r = 0; r < 2; r++)
        EXPECT_THAT (fleet.wait (r), HasSubstr ("another compression than trainer")) << other;
    }
}

TEST (Compress, ServersRefuseTrainersThatCompressInAnotherWay)
{
  Fleet fleet (2, 1, 10 * SECOND_NS);
  Task task;

  task.timeout_ns = 10 * SECOND_NS;
  task.compress = "fp16";
  EXPECT_EQ (fleet.start (task, 0), "");
  task.compress = "topk:0.1";
  EXPECT_EQ (fleet.start (task, 1), "");
  EXPECT_THAT (fleet.wait (0) + fleet.wait (1), HasSubstr ("INVALID_ARGUMENT"));
}

/* PyTorch's hooks round, divide by the number of trainers, add in half precision and widen. With
 * two trainers, all these steps are exact except the rounding and the addition. The same holds for
 * this project's steps, so the bits must be equal. */
TEST (Compress, OfTwoTrainersHasTheBitsOfPyTorchsHooks)
{
  const oracle::Vectors &oracle = oracle::vectors ();

  for (const char *name : { "fp16", "bf16" })
    {
      const std::string at = std::string ("compress_hooks/") + name;
      const std::vector<float> &expected = oracle.floats (at);
      std::vector<std::vector<float>> got (2);
      std::vector<TpsProcessGroup *> groups = join_gloo_groups (2);

      run_ranks (2, [&] (guint r) {
        const std::vector<float> &gradient = oracle.floats ("compress_hooks/gradient"
                                                            + std::to_string (r));
        Trainee t ({ { "weight", { static_cast<gint64> (gradient.size ()) }, false } },
                   { .compress = name, .hook = "allreduce_hook", .group = groups[r] });

        t.model.gradient_of = [&] (guint, gint64 i) { return gradient[static_cast<size_t> (i)]; };
        EXPECT_EQ (t.backward (), "");
        got[r] = t.reduced (0);
        groups[r]->ops->free (groups[r]);
      });
      EXPECT_EQ (got[0], expected) << name;
      EXPECT_EQ (got[1], expected) << name;
    }
}

} /* namespace */
