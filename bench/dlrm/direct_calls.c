/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/dlrm/direct_calls.h"

#include <string.h>

#include "bench/dlrm/table_names.h"
#include "runtime/base/sync.h"

#define CALL_NS (G_GINT64_CONSTANT (20) * 1000000000)
#define N_VECTORS (TPS_CLICK_TABLES + 1)

void
tps_dlrm_direct_init (TpsDlrmDirect *direct, TpsTableClient *client, const TpsClickShape *shape,
                      gsize dim, gsize max_samples)
{
  *direct = (TpsDlrmDirect) { .shape = *shape, .dim = dim };
  for (guint t = 0; t < TPS_CLICK_TABLES; t++)
    {
      direct->offsets[t] = g_new (gint64, max_samples);
      for (gsize i = 0; i < max_samples; i++)
        direct->offsets[t][i] = (gint64) (i * shape->bag_length[t]);
    }
  direct->gradients = g_new (gfloat, TPS_CLICK_TABLES * max_samples * dim);
  tps_table_call_init (&direct->lookup, client, TPS_CLICK_TABLES);
  tps_table_call_init (&direct->push, client, 0);
}

void
tps_dlrm_direct_clear (TpsDlrmDirect *direct)
{
  tps_table_call_clear (&direct->lookup);
  tps_table_call_clear (&direct->push);
  for (guint t = 0; t < TPS_CLICK_TABLES; t++)
    g_free (direct->offsets[t]);
  g_clear_pointer (&direct->gradients, g_free);
}

static TpsTensorView
view_ids (const gint64 *ids, gsize n)
{
  return (TpsTensorView) {
    .shape = { .dtype = TPS_DTYPE_INT64, .n_dims = 1, .dims = { (gint64) n } }, .data = ids
  };
}

static TpsBagQuery
make_query (const TpsDlrmDirect *direct, const TpsClickBatch *batch, guint table, gsize first,
            gsize n_samples)
{
  gsize length = direct->shape.bag_length[table];

  return (TpsBagQuery) {
    .table = tps_dlrm_table_name (table),
    .indices = view_ids (batch->ids[table] + first * length, n_samples * length),
    .offsets = view_ids (direct->offsets[table], n_samples),
    .pooling = TPS_POOLING_SUM,
  };
}

gboolean
tps_dlrm_direct_look_up (TpsDlrmDirect *direct, const TpsClickBatch *batch, gfloat *features,
                         GError **error)
{
  gsize dim = direct->dim, stride = N_VECTORS * dim;
  TpsBagQuery queries[TPS_CLICK_TABLES];

  for (guint t = 0; t < TPS_CLICK_TABLES; t++)
    queries[t] = make_query (direct, batch, t, 0, batch->n_samples);
  tps_table_call_lookup (&direct->lookup, queries, TPS_CLICK_TABLES, 0,
                         tps_clock_now_ns () + CALL_NS);
  if (!tps_table_call_wait (&direct->lookup, error))
    return FALSE;
  for (guint t = 0; t < TPS_CLICK_TABLES; t++)
    {
      const gfloat *pooled = tps_tensor_data (&direct->lookup.outputs[t]);

      for (gsize i = 0; i < batch->n_samples; i++)
        memcpy (features + i * stride + (t + 1) * dim, pooled + i * dim, dim * sizeof *pooled);
      tps_tensor_clear (&direct->lookup.outputs[t]);
    }
  return TRUE;
}

void
tps_dlrm_direct_push (TpsDlrmDirect *direct, const TpsClickBatch *batch, gsize first,
                      gsize n_samples, const gfloat *feature_gradient)
{
  gsize dim = direct->dim, stride = N_VECTORS * dim;
  TpsBagGradient gradients[TPS_CLICK_TABLES];

  for (guint t = 0; t < TPS_CLICK_TABLES; t++)
    {
      gfloat *gradient = direct->gradients + t * n_samples * dim;

      for (gsize i = 0; i < n_samples; i++)
        memcpy (gradient + i * dim, feature_gradient + (first + i) * stride + (t + 1) * dim,
                dim * sizeof *gradient);
      gradients[t] = (TpsBagGradient) {
        .query = make_query (direct, batch, t, first, n_samples),
        .gradient = { .shape = { .dtype = TPS_DTYPE_FLOAT32,
                                 .n_dims = 2,
                                 .dims = { (gint64) n_samples, (gint64) dim } },
                      .data = gradient },
      };
    }
  tps_table_call_apply (&direct->push, gradients, TPS_CLICK_TABLES, tps_clock_now_ns () + CALL_NS);
}

gboolean
tps_dlrm_direct_wait_for_push (TpsDlrmDirect *direct, GError **error)
{
  return tps_table_call_wait (&direct->push, error);
}
