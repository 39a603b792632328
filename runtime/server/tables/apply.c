/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Contributions to a row are added in the order of the gradients. A table with a MAX gradient
 * therefore gets all of its contributions in the push's turn. Other tables get theirs, grouped by
 * row, before the turn. Tables on devices are first, since their steps may fail. */

#include "runtime/server/tables/apply.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/error.h"
#include "runtime/base/parallel.h"
#include "runtime/device/cpu/kernels/elementwise.h"

/* The heap memory of one gradient in the lists of tps_device_steps_run(). It is charged with the
 * scratch. */
#define DEVICE_LIST_BYTES 512

/* ---- checks ---------------------------------------------------------------------------------- */

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

/* The number of rows of a sparse gradient must be that of its table. */
static gboolean
check_n_rows (const TpsTable *table, const TpsTablePush *push, GError **error)
{
  if (!push->has_n_rows || push->n_rows == table->spec.shard.rows)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "gradient.shape[0] is %" G_GINT64_FORMAT ", table %s has %" G_GINT64_FORMAT " rows",
               push->n_rows, table->spec.name, table->spec.shard.rows);
  return FALSE;
}

static gboolean
check_assignment (const TpsTable *table, const TpsTablePush *push, GError **error)
{
  const gchar *what = NULL;

  if (push->is_assignment && table->on_device != NULL)
    what = "its rows are on a device, where they cannot be assigned";
  else if (push->is_assignment && push->as_of_lsn != 0 && table->lsns == NULL)
    what = "this server keeps no LSNs of rows, since it has no data directory";
  if (what == NULL)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "table %s: %s", table->spec.name,
               what);
  return FALSE;
}

/* Opens rows as bags of one row each. */
static gboolean
open_rows (TpsApply *apply, GError **error)
{
  const TpsTablePush *push = apply->push;
  TpsApplyPart *part = &apply->parts[0];
  TpsOpenQuery *open = &part->open;

  if (!tps_check_indices (push->indices, "indices", error))
    return FALSE;
  open->table = tps_table_store_ref_table (apply->store, push->table, error);
  if (open->table == NULL || !check_assignment (open->table, push, error)
      || !check_n_rows (open->table, push, error)
      || !check_values (open->table, push->indices, push->values, error)
      || !tps_table_slots_init (&open->slots, open->table, push->indices, "indices",
                                tps_table_store_get_scratch (apply->store), error))
    return FALSE;
  open->bags = (TpsTableBags) {
    .table = open->table,
    .slots = open->slots.slots,
    .base = open->slots.base,
    .n_indices = (gsize) push->indices.shape.dims[0],
    .n_bags = (gsize) push->indices.shape.dims[0],
    .pooling = TPS_POOLING_SUM,
  };
  part->gradient = push->values.data;
  part->dtype = push->values.shape.dtype;
  return TRUE;
}

static gboolean
open_bags (TpsApply *apply, guint i, GError **error)
{
  const TpsBagGradient *gradient = &apply->push->gradients[i];
  TpsApplyPart *part = &apply->parts[i];
  g_autofree gchar *got = NULL;
  gchar what[40];
  gint64 n_bags;

  g_snprintf (what, sizeof what, "gradients[%u].query", i);
  if (!tps_open_query_init (&part->open, apply->store, &gradient->query, what, error))
    return FALSE;
  n_bags = (gint64) part->open.bags.n_bags;
  part->gradient = gradient->gradient.data;
  part->dtype = TPS_DTYPE_FLOAT32;
  if (gradient->gradient.shape.dtype == TPS_DTYPE_FLOAT32
      && is_matrix (gradient->gradient, n_bags, part->open.table->spec.dim))
    return TRUE;
  got = tps_shape_to_string (&gradient->gradient.shape);
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "gradients[%u].gradient: %s, expected FLOAT32 [%" G_GINT64_FORMAT
               ", %d] for table %s",
               i, got, n_bags, part->open.table->spec.dim, part->open.table->spec.name);
  return FALSE;
}

/* ---- parts ----------------------------------------------------------------------------------- */

static gboolean
is_max (const TpsApplyPart *part)
{
  return part->open.bags.pooling == TPS_POOLING_MAX;
}

static gboolean
is_on_device (const TpsApplyPart *part)
{
  return part->open.table->on_device != NULL;
}

static gsize
bag_start (const TpsTableBags *bags, gsize bag)
{
  if (bag == bags->n_bags)
    return bags->n_indices;
  return bags->offsets != NULL ? (gsize) bags->offsets[bag] : bag;
}

static gsize
count_cells (const TpsApplyPart *part)
{
  return part->open.bags.n_bags * part->open.table->dim;
}

/* An upper bound: every row of a bag is a maximum, or every cell has a row of its own. */
static gsize
count_contributions (const TpsApplyPart *part)
{
  gsize n_indices = part->open.bags.n_indices;

  if (!is_max (part))
    return n_indices;
  return part->has_maxima ? count_cells (part) : MIN (n_indices, count_cells (part));
}

/* Checks slots from a record. */
static gboolean
check_maxima (const TpsApplyPart *part, guint i, GError **error)
{
  for (gsize cell = 0; cell < count_cells (part); cell++)
    if (part->maxima[cell] < -1 || part->maxima[cell] >= part->open.table->spec.shard.n_rows)
      {
        g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                     "maxima[%u][%" G_GSIZE_FORMAT "]: slot %" G_GINT64_FORMAT
                     " is not in [-1, %" G_GINT64_FORMAT ") of table %s",
                     i, cell, part->maxima[cell], part->open.table->spec.shard.n_rows,
                     part->open.table->spec.name);
        return FALSE;
      }
  return TRUE;
}

static gboolean
take_recorded_maxima (TpsApply *apply, guint i, GError **error)
{
  const TpsCommand *record = apply->push->record;
  TpsApplyPart *part = &apply->parts[i];

  if (record == NULL || !is_max (part))
    return TRUE;
  part->has_maxima = TRUE;
  part->maxima = (gint64 *) (guintptr) record->bags.maxima[i]; /* not written to */
  return check_maxima (part, i, error);
}

static gboolean
open_all (TpsApply *apply, GError **error)
{
  /* A replay was subject to the limit at the first time. A push of rows has as many rows as its
   * message. */
  gboolean is_limited = apply->push->record == NULL && apply->push->table == NULL;
  gsize n_row_bytes = 0;

  for (guint i = 0; i < apply->n_parts; i++)
    {
      gboolean ok = apply->push->table != NULL ? open_rows (apply, error)
                                               : open_bags (apply, i, error);

      ok = ok
           && (!is_limited
               || tps_table_store_count_rows (apply->store, &apply->parts[i].open.bags,
                                              &n_row_bytes, error));
      if (!ok || !take_recorded_maxima (apply, i, error))
        return FALSE;
      apply->n_on_devices += is_on_device (&apply->parts[i]);
    }
  return TRUE;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static gint
compare_tables (gconstpointer a, gconstpointer b)
{
  const TpsApplyPart *left = *(TpsApplyPart *const *) a;
  const TpsApplyPart *right = *(TpsApplyPart *const *) b;

  if (left->open.table != right->open.table)
    return left->open.table < right->open.table ? -1 : 1;
  return left < right ? -1 : 1; /* both are in one array */
}

/* Numbers the steps, one for each table, in the order of their first gradients. `sorted` [n_parts]
 * is working space. */
static void
number_tables (TpsApply *apply, TpsApplyPart **sorted)
{
  for (guint i = 0; i < apply->n_parts; i++)
    sorted[i] = &apply->parts[i];
  if (apply->n_parts > 1)
    qsort (sorted, apply->n_parts, sizeof sorted[0], compare_tables);
  for (guint i = 0; i < apply->n_parts; i++) /* finds the part that names the table first */
    sorted[i]->step = i > 0 && sorted[i]->open.table == sorted[i - 1]->open.table
                          ? sorted[i - 1]->step
                          : (guint) (sorted[i] - apply->parts);
  for (guint i = 0; i < apply->n_parts; i++)
    {
      TpsApplyPart *part = &apply->parts[i];

      if (part->step != i)
        {
          part->step = apply->parts[part->step].step;
          continue;
        }
      part->step = apply->n_steps;
      apply->steps[apply->n_steps++] = (TpsApplyStep) { .table = part->open.table };
    }
}

/* TRUE: a record leaves the table out. A table from a snapshot contains the steps up to its
 * progress. */
static gboolean
is_left_out (const TpsCommand *record, guint i, TpsTable *table)
{
  return (i < record->n_tables && record->tables[i].is_skipped)
         || ((table->lsns != NULL || table->on_device != NULL)
             && record->lsn <= tps_table_get_progress (table).lsn);
}

static void
describe_tables (TpsApply *apply)
{
  const TpsCommand *record = apply->push->record;

  for (guint s = 0; s < apply->n_steps; s++)
    {
      TpsApplyStep *step = &apply->steps[s];

      step->is_left_out = record != NULL && is_left_out (record, s, step->table);
      apply->turns[s].queue = &step->table->turns;
      apply->durability = MAX (apply->durability, step->table->spec.durability);
      apply->tables[s] = (TpsCommandTable) {
        .name = step->table->spec.name,
        .incarnation = step->table->incarnation,
        .is_skipped = step->is_left_out,
      };
    }
}

/* ---- temporary space ------------------------------------------------------------------------- */

static gboolean
provide_lists (TpsApply *apply, TpsApplyPart ***sorted, GError **error)
{
  TpsScratch *lists = &apply->lists;
  guint n = apply->n_parts;
  gsize parts = tps_scratch_reserve (lists, n, sizeof apply->parts[0]);
  gsize steps = tps_scratch_reserve (lists, n, sizeof apply->steps[0]);
  gsize turns = tps_scratch_reserve (lists, n, sizeof apply->turns[0]);
  gsize tables = tps_scratch_reserve (lists, n, sizeof apply->tables[0]);
  gsize pointers = tps_scratch_reserve (lists, n, sizeof (gpointer));

  if (!tps_scratch_provide (lists, tps_table_store_get_scratch (apply->store), "gradients", error))
    return FALSE;
  apply->parts = tps_scratch_at (lists, parts);
  memset (apply->parts, 0, n * sizeof apply->parts[0]);
  apply->steps = tps_scratch_at (lists, steps);
  apply->turns = tps_scratch_at (lists, turns);
  apply->tables = tps_scratch_at (lists, tables);
  *sorted = tps_scratch_at (lists, pointers);
  return TRUE;
}

static gsize
count_max_parts (const TpsApplyPart *part, TpsWorkerPool *workers)
{
  const TpsTableBags *bags = &part->open.bags;
  gsize n_threads = workers != NULL ? tps_worker_pool_get_n_threads (workers) + 1 : 1;
  gboolean is_wide = tps_table_pool_get_stage_bytes (bags->table) > 0;

  return tps_parallel_count_parts (workers, bags->n_indices * bags->table->row_bytes,
                                   is_wide ? MIN (bags->n_bags, n_threads) : bags->n_bags);
}

static void
reserve_max (TpsApply *apply, TpsApplyPart *part)
{
  TpsScratch *scratch = &apply->scratch;
  gsize n_cells = count_cells (part);

  if (!part->has_maxima
      && (!is_on_device (part)
          || tps_sequencer_has_observer (tps_table_store_get_sequencer (apply->store))))
    part->places.maxima = tps_scratch_reserve (scratch, n_cells + 1, sizeof part->maxima[0]);
  if (is_on_device (part))
    return;
  part->n_parts = count_max_parts (part, tps_table_store_get_workers (apply->store));
  part->places.pooled = tps_scratch_reserve (scratch, n_cells, sizeof (gfloat));
  part->places.stages = tps_scratch_reserve (scratch, part->n_parts,
                                             tps_table_pool_get_stage_bytes (part->open.table));
  part->places.ids = tps_scratch_reserve (scratch, n_cells, sizeof (gint64));
  part->places.cells = tps_scratch_reserve (scratch, n_cells, sizeof (gsize));
  part->places.groups = tps_scratch_reserve (scratch, n_cells + 1, TPS_CPU_GROUPS_BYTES);
}

static void
reserve_all (TpsApply *apply)
{
  TpsWorkerPool *workers = tps_table_store_get_workers (apply->store);

  for (guint i = 0; i < apply->n_parts; i++)
    {
      TpsApplyPart *part = &apply->parts[i];
      TpsApplyStep *step = &apply->steps[part->step];

      step->n_contributions += count_contributions (part);
      step->has_weights |= part->open.bags.weights != NULL;
      step->has_max |= is_max (part);
      if (is_max (part))
        {
          step->max_bags = MAX (step->max_bags, part->open.bags.n_bags);
          reserve_max (apply, part);
        }
      else if (part->open.bags.pooling == TPS_POOLING_MEAN && !is_on_device (part))
        part->places.scaled = tps_scratch_reserve (&apply->scratch, count_cells (part),
                                                   sizeof part->scaled[0]);
    }
  for (guint s = 0; s < apply->n_steps; s++)
    if (apply->steps[s].table->on_device == NULL)
      tps_table_step_reserve (&apply->steps[s].host, &apply->scratch, apply->steps[s].table,
                              apply->parts[0].dtype, apply->steps[s].n_contributions,
                              apply->steps[s].max_bags, apply->steps[s].has_weights, workers);
}

static void
place_maxima (TpsApply *apply)
{
  gboolean has_max = FALSE;

  for (guint i = 0; i < apply->n_parts; i++)
    {
      TpsApplyPart *part = &apply->parts[i];

      has_max |= is_max (part);
      if (is_max (part) && !part->has_maxima
          && (!is_on_device (part)
              || tps_sequencer_has_observer (tps_table_store_get_sequencer (apply->store))))
        part->maxima = tps_scratch_at (&apply->scratch, part->places.maxima);
    }
  for (guint i = 0; has_max && i < apply->n_parts; i++)
    apply->maxima[i] = apply->parts[i].maxima;
  if (!has_max)
    apply->maxima = NULL;
}

static gboolean
provide_scratch (TpsApply *apply, GError **error)
{
  gsize on_devices, maxima;

  reserve_all (apply);
  on_devices = tps_scratch_reserve (&apply->scratch, apply->n_on_devices,
                                    sizeof apply->on_devices[0] + DEVICE_LIST_BYTES);
  maxima = tps_scratch_reserve (&apply->scratch, apply->n_parts, sizeof apply->maxima[0]);
  if (!tps_scratch_provide (&apply->scratch, tps_table_store_get_scratch (apply->store),
                            apply->push->table != NULL ? "values" : "gradients", error))
    return FALSE;
  apply->on_devices = tps_scratch_at (&apply->scratch, on_devices);
  apply->maxima = tps_scratch_at (&apply->scratch, maxima);
  place_maxima (apply);
  for (guint s = 0; s < apply->n_steps; s++)
    if (apply->steps[s].table->on_device == NULL)
      tps_table_step_begin (&apply->steps[s].host, &apply->scratch);
  if (apply->push->is_assignment)
    tps_table_step_assign (&apply->steps[0].host, apply->push->as_of_lsn);
  return TRUE;
}

/* ---- contributions --------------------------------------------------------------------------- */

static void
divide_by_counts (TpsApply *apply, TpsApplyPart *part)
{
  const TpsTableBags *bags = &part->open.bags;
  const gfloat *gradient = part->gradient;
  gsize dim = bags->table->dim;

  part->scaled = tps_scratch_at (&apply->scratch, part->places.scaled);
  for (gsize bag = 0; bag < bags->n_bags; bag++)
    {
      gsize count = bag_start (bags, bag + 1) - bag_start (bags, bag);

      tps_cpu_divide (TPS_DTYPE_FLOAT32, part->scaled + bag * dim, gradient + bag * dim,
                      (gfloat) MAX (count, 1), dim);
    }
}

/* Adds each row as a bag of its own. */
static void
add_rows (TpsTableStep *step, const TpsApplyPart *part, gsize row_bytes)
{
  const TpsTableBags *bags = &part->open.bags;
  const guint8 *row = part->gradient;

  for (gsize i = 0; i < bags->n_indices; i++, row += row_bytes)
    tps_table_step_add (step, bags->slots[i] - bags->base, row, 1);
}

static void
add_bags (TpsApply *apply, TpsApplyPart *part)
{
  const TpsTableBags *bags = &part->open.bags;
  TpsTableStep *step = &apply->steps[part->step].host;
  gsize row_bytes = bags->table->dim * tps_dtype_size (part->dtype);
  const guint8 *row;

  if (bags->offsets == NULL)
    {
      add_rows (step, part, row_bytes);
      return;
    }
  if (bags->pooling == TPS_POOLING_MEAN)
    divide_by_counts (apply, part);
  row = part->scaled != NULL ? (const guint8 *) part->scaled : part->gradient;
  for (gsize bag = 0; bag < bags->n_bags; bag++, row += row_bytes)
    for (gsize i = bag_start (bags, bag); i < bag_start (bags, bag + 1); i++)
      tps_table_step_add (step, bags->slots[i] - bags->base, row,
                          bags->weights != NULL ? bags->weights[i] : 1);
}

typedef struct
{
  const TpsApplyPart *part;
  gfloat *pooled;
  guint8 *stages;
  gsize stage_bytes;
} MaxCall;

static void
max_part (gpointer user_data, gsize number)
{
  const MaxCall *call = user_data;
  const TpsApplyPart *part = call->part;
  const TpsTableBags *bags = &part->open.bags;
  gsize begin = number * bags->n_bags / part->n_parts;
  gsize end = (number + 1) * bags->n_bags / part->n_parts;
  gsize first = begin * bags->table->dim;

  tps_table_pool_bags (bags, begin, end, call->pooled + first, part->maxima + first,
                       call->stage_bytes > 0 ? call->stages + number * call->stage_bytes : NULL);
}

/* Finds the maxima of the present rows. */
static void
find_maxima (TpsApply *apply, const TpsApplyPart *part)
{
  MaxCall call = {
    .part = part,
    .pooled = tps_scratch_at (&apply->scratch, part->places.pooled),
    .stages = tps_scratch_at (&apply->scratch, part->places.stages),
    .stage_bytes = tps_table_pool_get_stage_bytes (part->open.table),
  };

  if (!part->has_maxima)
    tps_parallel_run (tps_table_store_get_workers (apply->store), part->n_parts, max_part, &call);
}

/* Adds the gradients of each row with maxima. */
static void
add_maxima (TpsApply *apply, const TpsApplyPart *part)
{
  TpsTableStep *step = &apply->steps[part->step].host;
  gint64 *ids = tps_scratch_at (&apply->scratch, part->places.ids);
  gsize *cells = tps_scratch_at (&apply->scratch, part->places.cells);
  TpsCpuGroups groups;
  gsize n = 0;

  for (gsize cell = 0; cell < count_cells (part); cell++)
    if (part->maxima[cell] >= 0)
      {
        ids[n] = part->maxima[cell];
        cells[n++] = cell;
      }
  tps_cpu_groups_init (&groups, tps_scratch_at (&apply->scratch, part->places.groups), ids, n);
  for (gsize i = 0; i < n; i++)
    groups.order[i] = cells[groups.order[i]];
  for (gsize u = 0; u < groups.n_groups; u++)
    {
      TpsCellRow row = { part->gradient, groups.order + groups.starts[u],
                         groups.starts[u + 1] - groups.starts[u] };

      tps_table_step_add_cells (step, groups.ids[u], &row);
    }
}

/* Adds the contributions to tables on the host, before the turn or in it. */
static void
add_contributions (TpsApply *apply, gboolean in_turn)
{
  for (guint i = 0; i < apply->n_parts; i++)
    {
      TpsApplyPart *part = &apply->parts[i];

      if (is_on_device (part) || apply->steps[part->step].has_max != in_turn)
        continue;
      if (!is_max (part))
        {
          add_bags (apply, part);
          continue;
        }
      find_maxima (apply, part);
      add_maxima (apply, part);
    }
  for (guint s = 0; s < apply->n_steps; s++)
    if (apply->steps[s].table->on_device == NULL && apply->steps[s].has_max == in_turn)
      tps_table_step_group (&apply->steps[s].host);
}

/* ---- life ------------------------------------------------------------------------------------ */

gboolean
tps_apply_init (TpsApply *apply, TpsTableStore *store, const TpsTablePush *push, GError **error)
{
  TpsApplyPart **sorted;

  apply->store = store;
  apply->push = push;
  apply->n_parts = push->table != NULL ? 1 : push->n_gradients;
  apply->n_steps = 0;
  apply->n_on_devices = 0;
  apply->durability = 0;
  apply->parts = NULL;
  tps_scratch_init (&apply->lists);
  tps_scratch_init (&apply->scratch);
  if (!provide_lists (apply, &sorted, error) || !open_all (apply, error))
    return FALSE;
  number_tables (apply, sorted);
  describe_tables (apply);
  if (!provide_scratch (apply, error))
    return FALSE;
  add_contributions (apply, FALSE);
  return TRUE;
}

void
tps_apply_clear (TpsApply *apply)
{
  for (guint i = 0; apply->parts != NULL && i < apply->n_parts; i++)
    tps_open_query_clear (&apply->parts[i].open);
  tps_scratch_clear (&apply->scratch);
  tps_scratch_clear (&apply->lists);
}

/* ---- the turn -------------------------------------------------------------------------------- */

static gboolean
steps_on_device (const TpsApply *apply, const TpsApplyPart *part)
{
  return is_on_device (part) && !apply->steps[part->step].is_left_out;
}

static gboolean
step_on_devices (TpsApply *apply, gint64 lsn, GError **error)
{
  guint n = 0;
  gboolean ok;

  for (guint i = 0; i < apply->n_parts; i++)
    {
      const TpsApplyPart *part = &apply->parts[i];

      if (!steps_on_device (apply, part))
        continue;
      apply->tables[part->step].is_skipped = TRUE; /* until the step is known to be complete */
      apply->on_devices[n++] = (TpsDeviceGradient) {
        .bags = tps_table_bags_of_device (&part->open.bags),
        .gradient = part->gradient,
        .maxima = part->has_maxima ? part->maxima : NULL,
        .found = part->has_maxima ? NULL : part->maxima,
      };
    }
  ok = tps_device_steps_run (apply->on_devices, n, lsn, error);
  n = 0;
  for (guint i = 0; i < apply->n_parts; i++)
    if (steps_on_device (apply, &apply->parts[i]) && apply->on_devices[n++].is_done)
      {
        TpsTable *table = apply->parts[i].open.table;

        apply->tables[apply->parts[i].step].is_skipped = FALSE;
        tps_table_set_progress (table, (TpsTableProgress) { lsn, table->on_device->n_steps });
      }
  return ok;
}

static void
skip_host (TpsApply *apply)
{
  for (guint s = 0; s < apply->n_steps; s++)
    apply->tables[s].is_skipped |= apply->steps[s].table->on_device == NULL;
}

static const TpsTurn *
turn_beside_others (const TpsTurn *turn)
{
  return turn->ordered->may_follow ? turn : NULL;
}

gboolean
tps_apply_may_follow (const TpsApply *apply)
{
  const TpsApplyStep *step = &apply->steps[0];

  return apply->n_steps == 1 && step->table->on_device == NULL && !step->has_max
         && !step->is_left_out && tps_table_step_is_short (&step->host);
}

gboolean
tps_apply_run (TpsApply *apply, gint64 lsn, GError **error)
{
  if (apply->n_on_devices > 0 && !step_on_devices (apply, lsn, error))
    {
      skip_host (apply);
      return FALSE;
    }
  add_contributions (apply, TRUE);
  for (guint s = 0; s < apply->n_steps; s++)
    if (apply->steps[s].table->on_device == NULL && !apply->tables[s].is_skipped)
      tps_table_step_run (&apply->steps[s].host, lsn, turn_beside_others (&apply->turns[s]),
                          tps_table_store_get_workers (apply->store));
  return TRUE;
}
