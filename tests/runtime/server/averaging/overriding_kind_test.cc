/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A server kind that overrides every function. */

#include <atomic>
#include <cmath>

#include <gmock/gmock.h>

#include "runtime/base/error.h"
#include "runtime/server/averaging/server_kind.h"
#include "tests/runtime/server/averaging/parameter_server_fixture.h"

namespace averaging_test {
namespace {

using testing::ElementsAre;

/* This kind refuses gradients that are not finite, counts trainer 1 twice, and halves averages. The
 * average of batch 9 fails. */
struct State
{
  guint n_trainers = 0;
  std::atomic<int> n_gradients { 0 };
  std::atomic<int> n_resets { 0 };
  std::vector<int> records; /* guarded by the server's lock */
};

State *state; /* the state of the last server */
int n_destroyed;

gpointer
create (guint n_trainers)
{
  state = new State;
  state->n_trainers = n_trainers;
  return state;
}

void
destroy (gpointer data)
{
  delete static_cast<State *> (data);
  n_destroyed++;
}

gboolean
process_gradient (gpointer data, gint32 trainer, const TpsRoundId *round, TpsGradient *gradient,
                  GError **error)
{
  State *self = static_cast<State *> (data);
  const float *elements = static_cast<const float *> (tps_tensor_data (&gradient->dense));

  self->n_gradients++;
  if (!std::isfinite (elements[0]))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                   "trainer %d: the gradient of parameter %d is not finite", trainer,
                   round->param_loc);
      return FALSE;
    }
  if (trainer == 1)
    gradient->weight = round->param_loc == 77 ? -1 : 2;
  return TRUE;
}

gboolean
process_average (gpointer, const TpsRoundId *round, TpsGradient *average, GError **error)
{
  float *elements = static_cast<float *> (tps_tensor_data (&average->dense));

  if (round->batch == 9)
    {
      g_set_error_literal (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "batch 9 is not averaged");
      return FALSE;
    }
  for (gint64 i = 0; i < tps_shape_n_elems (&average->dense.shape); i++)
    elements[i] /= 2;
  return TRUE;
}

void
reset_state (gpointer data)
{
  static_cast<State *> (data)->n_resets++;
}

void
record (gpointer data, TpsMetrics *metrics, TpsServerRecord record, const TpsRoundId *round)
{
  static_cast<State *> (data)->records.push_back (record);
  if (record == TPS_RECORD_BATCH_START || record == TPS_RECORD_BATCH_END)
    tps_server_kind_record (metrics, record, round);
}

class OverridingKind : public ParameterServerTest
{
protected:
  static void
  SetUpTestSuite ()
  {
    static TpsServerKind kind = *tps_server_kind_find (nullptr, nullptr);

    kind.name = "OverridingServer";
    kind.create = create;
    kind.destroy = destroy;
    kind.process_gradient = process_gradient;
    kind.process_average = process_average;
    kind.reset_state = reset_state;
    kind.record = record;
    ASSERT_TRUE (tps_server_kind_register (&kind, nullptr));
  }

  OverridingKind ()
  {
    start (2, "OverridingServer");
  }
};

TEST_F (OverridingKind, ProcessesGradientsAndAverages)
{
  Answer first, second;

  EXPECT_EQ (state->n_trainers, 2u);
  push (&first, 0, 1, 0, dense ({ 3, 6 }));
  push (&second, 1, 1, 0, dense ({ 6, 12 }));
  first.wait ();
  second.wait ();
  EXPECT_EQ (first.average, as_average (dense ({ 2.5, 5 }))) << "(3 + 2 * 6) / 3 / 2";
  EXPECT_EQ (second.average, first.average);
  Answer repeat;
  push (&repeat, 1, 1, 0, dense ({ 6, 12 }));
  repeat.wait ();
  EXPECT_EQ (repeat.average, first.average) << "it is halved once";
  EXPECT_EQ (state->n_gradients, 3);
}

TEST_F (OverridingKind, ProcessesLargeAverages)
{
  Answer first, second;

  push (&first, 0, 1, 0, dense (std::vector<double> (100000, 1)));
  push (&second, 1, 1, 0, dense (std::vector<double> (100000, 1)));
  first.wait ();
  second.wait ();
  EXPECT_EQ (first.average, as_average (dense (std::vector<double> (100000, 0.5))));
}

TEST_F (OverridingKind, RefusesGradients)
{
  Answer refused, first, second;

  push (&refused, 0, 1, 5, dense ({ INFINITY }));
  refused.wait ();
  EXPECT_EQ (refused.code, TPS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ (refused.message, "trainer 0: the gradient of parameter 5 is not finite");
  push (&first, 0, 1, 5, dense ({ 4 }));
  push (&second, 1, 1, 5, dense ({ 4 }));
  first.wait ();
  second.wait ();
  EXPECT_EQ (first.average, as_average (dense ({ 2 })));
}

TEST_F (OverridingKind, IsCheckedLikeACaller)
{
  Answer refused;

  push (&refused, 1, 1, 77, dense ({ 4 }));
  refused.wait ();
  EXPECT_EQ (refused.code, TPS_ERROR_INVALID_ARGUMENT) << "a weight below 0";
}

TEST_F (OverridingKind, FailsRounds)
{
  Answer first, second;

  push (&first, 0, 9, 0, dense ({ 4 }));
  push (&second, 1, 9, 0, dense ({ 4 }));
  first.wait ();
  second.wait ();
  EXPECT_EQ (first.message, "round (batch 9, param_loc 0): batch 9 is not averaged");
  EXPECT_EQ (second.code, TPS_ERROR_INVALID_ARGUMENT);
}

TEST_F (OverridingKind, RecordsAndResets)
{
  Answer first, second;

  push (&first, 0, 1, 0, dense ({ 4 }));
  push (&second, 1, 1, 0, dense ({ 4 }));
  first.wait ();
  second.wait ();
  EXPECT_THAT (state->records, ElementsAre (TPS_RECORD_STRAGGLER_START, TPS_RECORD_BATCH_START,
                                            TPS_RECORD_STRAGGLER_END, TPS_RECORD_BATCH_END));
  EXPECT_EQ (count_metric ("parameter_server_batch_metric", "param_index_batch"), 1);
  EXPECT_EQ (count_metric ("parameter_server_straggler_metric", "param_index_straggler"), 0);
  tps_parameter_server_reset_state (server);
  EXPECT_EQ (state->n_resets, 1);
  n_destroyed = 0;
  tps_parameter_server_free (g_steal_pointer (&server));
  EXPECT_EQ (n_destroyed, 1);
}

} // namespace
} // namespace averaging_test
