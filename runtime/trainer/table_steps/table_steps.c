/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Steps are numbered from 0. Step k uses slot k modulo n_slots. tps_table_steps_take() of step k
 * waits until at most max_staleness pushes are in flight. Slots are in use by these pushes, by the
 * current step and by the prefetched step. Therefore max_staleness + 2 slots suffice.
 *
 * A push that ends after the lookup of step k has begun may change rows that this lookup has read.
 * Therefore the slot of a step stores the number of pushes that had ended when its lookup began.
 * tps_table_steps_take() looks up the rows of later pushes again.
 */

#include "runtime/trainer/table_steps/table_steps.h"

#include "runtime/base/error.h"
#include "runtime/device/device_memory.h"
#include "runtime/trainer/table_steps/step_rows.h"
#include "runtime/trainer/table_steps/table_call.h"

typedef struct
{
  TpsStepRows *rows; /* [n_tables] */
  gint64 *numbers;   /* [n_numbers] 0, 1, …: offsets of bags that have one id each */
  gsize n_numbers;
  guint64 n_ended; /* pushes that had ended when the lookup began */
  TpsTableCall lookup, refresh, push;
} Slot;

struct TpsTableSteps
{
  guint n_tables, max_staleness, n_slots;
  gchar **tables;
  gint64 timeout_ns;
  Slot *slots;
  guint64 n_prefetched, n_taken, n_pushed, n_ended; /* steps; pushes are awaited in order */
  TpsTableStepsCounts counts;
};

static Slot *
get_slot (const TpsTableSteps *steps, guint64 step)
{
  return &steps->slots[step % steps->n_slots];
}

/* -- creation -- */

static gboolean
refuse (const gchar *problem, GError **error)
{
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "table steps: %s", problem);
}

static gboolean
check_options (const TpsTableStepsOptions *options, GError **error)
{
  if (options->n_tables == 0)
    return refuse ("no table is named", error);
  if (options->max_staleness > TPS_TABLE_STEPS_MAX_STALENESS)
    return refuse ("max_staleness is above " G_STRINGIFY (TPS_TABLE_STEPS_MAX_STALENESS), error);
  for (guint t = 0; t < options->n_tables; t++)
    if (options->dims[t] == 0)
      return refuse ("a table has rows of 0 floats", error);
  return TRUE;
}

static void
init_slot (Slot *slot, const TpsTableStepsOptions *options)
{
  slot->rows = g_new (TpsStepRows, options->n_tables);
  for (guint t = 0; t < options->n_tables; t++)
    tps_step_rows_init (&slot->rows[t], options->dims[t]);
  tps_table_call_init (&slot->lookup, options->client, options->n_tables);
  tps_table_call_init (&slot->refresh, options->client, options->n_tables);
  tps_table_call_init (&slot->push, options->client, 0);
}

TpsTableSteps *
tps_table_steps_new (const TpsTableStepsOptions *options, GError **error)
{
  TpsTableSteps *steps;

  if (!check_options (options, error))
    return NULL;
  steps = g_new0 (TpsTableSteps, 1);
  steps->n_tables = options->n_tables;
  steps->max_staleness = options->max_staleness;
  steps->n_slots = options->max_staleness + 2;
  steps->timeout_ns = options->timeout_ns;
  steps->tables = g_new0 (gchar *, options->n_tables + 1);
  for (guint t = 0; t < options->n_tables; t++)
    steps->tables[t] = g_strdup (options->tables[t]);
  steps->slots = g_new0 (Slot, steps->n_slots);
  for (guint i = 0; i < steps->n_slots; i++)
    init_slot (&steps->slots[i], options);
  return steps;
}

static void
clear_slot (Slot *slot, guint n_tables)
{
  tps_table_call_clear (&slot->lookup);
  tps_table_call_clear (&slot->refresh);
  tps_table_call_clear (&slot->push);
  for (guint t = 0; t < n_tables; t++)
    tps_step_rows_clear (&slot->rows[t]);
  g_free (slot->rows);
  g_free (slot->numbers);
}

void
tps_table_steps_free (TpsTableSteps *steps)
{
  for (guint i = 0; i < steps->n_slots; i++)
    clear_slot (&steps->slots[i], steps->n_tables);
  g_free (steps->slots);
  g_strfreev (steps->tables);
  g_free (steps);
}

/* -- calls -- */

static void
reserve_numbers (Slot *slot, gsize n)
{
  if (n <= slot->n_numbers)
    return;
  slot->numbers = g_renew (gint64, slot->numbers, n);
  for (gsize i = slot->n_numbers; i < n; i++)
    slot->numbers[i] = (gint64) i;
  slot->n_numbers = n;
}

/* Returns a query for `n` single rows: each id has a bag of its own. */
static TpsBagQuery
make_query (const TpsTableSteps *steps, const Slot *slot, guint table, const gint64 *ids, gsize n)
{
  TpsShape shape = { .dtype = TPS_DTYPE_INT64, .n_dims = 1, .dims = { (gint64) n } };

  return (TpsBagQuery) {
    .table = steps->tables[table],
    .indices = { .shape = shape, .data = ids },
    .offsets = { .shape = shape, .data = slot->numbers },
    .pooling = TPS_POOLING_SUM,
  };
}

static gint64
get_deadline (const TpsTableSteps *steps)
{
  return tps_clock_now_ns () + steps->timeout_ns;
}

static gboolean
check_reply (const TpsTableSteps *steps, guint table, const TpsTensor *reply, gsize n, gsize dim,
             GError **error)
{
  TpsShape expected = { .dtype = TPS_DTYPE_FLOAT32,
                        .n_dims = 2,
                        .dims = { (gint64) n, (gint64) dim } };
  g_autofree gchar *got = NULL, *wanted = NULL;

  if (tps_device_memory_of_tensor (reply) != NULL)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "table %s: its rows are in memory of %s, and are pooled in host memory: the "
                     "client must have no device for lookups",
                     steps->tables[table], tps_device_memory_of_tensor (reply)->name);
  if (tps_shape_equal (&reply->shape, &expected))
    return TRUE;
  got = tps_shape_to_string (&reply->shape);
  wanted = tps_shape_to_string (&expected);
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "table %s: its rows are %s, not %s",
                   steps->tables[table], got, wanted);
}

/* -- lookups of the tables that have ids -- */

static void
send_lookup (TpsTableSteps *steps, Slot *slot)
{
  g_autofree TpsBagQuery *queries = g_new (TpsBagQuery, steps->n_tables);
  guint n_queries = 0;

  for (guint t = 0; t < steps->n_tables; t++)
    {
      const TpsCpuGroups *groups = &slot->rows[t].groups;

      if (groups->n_groups > 0)
        queries[n_queries++] = make_query (steps, slot, t, groups->ids, groups->n_groups);
      steps->counts.n_ids += slot->rows[t].bags.n_ids;
      steps->counts.n_fetched += groups->n_groups;
    }
  if (n_queries > 0)
    tps_table_call_lookup (&slot->lookup, queries, n_queries, 0, get_deadline (steps));
}

static gboolean
end_lookup (TpsTableSteps *steps, Slot *slot, GError **error)
{
  guint n_queries = 0;

  if (!tps_table_call_wait (&slot->lookup, error))
    return FALSE;
  for (guint t = 0; t < steps->n_tables; t++)
    {
      TpsStepRows *rows = &slot->rows[t];
      const TpsTensor *reply = &slot->lookup.outputs[n_queries];

      if (rows->groups.n_groups == 0)
        continue;
      if (!check_reply (steps, t, reply, rows->groups.n_groups, rows->dim, error))
        return FALSE;
      tps_step_rows_take_all (rows, tps_tensor_data (reply));
      n_queries++;
    }
  return TRUE;
}

static void
send_refresh (TpsTableSteps *steps, Slot *slot)
{
  g_autofree TpsBagQuery *queries = g_new (TpsBagQuery, steps->n_tables);
  guint n_queries = 0;

  for (guint t = 0; t < steps->n_tables; t++)
    {
      const TpsStepRows *rows = &slot->rows[t];

      if (rows->n_stale > 0)
        queries[n_queries++] = make_query (steps, slot, t, rows->stale, rows->n_stale);
      steps->counts.n_refreshed += rows->n_stale;
    }
  if (n_queries > 0)
    tps_table_call_lookup (&slot->refresh, queries, n_queries, 0, get_deadline (steps));
}

/* Must be called after end_lookup(), because it replaces rows of the lookup by newer rows. */
static gboolean
end_refresh (TpsTableSteps *steps, Slot *slot, GError **error)
{
  guint n_queries = 0;

  if (!tps_table_call_wait (&slot->refresh, error))
    return FALSE;
  for (guint t = 0; t < steps->n_tables; t++)
    {
      TpsStepRows *rows = &slot->rows[t];
      const TpsTensor *reply = &slot->refresh.outputs[n_queries];

      if (rows->n_stale == 0)
        continue;
      if (!check_reply (steps, t, reply, rows->n_stale, rows->dim, error))
        return FALSE;
      tps_step_rows_take_stale (rows, tps_tensor_data (reply));
      n_queries++;
    }
  return TRUE;
}

/* Releases the replies early, because their server may reuse their memory for other replies. */
static void
release_replies (const TpsTableSteps *steps, Slot *slot)
{
  for (guint t = 0; t < steps->n_tables; t++)
    {
      tps_tensor_clear (&slot->lookup.outputs[t]);
      tps_tensor_clear (&slot->refresh.outputs[t]);
    }
}

static gboolean
check_bags (const TpsStepBags *bags, GError **error)
{
  for (gsize i = 0; i < bags->n_ids; i++)
    if (bags->ids[i] < 0)
      return refuse ("an id is negative", error);
  if (bags->n_bags == 0 && bags->n_ids > 0)
    return refuse ("there are ids but no bags", error);
  for (gsize i = 0; i < bags->n_bags; i++)
    if (i == 0 ? bags->offsets[0] != 0
               : bags->offsets[i] < bags->offsets[i - 1] || bags->offsets[i] > (gint64) bags->n_ids)
      return refuse ("offsets do not ascend from 0 to at most the number of ids", error);
  return TRUE;
}

gboolean
tps_table_steps_prefetch (TpsTableSteps *steps, const TpsStepBags *bags, GError **error)
{
  Slot *slot = get_slot (steps, steps->n_prefetched);

  if (steps->n_prefetched > steps->n_taken)
    return refuse ("two steps ahead: the prefetched step must be taken first", error);
  for (guint t = 0; t < steps->n_tables; t++)
    if (!check_bags (&bags[t], error))
      return FALSE;
  /* The slot is free: tps_table_steps_take() has waited for the slot's last push. */
  for (guint t = 0; t < steps->n_tables; t++)
    {
      tps_step_rows_set_bags (&slot->rows[t], &bags[t]);
      reserve_numbers (slot, slot->rows[t].groups.n_groups);
    }
  slot->n_ended = steps->n_ended;
  send_lookup (steps, slot);
  steps->n_prefetched++;
  return TRUE;
}

/* -- pushes -- */

/* Waits until at most `n` pushes are in flight. */
static gboolean
wait_for_pushes (TpsTableSteps *steps, guint64 n, GError **error)
{
  while (steps->n_pushed - steps->n_ended > n)
    {
      if (!tps_table_call_wait (&get_slot (steps, steps->n_ended)->push, error))
        {
          g_prefix_error (error, "push of step %" G_GUINT64_FORMAT ": ", steps->n_ended);
          return FALSE;
        }
      steps->n_ended++;
    }
  return TRUE;
}

gboolean
tps_table_steps_wait (TpsTableSteps *steps, GError **error)
{
  return wait_for_pushes (steps, steps->max_staleness, error);
}

gboolean
tps_table_steps_settle (TpsTableSteps *steps, GError **error)
{
  return wait_for_pushes (steps, 0, error);
}

static TpsBagGradient
make_gradient (const TpsTableSteps *steps, const Slot *slot, guint table)
{
  const TpsStepRows *rows = &slot->rows[table];
  gsize n = rows->groups.n_groups;

  return (TpsBagGradient) {
    .query = make_query (steps, slot, table, rows->groups.ids, n),
    .gradient = { .shape = { .dtype = TPS_DTYPE_FLOAT32,
                             .n_dims = 2,
                             .dims = { (gint64) n, (gint64) rows->dim } },
                  .data = rows->sums },
  };
}

gboolean
tps_table_steps_push (TpsTableSteps *steps, const TpsStepVectors *gradients, GError **error)
{
  g_autofree TpsBagGradient *pushed = g_new (TpsBagGradient, steps->n_tables);
  Slot *slot = get_slot (steps, steps->n_pushed);
  guint n = 0;

  if (steps->n_pushed == steps->n_taken)
    return refuse ("push: no step has been taken since the last push", error);
  for (guint t = 0; t < steps->n_tables; t++)
    if (slot->rows[t].groups.n_groups > 0)
      {
        tps_step_rows_add_up (&slot->rows[t], gradients[t]);
        pushed[n++] = make_gradient (steps, slot, t);
      }
  if (n > 0)
    tps_table_call_apply (&slot->push, pushed, n, get_deadline (steps));
  steps->n_pushed++;
  return TRUE;
}

const gint64 *
tps_table_steps_get_pushed (const TpsTableSteps *steps, guint table, gsize *n_ids)
{
  const TpsCpuGroups *groups;

  *n_ids = 0;
  if (steps->n_pushed == 0)
    return NULL;
  groups = &get_slot (steps, steps->n_pushed - 1)->rows[table].groups;
  *n_ids = groups->n_groups;
  return groups->ids;
}

/* -- steps -- */

void
tps_table_steps_note_changes (TpsTableSteps *steps, guint table, const gint64 *ids, gsize n)
{
  if (steps->n_prefetched > steps->n_taken)
    tps_step_rows_mark_stale (&get_slot (steps, steps->n_taken)->rows[table], ids, n);
}

/* Marks the rows of all pushes that ended after the lookup had begun. */
static void
mark_pushed (TpsTableSteps *steps, Slot *slot)
{
  for (guint64 push = slot->n_ended; push < steps->n_ended; push++)
    for (guint t = 0; t < steps->n_tables; t++)
      {
        const TpsCpuGroups *groups = &get_slot (steps, push)->rows[t].groups;

        tps_step_rows_mark_stale (&slot->rows[t], groups->ids, groups->n_groups);
      }
}

gboolean
tps_table_steps_take (TpsTableSteps *steps, const TpsStepVectors *vectors, GError **error)
{
  Slot *slot = get_slot (steps, steps->n_taken);

  if (steps->n_prefetched == steps->n_taken)
    return refuse ("take: no step is prefetched", error);
  if (steps->n_pushed < steps->n_taken)
    return refuse ("take: the step before was not pushed", error);
  if (!tps_table_steps_wait (steps, error))
    return FALSE;
  mark_pushed (steps, slot);
  /* The refresh is sent before the wait for the lookup, so both calls may be in flight together. */
  send_refresh (steps, slot);
  if (!end_lookup (steps, slot, error) || !end_refresh (steps, slot, error))
    return FALSE;
  for (guint t = 0; t < steps->n_tables; t++)
    tps_step_rows_pool (&slot->rows[t], vectors[t]);
  release_replies (steps, slot);
  steps->n_taken++;
  return TRUE;
}

TpsTableStepsCounts
tps_table_steps_get_counts (const TpsTableSteps *steps)
{
  return steps->counts;
}
