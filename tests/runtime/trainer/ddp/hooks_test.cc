/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/ports/hook.h"

#include <cstring>
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

TEST (AllReduce, DeliversTheMeanOfAllRanksToAllRanks)
{
  std::vector<Rank> ranks = { rank_of ({ 1, 2, 3, 4 }, { 0, 2 }, 3.0f),
                              rank_of ({ 10, 20, 30, 40 }, { 2, 5 }, 6.0f),
                              rank_of ({ 0, -1, 0, 1 }, {}, 0.0f) };

  step_all (&ranks);
  for (const Rank &rank : ranks)
    {
      EXPECT_EQ (rank.error, "");
      EXPECT_THAT (rank.reduced, ElementsAre (11 / 3.0f, 21 / 3.0f, 33 / 3.0f, 45 / 3.0f));
      EXPECT_THAT (rank.reduced_ids, ElementsAre (0, 2, 5));
      EXPECT_THAT (rank.reduced_rows, ElementsAre (1, 1, 3, 3, 2, 2));
    }
}

/* A large bucket must lie in memory of the group. A small bucket is copied. */
TEST (AllReduce, BucketsLieInMemoryOfTheGroup)
{
  for (const char *hook : { "allreduce_hook", "hybrid_hook", "sparse_rpc_hook" })
    for (size_t n : { size_t (4), size_t (100000) })
      {
        std::vector<Rank> ranks = { rank_of (std::vector<float> (n, 1.5f), { 0 }, 3.0f),
                                    rank_of (std::vector<float> (n, 4.0f), { 1 }, 6.0f) };

        step_all (&ranks, hook);
        for (const Rank &rank : ranks)
          {
            EXPECT_EQ (rank.error, "");
            EXPECT_EQ (rank.reduced, std::vector<float> (n, 2.75f));
            EXPECT_EQ (rank.is_in_group_memory, n == 100000) << hook;
          }
      }
}

TEST (AllReduce, DeliversTheSumWhereThatIsWanted)
{
  std::vector<Rank> ranks = { rank_of ({ 1, 2, 3, 4 }, { 0 }, 3.0f),
                              rank_of ({ 10, 20, 30, 40 }, { 0 }, 6.0f) };

  step_all (&ranks, "allreduce_hook", true);
  EXPECT_THAT (ranks[1].reduced, ElementsAre (11, 22, 33, 44));
  EXPECT_THAT (ranks[0].reduced_rows, ElementsAre (9, 9));
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

TEST (AllReduce, AddsInRankOrderSoThatTheBitsAreThoseOfTheServer)
{
  /* In rank order, (1e8 + -1e8) + 1 is 1. In another order, 1e8 + (-1e8 + 1) is 0. */
  std::vector<Rank> ranks = { rank_of ({ 1e8f, 1, 1, 1 }, { 0 }, 1e8f),
                              rank_of ({ -1e8f, 1, 1, 1 }, { 0 }, -1e8f),
                              rank_of ({ 1, 1, 1, 1 }, { 0 }, 1) };

  step_all (&ranks, "allreduce_hook", true);
  for (const Rank &rank : ranks)
    {
      EXPECT_EQ (rank.reduced[0], 1);
      EXPECT_EQ (rank.reduced_rows[0], 1);
    }
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

TEST (Hooks, MetricsCarryTheOriginalNamesAndTheBackendReallyUsed)
{
  const std::pair<const char *, std::set<std::string>> expected[] = {
    { "allreduce_hook",
      { "hook_future_metric,gloo_dense_allreduce", "hook_future_metric,gloo_sparse_allreduce" } },
    { "hybrid_hook",
      { "hook_future_metric,gloo_dense_allreduce", "hook_c10d_metric,gloo_sparse_allreduce" } },
    { "rpc_hook", { "hook_future_metric,rpc_dense", "hook_future_metric,rpc_sparse" } },
    { "sparse_rpc_hook",
      { "hook_future_metric,gloo_dense_allreduce", "hook_future_metric,rpc_sparse" } },
  };

  for (const auto &[hook, metrics] : expected)
    {
      std::vector<Rank> ranks (2, rank_of ({ 1, 2, 3, 4 }, { 0 }, 3.0f));

      step_all (&ranks, hook);
      EXPECT_EQ (ranks[0].error, "") << hook;
      EXPECT_EQ (ranks[0].metrics, metrics) << hook;
    }
}

TEST (Hooks, KeysAreBatchAndBucket)
{
  TpsHookState *state = tps_hook_state_class_find ("BasicHookState", nullptr)->create ();

  EXPECT_EQ (state->batch_number, -1);
  state->klass->next_batch (state);
  state->klass->next_batch (state);
  g_autofree gchar *key = state->klass->get_key (state, 7);
  EXPECT_STREQ (key, "1,7");
  state->klass->free (state);
}

TEST (Hooks, AreFoundByTheirOriginalNamesAndUnknownOnesListThem)
{
  GError *error = nullptr;

  for (const char *name : { "allreduce_hook", "hybrid_hook", "rpc_hook", "sparse_rpc_hook" })
    EXPECT_STREQ (tps_hook_find (name, nullptr)->name, name);
  EXPECT_EQ (tps_hook_find ("process_hook", &error), nullptr);
  ASSERT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_NOT_FOUND));
  EXPECT_STREQ (error->message,
                "unknown ddp hook \"process_hook\"; known: allreduce_hook, hybrid_hook, rpc_hook, "
                "sparse_rpc_hook");
  g_error_free (error);
}

TEST (Hooks, AProgramMayAddItsOwn)
{
  static const TpsHook own = { "own_hook", 0, nullptr };

  tps_hook_register (&own);
  EXPECT_EQ (tps_hook_find ("own_hook", nullptr), &own);
  g_autofree const gchar **names = tps_hook_list ();
  EXPECT_STREQ (names[4], "own_hook");
  EXPECT_EQ (names[5], nullptr);
}

} /* namespace */
