/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/dlrm/embeddings.h"

#include "bench/dlrm/table_names.h"

#define CALL_NS (G_GINT64_CONSTANT (20) * 1000000000)
#define N_VECTORS (TPS_CLICK_TABLES + 1)

static TpsTableSteps *
make_steps (TpsTableClient *client, const TpsDlrmOptions *options, GError **error)
{
  const gchar *names[TPS_CLICK_TABLES];
  gsize dims[TPS_CLICK_TABLES];
  TpsTableStepsOptions of_steps = { .client = client,
                                    .tables = names,
                                    .dims = dims,
                                    .n_tables = TPS_CLICK_TABLES,
                                    .max_staleness = (guint) options->staleness,
                                    .timeout_ns = CALL_NS };

  for (guint t = 0; t < TPS_CLICK_TABLES; t++)
    {
      names[t] = tps_dlrm_table_name (t);
      dims[t] = (gsize) options->dim;
    }
  return tps_table_steps_new (&of_steps, error);
}

gboolean
tps_dlrm_embeddings_init (TpsDlrmEmbeddings *embeddings, TpsTableClient *client,
                          const TpsDlrmOptions *options, gsize max_samples, gboolean is_direct,
                          GError **error)
{
  *embeddings = (TpsDlrmEmbeddings) { .shape = options->shape, .dim = (gsize) options->dim };
  if (is_direct)
    {
      tps_dlrm_direct_init (&embeddings->direct, client, &options->shape, embeddings->dim,
                            max_samples);
      return TRUE;
    }
  for (guint t = 0; t < TPS_CLICK_TABLES; t++)
    {
      embeddings->offsets[t] = g_new (gint64, max_samples);
      for (gsize i = 0; i < max_samples; i++)
        embeddings->offsets[t][i] = (gint64) (i * options->shape.bag_length[t]);
    }
  embeddings->steps = make_steps (client, options, error);
  return embeddings->steps != NULL;
}

void
tps_dlrm_embeddings_clear (TpsDlrmEmbeddings *embeddings)
{
  if (embeddings->direct.gradients != NULL)
    tps_dlrm_direct_clear (&embeddings->direct);
  g_clear_pointer (&embeddings->steps, tps_table_steps_free);
  for (guint t = 0; t < TPS_CLICK_TABLES; t++)
    g_clear_pointer (&embeddings->offsets[t], g_free);
}

gboolean
tps_dlrm_embeddings_prefetch (TpsDlrmEmbeddings *embeddings, const TpsClickBatch *batch,
                              GError **error)
{
  TpsStepBags bags[TPS_CLICK_TABLES];

  if (embeddings->steps == NULL || embeddings->prefetched == batch)
    return TRUE;
  for (guint t = 0; t < TPS_CLICK_TABLES; t++)
    bags[t] = (TpsStepBags) { .ids = batch->ids[t],
                              .n_ids = batch->n_samples * embeddings->shape.bag_length[t],
                              .offsets = embeddings->offsets[t],
                              .n_bags = batch->n_samples };
  embeddings->prefetched = batch;
  return tps_table_steps_prefetch (embeddings->steps, bags, error);
}

/* Describes the vectors of each table within the features of all samples. */
static void
view_features (const TpsDlrmEmbeddings *embeddings, gfloat *features, TpsStepVectors *vectors)
{
  for (guint t = 0; t < TPS_CLICK_TABLES; t++)
    vectors[t] = (TpsStepVectors) { .values = features + (t + 1) * embeddings->dim,
                                    .stride = N_VECTORS * embeddings->dim };
}

gboolean
tps_dlrm_embeddings_take (TpsDlrmEmbeddings *embeddings, const TpsClickBatch *batch,
                          gfloat *features, GError **error)
{
  TpsStepVectors vectors[TPS_CLICK_TABLES];

  if (embeddings->steps == NULL)
    return tps_dlrm_direct_look_up (&embeddings->direct, batch, features, error);
  view_features (embeddings, features, vectors);
  return tps_table_steps_take (embeddings->steps, vectors, error);
}

gboolean
tps_dlrm_embeddings_push (TpsDlrmEmbeddings *embeddings, const TpsClickBatch *batch, gsize n_parts,
                          gfloat *gradient, GError **error)
{
  gsize n_samples = batch->n_samples / n_parts;
  TpsStepVectors vectors[TPS_CLICK_TABLES];

  if (embeddings->steps != NULL)
    {
      view_features (embeddings, gradient, vectors);
      return tps_table_steps_push (embeddings->steps, vectors, error);
    }
  for (gsize part = 0; part < n_parts; part++)
    {
      if (!tps_dlrm_direct_wait_for_push (&embeddings->direct, error))
        return FALSE;
      tps_dlrm_direct_push (&embeddings->direct, batch, part * n_samples, n_samples, gradient);
    }
  return TRUE;
}

gboolean
tps_dlrm_embeddings_wait (TpsDlrmEmbeddings *embeddings, GError **error)
{
  return embeddings->steps != NULL ? tps_table_steps_wait (embeddings->steps, error)
                                   : tps_dlrm_direct_wait_for_push (&embeddings->direct, error);
}

gboolean
tps_dlrm_embeddings_settle (TpsDlrmEmbeddings *embeddings, GError **error)
{
  /* The next pass may allocate a batch at the same address. */
  embeddings->prefetched = NULL;
  return embeddings->steps != NULL ? tps_table_steps_settle (embeddings->steps, error)
                                   : tps_dlrm_direct_wait_for_push (&embeddings->direct, error);
}
