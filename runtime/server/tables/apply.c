/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/tables/apply.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/error.h"
#include "runtime/server/tables/row_store.h"

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

/* If a push of rows states the number of rows of its table, the number must be correct. */
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

  if (push->is_assignment && !table->row_store->may_assign)
    what = "its rows are on a device, where they cannot be assigned";
  else if (push->is_assignment && push->as_of_lsn != 0 && table->lsns == NULL)
    what = "this server keeps no LSNs of rows, since it has no data directory";
  if (what == NULL)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "table %s: %s", table->spec.name,
               what);
  return FALSE;
}

/* Opens a push of rows as bags of one row each. */
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
open_all (TpsApply *apply, GError **error)
{
  /* A replayed push met the limit when it was first received. A push of rows needs no limit,
   * because its message contains a value for each row. */
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
      if (!ok)
        return FALSE;
      apply->n_in[apply->parts[i].open.table->row_store->number]++;
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
  return left < right ? -1 : 1; /* both point into one array */
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
  for (guint i = 0; i < apply->n_parts; i++) /* finds the first part with the same table */
    sorted[i]->step = i > 0 && sorted[i]->open.table == sorted[i - 1]->open.table
                          ? sorted[i - 1]->step
                          : (guint) (sorted[i] - apply->parts);
  /* Replaces the index of the first part by the number of its step. */
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

/* Returns TRUE if table `i` of a record must not take its step: the record says so, or the table
 * comes from a snapshot that contains the step. */
static gboolean
is_left_out (const TpsCommand *record, guint i, TpsTable *table)
{
  return (i < record->n_tables && record->tables[i].is_skipped)
         || record->lsn <= tps_table_get_progress (table).lsn;
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

static void
describe_steps (TpsApply *apply)
{
  for (guint i = 0; i < apply->n_parts; i++)
    {
      TpsApplyPart *part = &apply->parts[i];
      TpsApplyStep *step = &apply->steps[part->step];

      step->n_contributions += part->open.bags.n_indices;
      step->has_weights |= part->open.bags.weights != NULL;
    }
}

static gboolean
provide_scratch (TpsApply *apply, GError **error)
{
  for (guint i = 0; i < TPS_N_ROW_STORES; i++)
    if (apply->n_in[i] > 0)
      tps_row_stores[i]->reserve (apply);
  return tps_scratch_provide (&apply->scratch, tps_table_store_get_scratch (apply->store),
                              apply->push->table != NULL ? "values" : "gradients", error);
}

/* ---- beginning and end ----------------------------------------------------------------------- */

gboolean
tps_apply_init (TpsApply *apply, TpsTableStore *store, const TpsTablePush *push, GError **error)
{
  TpsApplyPart **sorted;

  apply->store = store;
  apply->push = push;
  apply->n_parts = push->table != NULL ? 1 : push->n_gradients;
  apply->n_steps = 0;
  memset (apply->n_in, 0, sizeof apply->n_in);
  apply->durability = 0;
  apply->parts = NULL;
  tps_scratch_init (&apply->lists);
  tps_scratch_init (&apply->scratch);
  if (!provide_lists (apply, &sorted, error) || !open_all (apply, error))
    return FALSE;
  number_tables (apply, sorted);
  describe_tables (apply);
  describe_steps (apply);
  if (!provide_scratch (apply, error))
    return FALSE;
  for (guint i = 0; i < TPS_N_ROW_STORES; i++)
    if (apply->n_in[i] > 0)
      tps_row_stores[i]->begin (apply);
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

gboolean
tps_apply_may_follow (const TpsApply *apply)
{
  const TpsApplyStep *step = &apply->steps[0];

  return apply->n_steps == 1 && !step->is_left_out && step->table->row_store->may_follow (step);
}

/* Marks all tables of a row store: they do not take their steps. */
static void
skip (TpsApply *apply, const TpsRowStore *rows)
{
  for (guint s = 0; s < apply->n_steps; s++)
    apply->tables[s].is_skipped |= apply->steps[s].table->row_store == rows;
}

gboolean
tps_apply_run (TpsApply *apply, gint64 lsn, GError **error)
{
  gboolean ok = TRUE;

  /* Devices take their steps first, because only these can fail. After a failure, the tables in the
   * host's memory stay unchanged. */
  for (guint i = TPS_N_ROW_STORES; i-- > 0;)
    {
      if (apply->n_in[i] == 0)
        continue;
      if (ok)
        ok = tps_row_stores[i]->run (apply, lsn, error);
      else
        skip (apply, tps_row_stores[i]);
    }
  return ok;
}

gint64
tps_apply_get_steps (const TpsCommandTable *tables, guint n_tables)
{
  gint64 steps = 0;

  for (guint i = 0; i < n_tables; i++)
    if (!tables[i].is_skipped)
      steps |= G_GINT64_CONSTANT (1) << MIN (i, TPS_APPLY_LAST_STEP);
  return steps;
}
