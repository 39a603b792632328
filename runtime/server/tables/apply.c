/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Pushes of gradients, in three passes: everything is checked; what bags contribute to which rows is worked out, for MAX
 * from the rows as they are now; each table that is named takes one step. Tables on devices come first: theirs may fail.
 */

#include <string.h>

#include "runtime/device/cpu/kernels/elementwise.h"
#include "runtime/device/cpu/kernels/rows.h"
#include "runtime/server/tables/device/device_step.h"
#include "runtime/base/parallel.h"
#include "runtime/server/tables/host/table_step.h"
#include "runtime/server/tables/table_calls.h"
#include "runtime/base/error.h"

/* -- rows -- */

static gboolean
is_matrix (TpsTensorView view, gint64 n_rows, gint64 dim)
{
  return view.shape.n_dims == 2 && view.shape.dims[0] == n_rows && view.shape.dims[1] == dim
         && (view.data != NULL || n_rows == 0);
}

static gboolean
check_values (const TpsTable *table, TpsTensorView indices, TpsTensorView values, GError **error)
{
  gint64 n_rows = indices.shape.dims[0];
  gint64 dim = table->spec.dim;
  g_autofree gchar *got = NULL;

  if (is_matrix (values, n_rows, dim)
      && (values.shape.dtype == TPS_DTYPE_FLOAT32 || values.shape.dtype == table->spec.dtype))
    return TRUE;
  got = tps_shape_to_string (&values.shape);
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "values: %s, expected %s%s [%" G_GINT64_FORMAT ", %" G_GINT64_FORMAT
               "] for table %s",
               got, table->spec.dtype == TPS_DTYPE_FLOAT32 ? "" : "FLOAT32 or ",
               tps_dtype_name (table->spec.dtype), n_rows, dim, table->spec.name);
  return FALSE;
}

static void
apply_values (TpsTable *table, const TpsTableSlots *slots, gsize n, TpsTensorView values,
              TpsWorkerPool *workers)
{
  gsize row_bytes = table->dim * tps_dtype_size (values.shape.dtype);
  TpsTableStep step;

  tps_table_step_init (&step, table, values.shape.dtype, n, FALSE);
  for (gsize i = 0; i < n; i++)
    tps_table_step_add (&step, slots->slots[i] - slots->base,
                        (const guint8 *) values.data + i * row_bytes, 1);
  tps_table_step_run (&step, workers);
  tps_table_step_clear (&step);
}

static gboolean
apply_values_on_device (TpsTable *table, const TpsTableSlots *slots, gsize n, TpsTensorView values,
                        GError **error)
{
  TpsDeviceGradient gradient = {
    .bags = { .rows = table->on_device,
              .slots = slots->slots,
              .base = slots->base,
              .n_indices = n,
              .n_bags = n,
              .pooling = TPS_POOLING_SUM },
    .gradient = values.data,
  };

  return tps_device_steps_run (&gradient, 1, error);
}

gboolean
tps_table_store_apply_rows (TpsTableStore *store, const gchar *table, TpsTensorView indices,
                            TpsTensorView values, GError **error)
{
  g_autoptr (TpsTable) found = NULL;
  TpsTableSlots slots = { 0 };
  gboolean ok;

  if (!tps_check_indices (indices, "indices", error))
    return FALSE;
  found = tps_table_store_ref_table (store, table, error);
  if (found == NULL || !check_values (found, indices, values, error))
    return FALSE;
  ok = tps_table_slots_init (&slots, found, indices, "indices", error);
  if (ok && found->on_device != NULL)
    ok = apply_values_on_device (found, &slots, (gsize) indices.shape.dims[0], values, error);
  else if (ok)
    apply_values (found, &slots, (gsize) indices.shape.dims[0], values,
                  tps_table_store_get_workers (store));
  tps_table_slots_clear (&slots);
  return ok;
}

/* -- bags -- */

/* One gradient of the call. What its bags contribute: SUM their gradient, times the weight; MEAN theirs divided by the
 * count; MAX rows of their own, `n_rows` of them. */
typedef struct
{
  TpsOpenQuery open;
  const gfloat *gradient; /* [bags, dim] */
  guint step;             /* which of the call's */
  TpsBuffer *scaled;      /* MEAN: [bags, dim]; MAX: [n_rows, dim] */
  TpsBuffer *row_slots;   /* MAX: INT64 [n_rows] */
  gsize n_rows;
} Push;

typedef struct
{
  Push *pushes;
  guint n_pushes;
  TpsTableStep *steps;
  guint n_steps;
  TpsWorkerPool *workers;
} PushCall;

static gfloat *
floats_of (TpsBuffer *buffer)
{
  return (gfloat *) (gpointer) tps_buffer_get_data (buffer);
}

static gint64 *
integers_of (TpsBuffer *buffer)
{
  return (gint64 *) (gpointer) tps_buffer_get_data (buffer);
}

static gsize
bag_start (const TpsTableBags *bags, gsize bag)
{
  return bag == bags->n_bags ? bags->n_indices : (gsize) bags->offsets[bag];
}

static gboolean
open_push (Push *push, TpsTableStore *store, const TpsBagGradient *gradient, guint i,
           GError **error)
{
  g_autofree gchar *got = NULL;
  gchar what[40];
  gint64 n_bags;

  g_snprintf (what, sizeof what, "gradients[%u].query", i);
  if (!tps_open_query_init (&push->open, store, &gradient->query, what, error))
    return FALSE;
  n_bags = (gint64) push->open.bags.n_bags;
  push->gradient = gradient->gradient.data;
  if (gradient->gradient.shape.dtype == TPS_DTYPE_FLOAT32
      && is_matrix (gradient->gradient, n_bags, push->open.table->spec.dim))
    return TRUE;
  got = tps_shape_to_string (&gradient->gradient.shape);
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "gradients[%u].gradient: %s, expected FLOAT32 [%" G_GINT64_FORMAT
               ", %d] for table %s",
               i, got, n_bags, push->open.table->spec.dim, push->open.table->spec.name);
  return FALSE;
}

/* -- what bags contribute -- */

static void
divide_by_counts (Push *push)
{
  const TpsTableBags *bags = &push->open.bags;
  gsize dim = bags->table->dim;

  push->scaled = tps_buffer_new (bags->n_bags * dim * sizeof (gfloat));
  for (gsize bag = 0; bag < bags->n_bags; bag++)
    {
      gsize count = bag_start (bags, bag + 1) - bag_start (bags, bag);

      tps_cpu_divide (TPS_DTYPE_FLOAT32, floats_of (push->scaled) + bag * dim,
                      push->gradient + bag * dim, (gfloat) MAX (count, 1), dim);
    }
}

typedef struct
{
  const TpsTableBags *bags;
  gfloat *output;
  gint64 *argmax;
  gsize n_parts;
} MaxCall;

static void
max_part (gpointer user_data, gsize part)
{
  const MaxCall *call = user_data;
  gsize begin = part * call->bags->n_bags / call->n_parts;
  gsize end = (part + 1) * call->bags->n_bags / call->n_parts;
  gsize first = begin * call->bags->table->dim;

  tps_table_pool_bags (call->bags, begin, end, call->output + first, call->argmax + first);
}

/* Finds the maxima now, and collects their gradients by row. */
static void
collect_maxima (Push *push, TpsWorkerPool *workers)
{
  const TpsTableBags *bags = &push->open.bags;
  gsize dim = bags->table->dim;
  gsize n_cells = bags->n_bags * dim;
  gsize capacity = MIN (bags->n_indices, n_cells);
  g_autoptr (TpsBuffer) output = tps_buffer_new (n_cells * sizeof (gfloat));
  g_autoptr (TpsBuffer) argmax = tps_buffer_new (n_cells * sizeof (gint64));
  MaxCall call = { .bags = bags, .output = floats_of (output), .argmax = integers_of (argmax) };
  TpsBags max_bags = {
    .rows = bags->table->spec.shard.n_rows,
    .dim = (gint64) dim,
    .n_indices = bags->n_indices,
    .n_bags = bags->n_bags,
    .pooling = TPS_POOLING_MAX,
  };

  call.n_parts = tps_parallel_count_parts (workers, bags->n_indices * bags->table->row_bytes,
                                           bags->n_bags);
  tps_parallel_run (workers, call.n_parts, max_part, &call);
  push->row_slots = tps_buffer_new (capacity * sizeof (gint64));
  push->scaled = tps_buffer_new (capacity * dim * sizeof (gfloat));
  push->n_rows = tps_cpu_embedding_backward_rows (&max_bags, push->gradient, call.argmax,
                                                  integers_of (push->row_slots),
                                                  floats_of (push->scaled));
}

static void
prepare_push (Push *push, TpsWorkerPool *workers)
{
  if (push->open.bags.pooling == TPS_POOLING_MEAN)
    divide_by_counts (push);
  else if (push->open.bags.pooling == TPS_POOLING_MAX)
    collect_maxima (push, workers);
}

static gsize
count_contributions (const Push *push)
{
  return push->open.bags.pooling == TPS_POOLING_MAX ? push->n_rows : push->open.bags.n_indices;
}

static void
add_maxima (const Push *push, TpsTableStep *step)
{
  const gint64 *slots = integers_of (push->row_slots);
  const gfloat *rows = floats_of (push->scaled);

  for (gsize i = 0; i < push->n_rows; i++)
    tps_table_step_add (step, slots[i], rows + i * step->table->dim, 1);
}

static void
add_bags (const Push *push, TpsTableStep *step)
{
  const TpsTableBags *bags = &push->open.bags;
  const gfloat *rows = push->scaled != NULL ? floats_of (push->scaled) : push->gradient;

  for (gsize bag = 0; bag < bags->n_bags; bag++)
    for (gsize i = bag_start (bags, bag); i < bag_start (bags, bag + 1); i++)
      tps_table_step_add (step, bags->slots[i] - bags->base, rows + bag * step->table->dim,
                          bags->weights != NULL ? bags->weights[i] : 1);
}

/* -- one step for each table -- */

/* Puts pushes to tables on devices behind the others, each in their order; returns how many are before. */
static guint
put_devices_last (Push *pushes, guint n_pushes)
{
  g_autofree Push *on_devices = g_new (Push, n_pushes);
  guint n_on_host = 0;
  guint n_on_devices = 0;

  for (guint i = 0; i < n_pushes; i++)
    if (pushes[i].open.table->on_device != NULL)
      on_devices[n_on_devices++] = pushes[i];
    else
      pushes[n_on_host++] = pushes[i];
  memcpy (pushes + n_on_host, on_devices, n_on_devices * sizeof pushes[0]);
  return n_on_host;
}

static gboolean
step_on_devices (const Push *pushes, guint n_pushes, GError **error)
{
  g_autofree TpsDeviceGradient *gradients = g_new (TpsDeviceGradient, n_pushes);

  for (guint i = 0; i < n_pushes; i++)
    gradients[i] = (TpsDeviceGradient) { tps_table_bags_of_device (&pushes[i].open.bags),
                                         pushes[i].gradient };
  return tps_device_steps_run (gradients, n_pushes, error);
}

/* Numbers the tables in the order of their first gradients. */
static void
number_tables (PushCall *call)
{
  g_autoptr (GHashTable) numbers = g_hash_table_new (NULL, NULL);

  for (guint i = 0; i < call->n_pushes; i++)
    {
      Push *push = &call->pushes[i];
      gpointer number;

      if (g_hash_table_lookup_extended (numbers, push->open.table, NULL, &number))
        {
          push->step = GPOINTER_TO_UINT (number);
          continue;
        }
      push->step = call->n_steps++;
      g_hash_table_insert (numbers, push->open.table, GUINT_TO_POINTER (push->step));
    }
}

/* What the step of each table has to hold. */
static void
init_steps (PushCall *call)
{
  g_autofree gsize *n_contributions = g_new0 (gsize, call->n_steps);
  g_autofree gboolean *is_weighted = g_new0 (gboolean, call->n_steps);

  for (guint i = 0; i < call->n_pushes; i++)
    {
      const Push *push = &call->pushes[i];

      n_contributions[push->step] += count_contributions (push);
      is_weighted[push->step] |= push->open.bags.weights != NULL;
    }
  call->steps = g_new0 (TpsTableStep, call->n_steps);
  for (guint i = 0; i < call->n_pushes; i++)
    {
      guint s = call->pushes[i].step;

      if (call->steps[s].table == NULL)
        tps_table_step_init (&call->steps[s], call->pushes[i].open.table, TPS_DTYPE_FLOAT32,
                             n_contributions[s], is_weighted[s]);
    }
}

static void
apply_pushes (PushCall *call)
{
  number_tables (call);
  for (guint i = 0; i < call->n_pushes; i++)
    prepare_push (&call->pushes[i], call->workers);
  init_steps (call);
  for (guint i = 0; i < call->n_pushes; i++)
    {
      const Push *push = &call->pushes[i];
      TpsTableStep *step = &call->steps[push->step];

      if (push->open.bags.pooling == TPS_POOLING_MAX)
        add_maxima (push, step);
      else
        add_bags (push, step);
    }
  for (guint s = 0; s < call->n_steps; s++)
    {
      tps_table_step_run (&call->steps[s], call->workers);
      tps_table_step_clear (&call->steps[s]);
    }
  g_free (call->steps);
}

static void
push_clear (Push *push)
{
  tps_open_query_clear (&push->open);
  g_clear_pointer (&push->scaled, tps_buffer_unref);
  g_clear_pointer (&push->row_slots, tps_buffer_unref);
}

gboolean
tps_table_store_apply_bags (TpsTableStore *store, const TpsBagGradient *gradients,
                            guint n_gradients, GError **error)
{
  g_autofree Push *pushes = g_new0 (Push, n_gradients);
  PushCall call = {
    .pushes = pushes,
    .n_pushes = n_gradients,
    .workers = tps_table_store_get_workers (store),
  };
  guint n_on_devices = 0;
  gboolean ok = TRUE;

  for (guint i = 0; ok && i < n_gradients; i++)
    {
      ok = open_push (&pushes[i], store, &gradients[i], i, error);
      n_on_devices += ok && pushes[i].open.table->on_device != NULL;
    }
  if (ok && n_on_devices > 0)
    {
      call.n_pushes = put_devices_last (pushes, n_gradients);
      ok = step_on_devices (pushes + call.n_pushes, n_on_devices, error);
    }
  if (ok)
    apply_pushes (&call);
  for (guint i = 0; i < n_gradients; i++)
    push_clear (&pushes[i]);
  return ok;
}
