/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The steps of a call. Each table has one step, and each step has a lane of its own:
 *
 *   begin     collects ids, offsets and weights in staged memory, which is copied at once; copies
 *             gradients directly
 *   combine   computes the gradients of the table's rows on the lane's stream, and adds up the
 *             gradients of equal ids; the number of rows stays on the device
 *   commit    runs the optimizer on the table's stream, after the sums of all tables
 *
 * All of this work is only enqueued, and the host waits once, at the end. It waits earlier in two
 * rare cases: if rows may already contain the step of a replayed record, and if the lane needs more
 * memory than in its previous calls.
 *
 * One operation expands a single gradient to the rows and adds up equal rows. If a table has
 * several gradients, all contributions are listed first, as bags of one row each, so that they are
 * added in the same order as on the host.
 */

#include "runtime/server/tables/device/device_step.h"

#include <string.h>

#include "runtime/device/cpu/kernels/elementwise.h"
#include "runtime/server/tables/device/device_rows.h"

/* One gradient, and the offsets of its arrays. Arrays that are copied together have the same
 * offsets in staged memory and on the device. All other arrays are on the device only, unless
 * stated otherwise. */
typedef struct
{
  TpsDeviceGradient *from;
  gsize ids, offsets, weights, bag_of;
  gsize scaled; /* staged only: a MEAN among several gradients, divided by the counts */
  gsize gradient;
  gsize received; /* the gradient in its own dtype, if that is not FLOAT32 */
} Part;

/* The events of a lane, each with the stream that records it. */
enum
{
  READY,    /* the table: the work before this step is done */
  COMBINED, /* the lane: the rows' gradients are added up; in the first step: see join() */
  DONE,     /* the table: the rows have changed */
  N_EVENTS,
};

typedef struct
{
  TpsDeviceRows *rows;
  gint64 lsn;
  TpsDeviceLane *lane;
  GArray *parts;          /* of Part */
  gboolean is_table_busy; /* work on the table's stream uses the lane's memory */
  gsize n_staged_bytes, n_copied_bytes, n_memory_bytes;
  gsize all_ids, all_rows; /* for the contributions of several gradients */
  gsize unique, sums;
  gsize n_unique; /* the offset of the number of rows */
  gsize capacity; /* the maximum number of rows */
} Step;

static const TpsDeviceOps *
ops_of (const Step *step)
{
  return step->rows->lanes->device->ops;
}

static gfloat *
floats_at (const TpsBuffer *block, gsize begin)
{
  return (gfloat *) (gpointer) (tps_buffer_get_data (block) + begin);
}

static gint64 *
integers_at (const TpsBuffer *block, gsize begin)
{
  return (gint64 *) (gpointer) (tps_buffer_get_data (block) + begin);
}

static TpsEvent *
event_of (const Step *step, guint event)
{
  return g_ptr_array_index (step->lane->events, event);
}

static gboolean
is_single (const Step *step)
{
  return step->parts->len == 1;
}

static Part *
part_at (const Step *step, guint i)
{
  return &g_array_index (step->parts, Part, i);
}

/* -- places -- */

static void
place_copied (Step *step, Part *part)
{
  const TpsDeviceBags *bags = &part->from->bags;
  gsize *n_bytes = &step->n_copied_bytes;

  part->ids = tps_device_lane_reserve (n_bytes, bags->n_indices * sizeof (gint64));
  if (bags->offsets != NULL)
    part->offsets = tps_device_lane_reserve (n_bytes, bags->n_bags * sizeof (gint64));
  if (bags->weights != NULL)
    part->weights = tps_device_lane_reserve (n_bytes, bags->n_indices * sizeof (gfloat));
  if (!is_single (step))
    part->bag_of = tps_device_lane_reserve (n_bytes, bags->n_indices * sizeof (gint64));
}

static void
place_rest (Step *step, Part *part)
{
  const TpsDeviceBags *bags = &part->from->bags;
  gsize n_cells = bags->n_bags * step->rows->dim;

  part->gradient = tps_device_lane_reserve (&step->n_memory_bytes, n_cells * sizeof (gfloat));
  if (part->from->dtype != TPS_DTYPE_FLOAT32)
    part->received = tps_device_lane_reserve (&step->n_memory_bytes,
                                              n_cells * tps_dtype_size (part->from->dtype));
  if (!is_single (step) && bags->pooling == TPS_POOLING_MEAN)
    part->scaled = tps_device_lane_reserve (&step->n_staged_bytes, n_cells * sizeof (gfloat));
}

static void
place_parts (Step *step)
{
  gsize dim = step->rows->dim;
  gsize n = 0;

  for (guint i = 0; i < step->parts->len; i++)
    {
      place_copied (step, part_at (step, i));
      n += part_at (step, i)->from->bags.n_indices;
    }
  step->n_staged_bytes = step->n_memory_bytes = step->n_copied_bytes;
  for (guint i = 0; i < step->parts->len; i++)
    place_rest (step, part_at (step, i));
  if (!is_single (step))
    {
      step->all_ids = tps_device_lane_reserve (&step->n_memory_bytes, n * sizeof (gint64));
      step->all_rows = tps_device_lane_reserve (&step->n_memory_bytes, n * dim * sizeof (gfloat));
    }
  n = MIN (n, (gsize) step->rows->n_rows);
  step->capacity = n;
  step->unique = tps_device_lane_reserve (&step->n_memory_bytes, n * sizeof (gint64));
  step->sums = tps_device_lane_reserve (&step->n_memory_bytes, n * dim * sizeof (gfloat));
  step->n_unique = tps_device_lane_reserve (&step->n_memory_bytes, sizeof (gint64));
}

/* -- begin -- */

static void
stage_part (const Step *step, const Part *part)
{
  const TpsDeviceBags *bags = &part->from->bags;
  TpsBuffer *staged = step->lane->staged;

  if (bags->n_indices > 0)
    tps_device_bags_stage_slots (bags, 0, bags->n_indices, integers_at (staged, part->ids));
  if (bags->offsets != NULL && bags->n_bags > 0)
    memcpy (integers_at (staged, part->offsets), bags->offsets,
            bags->n_bags * sizeof bags->offsets[0]);
  if (bags->weights != NULL && bags->n_indices > 0)
    memcpy (floats_at (staged, part->weights), bags->weights,
            bags->n_indices * sizeof bags->weights[0]);
  if (!is_single (step))
    {
      for (gsize bag = 0; bag < bags->n_bags; bag++)
        for (gsize i = tps_device_bag_start (bags, bag); i < tps_device_bag_start (bags, bag + 1);
             i++)
          integers_at (staged, part->bag_of)[i] = (gint64) bag;
    }
}

/* Returns the values that are copied as the gradient of a part. A MEAN gradient among several
 * gradients is divided by the counts here. */
static gconstpointer
scale_gradient (const Step *step, const Part *part)
{
  const TpsDeviceBags *bags = &part->from->bags;
  gsize dim = step->rows->dim;
  const gfloat *gradient = part->from->gradient;
  gfloat *scaled;

  if (is_single (step) || bags->pooling != TPS_POOLING_MEAN)
    return gradient;
  scaled = floats_at (step->lane->staged, part->scaled);
  for (gsize bag = 0; bag < bags->n_bags; bag++)
    {
      gsize count = tps_device_bag_start (bags, bag + 1) - tps_device_bag_start (bags, bag);

      tps_cpu_divide (TPS_DTYPE_FLOAT32, scaled + bag * dim, gradient + bag * dim,
                      (gfloat) MAX (count, 1), dim);
    }
  return scaled;
}

static TpsBags
bags_of (const Step *step, const Part *part)
{
  const TpsDeviceBags *bags = &part->from->bags;
  TpsBuffer *memory = step->lane->memory;

  return (TpsBags) {
    .rows = step->rows->n_rows,
    .dim = (gint64) step->rows->dim,
    .indices = integers_at (memory, part->ids),
    .n_indices = bags->n_indices,
    .offsets = bags->offsets != NULL ? integers_at (memory, part->offsets) : NULL,
    .n_bags = bags->n_bags,
    .weights = bags->weights != NULL ? floats_at (memory, part->weights) : NULL,
    .pooling = bags->pooling,
  };
}

static void
copy_gradient (const Step *step, const Part *part)
{
  TpsDType dtype = part->from->dtype;
  TpsStream *stream = step->lane->stream;
  gfloat *gradient = floats_at (step->lane->memory, part->gradient);
  gpointer received = dtype == TPS_DTYPE_FLOAT32
                          ? (gpointer) gradient
                          : tps_buffer_get_data (step->lane->memory) + part->received;
  gsize n = part->from->bags.n_bags * step->rows->dim;

  if (n == 0)
    return;
  ops_of (step)->copy (stream, received, scale_gradient (step, part), n * tps_dtype_size (dtype));
  if (dtype != TPS_DTYPE_FLOAT32)
    ops_of (step)->cast (stream, TPS_DTYPE_FLOAT32, gradient, dtype, received, n);
}

static void
enqueue_begin (Step *step)
{
  const TpsDeviceOps *ops = ops_of (step);
  TpsDeviceLane *lane = step->lane;
  guint n_parts = step->parts->len;

  for (guint i = 0; i < n_parts; i++)
    stage_part (step, part_at (step, i));
  if (step->n_copied_bytes > 0)
    ops->copy (lane->stream, tps_buffer_get_data (lane->memory), tps_buffer_get_data (lane->staged),
               step->n_copied_bytes);
  for (guint i = 0; i < n_parts; i++)
    copy_gradient (step, part_at (step, i));
}

static gboolean
begin (Step *step, GError **error)
{
  place_parts (step);
  step->lane = tps_device_lane_new (step->rows->lanes, error);
  if (step->lane == NULL
      || !tps_device_lane_provide (step->lane, step->n_staged_bytes, step->n_memory_bytes, N_EVENTS,
                                   error))
    return FALSE;
  enqueue_begin (step);
  return TRUE;
}

/* -- combine -- */

static gint64 *
n_unique_of (const Step *step)
{
  return integers_at (step->lane->memory, step->n_unique);
}

/* Computes the gradients of the table's rows: writes the ids of the rows to `ids`, their gradients
 * to `rows`, and their number to n_unique_of(). */
static void
spread (Step *step, const Part *part, gint64 *ids, gfloat *rows)
{
  TpsBuffer *memory = step->lane->memory;
  TpsBags bags = bags_of (step, part);

  ops_of (step)->embedding_backward_rows (
      step->lane->stream, &bags, floats_at (memory, part->gradient), ids, rows, n_unique_of (step));
}

/* Lists one contribution for each index, in order and without adding up equal ids. A contribution
 * is the gradient of the index's bag, so the numbers of bags serve as indices of the gradient. */
static void
list_contributions (Step *step, const Part *part, gint64 *ids, gfloat *rows)
{
  const TpsDeviceBags *from = &part->from->bags;
  TpsStream *stream = step->lane->stream;
  TpsBuffer *memory = step->lane->memory;
  TpsBags each = {
    .rows = (gint64) from->n_bags,
    .dim = (gint64) step->rows->dim,
    .indices = integers_at (memory, part->bag_of),
    .n_indices = from->n_indices,
    .n_bags = from->n_indices,
    .weights = from->weights != NULL ? floats_at (memory, part->weights) : NULL,
    .pooling = TPS_POOLING_SUM,
  };

  if (from->n_indices == 0)
    return;
  ops_of (step)->copy (stream, ids, integers_at (memory, part->ids),
                       from->n_indices * sizeof (gint64));
  ops_of (step)->embedding_pool (stream, &each, TPS_DTYPE_FLOAT32,
                                 floats_at (memory, part->gradient), rows);
}

static void
combine_several (Step *step)
{
  TpsBuffer *memory = step->lane->memory;
  gint64 *ids = integers_at (memory, step->all_ids);
  gfloat *rows = floats_at (memory, step->all_rows);
  TpsBags all = { .rows = step->rows->n_rows,
                  .dim = (gint64) step->rows->dim,
                  .indices = ids,
                  .pooling = TPS_POOLING_SUM };
  gsize n = 0;

  for (guint i = 0; i < step->parts->len; i++)
    {
      list_contributions (step, part_at (step, i), ids + n, rows + n * step->rows->dim);
      n += part_at (step, i)->from->bags.n_indices;
    }
  all.n_indices = all.n_bags = n;
  ops_of (step)->embedding_backward_rows (step->lane->stream, &all, rows,
                                          integers_at (memory, step->unique),
                                          floats_at (memory, step->sums), n_unique_of (step));
}

/* Moves the rows that do not contain the step to the front, and returns their number. */
static gsize
keep_new (const Step *step, gint64 *ids, gfloat *sums, gsize n_rows)
{
  gsize dim = step->rows->dim;
  gsize n = 0;

  for (gsize i = 0; i < n_rows; i++)
    {
      if (tps_device_rows_has (step->rows, ids[i], step->lsn))
        continue;
      ids[n] = ids[i];
      if (n < i)
        memcpy (sums + n * dim, sums + i * dim, dim * sizeof sums[0]);
      n++;
    }
  return n;
}

/* Removes the rows that already contain the step. Only rows of a snapshot can contain the step of a
 * replayed record. This is rare, so the host does the work. */
static gboolean
drop_present (Step *step, GError **error)
{
  const TpsDeviceOps *ops = ops_of (step);
  TpsStream *stream = step->lane->stream;
  gint64 *unique = integers_at (step->lane->memory, step->unique);
  gfloat *sums = floats_at (step->lane->memory, step->sums);
  gsize n_rows = tps_device_read_count (stream, n_unique_of (step));
  gsize n_ids = n_rows * sizeof (gint64);
  gsize n_sums = n_rows * step->rows->dim * sizeof (gfloat);
  gint64 *kept_ids, n_kept;
  gfloat *kept_sums;

  if (!ops->stream_check (stream, error)
      || !tps_device_lane_provide (step->lane, n_ids + n_sums, 0, 0, error))
    return FALSE;
  if (n_rows == 0)
    return TRUE;
  kept_ids = integers_at (step->lane->staged, 0);
  kept_sums = floats_at (step->lane->staged, n_ids);
  ops->copy (stream, kept_ids, unique, n_ids);
  ops->copy (stream, kept_sums, sums, n_sums);
  if (!ops->stream_sync (stream, error))
    return FALSE;
  n_kept = (gint64) keep_new (step, kept_ids, kept_sums, n_rows);
  ops->copy (stream, n_unique_of (step), &n_kept, sizeof n_kept);
  ops->copy (stream, unique, kept_ids, n_ids);
  ops->copy (stream, sums, kept_sums, n_sums);
  return ops->stream_sync (stream, error);
}

static gboolean
combine (Step *step, GError **error)
{
  TpsBuffer *memory = step->lane->memory;

  if (step->capacity > 0 && is_single (step))
    spread (step, part_at (step, 0), integers_at (memory, step->unique),
            floats_at (memory, step->sums));
  else if (step->capacity > 0)
    combine_several (step);
  if (step->capacity > 0 && tps_device_rows_may_have (step->rows, step->lsn)
      && !drop_present (step, error))
    return FALSE;
  ops_of (step)->event_record (event_of (step, COMBINED), step->lane->stream);
  return TRUE;
}

/* -- commit -- */

/* Reports known failures before any table changes. Also records READY, behind all earlier work on
 * the table. */
static gboolean
check (Step *step, GError **error)
{
  return ops_of (step)->stream_check (step->lane->stream, error)
         && tps_device_rows_check (step->rows, event_of (step, READY), error);
}

/* Records the COMBINED event of the first step again, behind the sums of all steps and all earlier
 * work on the tables. All tables wait for this event before they change. Thus no table changes if a
 * device is lost before the event. */
static void
join (GArray *steps)
{
  const Step *first = &g_array_index (steps, Step, 0);
  const TpsDeviceOps *ops = ops_of (first);

  if (steps->len == 1)
    return;
  for (guint i = 0; i < steps->len; i++)
    {
      const Step *step = &g_array_index (steps, Step, i);

      ops->stream_wait_event (first->lane->stream, event_of (step, COMBINED));
      ops->stream_wait_event (first->lane->stream, event_of (step, READY));
    }
  ops->event_record (event_of (first, COMBINED), first->lane->stream);
}

static void
commit (Step *step, TpsEvent *combined)
{
  TpsBuffer *memory = step->lane->memory;
  TpsDeviceStepRows rows = { .capacity = step->capacity };

  if (step->capacity > 0)
    {
      rows.indices = integers_at (memory, step->unique);
      rows.gradients = floats_at (memory, step->sums);
      rows.n_rows = n_unique_of (step);
    }
  step->is_table_busy = TRUE;
  tps_device_rows_step (step->rows, &rows, step->lsn, combined, event_of (step, DONE));
}

static gboolean
wait_for_commit (Step *step, GError **error)
{
  if (!ops_of (step)->event_sync (event_of (step, DONE), error))
    return FALSE;
  step->is_table_busy = FALSE;
  tps_device_rows_count_step (step->rows);
  for (guint i = 0; i < step->parts->len; i++)
    part_at (step, i)->from->is_done = TRUE;
  return TRUE;
}

/* -- a call -- */

static void
step_clear (gpointer data)
{
  Step *step = data;

  if (step->is_table_busy)
    tps_device_rows_recover (step->rows);
  g_clear_pointer (&step->lane, tps_device_lane_free);
  g_array_unref (step->parts);
}

/* Groups the gradients by table, in the order of their first gradients. */
static GArray *
sort_by_table (TpsDeviceGradient *gradients, guint n_gradients, gint64 lsn)
{
  GArray *steps = g_array_new (FALSE, TRUE, sizeof (Step));
  g_autoptr (GHashTable) numbers = g_hash_table_new (NULL, NULL);

  g_array_set_clear_func (steps, step_clear);
  for (guint i = 0; i < n_gradients; i++)
    {
      TpsDeviceRows *rows = gradients[i].bags.rows;
      Part part = { .from = &gradients[i] };
      gpointer number = g_hash_table_lookup (numbers, rows); /* from 1 */

      if (number == NULL)
        {
          g_array_set_size (steps, steps->len + 1); /* zeroed */
          number = GUINT_TO_POINTER (steps->len);
          g_array_index (steps, Step, steps->len - 1).rows = rows;
          g_array_index (steps, Step, steps->len - 1).lsn = lsn;
          g_array_index (steps, Step, steps->len - 1).parts = g_array_new (FALSE, FALSE,
                                                                           sizeof (Part));
          g_hash_table_insert (numbers, rows, number);
        }
      g_array_append_val (g_array_index (steps, Step, GPOINTER_TO_UINT (number) - 1).parts, part);
    }
  return steps;
}

static gboolean
run_all (GArray *steps, gboolean (*run) (Step *step, GError **error), GError **error)
{
  for (guint i = 0; i < steps->len; i++)
    {
      Step *step = &g_array_index (steps, Step, i);

      if (!run (step, error))
        {
          g_prefix_error (error, "table %s: ", step->rows->name);
          tps_device_rows_recover (step->rows);
          return FALSE;
        }
    }
  return TRUE;
}

/* Waits for all steps, even after the failure of one of them: each table must report whether it
 * has taken its step. */
static gboolean
wait_for_all (GArray *steps, GError **error)
{
  gboolean ok = TRUE;

  for (guint i = 0; i < steps->len; i++)
    {
      Step *step = &g_array_index (steps, Step, i);

      if (wait_for_commit (step, ok ? error : NULL))
        continue;
      if (ok)
        g_prefix_error (error, "table %s: ", step->rows->name);
      tps_device_rows_recover (step->rows);
      ok = FALSE;
    }
  return ok;
}

gboolean
tps_device_steps_run (TpsDeviceGradient *gradients, guint n_gradients, gint64 lsn, GError **error)
{
  g_autoptr (GArray) steps = sort_by_table (gradients, n_gradients, lsn);

  if (steps->len == 0)
    return TRUE;
  if (!run_all (steps, begin, error) || !run_all (steps, combine, error)
      || !run_all (steps, check, error))
    return FALSE;
  join (steps);
  for (guint i = 0; i < steps->len; i++)
    commit (&g_array_index (steps, Step, i), event_of (&g_array_index (steps, Step, 0), COMBINED));
  return wait_for_all (steps, error);
}
