/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Compares the operations of a device with its copy: the bytes that an operation must move, divided
 * by the time between two events, relative to the same rate of copies within the device before and
 * after it. Each operation first runs on a few elements, also on the CPU, and the results are
 * compared, bit by bit where the bits are guaranteed.
 *
 *   device_ops --device=cuda:0 [--mib=256] [--rounds=30] [--skip=0] [--smoke]
 *   device_ops --list
 *
 * An operation that fails ends the program, because a device that has failed fails at every later
 * operation. Then --skip continues after it, in another process.
 *
 * Exit code: 0; 1 if a result is wrong or the device fails; 2 for bad flags; 3 if there is no such
 * device.
 */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/gpu_bundle/device_cases.h"
#include "runtime/base/error.h"

#define CHECK_ELEMS ((gsize) 1 << 16)
#define MAX_ROUNDS 1000

typedef TpsDeviceWork Work;
typedef TpsDeviceCase Case;

static const TpsDeviceOps *
ops_of (const Work *work)
{
  return work->device->ops;
}

/* -- memory -- */

static void
work_clear (Work *work)
{
  g_clear_pointer (&work->a, tps_buffer_unref);
  g_clear_pointer (&work->b, tps_buffer_unref);
  g_clear_pointer (&work->state, tps_buffer_unref);
  g_clear_pointer (&work->ids, tps_buffer_unref);
  g_clear_pointer (&work->found_ids, tps_buffer_unref);
  if (work->stream != NULL)
    ops_of (work)->stream_free (work->stream);
  work->stream = NULL;
}

/* Copies through the host, so that the contents are the same on every device. */
static TpsBuffer *
bring_over (const Work *work, TpsBuffer *host, GError **error)
{
  gsize n_bytes = tps_buffer_get_size (host);
  TpsBuffer *buffer = ops_of (work)->alloc (work->device, n_bytes, error);

  if (buffer == NULL)
    return NULL;
  ops_of (work)->copy (work->stream, tps_buffer_get_data (buffer), tps_buffer_get_data (host),
                       n_bytes);
  if (ops_of (work)->stream_sync (work->stream, error))
    return buffer;
  tps_buffer_unref (buffer);
  return NULL;
}

static TpsBuffer *
make_floats (const Work *work, gsize n_elems, guint seed, GError **error)
{
  g_autoptr (TpsBuffer)
      host = ops_of (work)->alloc_host (work->device, n_elems * sizeof (gfloat), error);

  if (host == NULL)
    return NULL;
  for (gsize i = 0; i < n_elems; i++)
    tps_device_floats_of (host)[i] = (gfloat) ((i * 2654435761u + seed) % 10007) / 10007 + 0.001f;
  return bring_over (work, host, error);
}

static TpsBuffer *
make_ids (const Work *work, gsize n_ids, GError **error)
{
  g_autoptr (TpsBuffer)
      host = ops_of (work)->alloc_host (work->device, work->n_elems * sizeof (gint64), error);

  if (host == NULL)
    return NULL;
  for (gsize i = 0; i < work->n_elems; i++)
    tps_device_ids_of (host)[i] = (gint64) (i * 0x9e3779b1u % n_ids);
  return bring_over (work, host, error);
}

static gboolean
work_init (Work *work, TpsDevice *device, gsize n_elems, const Case *what, GError **error)
{
  gsize n_ids;

  *work = (Work) { .device = device, .n_elems = n_elems };
  n_ids = tps_device_case_get_n_ids (work, what);
  return (work->stream = device->ops->stream_new (device, error)) != NULL
         && (work->a = make_floats (work, n_elems, 1, error)) != NULL
         && (work->b = make_floats (work, n_elems, 2, error)) != NULL
         && (work->state = make_floats (work, n_elems * 2, 3, error)) != NULL
         && (work->ids = make_ids (work, n_ids, error)) != NULL
         && (work->found_ids = make_ids (work, n_ids, error)) != NULL;
}

/* -- results -- */

/* Returns the contents of `a` after one call, owned by the caller. */
static gfloat *
result_of (TpsDevice *device, const Case *what, GError **error)
{
  Work work;
  gfloat *result = g_new (gfloat, CHECK_ELEMS);
  gboolean is_done = work_init (&work, device, CHECK_ELEMS, what, error);

  if (is_done)
    {
      what->enqueue (&work, what);
      ops_of (&work)->copy (work.stream, result, tps_buffer_get_data (work.a),
                            CHECK_ELEMS * sizeof result[0]);
      is_done = ops_of (&work)->stream_sync (work.stream, error);
    }
  work_clear (&work);
  return is_done ? result : (g_free (result), NULL);
}

static gboolean
is_right (const Case *what, const gfloat *wanted, const gfloat *got)
{
  if (what->tolerance == 0)
    return memcmp ((const guint8 *) wanted, (const guint8 *) got, sizeof *got) == 0;
  return fabs ((gdouble) *got - (gdouble) *wanted)
         <= what->tolerance * (fabs ((gdouble) *wanted) + 1e-6);
}

/* Returns the number of elements that differ from the CPU's; -1 with an error. */
static gssize
count_wrong (TpsDevice *device, const Case *what, GError **error)
{
  g_autofree gfloat *wanted = result_of (tps_device_find ("cpu", NULL), what, error);
  g_autofree gfloat *got = wanted != NULL ? result_of (device, what, error) : NULL;
  gssize n_wrong = 0;

  if (got == NULL)
    return -1;
  for (gsize i = 0; i < CHECK_ELEMS; i++)
    n_wrong += !is_right (what, &wanted[i], &got[i]);
  return n_wrong;
}

static gint
compare_times (gconstpointer a, gconstpointer b)
{
  gdouble left = *(const gdouble *) a, right = *(const gdouble *) b;

  return left < right ? -1 : left > right;
}

static gboolean
time_once (const Work *work, const Case *what, TpsEvent *events[2], gdouble *ms, GError **error)
{
  ops_of (work)->event_record (events[0], work->stream);
  what->enqueue (work, what);
  ops_of (work)->event_record (events[1], work->stream);
  return ops_of (work)->stream_sync (work->stream, error)
         && ops_of (work)->events_elapsed (events[0], events[1], ms, error);
}

/* Returns the median; the first round is a warm-up. */
static gboolean
time_rounds (const Work *work, const Case *what, gint n_rounds, gdouble *median_ms, GError **error)
{
  TpsEvent *events[2] = { ops_of (work)->event_new (work->device, error), NULL };
  gdouble ms[MAX_ROUNDS + 1];
  gint n = 0;

  if (events[0] != NULL)
    events[1] = ops_of (work)->event_new (work->device, error);
  while (events[1] != NULL && n <= n_rounds && time_once (work, what, events, &ms[n], error))
    n++;
  for (guint i = 0; i < 2; i++)
    if (events[i] != NULL)
      ops_of (work)->event_free (events[i]);
  if (n <= n_rounds)
    return FALSE;
  qsort (ms + 1, (gsize) n_rounds, sizeof ms[0], compare_times);
  *median_ms = ms[1 + n_rounds / 2];
  return TRUE;
}

typedef struct
{
  gdouble gb_per_s;
  gdouble copy_gb_per_s; /* mean of one copy before the operation and one after it */
} Rates;

static gboolean
measure_rate (const Work *work, const Case *what, gint n_rounds, gdouble *gb_per_s, GError **error)
{
  gdouble ms;

  if (!time_rounds (work, what, n_rounds, &ms, error))
    return FALSE;
  *gb_per_s = what->bytes (work, what) / MAX (ms, 1e-6) / 1e6;
  return TRUE;
}

static gboolean
measure (TpsDevice *device, const Case *what, gsize n_elems, gint n_rounds, Rates *rates,
         GError **error)
{
  const Case *copy = tps_device_cases_get (NULL);
  gdouble before = 0, after = 0;
  Work work;
  gboolean is_done = work_init (&work, device, n_elems, what, error)
                     && measure_rate (&work, copy, n_rounds, &before, error)
                     && measure_rate (&work, what, n_rounds, &rates->gb_per_s, error)
                     && measure_rate (&work, copy, n_rounds, &after, error);

  rates->copy_gb_per_s = (before + after) / 2;
  work_clear (&work);
  return is_done;
}

/* -- the table -- */

typedef struct
{
  gchar *device;
  gint mib, n_rounds, n_skipped;
  gboolean is_smoke, is_list;
} Flags;

typedef struct
{
  guint n_required; /* cases with a required rate */
  GString *behind;  /* cases that miss their required rate */
} Verdict;

static void
judge (Verdict *verdict, const Case *what, const Rates *rates)
{
  if (what->to_reach == 0)
    return;
  verdict->n_required++;
  if (rates->gb_per_s < what->to_reach * rates->copy_gb_per_s)
    g_string_append_printf (verdict->behind, "; %s", what->name);
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

/* Prints the line of a case. */
static Outcome
run_case (TpsDevice *device, const Case *what, gsize n_elems, gint n_rounds, Verdict *verdict)
{
  g_autoptr (GError) error = NULL;
  gssize n_wrong = count_wrong (device, what, &error);
  Rates rates;

  if (n_wrong < 0 || !measure (device, what, n_elems, n_rounds, &rates, &error))
    {
      printf ("%-28s %10s %8s %8.2f %8s  %s\n", what->name, "-", "-", what->to_reach, "-",
              error->message);
      return FAILED;
    }
  judge (verdict, what, &rates);
  printf ("%-28s %10.1f %8.3f %8.2f %8" G_GSSIZE_FORMAT "\n", what->name, rates.gb_per_s,
          rates.gb_per_s / rates.copy_gb_per_s, what->to_reach, n_wrong);
  return n_wrong == 0 ? RIGHT : WRONG;
}

static gboolean
run_all (TpsDevice *device, const Flags *flags)
{
  gsize n_elems = flags->is_smoke ? CHECK_ELEMS : (gsize) flags->mib << 18;
  guint n_cases;
  const Case *cases = tps_device_cases_get (&n_cases);
  Verdict verdict = { .behind = g_string_new (NULL) };
  Outcome outcome, worst = RIGHT;

  n_elems = (gsize) 1 << (g_bit_storage (n_elems) - 1);
  printf ("%-28s %10s %8s %8s %8s\n", "operation", "GB/s", "of copy", "reach", "wrong");
  for (guint i = (guint) flags->n_skipped; i < n_cases && worst != FAILED; i++)
    {
      outcome = run_case (device, &cases[i], n_elems, flags->n_rounds, &verdict);
      worst = MAX (worst, outcome);
    }
  if (worst != FAILED)
    print_verdict (&verdict);
  g_string_free (verdict.behind, TRUE);
  return worst == RIGHT;
}

/* Prints the name of each operation and its required fraction of the copy's rate, in the columns of
 * the table. */
static void
print_list (void)
{
  guint n_cases;
  const Case *cases = tps_device_cases_get (&n_cases);

  for (guint i = 0; i < n_cases; i++)
    printf ("%-28s %8.2f\n", cases[i].name, cases[i].to_reach);
}

static gboolean
parse (Flags *flags, int *argc, char ***argv, GError **error)
{
  const GOptionEntry entries[] = {
    { "device", 0, 0, G_OPTION_ARG_STRING, &flags->device, "device to measure (cuda:0)", "NAME" },
    { "mib", 0, 0, G_OPTION_ARG_INT, &flags->mib, "size of an array, a power of two (256)", "N" },
    { "rounds", 0, 0, G_OPTION_ARG_INT, &flags->n_rounds,
      "measured rounds, of which the median counts (30)", "N" },
    { "skip", 0, 0, G_OPTION_ARG_INT, &flags->n_skipped, "operations to leave out, the first ones",
      "N" },
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
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "--mib=%d --rounds=%d --skip=%d: expected 1 to 1048576, 1 to %d, and at least 0",
               flags->mib, flags->n_rounds, flags->n_skipped, MAX_ROUNDS);
  return FALSE;
}

int
main (int argc, char **argv)
{
  Flags flags = { .mib = 256, .n_rounds = 30 };
  g_autoptr (GError) error = NULL;
  TpsDevice *device;
  gint status = 0;

  setvbuf (stdout, NULL, _IOLBF, 0); /* lines survive a kill */
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
  return status;
}
