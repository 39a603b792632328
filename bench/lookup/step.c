/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/lookup/step.h"

#include "runtime/base/error.h"
#include "runtime/base/sync.h"

const TpsLookupWork tps_lookup_works[TPS_LOOKUP_N_WORKS] = {
  { "lookup", "lookup", "step/lookup", 0 },
  { "rowwise-adagrad", "lookup + push, rowwise-adagrad", "step/rowwise-adagrad",
    TPS_OPTIMIZER_ROWWISE_ADAGRAD },
  { "adagrad", "lookup + push, adagrad", "step/adagrad", TPS_OPTIMIZER_ADAGRAD },
  { "adam", "lookup + push, adam", "step/adam", TPS_OPTIMIZER_ADAM },
};

/* -- parts of a lookup -- */

gint64 *
tps_lookup_make_offsets (const TpsLookupShape *shape)
{
  gint64 *offsets = g_new (gint64, shape->n_bags);

  for (gsize bag = 0; bag < shape->n_bags; bag++)
    offsets[bag] = (gint64) (bag * shape->bag_length);
  return offsets;
}

TpsBagQuery
tps_lookup_make_query (const TpsLookupBags *bags, const gint64 *offsets, const gchar *table,
                       gsize batch)
{
  const TpsLookupShape *shape = &bags->shape;
  const gint64 *ids = tps_lookup_bags_get_ids (bags, batch % shape->n_sets);

  return (TpsBagQuery) { .table = table,
                         .indices = tps_lookup_view_ids (ids, shape->n_bags * shape->bag_length),
                         .offsets = tps_lookup_view_ids (offsets, shape->n_bags),
                         .pooling = TPS_POOLING_SUM };
}

gdouble
tps_lookup_sum_up (const gfloat *elements, gsize n)
{
  gdouble sum = 0;

  for (gsize i = 0; i < n; i++)
    sum += (gdouble) elements[i];
  return sum;
}

/* -- life -- */

struct TpsLookupStepper
{
  const TpsLookupBags *bags;
  const gfloat *gradients;
  TpsRemoteTables *tables;
  gint64 *offsets;  /* [n_bags] */
  TpsTensor output; /* the result of the last lookup */
};

static gboolean
make_table (const TpsLookupServer *server, const TpsLookupWork *work, const TpsLookupShape *shape,
            const TpsTablePlace *place, GError **error)
{
  TpsOptimizerSpec optimizer = tps_optimizer_spec (work->optimizer, TPS_LOOKUP_LEARNING_RATE);
  TpsLookupTable table = {
    .name = work->table, .n_rows = shape->n_rows, .dim = shape->dim, .place = place
  };

  if (work->optimizer == 0)
    return tps_lookup_server_make_filled_table (server, &table, error);
  optimizer.epsilon = TPS_LOOKUP_EPSILON;
  table.optimizer = &optimizer;
  return tps_lookup_server_make_table (server, &table, error);
}

TpsLookupStepper *
tps_lookup_stepper_new (const TpsLookupServer *server, const TpsLookupBags *bags,
                        const gfloat *gradients, const TpsTablePlace *place, GError **error)
{
  g_autoptr (TpsLookupStepper) stepper = g_new0 (TpsLookupStepper, 1);
  const TpsLookupShape *shape = &bags->shape;

  stepper->bags = bags;
  stepper->gradients = gradients;
  stepper->offsets = tps_lookup_make_offsets (shape);
  for (guint i = 0; i < TPS_LOOKUP_N_WORKS; i++)
    if (!make_table (server, &tps_lookup_works[i], shape, place, error))
      return NULL;
  stepper->tables = tps_lookup_server_connect (server, 0, NULL, error);
  return stepper->tables != NULL ? g_steal_pointer (&stepper) : NULL;
}

void
tps_lookup_stepper_free (TpsLookupStepper *stepper)
{
  tps_tensor_clear (&stepper->output);
  g_clear_pointer (&stepper->tables, tps_remote_tables_free);
  g_free (stepper->offsets);
  g_free (stepper);
}

/* -- calls -- */

static gboolean
look_up (TpsLookupStepper *stepper, const TpsBagQuery *query, GError **error)
{
  TpsTensor output = { 0 };

  if (!tps_remote_tables_lookup_bags_sync (
          stepper->tables, query, 1, tps_clock_now_ns () + TPS_LOOKUP_CALL_NS, &output, error))
    return FALSE;
  tps_tensor_move (&stepper->output, &output);
  return TRUE;
}

static gboolean
push (TpsLookupStepper *stepper, const TpsBagQuery *query, GError **error)
{
  const TpsLookupShape *shape = &stepper->bags->shape;
  TpsBagGradient gradient = {
    .query = *query,
    .gradient = tps_lookup_view_rows (stepper->gradients, shape->n_bags, shape->dim),
  };

  return tps_remote_tables_apply_bags_sync (stepper->tables, &gradient, 1,
                                            tps_clock_now_ns () + TPS_LOOKUP_CALL_NS, error);
}

/* -- runs -- */

/* Looks up the rows of the samples, and adds up their elements. */
static gboolean
sum_up_samples (TpsLookupStepper *stepper, const TpsLookupWork *work, gdouble *sum, GError **error)
{
  const TpsLookupBags *bags = stepper->bags;
  g_auto (TpsTensor) rows = { 0 };

  if (!tps_remote_tables_lookup_rows_sync (stepper->tables, work->table,
                                           tps_lookup_view_ids (bags->ids, bags->n_samples),
                                           tps_clock_now_ns () + TPS_LOOKUP_CALL_NS, &rows, error))
    return FALSE;
  *sum = tps_lookup_sum_up (tps_tensor_data (&rows), bags->n_samples * bags->shape.dim);
  return TRUE;
}

gdouble
tps_lookup_stepper_run (TpsLookupStepper *stepper, const TpsLookupWork *work, gsize first,
                        gsize n_batches, gdouble *checksum, GError **error)
{
  const TpsLookupShape *shape = &stepper->bags->shape;
  gint64 start_ns = tps_clock_now_ns ();
  gint64 end_ns;

  for (gsize i = first; i < first + n_batches; i++)
    {
      TpsBagQuery query = tps_lookup_make_query (stepper->bags, stepper->offsets, work->table, i);

      if (!look_up (stepper, &query, error)
          || (work->optimizer != 0 && !push (stepper, &query, error)))
        return -1;
    }
  end_ns = tps_clock_now_ns ();
  if (work->optimizer == 0)
    *checksum = tps_lookup_sum_up (tps_tensor_data (&stepper->output), shape->n_bags * shape->dim);
  else if (!sum_up_samples (stepper, work, checksum, error))
    return -1;
  return (gdouble) (end_ns - start_ns) / 1e9;
}
