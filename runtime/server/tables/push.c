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
 */

#include "runtime/base/error.h"
#include "runtime/base/outcome.h"
#include "runtime/base/planted_bug.h"
#include "runtime/server/push_digest.h"
#include "runtime/server/tables/apply.h"

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

/* ---- digests --------------------------------------------------------------------------------- */

static void
hash_rows (TpsPushHash *hash, const TpsTablePush *push)
{
  tps_push_hash_add_string (hash, push->is_assignment ? "assign_rows" : "apply_row_gradients");
  tps_push_hash_add_string (hash, push->table);
  tps_push_hash_add_i64 (hash, push->is_assignment ? push->as_of_lsn : push->n_rows);
  tps_push_hash_add_tensor (hash, push->indices);
  tps_push_hash_add_tensor (hash, push->values);
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
    hash_rows (hash, push);
  else
    hash_bags (hash, push);
  return tps_push_hash_end (hash);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Replaces the error of a push whose device was lost after some tables had taken their step. Names
 * these tables, according to `steps`, a result of tps_apply_get_steps(). The tables of a command
 * are in the order of their first gradients. */
static void
set_partial_error (Push *push, gint64 steps)
{
  const TpsTablePush *request = &push->push;
  g_autoptr (GHashTable) tables = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr (GString) names = g_string_new (NULL);

  for (guint i = 0; i < request->n_gradients; i++)
    {
      guint bit = MIN (g_hash_table_size (tables), TPS_APPLY_LAST_STEP);
      const gchar *table = request->gradients[i].query.table;

      if (g_hash_table_add (tables, (gpointer) (guintptr) table) && (steps >> bit & 1) != 0)
        g_string_append_printf (names, "%s%s", names->len > 0 ? ", " : "",
                                bit < TPS_APPLY_LAST_STEP ? table : "some of the later tables");
      if (bit == TPS_APPLY_LAST_STEP)
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

static void
leave_window (Push *push)
{
  TpsPushWindow *window = tps_table_store_get_pushes (push->store);
  const TpsTablePush *request = &push->push;

  if (push->error == NULL || push->steps != 0)
    tps_push_window_end (window, request->client, request->sequence, push->steps,
                         push->command.lsn);
  else
    tps_push_window_fail (window, request->client, request->sequence, push->error);
}

/* Ends a push whose `apply` is not initialised, or has been cleared. */
static void
end_unprepared (Push *push)
{
  if (push->push.client != NULL)
    leave_window (push);
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
  tps_apply_clear (&push->apply);
  end_unprepared (push);
}

/* ---- the turn -------------------------------------------------------------------------------- */

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
  push->command.has_failed = !tps_apply_run (&push->apply, push->command.lsn, &push->error);
  if (push->command.has_failed)
    push->steps = tps_apply_get_steps (push->apply.tables, push->apply.n_steps);
  if (tps_sequencer_has_observer (tps_table_store_get_sequencer (push->store)))
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

static TpsCommandKind
get_kind (const TpsTablePush *request)
{
  if (request->table == NULL)
    return TPS_COMMAND_APPLY_BAGS;
  return request->is_assignment ? TPS_COMMAND_ASSIGN_ROWS : TPS_COMMAND_APPLY_ROWS;
}

static void
fill_record (Push *push)
{
  const TpsTablePush *request = &push->push;
  TpsApply *apply = &push->apply;

  push->command = (TpsCommand) {
    .kind = get_kind (request),
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
    .may_follow = !push->push.is_small && tps_apply_may_follow (&push->apply),
    .tenant = push->push.tenant,
    .run = run_push,
    .refused = push_refused,
    .ended = push_ended,
  };
  tps_sequencer_run (tps_table_store_get_sequencer (push->store), &push->ordered);
}

static gsize
count_view (TpsTensorView view)
{
  return view.data != NULL ? tps_shape_n_bytes (&view.shape) : 0;
}

/* Returns an estimate of the size of the push's record. */
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
  TpsSequencer *sequencer = tps_table_store_get_sequencer (push->store);
  gboolean may_admit = tps_sequencer_may_admit (sequencer, count_bytes (&push->push), &push->error);

  if (!may_admit)
    end_unprepared (push);
  else if (tps_apply_init (&push->apply, push->store, &push->push, &push->error))
    admit (push);
  else
    end_push (push);
}

/* ---- push ids -------------------------------------------------------------------------------- */

/* Answers a repeat when the first push with its id has ended. */
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

/* Answers and frees a push that has no running entry in the window. */
static void
answer (Push *push)
{
  push->done (push->user_data, push->error);
  g_clear_error (&push->error);
  g_free (push);
}

static void
answer_unavailable (Push *push)
{
  g_set_error (&push->error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
               "push %" G_GINT64_FORMAT " of client %s is being applied, and this server cannot "
               "wait: it serves one connection at a time",
               push->push.sequence, push->push.client);
  answer (push);
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
  TpsPushWindow *window = tps_table_store_get_pushes (push->store);
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
        answer_unavailable (push);
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

/* ---- blocking pushes ------------------------------------------------------------------------- */

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
