/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The stages of a push:
 *
 *   enter_window()   looks up the push id; repeats do not pass beyond this stage
 *   prepare()        checks everything and provides all memory
 *   admit()          gets an LSN and the turns
 *   run_push()       changes the tables, in the push's turns
 *   push_ended()     ends the push in the window of push ids, which answers its repeats, and calls
 *                    done()
 *
 * A repeat that arrives while the first push is running waits in the window, and occupies no
 * thread.
 *
 * Replay applies the records of commands: of all commands into an empty store, or of the commands
 * that follow a snapshot. A snapshot is written while commands take effect, so its tables may
 * already contain changes of the replayed records. These changes are left out: changes of rows by
 * the rows' LSNs (host/table.c), steps by the tables' progress, and creations and drops of tables
 * by their incarnations. If one of these records names a table that does not exist, the table was
 * dropped, or dropped and created again, while the snapshot was written. */

#include "runtime/server/tables/apply.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/server/tables/row_store.h"
#include "runtime/server/tables/table_calls.h"
#include "runtime/server/tables/table_snapshot.h"
#include "runtime/server/push_digest.h"
#include "runtime/base/error.h"
#include "runtime/base/outcome.h"
#include "runtime/base/planted_bug.h"

#define LAST_STEP 62 /* see get_steps() */

typedef struct
{
  TpsOrdered ordered; /* must be the first member */
  TpsCommand command;
  TpsTableStore *store;
  TpsTablePush push;
  TpsPushDigest digest;
  gint64 steps; /* if the push failed: the tables that took their step, as in the window */
  TpsTablePushDone done;
  gpointer user_data;
  GError *error;
  TpsApply apply;
} Push;

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
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                   "values: %s, expected %s%s [%" G_GINT64_FORMAT ", %" G_GINT64_FORMAT
                   "] for table %s",
                   got, table->spec.dtype == TPS_DTYPE_FLOAT32 ? "" : "FLOAT32 or ",
                   tps_dtype_name (table->spec.dtype), n_rows, dim, table->spec.name);
}

/* If a push of rows states the number of rows of its table, the number must be correct. */
static gboolean
check_n_rows (const TpsTable *table, const TpsTablePush *push, GError **error)
{
  if (!push->has_n_rows || push->n_rows == table->spec.shard.rows)
    return TRUE;
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                   "gradient.shape[0] is %" G_GINT64_FORMAT ", table %s has %" G_GINT64_FORMAT
                   " rows",
                   push->n_rows, table->spec.name, table->spec.shard.rows);
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
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "table %s: %s", table->spec.name, what);
}

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
                                apply->store->scratch, error))
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
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                   "gradients[%u].gradient: %s, expected FLOAT32 [%" G_GINT64_FORMAT
                   ", %d] for table %s",
                   i, got, n_bags, part->open.table->spec.dim, part->open.table->spec.name);
}

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

  if (!tps_scratch_provide (lists, apply->store->scratch, "gradients", error))
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
  return tps_scratch_provide (&apply->scratch, apply->store->scratch,
                              apply->push->table != NULL ? "values" : "gradients", error);
}

/* Prepares a push (apply.h). `push` is borrowed until clear(), which must follow even after an
 * error. Errors: as tps_table_store_push(). */
static gboolean
apply_init (TpsApply *apply, TpsTableStore *store, const TpsTablePush *push, GError **error)
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

/* Returns TRUE if the push may run while the previous push still runs: it is one short step in the
 * host's memory. */
static gboolean
may_follow (const TpsApply *apply)
{
  const TpsApplyStep *step = &apply->steps[0];

  return apply->n_steps == 1 && !step->is_left_out && step->table->row_store->may_follow (step);
}

/* Takes the steps of command `lsn`. Errors, only for tables on devices: DEVICE_LOST,
 * RESOURCE_EXHAUSTED; tables that did not take their step are marked in `apply->tables`. Blocks if
 * tables are on devices. */
static gboolean
apply_run (TpsApply *apply, gint64 lsn, GError **error)
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
        for (guint s = 0; s < apply->n_steps; s++)
          apply->tables[s].is_skipped |= apply->steps[s].table->row_store == tps_row_stores[i];
    }
  return ok;
}

/* Returns the tables of a failed command that took their step, as the answer that the push window
 * remembers: bit i = tables[i], and bit LAST_STEP = at least one of all further tables. 0: no table
 * took its step. */
static gint64
get_steps (const TpsCommandTable *tables, guint n_tables)
{
  gint64 steps = 0;

  for (guint i = 0; i < n_tables; i++)
    if (!tables[i].is_skipped)
      steps |= G_GINT64_CONSTANT (1) << MIN (i, LAST_STEP);
  return steps;
}

static void
hash_bags (TpsPushHash *hash, const TpsTablePush *push)
{
  tps_push_hash_add_string (hash, "apply_bag_gradients");
  for (guint i = 0; i < push->n_gradients; i++)
    {
      const TpsBagQuery *query = &push->gradients[i].query;

      tps_push_hash_add_string (hash, query->table);
      tps_push_hash_add_i64 (hash, query->pooling);
      tps_push_hash_add_tensor (hash, query->indices);
      tps_push_hash_add_tensor (hash, query->offsets);
      tps_push_hash_add_tensor (hash, query->weights);
      tps_push_hash_add_tensor (hash, push->gradients[i].gradient);
    }
}

static TpsPushDigest
digest_of (const TpsTablePush *push)
{
  TpsPushHash *hash = tps_push_hash_new ();

  if (push->table != NULL)
    {
      tps_push_hash_add_string (hash, push->is_assignment ? "assign_rows" : "apply_row_gradients");
      tps_push_hash_add_string (hash, push->table);
      tps_push_hash_add_i64 (hash, push->is_assignment ? push->as_of_lsn : push->n_rows);
      tps_push_hash_add_tensor (hash, push->indices);
      tps_push_hash_add_tensor (hash, push->values);
    }
  else
    hash_bags (hash, push);
  return tps_push_hash_end (hash);
}

/* Replaces the error of a push whose device was lost after some tables had taken their step. Names
 * these tables, according to `steps`, a result of get_steps(). The tables of a command
 * are in the order of their first gradients. */
static void
set_partial_error (Push *push, gint64 steps)
{
  const TpsTablePush *request = &push->push;
  g_autoptr (GHashTable) tables = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr (GString) names = g_string_new (NULL);

  for (guint i = 0; i < request->n_gradients; i++)
    {
      guint bit = MIN (g_hash_table_size (tables), LAST_STEP);
      const gchar *table = request->gradients[i].query.table;

      if (g_hash_table_add (tables, (gpointer) (guintptr) table) && (steps >> bit & 1) != 0)
        g_string_append_printf (names, "%s%s", names->len > 0 ? ", " : "",
                                bit < LAST_STEP ? table : "some of the later tables");
      if (bit == LAST_STEP)
        break;
    }
  g_clear_error (&push->error);
  g_set_error (
      &push->error, TPS_ERROR, TPS_ERROR_DEVICE_LOST,
      "push %" G_GINT64_FORMAT " of client %s: a device was lost while the tables changed; "
      "of the tables that the push names, only these took their step: %s; the push must not "
      "be repeated",
      request->sequence, request->client, names->str);
}

/* Ends a push whose `apply` is not initialised, or has been cleared. */
static void
end_unprepared (Push *push)
{
  if (push->push.client != NULL)
    {
      TpsPushWindow *window = push->store->pushes;
      const TpsTablePush *request = &push->push;

      if (push->error == NULL || push->steps != 0)
        tps_push_window_end (window, request->client, request->sequence, push->steps,
                             push->command.lsn);
      else
        tps_push_window_fail (window, request->client, request->sequence, push->error);
    }
  push->done (push->user_data, push->error);
  g_clear_error (&push->error);
  g_free (push);
}

static void
count_push (const Push *push)
{
  gint64 duration_ns = tps_table_store_get_elapsed_ns (push->push.began_ns);

  for (guint i = 0; i < push->apply.n_parts; i++)
    {
      const TpsApplyPart *part = &push->apply.parts[i];
      TpsTable *table = part->open.table;
      const TpsTableWork work = {
        .n_rows = part->open.bags.n_indices,
        .n_bytes = part->open.bags.n_bags * table->dim * tps_dtype_size (part->dtype),
        .duration_ns = duration_ns,
      };

      tps_table_numbers_add_push (table->numbers, &work);
    }
}

static void
end_push (Push *push)
{
  if (push->error == NULL)
    count_push (push);
  else if (push->steps != 0 && push->push.client != NULL)
    set_partial_error (push, push->steps);
  for (guint i = 0; push->apply.parts != NULL && i < push->apply.n_parts; i++)
    tps_open_query_clear (&push->apply.parts[i].open);
  tps_scratch_clear (&push->apply.scratch);
  tps_scratch_clear (&push->apply.lists);
  end_unprepared (push);
}

static void
run_push (TpsOrdered *ordered)
{
  Push *push = (Push *) ordered;

  TPS_PLANT ("apply-only-logged", return );
  if (ordered->has_waited)
    {
      tps_phases_rename (push->push.phases, TPS_PHASE_WAIT);
      tps_phases_enter_long (push->push.phases, TPS_PHASE_APPLY);
    }
  push->command.has_failed = !apply_run (&push->apply, push->command.lsn, &push->error);
  if (push->command.has_failed)
    push->steps = get_steps (push->apply.tables, push->apply.n_steps);
  if (tps_sequencer_has_observer (push->store->sequencer))
    tps_phases_enter_long (push->push.phases, TPS_PHASE_WAIT);
}

/* If `error` is set, the push has taken effect, but a restart will lose it. The sender gets the
 * error, because it must not rely on the push. */
static void
push_ended (TpsOrdered *ordered, const GError *error)
{
  Push *push = (Push *) ordered;

  if (error != NULL && push->error == NULL)
    push->error = g_error_copy (error);
  end_push (push);
}

static void
push_refused (TpsOrdered *ordered, const TpsTurn *closed)
{
  Push *push = (Push *) ordered;

  g_set_error (&push->error, TPS_ERROR, TPS_ERROR_NOT_FOUND, "table: there is no table %s",
               push->apply.tables[closed - push->apply.turns].name);
  end_push (push);
}

static void
fill_record (Push *push)
{
  const TpsTablePush *request = &push->push;
  TpsApply *apply = &push->apply;

  push->command = (TpsCommand) {
    .kind = request->table == NULL   ? TPS_COMMAND_APPLY_BAGS
            : request->is_assignment ? TPS_COMMAND_ASSIGN_ROWS
                                     : TPS_COMMAND_APPLY_ROWS,
    .id = { request->client, request->sequence, push->digest, request->tenant },
    .durability = apply->durability,
    .n_tables = apply->n_steps,
    .tables = apply->tables,
  };
  if (request->table != NULL)
    push->command.rows = (TpsCommandRows) { request->indices, request->values, request->as_of_lsn };
  else
    push->command.bags = (TpsCommandBags) { request->n_gradients, request->gradients };
}

static void
admit (Push *push)
{
  fill_record (push);
  push->ordered = (TpsOrdered) {
    .command = &push->command,
    .turns = push->apply.turns,
    .n_turns = push->apply.n_steps,
    .is_small = push->push.is_small,
    .may_follow = !push->push.is_small && may_follow (&push->apply),
    .tenant = push->push.tenant,
    .run = run_push,
    .refused = push_refused,
    .ended = push_ended,
  };
  tps_sequencer_run (push->store->sequencer, &push->ordered);
}

static gsize
count_view (TpsTensorView view)
{
  return view.data != NULL ? tps_shape_n_bytes (&view.shape) : 0;
}

static gsize
count_bytes (const TpsTablePush *push)
{
  gsize n_bytes = count_view (push->indices) + count_view (push->values);

  for (guint i = 0; i < push->n_gradients; i++)
    n_bytes += count_view (push->gradients[i].query.indices)
               + count_view (push->gradients[i].gradient);
  return n_bytes;
}

static void
prepare (Push *push)
{
  TpsSequencer *sequencer = push->store->sequencer;
  gboolean may_admit = tps_sequencer_may_admit (sequencer, count_bytes (&push->push), &push->error);

  if (!may_admit)
    end_unprepared (push);
  else if (apply_init (&push->apply, push->store, &push->push, &push->error))
    admit (push);
  else
    end_push (push);
}

static void
first_ended (gpointer user_data, gint64 steps, const GError *error)
{
  Push *push = user_data;

  tps_phases_rename (push->push.phases, TPS_PHASE_WAIT);
  if (error == NULL && steps != 0)
    set_partial_error (push, steps);
  push->done (push->user_data, error != NULL ? error : push->error);
  g_clear_error (&push->error);
  g_free (push);
}

/* Replaces first_ended() for a repeat that may not wait, which has been answered and freed. */
static void
ignore_end (gpointer unused, gint64 answer_unused, const GError *error)
{
}

static void
answer (Push *push)
{
  push->done (push->user_data, push->error);
  g_clear_error (&push->error);
  g_free (push);
}

/* Returns the earliest incarnation of the tables that the push names; 0 if one of them does not
 * exist. */
static gint64
find_incarnation (TpsTableStore *store, const TpsTablePush *push)
{
  gint64 earliest = G_MAXINT64;

  if (push->table != NULL)
    return tps_table_store_get_incarnation (store, push->table);
  for (guint i = 0; i < push->n_gradients; i++)
    earliest = MIN (earliest,
                    tps_table_store_get_incarnation (store, push->gradients[i].query.table));
  return push->n_gradients > 0 ? earliest : 0;
}

/* A known id may have been used for an earlier table of the same name. If the id is known, it is
 * therefore looked up again with the earliest incarnation of the tables. A new id needs no
 * incarnation. Sets `steps` for a REPEAT: see set_partial_error(). */
static TpsPushVerdict
begin_in_window (Push *push, gint64 *steps)
{
  TpsPushWindow *window = push->store->pushes;
  TpsPushRequest request = {
    .client = push->push.client,
    .sequence = push->push.sequence,
    .digest = &push->digest,
    .ended = push->push.may_wait ? first_ended : ignore_end,
    .user_data = push,
    .tenant = push->push.tenant,
  };
  TpsPushVerdict verdict = tps_push_window_begin (window, &request, steps, &push->error);

  if (verdict == TPS_PUSH_NEW || verdict == TPS_PUSH_RUNNING)
    return verdict;
  request.incarnation = find_incarnation (push->store, &push->push);
  TPS_PLANT ("incarnation-ignored", request.incarnation = 0);
  if (request.incarnation == 0)
    return verdict;
  g_clear_error (&push->error);
  return tps_push_window_begin (window, &request, steps, &push->error);
}

static void
enter_window (Push *push)
{
  gboolean may_wait = push->push.may_wait;
  gint64 steps = 0;

  push->digest = digest_of (&push->push);
  switch (begin_in_window (push, &steps))
    {
    case TPS_PUSH_NEW:
      prepare (push);
      break;
    case TPS_PUSH_RUNNING:
      /* A push that may wait may already have been answered and freed. */
      if (!may_wait)
        {
          g_set_error (&push->error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
                       "push %" G_GINT64_FORMAT
                       " of client %s is being applied, and this server cannot "
                       "wait: it serves one connection at a time",
                       push->push.sequence, push->push.client);
          answer (push);
        }
      break;
    case TPS_PUSH_REPEAT:
      if (steps != 0)
        set_partial_error (push, steps);
      answer (push);
      break;
    case TPS_PUSH_REFUSED:
    case TPS_PUSH_UNDECIDED: /* does not occur: the push has a digest */
      answer (push);
      break;
    }
}

void
tps_table_store_push (TpsTableStore *store, const TpsTablePush *request, TpsTablePushDone done,
                      gpointer user_data)
{
  Push *push = g_new (Push, 1);

  push->store = store;
  push->push = *request;
  push->done = done;
  push->user_data = user_data;
  push->error = NULL;
  push->steps = 0;
  if (request->client != NULL)
    enter_window (push);
  else
    prepare (push);
}

static void
set_outcome (gpointer outcome, const GError *error)
{
  tps_outcome_set (outcome, error);
}

gboolean
tps_table_store_push_and_wait (TpsTableStore *store, const TpsTablePush *push, GError **error)
{
  TpsOutcome outcome;

  tps_outcome_init (&outcome);
  tps_table_store_push (store, push, set_outcome, &outcome);
  return tps_outcome_wait (&outcome, error);
}

gboolean
tps_table_store_apply_rows (TpsTableStore *store, const gchar *table, TpsTensorView indices,
                            TpsTensorView values, GError **error)
{
  TpsTablePush push = { .may_wait = TRUE, .table = table, .indices = indices, .values = values };

  return tps_table_store_push_and_wait (store, &push, error);
}

gboolean
tps_table_store_apply_bags (TpsTableStore *store, const TpsBagGradient *gradients,
                            guint n_gradients, GError **error)
{
  TpsTablePush push = { .may_wait = TRUE, .gradients = gradients, .n_gradients = n_gradients };

  return tps_table_store_push_and_wait (store, &push, error);
}

/* Returns TRUE if the restored snapshot may contain effects of the command. */
static gboolean
is_in_snapshot (TpsTableStore *store, const TpsCommand *command)
{
  return command->lsn <= store->snapshot_lsn;
}

/* Sets `dropped` to a set of the names of the record's tables that were dropped later; NULL if all
 * tables exist. The names are borrowed from the record. */
static gboolean
find_dropped (TpsTableStore *store, const TpsCommand *command, GHashTable **dropped, GError **error)
{
  *dropped = NULL;
  for (guint i = 0; i < command->n_tables; i++)
    {
      const TpsCommandTable *table = &command->tables[i];

      if (tps_table_store_get_incarnation (store, table->name) == table->incarnation)
        continue;
      if (!is_in_snapshot (store, command))
        return tps_fail (error, TPS_ERROR_NOT_FOUND,
                         "record %" G_GINT64_FORMAT
                         ": table %s does not exist, or has a different incarnation",
                         command->lsn, table->name);
      if (*dropped == NULL)
        *dropped = g_hash_table_new (g_str_hash, g_str_equal);
      g_hash_table_add (*dropped, (gpointer) (guintptr) table->name);
    }
  return TRUE;
}

static gboolean
push_record (TpsTableStore *store, const TpsCommand *record, GError **error)
{
  TpsTablePush push = { .may_wait = TRUE, .record = record };

  if (record->kind != TPS_COMMAND_APPLY_BAGS)
    {
      push.table = record->tables[0].name;
      push.indices = record->rows.indices;
      push.values = record->rows.values;
      push.is_assignment = record->kind == TPS_COMMAND_ASSIGN_ROWS;
      push.as_of_lsn = record->rows.as_of_lsn;
      TPS_PLANT ("replay-without-last-row",
                 push.indices.shape.dims[0] = --push.values.shape.dims[0]);
    }
  else
    {
      push.gradients = record->bags.gradients;
      push.n_gradients = record->bags.n_gradients;
    }
  return tps_table_store_push_and_wait (store, &push, error);
}

/* Pushes a record of bags without the dropped tables. The other tables keep their order. */
static gboolean
push_rest (TpsTableStore *store, const TpsCommand *record, GHashTable *dropped, GError **error)
{
  g_autofree TpsCommandTable *tables = g_new (TpsCommandTable, record->n_tables);
  g_autofree TpsBagGradient *gradients = g_new (TpsBagGradient, record->bags.n_gradients);
  TpsCommand rest = *record;

  rest.n_tables = 0;
  rest.tables = tables;
  for (guint i = 0; i < record->n_tables; i++)
    if (!g_hash_table_contains (dropped, record->tables[i].name))
      tables[rest.n_tables++] = record->tables[i];
  if (rest.n_tables == 0)
    return TRUE;
  rest.bags = (TpsCommandBags) { .gradients = gradients };
  for (guint i = 0; i < record->bags.n_gradients; i++)
    if (!g_hash_table_contains (dropped, record->bags.gradients[i].query.table))
      gradients[rest.bags.n_gradients++] = record->bags.gradients[i];
  return push_record (store, &rest, error);
}

/* Adds the push id of a record to the window, as the id of a push that has ended. The id is already
 * in the window if the snapshot contained it. `steps`: as in get_steps(). Errors:
 * RESOURCE_EXHAUSTED. */
static gboolean
remember_id (TpsTableStore *store, const TpsCommand *record, gint64 steps, GError **error)
{
  TpsPushWindow *window = store->pushes;
  TpsPushRequest request = { .client = record->id.client,
                             .sequence = record->id.sequence,
                             .digest = &record->id.digest,
                             .incarnation = G_MAXINT64,
                             .tenant = record->id.tenant };

  TPS_PLANT ("window-not-restored", return TRUE);
  for (guint i = 0; i < record->n_tables; i++)
    request.incarnation = MIN (request.incarnation, record->tables[i].incarnation);
  return tps_push_window_replay (window, &request, record->moment.time_ms, steps, record->lsn,
                                 error);
}

static gboolean
replay_push (TpsTableStore *store, const TpsCommand *command, GError **error)
{
  g_autoptr (GHashTable) dropped = NULL;
  gint64 steps = 0;
  gboolean ok;

  if (!find_dropped (store, command, &dropped, error))
    return FALSE;
  if (dropped == NULL)
    ok = push_record (store, command, error);
  else
    ok = command->kind != TPS_COMMAND_APPLY_BAGS || push_rest (store, command, dropped, error);
  if (command->has_failed)
    steps = get_steps (command->tables, command->n_tables);
  if (ok && command->id.client != NULL && (!command->has_failed || steps != 0))
    ok = remember_id (store, command, steps, error);
  return ok;
}

static gboolean
replay (TpsTableStore *store, const TpsCommand *command, GError **error)
{
  switch (command->kind)
    {
    case TPS_COMMAND_CREATE_TABLE:
      {
        gint64 present = tps_table_store_get_incarnation (store, command->create->name);

        if (present >= command->lsn && is_in_snapshot (store, command))
          return TRUE;
        return tps_table_store_create (store, command->create, error);
      }
    case TPS_COMMAND_DROP_TABLE:
      {
        gint64 present = tps_table_store_get_incarnation (store, command->drop);

        TPS_PLANT ("drop-not-replayed", return TRUE);
        if ((present == 0 || present > command->lsn) && is_in_snapshot (store, command))
          return TRUE;
        return tps_table_store_drop (store, command->drop, error);
      }
    case TPS_COMMAND_APPLY_ROWS:
    case TPS_COMMAND_ASSIGN_ROWS:
    case TPS_COMMAND_APPLY_BAGS:
      return replay_push (store, command, error);
    case TPS_COMMAND_INIT_MODEL:
    case TPS_COMMAND_UPDATE_MODEL:
    case TPS_COMMAND_RESET_MODEL:
      break;
    }
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "command %d does not change tables",
                   (gint) command->kind);
}

gboolean
tps_table_store_replay (TpsTableStore *store, const TpsCommand *command, GError **error)
{
  TpsSequencer *sequencer = store->sequencer;

  /* The replayed command gets the LSN of its record. If the record is left out, no command gets the
   * LSN, so it is set again at the end. */
  tps_sequencer_set_lsn (sequencer, command->lsn - 1);
  if (!replay (store, command, error))
    return FALSE;
  tps_sequencer_set_lsn (sequencer, command->lsn);
  return TRUE;
}
