/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/ports/hook.h"

#include <set>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/trainer/ddp/ddp.h"
#include "runtime/base/error.h"
#include "tests/runtime/trainer/ddp/collectives.h"
#include "tests/runtime/trainer/ddp/fakes.h"

namespace {

using testing::ElementsAre;

/* Returns a sparse parameter and a dense one of `n_dense` elements. */
std::vector<FakeModel::Parameter>
make_model (size_t n_dense)
{
  return { { "embedding", { 6, 2 }, true }, { "weight", { (gint64) n_dense }, false } };
}

/* The inputs and the results of a rank. */
struct Rank
{
  bool has_data = true;
  std::vector<float> dense;
  std::vector<gint64> ids;
  float rows_value = 1;

  std::string error;
  std::vector<float> reduced;
  std::vector<gint64> reduced_ids;
  std::vector<float> reduced_rows;
  bool is_in_group_memory = false; /* where the dense average lies */
  std::set<std::string> metrics;   /* "type,name" */
};

void
copy_results (TpsDdp *ddp, Rank *rank)
{
  const TpsGradient *dense = tps_ddp_get_reduced (ddp, 0), *sparse = tps_ddp_get_reduced (ddp, 1);

  if (dense->kind == TPS_GRADIENT_DENSE)
    {
      const float *data = static_cast<const float *> (tps_tensor_data (&dense->dense));

      rank->reduced.assign (data, data + tps_shape_n_elems (&dense->dense.shape));
    }
  if (sparse->kind == TPS_GRADIENT_SPARSE)
    {
      const gint64 *ids = static_cast<const gint64 *> (tps_tensor_data (&sparse->indices));
      const float *rows = static_cast<const float *> (tps_tensor_data (&sparse->values));

      rank->reduced_ids.assign (ids, ids + sparse->indices.shape.dims[0]);
      rank->reduced_rows.assign (rows, rows + tps_shape_n_elems (&sparse->values.shape));
    }
}

bool
is_in_group_memory (TpsProcessGroup *group, const TpsGradient *dense)
{
  TpsBuffer *memory;

  if (dense->kind != TPS_GRADIENT_DENSE)
    return false;
  memory = group->ops->get_memory (group, (gsize) tps_shape_n_bytes (&dense->dense.shape),
                                   dense->dense.buffer);
  if (memory != nullptr)
    tps_buffer_unref (memory);
  return memory == dense->dense.buffer;
}

void
copy_metrics (TpsMetrics *metrics, Rank *rank)
{
  GPtrArray *summaries = tps_metrics_summarize (metrics, FALSE);

  for (guint i = 0; i < summaries->len; i++)
    {
      const TpsMetricSummary *summary = static_cast<const TpsMetricSummary *> (summaries->pdata[i]);

      rank->metrics.insert (std::string (summary->type) + "," + summary->name);
    }
  g_ptr_array_unref (summaries);
}

/* Runs one step of one rank. */
void
step (Rank *rank, TpsProcessGroup *group, const char *hook, bool delivers_sum)
{
  FakeModel model (make_model (rank->has_data ? rank->dense.size () : 4));
  FakeExchange exchange;
  const TpsPiece pieces[2] = { { 0, 0, 0, 0 }, { 0, 1, 0, 0 } };
  const TpsRoute routes[2] = { { &pieces[0], 1 }, { &pieces[1], 1 } };
  TpsHookContext context = {};
  TpsDdpOptions options = {};
  GError *error = nullptr;
  TpsDdp *ddp;

  exchange.on_call = [] (FakeExchange *e, size_t index) { e->answer_with_own_gradient (index); };
  model.gradient_of = [&] (guint i, gint64 j) {
    return i == 0 ? rank->rows_value : rank->dense[static_cast<size_t> (j)];
  };
  model.ids_of = [&] (guint) { return rank->ids; };
  context.state = tps_hook_state_class_find ("BasicHookState", nullptr)->create ();
  context.metrics = tps_metrics_new (nullptr, nullptr);
  context.exchange = exchange.get ();
  context.group = group;
  context.routes = routes;
  context.delivers_sum = delivers_sum;
  context.timeout_ns = G_GINT64_CONSTANT (20000000000);
  options.first_bucket_mib = options.bucket_cap_mib = 1;
  options.hook = tps_hook_find (hook, nullptr);
  options.context = &context;
  ddp = tps_ddp_new (model.get (), &options, nullptr);
  context.state->klass->next_batch (context.state);

  if (!(rank->has_data ? tps_ddp_backward (ddp, nullptr, &error) : tps_ddp_join_step (ddp, &error)))
    rank->error = error->message;
  copy_results (ddp, rank);
  rank->is_in_group_memory = is_in_group_memory (group, tps_ddp_get_reduced (ddp, 0));
  copy_metrics (context.metrics, rank);

  g_clear_error (&error);
  group->ops->free (group);
  tps_ddp_free (ddp);
  tps_metrics_unref (context.metrics);
  context.state->klass->free (context.state);
}

void
step_all (std::vector<Rank> *ranks, const char *hook = "allreduce_hook", bool delivers_sum = false)
{
  std::vector<TpsProcessGroup *> groups = join_gloo_groups (static_cast<guint> (ranks->size ()));

  run_ranks (static_cast<guint> (ranks->size ()),
             [&] (guint r) { step (&(*ranks)[r], groups[r], hook, delivers_sum); });
}

Rank
rank_of (std::vector<float> dense, std::vector<gint64> ids, float rows_value)
{
  Rank rank;

  rank.dense = std::move (dense);
  rank.ids = std::move (ids);
  rank.rows_value = rows_value;
  return rank;
}

TEST (AllReduce, RanksWithoutDataCountForNothingAndGetTheMeanToo)
{
  std::vector<Rank> ranks = { rank_of ({ 1, 2, 3, 4 }, { 1 }, 2.0f), Rank (),
                              rank_of ({ 3, 4, 5, 6 }, { 1, 4 }, 4.0f) };

  ranks[1].has_data = false;
  step_all (&ranks);
  for (const Rank &rank : ranks)
    {
      EXPECT_EQ (rank.error, "");
      EXPECT_THAT (rank.reduced, ElementsAre (2, 3, 4, 5));
      EXPECT_THAT (rank.reduced_ids, ElementsAre (1, 4));
      EXPECT_THAT (rank.reduced_rows, ElementsAre (3, 3, 2, 2));
    }
}

TEST (AllReduce, NoRankWithDataIsAnError)
{
  std::vector<Rank> ranks (2);

  ranks[0].has_data = ranks[1].has_data = false;
  step_all (&ranks);
  for (const Rank &rank : ranks)
    EXPECT_EQ (rank.error, "all-reduce of bucket 0: the weights of all trainers are 0");
}

TEST (AllReduce, ARankWithAnotherMatrixIsRefusedByAll)
{
  std::vector<Rank> ranks = { rank_of ({ 1, 2, 3, 4 }, { 0, 7 }, 2.0f),
                              rank_of ({ 3, 4, 5, 6 }, { 1 }, 4.0f) };

  step_all (&ranks); /* id 7 exceeds the 6 rows */
  for (const Rank &rank : ranks)
    EXPECT_EQ (
        rank.error,
        "sparse all-reduce of bucket 1: invalid data from rank 0: its ids are not ascending within the matrix");
}

} /* namespace */
