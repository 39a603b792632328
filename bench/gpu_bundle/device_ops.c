/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Compares the operations of a device with copies within the device. The rate of an operation is
 * the number of bytes that it must move, divided by the time between two events. The rate of copies
 * is measured before and after each operation.
 *
 *   device_ops --device=cuda:0 [--mib=1024] [--rounds=30] [--skip=0] [--only=NAME] [--smoke]
 *   device_ops --list
 *
 * If there is not enough memory, the arrays have half the size or less. The results of each
 * operation are checked before the measurement (device_check.h).
 *
 * An operation that fails terminates the program, because a failed device fails at every later
 * operation. With --skip, another process continues after that operation.
 *
 * Exit status: 0 success; 1 a result is wrong or the device fails; 2 bad flags; 3 there is no such
 * device. */

#include <stdio.h>
#include <stdlib.h>

#include "bench/gpu_bundle/device_check.h"
#include "bench/gpu_bundle/device_work.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

#define CHECK_ELEMS TPS_DEVICE_CHECK_ELEMS
#define SMOKE_ELEMS (2 * CHECK_ELEMS) /* the minimum that repeats the results of the check */
#define MAX_ROUNDS 1000
#define WARM_UP_NS G_GINT64_CONSTANT (100000000)

typedef TpsDeviceWork Work;
typedef TpsDeviceCase Case;

static const TpsDeviceOps *
ops_of (const Work *work)
{
  return work->device->ops;
}

/* -- time -- */

/* The parameters of a measurement. */
typedef struct
{
  gsize n_elems;
  gint n_rounds;
  gint64 warm_up_ns;
} Plan;

static gint
compare_times (gconstpointer a, gconstpointer b)
{
  gdouble left = *(const gdouble *) a, right = *(const gdouble *) b;

  return left < right ? -1 : left > right;
}

static gboolean
time_once (const Work *work, const Case *entry, TpsEvent *events[2], gdouble *ms, GError **error)
{
  ops_of (work)->event_record (events[0], work->stream);
  entry->enqueue (work, entry);
  ops_of (work)->event_record (events[1], work->stream);
  return ops_of (work)->stream_sync (work->stream, error)
         && ops_of (work)->events_elapsed (events[0], events[1], ms, error);
}

/* Repeats the operation until the clock of the device has its usual rate. */
static gboolean
warm_up (const Work *work, const Case *entry, gint64 warm_up_ns, GError **error)
{
  gint64 end_ns = tps_clock_now_ns () + warm_up_ns;

  do
    {
      entry->enqueue (work, entry);
      if (!ops_of (work)->stream_sync (work->stream, error))
        return FALSE;
    }
  while (tps_clock_now_ns () < end_ns);
  return TRUE;
}

static gboolean
time_rounds (const Work *work, const Case *entry, TpsEvent *events[2], gint n_rounds,
             gdouble *median_ms, GError **error)
{
  gdouble ms[MAX_ROUNDS];

  for (gint n = 0; n < n_rounds; n++)
    if (!time_once (work, entry, events, &ms[n], error))
      return FALSE;
  qsort (ms, (gsize) n_rounds, sizeof ms[0], compare_times);
  *median_ms = ms[n_rounds / 2];
  return TRUE;
}

static gboolean
measure_rate (const Work *work, const Case *entry, const Plan *plan, gdouble *gb_per_s,
              GError **error)
{
  TpsEvent *events[2] = { ops_of (work)->event_new (work->device, error), NULL };
  gdouble ms = 0;
  gboolean is_done;

  if (events[0] != NULL)
    events[1] = ops_of (work)->event_new (work->device, error);
  is_done = events[1] != NULL && warm_up (work, entry, plan->warm_up_ns, error)
            && time_rounds (work, entry, events, plan->n_rounds, &ms, error);
  for (guint i = 0; i < 2; i++)
    if (events[i] != NULL)
      ops_of (work)->event_free (events[i]);
  *gb_per_s = entry->bytes (work, entry) / MAX (ms, 1e-6) / 1e6;
  return is_done;
}

typedef struct
{
  gdouble gb_per_s;
  gdouble copy_gb_per_s; /* mean of the copies before and after the operation */
  gssize n_wrong;        /* wrong results of a few elements */
  gboolean is_wrong;     /* the result of the measured size is wrong */
} Measurement;

static gboolean
measure (TpsDevice *device, const Case *entry, const Plan *plan, Measurement *result,
         GError **error)
{
  const Case *copy = tps_device_cases_get (NULL);
  gdouble before = 0, after = 0;
  Work work = { 0 };
  TpsDeviceExpected expected = { 0 };
  gboolean is_done;

  is_done = tps_device_expected_init (&expected, entry, error)
            && (result->n_wrong = tps_device_check_few (device, entry, &expected, error)) >= 0
            && tps_device_work_init (&work, device, plan->n_elems, entry, error)
            && tps_device_check_all (&work, entry, &expected, &result->is_wrong, error)
            && measure_rate (&work, copy, plan, &before, error)
            && measure_rate (&work, entry, plan, &result->gb_per_s, error)
            && measure_rate (&work, copy, plan, &after, error);

  result->copy_gb_per_s = (before + after) / 2;
  tps_device_work_clear (&work);
  tps_device_expected_clear (&expected);
  return is_done;
}

/* -- the table -- */

typedef struct
{
  gchar *device, *only;
  gint mib, n_rounds, n_skipped;
  gboolean is_smoke, is_list;
} Flags;

typedef struct
{
  guint n_required; /* cases with a required rate */
  GString *behind;  /* cases that miss their required rate */
} Verdict;

static void
judge (Verdict *verdict, const Case *entry, const Measurement *rates)
{
  if (entry->to_reach == 0)
    return;
  verdict->n_required++;
  if (rates->gb_per_s < entry->to_reach * rates->copy_gb_per_s)
    g_string_append_printf (verdict->behind, "; %s", entry->name);
}

static void
print_verdict (const Verdict *verdict)
{
  guint n_behind = 0;

  for (const gchar *c = verdict->behind->str; *c != '\0'; c++)
    n_behind += *c == ';';
  printf ("%u of %u operations reach their required rate%s%s\n", verdict->n_required - n_behind,
          verdict->n_required, n_behind > 0 ? "; not:" : "", verdict->behind->str + (n_behind > 0));
}

typedef enum
{
  RIGHT,
  WRONG,
  FAILED,
} Outcome;

/* Measures a case and prints its line. */
static Outcome
run_case (TpsDevice *device, const Case *entry, const Plan *plan, Verdict *verdict)
{
  g_autoptr (GError) error = NULL;
  Measurement result = { 0 };

  if (!measure (device, entry, plan, &result, &error))
    {
      printf ("%-28s %10s %8s %8.2f %8s  %s\n", entry->name, "-", "-", entry->to_reach, "-",
              error->message);
      return FAILED;
    }
  judge (verdict, entry, &result);
  printf ("%-28s %10.1f %8.3f %8.2f %8" G_GSSIZE_FORMAT "%s\n", entry->name, result.gb_per_s,
          result.gb_per_s / result.copy_gb_per_s, entry->to_reach, result.n_wrong,
          result.is_wrong ? "  wrong at the measured size" : "");
  return result.n_wrong == 0 && !result.is_wrong ? RIGHT : WRONG;
}

static gboolean
is_wanted (const Flags *flags, guint i, const Case *entry)
{
  return i >= (guint) flags->n_skipped
         && (flags->only == NULL || g_str_equal (flags->only, entry->name));
}

static gboolean
run_all (TpsDevice *device, const Flags *flags)
{
  Plan plan = { .n_elems = SMOKE_ELEMS, .n_rounds = flags->n_rounds };
  guint n_cases;
  const Case *cases = tps_device_cases_get (&n_cases);
  Verdict verdict = { .behind = g_string_new (NULL) };
  Outcome outcome, worst = RIGHT;

  if (!flags->is_smoke)
    {
      plan.warm_up_ns = WARM_UP_NS;
      plan.n_elems = (gsize) 1 << (g_bit_storage ((gsize) flags->mib << 18) - 1);
      while (plan.n_elems > CHECK_ELEMS && !tps_device_has_memory_for (device, plan.n_elems))
        plan.n_elems /= 2;
    }
  printf ("operation, %8" G_GSIZE_FORMAT " MiB      %10s %8s %8s %8s\n", plan.n_elems >> 18, "GB/s",
          "of copy", "reach", "wrong");
  for (guint i = 0; i < n_cases && worst != FAILED; i++)
    if (is_wanted (flags, i, &cases[i]))
      {
        outcome = run_case (device, &cases[i], &plan, &verdict);
        worst = MAX (worst, outcome);
      }
  if (worst != FAILED)
    print_verdict (&verdict);
  g_string_free (verdict.behind, TRUE);
  return worst == RIGHT;
}

/* Prints the name of each operation and its required fraction of the rate of the copy, in the
 * columns of the table. */
static void
print_list (void)
{
  guint n_cases;
  const Case *cases = tps_device_cases_get (&n_cases);

  for (guint i = 0; i < n_cases; i++)
    printf ("%-28s %8.2f\n", cases[i].name, cases[i].to_reach);
}

/* Checks --only: there must be an operation of that name. */
static gboolean
check_only (const Flags *flags, GError **error)
{
  guint n_cases;
  const Case *cases = tps_device_cases_get (&n_cases);

  for (guint i = 0; i < n_cases; i++)
    if (flags->only == NULL || g_str_equal (flags->only, cases[i].name))
      return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "--only=%s: no such operation; --list prints all", flags->only);
  return FALSE;
}

static gboolean
parse (Flags *flags, int *argc, char ***argv, GError **error)
{
  const GOptionEntry entries[] = {
    { "device", 0, 0, G_OPTION_ARG_STRING, &flags->device, "device to measure (cuda:0)", "NAME" },
    { "mib", 0, 0, G_OPTION_ARG_INT, &flags->mib, "size of an array, a power of two (1024)", "N" },
    { "rounds", 0, 0, G_OPTION_ARG_INT, &flags->n_rounds,
      "measured rounds, of which the median counts (30)", "N" },
    { "skip", 0, 0, G_OPTION_ARG_INT, &flags->n_skipped, "operations to leave out, the first ones",
      "N" },
    { "only", 0, 0, G_OPTION_ARG_STRING, &flags->only, "the only operation to measure", "NAME" },
    { "list", 0, 0, G_OPTION_ARG_NONE, &flags->is_list, "print operations and required rates",
      NULL },
    { "smoke", 0, 0, G_OPTION_ARG_NONE, &flags->is_smoke, "small arrays", NULL },
    { 0 },
  };
  g_autoptr (GOptionContext) context = g_option_context_new ("- operations against a copy");

  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, argc, argv, error))
    return FALSE;
  if (flags->mib >= 1 && flags->mib <= 1 << 20 && flags->n_rounds >= 1
      && flags->n_rounds <= MAX_ROUNDS && flags->n_skipped >= 0)
    return check_only (flags, error);
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "--mib=%d --rounds=%d --skip=%d: expected 1 to 1048576, 1 to %d, and at least 0",
               flags->mib, flags->n_rounds, flags->n_skipped, MAX_ROUNDS);
  return FALSE;
}

int
main (int argc, char **argv)
{
  Flags flags = { .mib = 1024, .n_rounds = 30 };
  g_autoptr (GError) error = NULL;
  TpsDevice *device;
  gint status = 0;

  setvbuf (stdout, NULL, _IOLBF, 0); /* line buffering, so that lines survive a kill */
  if (!parse (&flags, &argc, &argv, &error))
    status = 2;
  else if (flags.is_list)
    print_list ();
  else if ((device = tps_device_find (flags.device != NULL ? flags.device : "cuda:0", &error))
           == NULL)
    status = 3;
  else if (!run_all (device, &flags))
    status = 1;
  if (error != NULL)
    fprintf (stderr, "device_ops: %s\n", error->message);
  g_free (flags.device);
  g_free (flags.only);
  return status;
}
