/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/durability/parts.h"
#include "runtime/base/sync.h"

#define ROW "lookup"
#define WITHOUT "without a snapshot"
#define DURING "during a snapshot"
#define PUSHES "push beside lookups"
#define N_LOOKUP_CLIENTS 1
#define N_PUSH_CLIENTS 2

/* Clients that look up rows (index 0), and clients that push (index 1). */
typedef struct
{
  TpsDurabilityBench *bench;
  TpsDurabilityLoadShape shapes[2];
  TpsDurabilityLoad *loads[2]; /* NULL = not running */
} Mixed;

static void
stop_mixed (Mixed *mixed)
{
  for (guint i = 0; i < G_N_ELEMENTS (mixed->loads); i++)
    g_clear_pointer (&mixed->loads[i], tps_durability_load_free);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Mixed, stop_mixed)

/* Starts both kinds of clients. `mixed` must be zero. After an error, stop_mixed() cleans up. */
static gboolean
start_mixed (Mixed *mixed, TpsDurabilityBench *bench, GError **error)
{
  const TpsDurabilityOptions *o = bench->options;
  TpsDurabilityServer *server = tps_durability_get_large_server (bench, error);

  if (server == NULL)
    return FALSE;
  mixed->bench = bench;
  for (guint i = 0; i < G_N_ELEMENTS (mixed->loads); i++)
    {
      mixed->shapes[i] = (TpsDurabilityLoadShape) {
        .table = &bench->large,
        .n_ids = (gsize) o->n_ids,
        .n_clients = i == 0 ? N_LOOKUP_CLIENTS : N_PUSH_CLIENTS,
        .is_push = i == 1,
      };
      mixed->loads[i] = tps_durability_load_start (server->served->addresses[0], &mixed->shapes[i],
                                                   error);
      if (mixed->loads[i] == NULL)
        return FALSE;
    }
  return TRUE;
}

/* Ends both kinds of clients. The caller owns the calls of both. */
static gboolean
finish_mixed (Mixed *mixed, GArray **lookups, GArray **pushes, GError **error)
{
  *lookups = tps_durability_load_stop (g_steal_pointer (&mixed->loads[0]), error);
  if (*lookups == NULL)
    return FALSE;
  *pushes = tps_durability_load_stop (g_steal_pointer (&mixed->loads[1]), error);
  return *pushes != NULL;
}

static gboolean
write_snapshot (TpsDurabilityBench *bench, gint64 *begin_ns, gint64 *end_ns, GError **error)
{
  g_auto (TpsWireSnapshotInfo) info = { 0 };

  *begin_ns = tps_clock_now_ns ();
  if (!tps_remote_snapshot (bench->large_server->client, FALSE, tps_served_get_deadline (), &info,
                            error))
    return FALSE;
  *end_ns = tps_clock_now_ns ();
  return TRUE;
}

/* Returns the calls that overlap [begin_ns, end_ns]. The caller owns the result. */
static GArray *
select_calls (const GArray *calls, gint64 begin_ns, gint64 end_ns)
{
  GArray *selected = g_array_new (FALSE, FALSE, sizeof (TpsCallTime));

  for (guint i = 0; i < calls->len; i++)
    {
      const TpsCallTime *call = &g_array_index (calls, TpsCallTime, i);

      if (call->end_ns >= begin_ns && call->begin_ns <= end_ns)
        g_array_append_val (selected, *call);
    }
  return selected;
}

/* Lets the measured time pass while both kinds of clients run, and returns its bounds. It is the
 * time of a snapshot, or a fixed time. */
static gboolean
spend_time (TpsDurabilityBench *bench, gboolean with_snapshot, gint64 *begin_ns, gint64 *end_ns,
            GError **error)
{
  if (with_snapshot)
    return write_snapshot (bench, begin_ns, end_ns, error);
  *begin_ns = tps_clock_now_ns ();
  if (!tps_durability_wait (bench, bench->options->seconds, error))
    return FALSE;
  *end_ns = tps_clock_now_ns ();
  return TRUE;
}

static gboolean
run_lookups (gpointer data, gpointer system, gpointer row, gboolean is_warm_up, GError **error)
{
  TpsDurabilityBench *bench = data;
  gboolean with_snapshot = g_str_equal (system, DURING);
  g_auto (Mixed) mixed = { 0 };
  g_autoptr (GArray) lookups = NULL, pushes = NULL, lookups_then = NULL, pushes_then = NULL;
  gint64 begin_ns, end_ns;

  if (!start_mixed (&mixed, bench, error)
      || !spend_time (bench, with_snapshot, &begin_ns, &end_ns, error)
      || !finish_mixed (&mixed, &lookups, &pushes, error))
    return FALSE;
  if (is_warm_up)
    return TRUE;
  lookups_then = select_calls (lookups, begin_ns, end_ns);
  pushes_then = select_calls (pushes, begin_ns, end_ns);
  tps_durability_add_calls (bench->run->figures, system, ROW, &tps_durability_lookups_per_s,
                            lookups_then);
  tps_durability_add_calls (bench->run->figures, system, PUSHES, &tps_durability_pushes_per_s,
                            pushes_then);
  return TRUE;
}

/* -- tasks -- */

static void
add_task (TpsDurabilityBench *bench, const gchar *system)
{
  TpsTask task = { .run = run_lookups,
                   .bench = bench,
                   .system = (gpointer) (gsize) system,
                   .measured_s = bench->options->seconds + 0.5 };

  tps_engine_add (bench->run->engine, &task, "lookups %s", system);
}

gboolean
tps_durability_prepare_lookups (TpsDurabilityBench *bench, GError **error)
{
  if (tps_durability_get_large_server (bench, error) == NULL)
    return FALSE;
  tps_engine_begin_row (bench->run->engine);
  add_task (bench, WITHOUT);
  add_task (bench, DURING);
  return TRUE;
}
