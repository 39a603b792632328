/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/budgets.h"

#include "runtime/machine/machine.h"

/* Threads, code, socket buffers and the overhead of the allocator need memory that no budget
 * counts. UNCOUNTED_SHARE of the memory is reserved for them, but at least MIN_UNCOUNTED_BYTES. In
 * a small control group, at most MAX_UNCOUNTED_SHARE is reserved. In tests under attack, up to 60
 * MiB of uncounted memory were measured (tests/soak). */
#define UNCOUNTED_SHARE 0.1
#define MIN_UNCOUNTED_BYTES ((gsize) 96 << 20)
#define MAX_UNCOUNTED_SHARE 0.5
/* The default limits of budgets, as shares of the memory. */
#define PENDING_SHARE 0.25
#define REPLIES_SHARE 0.2
#define TRANSFERS_SHARE 0.5
#define TABLES_SHARE 0.8
#define WINDOWS_SHARE 0.1
#define TABLE_WINDOWS_SHARE 0.5 /* of the push windows */
#define OTHER_WINDOWS_SHARE 0.25
#define PASSES_SHARE 0.5
#define MAX_RENDEZVOUS_BYTES ((gsize) 256 << 20)
/* One part in HEADROOM_PART of the process budget is reserved for small requests and replies. */
#define HEADROOM_PART 12
#define MAX_SMALL_BYTES ((gsize) 64 << 10)
/* The share of `pending` that shared-memory segments may take. A segment lives as long as its
 * client, and the calls of other clients also need room. */
#define SHARED_SHARE 0.5
/* The budget of strangers, as a share of `pending`. It is no part of `pending`, so that they take
 * none of it: a peer needs little to authenticate. */
#define STRANGERS_SHARE (1.0 / 16)
/* TLS handshakes in progress, as a share of the process budget. Any peer can begin one. */
#define HANDSHAKES_SHARE (1.0 / 8)

static gsize
share_of (gsize n_bytes, gdouble share)
{
  return MAX ((gsize) ((gdouble) n_bytes * share), 1);
}

gsize
tps_budgets_get_default_process_bytes (gsize memory)
{
  gsize uncounted = MAX (share_of (memory, UNCOUNTED_SHARE), MIN_UNCOUNTED_BYTES);

  return MAX (memory - MIN (uncounted, share_of (memory, MAX_UNCOUNTED_SHARE)), 1);
}

/* Returns the memory to which the shares of the budgets below the process budget refer. In a small
 * control group, this memory shrinks with the process budget. Tables alone can therefore never fill
 * the process budget. */
static gsize
get_shared_memory (void)
{
  gsize memory = tps_host_memory_get_total ();
  gdouble process = (gdouble) tps_budgets_get_default_process_bytes (memory);

  return MIN (memory, (gsize) (process / (1 - UNCOUNTED_SHARE)) + 1);
}

static TpsBudget *
make (TpsBudget *parent, const gchar *name, gsize max_bytes, const gchar *flag)
{
  TpsBudget *budget = tps_budget_new (parent, name, max_bytes);

  tps_budget_set_flag (budget, flag);
  return budget;
}

/* Reserves room for small requests and replies, which must succeed regardless of the memory that
 * the other budgets, large requests and large replies hold. Most lookups and pushes are small, and
 * so are the calls that release memory. Push windows may use half of the reserved room, because a
 * server full of tables must still be able to remember the pushes that it applies. */
static void
set_headrooms (const TpsBudgets *budgets)
{
  TpsBudget *const others[] = { budgets->averages,   budgets->transfers, budgets->tables,
                                budgets->rendezvous, budgets->channels,  budgets->passes };
  gsize part = tps_budget_get_max (budgets->process) / HEADROOM_PART;

  tps_budget_set_headroom (budgets->pending, part, MAX_SMALL_BYTES);
  tps_budget_set_headroom (budgets->strangers, part, MAX_SMALL_BYTES);
  tps_budget_set_headroom (budgets->replies, part, MAX_SMALL_BYTES);
  tps_budget_set_headroom (budgets->windows, part / 2, 0);
  for (guint i = 0; i < G_N_ELEMENTS (others); i++)
    tps_budget_set_headroom (others[i], part, 0);
}

TpsBudgets *
tps_budgets_new (const TpsBudgetLimits *limits)
{
  static const TpsBudgetLimits defaults;
  gsize memory = get_shared_memory ();
  TpsBudgets *budgets = g_new0 (TpsBudgets, 1);
  gsize pending, windows;

  if (limits == NULL)
    limits = &defaults;
  pending = limits->max_pending_bytes > 0 ? limits->max_pending_bytes
                                          : share_of (memory, PENDING_SHARE);
  budgets->process = make (NULL, "the process",
                           limits->max_memory_bytes > 0 ? limits->max_memory_bytes
                                                        : tps_budgets_get_default_process_bytes (
                                                            tps_host_memory_get_total ()),
                           "--max-memory-mib");
  budgets->pending = make (budgets->process, "pending requests", pending, "--max-pending-mib");
  budgets->shared = make (budgets->pending, "shared memory", share_of (pending, SHARED_SHARE),
                          "--max-pending-mib");
  budgets->strangers = make (budgets->process, "requests without rights",
                             share_of (pending, STRANGERS_SHARE), "--max-pending-mib");
  budgets->averages = make (budgets->process, "averages", pending, "--max-pending-mib");
  budgets->replies = tps_budget_new (budgets->process, "replies", share_of (memory, REPLIES_SHARE));
  budgets->transfers = tps_budget_new (budgets->process, "chunked transfers",
                                       share_of (memory, TRANSFERS_SHARE));
  budgets->tables = make (budgets->process, "tables",
                          limits->max_table_bytes > 0 ? limits->max_table_bytes
                                                      : share_of (memory, TABLES_SHARE),
                          "--max-table-mib");
  budgets->windows = tps_budget_new (budgets->process, "push windows",
                                     share_of (memory, WINDOWS_SHARE));
  windows = tps_budget_get_max (budgets->windows);
  budgets->table_windows = tps_budget_new (budgets->windows, "push windows of tables",
                                           share_of (windows, TABLE_WINDOWS_SHARE));
  budgets->model_windows = tps_budget_new (budgets->windows, "push windows of the model",
                                           share_of (windows, OTHER_WINDOWS_SHARE));
  budgets->rendezvous_windows = tps_budget_new (budgets->windows, "push windows of the rendezvous",
                                                share_of (windows, OTHER_WINDOWS_SHARE));
  budgets->rendezvous = tps_budget_new (budgets->process, "rendezvous", MAX_RENDEZVOUS_BYTES);
  budgets->channels = tps_budget_new (budgets->process, "encrypted connections", 0);
  budgets->handshakes = make (budgets->channels, "TLS handshakes",
                              share_of (tps_budget_get_max (budgets->process), HANDSHAKES_SHARE),
                              "--max-memory-mib");
  budgets->passes = tps_budget_new (budgets->process, "passes of trainers",
                                    share_of (memory, PASSES_SHARE));
  budgets->kept = tps_budget_new (budgets->process, "memory kept for reuse", 0);
  set_headrooms (budgets);
  return budgets;
}

const TpsBudgets *
tps_budgets_or_none (const TpsBudgets *budgets)
{
  static const TpsBudgets none;

  return budgets != NULL ? budgets : &none;
}

static const TpsFamily memory_limit = TPS_FAMILY (
    GAUGE, "memory_limit_bytes",
    "The most that a budget can hold: the smallest limit of the budget and its parents.",
    .labels = { "budget" });
static const TpsFamily memory_held = TPS_FAMILY (
    GAUGE, "memory_held_bytes", "Bytes that are charged to a budget.", .labels = { "budget" });
static const TpsFamily memory_peak = TPS_FAMILY (GAUGE, "memory_peak_bytes",
                                                 "The most that was ever charged to a budget.",
                                                 .labels = { "budget" });
static const TpsFamily memory_refused = TPS_FAMILY (
    COUNTER, "memory_refused_total", "Charges that a budget refused, because it was full.",
    .labels = { "budget" });

/* Adds the numbers of one budget. Budgets with the same name share one sample, which has their
 * sum. */
static void
collect_budget (TpsBudget *budget, gpointer reading)
{
  const gchar *name = tps_budget_get_name (budget);

  tps_reading_add (reading, &memory_limit, name, NULL,
                   (gint64) MIN (tps_budget_get_max (budget), (gsize) G_MAXINT64 / 4));
  tps_reading_add (reading, &memory_held, name, NULL, (gint64) tps_budget_get_held (budget));
  tps_reading_add (reading, &memory_peak, name, NULL, (gint64) tps_budget_get_peak (budget));
  tps_reading_add (reading, &memory_refused, name, NULL,
                   (gint64) tps_budget_get_n_refused (budget));
}

static void
collect (TpsReading *reading, gpointer process)
{
  tps_budget_visit (process, collect_budget, reading);
}

void
tps_budgets_add_gauges (TpsBudgets *budgets, TpsCounters *counters)
{
  budgets->counters = tps_counters_ref (counters);
  budgets->collector = tps_counters_add_collector (counters, collect, budgets->process);
}

void
tps_budgets_free (TpsBudgets *budgets)
{
  if (budgets == NULL)
    return;
  if (budgets->counters != NULL)
    {
      tps_counters_remove_collector (budgets->counters, budgets->collector);
      tps_counters_unref (budgets->counters);
    }
  for (TpsBudget **each = &budgets->process; each <= &budgets->kept; each++)
    tps_budget_unref (*each);
  g_free (budgets);
}
