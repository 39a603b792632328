/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Compares the operations of a device with copies within the device. The rate of an operation is
 * the number of bytes that it must move, divided by the time between two events. The rate of copies
 * is measured before and after each operation.
 *
 *   device_ops --device=cuda:0 [--mib=1024] [--rounds=30] [--skip=0] [--only=NAME] [--smoke]
 *   device_ops --list
 *
 * If there is not enough memory, the arrays have half the size or less. The results of each
 * operation are checked before the measurement.
 *
 * An operation that fails terminates the program, because a failed device fails at every later
 * operation. With --skip, another process continues after that operation.
 *
 * Exit status: 0 success; 1 a result is wrong or the device fails; 2 bad flags; 3 there is no such
 * device. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/gpu_bundle/device_cases.h"
#include "bench/gpu_bundle/device_ids.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/trainer/dense/dense.h"

/* The arrays of a case in memory of its device. They repeat a short pattern, which the device
 * copies. Thread: one thread for each struct. */

typedef TpsDeviceWork Work;
typedef TpsDeviceCase Case;

static const TpsDeviceOps *
ops_of (const Work *work)
{
  return work->device->ops;
}

static void
device_work_clear (TpsDeviceWork *work)
{
  g_clear_pointer (&work->a, tps_buffer_unref);
  g_clear_pointer (&work->b, tps_buffer_unref);
  g_clear_pointer (&work->state, tps_buffer_unref);
  g_clear_pointer (&work->halves, tps_buffer_unref);
  g_clear_pointer (&work->ids, tps_buffer_unref);
  g_clear_pointer (&work->found_ids, tps_buffer_unref);
  g_clear_pointer (&work->loss, tps_buffer_unref);
  if (work->stream != NULL)
    ops_of (work)->stream_free (work->stream);
  work->stream = NULL;
}

static TpsBuffer *
alloc (const Work *work, gsize n_bytes, GError **error)
{
  return ops_of (work)->alloc (work->device, n_bytes, error);
}

/* Returns an array of `n_bytes` on the device that repeats `host`, which must not be empty. */
static TpsBuffer *
device_work_repeat (const TpsDeviceWork *work, TpsBuffer *host, gsize n_bytes, GError **error)
{
  gsize n_done = MIN (tps_buffer_get_size (host), n_bytes);
  TpsBuffer *buffer = alloc (work, n_bytes, error);
  guint8 *bytes;

  if (buffer == NULL)
    return NULL;
  bytes = tps_buffer_get_data (buffer);
  ops_of (work)->copy (work->stream, bytes, tps_buffer_get_data (host), n_done);
  for (gsize n; n_done < n_bytes; n_done += n)
    {
      n = MIN (n_done, n_bytes - n_done);
      ops_of (work)->copy (work->stream, bytes + n_done, bytes, n);
    }
  if (ops_of (work)->stream_sync (work->stream, error))
    return buffer;
  tps_buffer_unref (buffer);
  return NULL;
}

/* Allocates host memory that the device can copy. */
static TpsBuffer *
device_work_alloc_host (const TpsDeviceWork *work, gsize n_bytes, GError **error)
{
  return ops_of (work)->alloc_host (work->device, n_bytes, error);
}

static TpsBuffer *
make_floats (const Work *work, gsize n_elems, guint seed, GError **error)
{
  g_autoptr (TpsBuffer)
      host = device_work_alloc_host (work, TPS_DEVICE_PERIOD * sizeof (gfloat), error);

  if (host == NULL)
    return NULL;
  for (gsize i = 0; i < TPS_DEVICE_PERIOD; i++)
    tps_device_floats_of (host)[i] = (gfloat) ((i * 2654435761u + seed) % 10007) / 10007 + 0.001f;
  return device_work_repeat (work, host, n_elems * sizeof (gfloat), error);
}

/* Makes ids that the device cannot compute. */
static TpsBuffer *
draw_ids (Work *work, const Case *entry, gsize n_bytes, GError **error)
{
  g_autoptr (TpsBuffer) host = device_work_alloc_host (work, n_bytes, error);

  if (host == NULL)
    return NULL;
  tps_device_ids_of (host)[0] = 0;
  work->n_different_ids = tps_device_case_fill_ids (work->n_elems, entry, tps_device_ids_of (host));
  return device_work_repeat (work, host, n_bytes, error);
}

static gboolean
make_ids (Work *work, const Case *entry, GError **error)
{
  gsize n_ids = tps_device_case_get_n_ids (work->n_elems, entry);
  gsize n_bytes = MAX (n_ids, 1) * sizeof (gint64);
  TpsDeviceIdRule rule;

  work->found_ids = alloc (work, (n_ids + 1) * sizeof (gint64), error);
  if (work->found_ids == NULL)
    return FALSE;
  if (!tps_device_case_get_id_rule (work->n_elems, entry, &rule)
      || !tps_device_ids_can_fill (&rule, n_ids))
    return (work->ids = draw_ids (work, entry, n_bytes, error)) != NULL;
  work->n_different_ids = rule.n_different;
  work->ids = alloc (work, n_bytes, error);
  return work->ids != NULL
         && tps_device_ids_fill (work->stream, &rule, n_ids, tps_device_ids_of (work->ids), error);
}

static gboolean
make_halves (Work *work, const Case *entry, GError **error)
{
  if (entry->dtype == 0)
    return TRUE;
  work->halves = alloc (work, work->n_elems * tps_dtype_size (entry->dtype), error);
  if (work->halves == NULL)
    return FALSE;
  if (entry->has_half_rows)
    {
      ops_of (work)->cast (work->stream, entry->dtype, tps_buffer_get_data (work->halves),
                           TPS_DTYPE_FLOAT32, tps_buffer_get_data (work->a), work->n_elems);
      ops_of (work)->copy (work->stream, tps_buffer_get_data (work->a),
                           tps_buffer_get_data (work->halves),
                           work->n_elems * tps_dtype_size (entry->dtype));
    }
  ops_of (work)->cast (work->stream, entry->dtype, tps_buffer_get_data (work->halves),
                       TPS_DTYPE_FLOAT32, tps_buffer_get_data (work->b), work->n_elems);
  return TRUE;
}

/* Allocates and fills the arrays of `n_elems` elements. */
static gboolean
device_work_init (TpsDeviceWork *work, TpsDevice *device, gsize n_elems, const TpsDeviceCase *entry,
                  GError **error)
{
  *work = (Work) { .device = device, .n_elems = n_elems };
  return (work->stream = device->ops->stream_new (device, error)) != NULL
         && (work->a = make_floats (work, n_elems, 1, error)) != NULL
         && (work->b = make_floats (work, n_elems, 2, error)) != NULL
         && (work->state = make_floats (work, n_elems * 2, 3, error)) != NULL
         && (work->loss = alloc (work, sizeof (gdouble), error)) != NULL
         && make_halves (work, entry, error) && make_ids (work, entry, error);
}

/* Returns TRUE if the device has memory for all arrays of a case with `n_elems` elements and for a
 * comparison. */
static gboolean
device_has_memory_for (TpsDevice *device, gsize n_elems)
{
  TpsBuffer *arrays[7] = { NULL };
  gboolean is_enough = TRUE;

  for (guint i = 0; i < G_N_ELEMENTS (arrays) && is_enough; i++)
    {
      arrays[i] = device->ops->alloc (device, n_elems * sizeof (gfloat), NULL);
      is_enough = arrays[i] != NULL;
    }
  for (guint i = 0; i < G_N_ELEMENTS (arrays); i++)
    g_clear_pointer (&arrays[i], tps_buffer_unref);
  return is_enough;
}

/* Comparison of the results of a device with those of the CPU. First, both run the operation on a
 * few elements. The results must be equal, bit by bit where the bits are guaranteed. Then the
 * device runs the operation on the arrays of the measurement, which repeat a short pattern. In most
 * cases the result and the updated state of an optimizer therefore repeat the results of the few
 * elements, and the device compares them. In the other cases the CPU computes the whole result.
 * Found ids and losses are compared on the host. */

/* The results of the CPU for TPS_DEVICE_CHECK_ELEMS elements. */
typedef struct
{
  gfloat *floats; /* `a`, then `state`; owned */
  gdouble loss;
} TpsDeviceExpected;

#define LOSS_TOLERANCE 1e-6 /* relative: the order of additions and expf() differ */
/* relative: a sum of many rows is compared with a multiple of a sum of few rows */
#define SUM_TOLERANCE 1e-4

/* -- results -- */

/* Returns the contents of `a` [n_elems] and `state` [2 * n_elems] after the operation has run once.
 * The caller owns the result. `*loss` receives the loss if the case has one; `loss` may be NULL. */
static gfloat *
result_of (TpsDevice *device, const Case *entry, gsize n_elems, gdouble *loss, GError **error)
{
  Work work;
  g_autofree gfloat *result = g_try_new (gfloat, n_elems * 3);
  gboolean is_done = result != NULL && device_work_init (&work, device, n_elems, entry, error);

  if (result == NULL)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                   "no host memory for %" G_GSIZE_FORMAT " elements", n_elems);
      return NULL;
    }
  if (is_done)
    {
      entry->enqueue (&work, entry);
      ops_of (&work)->copy (work.stream, result, tps_buffer_get_data (work.a),
                            n_elems * sizeof result[0]);
      ops_of (&work)->copy (work.stream, result + n_elems, tps_buffer_get_data (work.state),
                            2 * n_elems * sizeof result[0]);
      if (loss != NULL && entry->has_loss)
        ops_of (&work)->copy (work.stream, loss, tps_buffer_get_data (work.loss), sizeof *loss);
      is_done = ops_of (&work)->stream_sync (work.stream, error);
    }
  device_work_clear (&work);
  return is_done ? g_steal_pointer (&result) : NULL;
}

static gboolean
is_right (const Case *entry, const gfloat *wanted, const gfloat *got)
{
  if (entry->tolerance == 0)
    return memcmp ((const guint8 *) wanted, (const guint8 *) got, sizeof *got) == 0;
  return fabs ((gdouble) *got - (gdouble) *wanted)
         <= entry->tolerance * (fabs ((gdouble) *wanted) + 1e-6);
}

static gboolean
is_right_loss (const TpsDeviceExpected *expected, gdouble loss)
{
  return fabs (loss - expected->loss) <= LOSS_TOLERANCE * fabs (expected->loss);
}

static void
device_expected_clear (TpsDeviceExpected *expected)
{
  g_clear_pointer (&expected->floats, g_free);
}

/* Runs the operation on the CPU. RESOURCE_EXHAUSTED, and those of the device "cpu".
 * device_expected_clear() may also be called after an error, and for a struct of zeros. */
static gboolean
device_expected_init (TpsDeviceExpected *expected, const TpsDeviceCase *entry, GError **error)
{
  expected->floats = result_of (tps_device_find ("cpu", NULL), entry, TPS_DEVICE_CHECK_ELEMS,
                                &expected->loss, error);
  return expected->floats != NULL;
}

/* Runs the operation on TPS_DEVICE_CHECK_ELEMS elements. Returns the number of results that differ;
 * -1 with an error of the device. */
static gssize
device_check_few (TpsDevice *device, const TpsDeviceCase *entry, const TpsDeviceExpected *expected,
                  GError **error)
{
  gdouble loss = 0;
  g_autofree gfloat *got = result_of (device, entry, TPS_DEVICE_CHECK_ELEMS, &loss, error);
  gssize n_wrong = 0;

  if (got == NULL)
    return -1;
  for (gsize i = 0; i < 3 * TPS_DEVICE_CHECK_ELEMS; i++)
    n_wrong += !is_right (entry, &expected->floats[i], &got[i]);
  return n_wrong + (entry->has_loss && !is_right_loss (expected, loss));
}

/* -- results of large arrays -- */

static gdouble
factor_of (const Case *entry, gsize n_elems)
{
  gdouble growth = (gdouble) n_elems / TPS_DEVICE_CHECK_ELEMS;

  return entry->growth == TPS_DEVICE_GROWS_AS_MEAN  ? 1 / growth
         : entry->growth == TPS_DEVICE_GROWS_AS_SUM ? growth
                                                    : 1;
}

/* Describes the work on TPS_DEVICE_CHECK_ELEMS elements, for the numbers of results. The struct has
 * no arrays. */
static Work
get_little (const Work *work)
{
  return (Work) {
    .n_elems = TPS_DEVICE_CHECK_ELEMS,
    .n_different_ids = work->n_different_ids / (work->n_elems / TPS_DEVICE_CHECK_ELEMS),
  };
}

/* The expected floats of an array: `values` multiplied by `factor`, and repeated. */
typedef struct
{
  const gfloat *values;
  gsize n_values;
  gdouble factor;
  gsize n_floats; /* floats of the array that are compared, at its start */
} Wanted;

static gdouble
get_mean (const Wanted *wanted)
{
  gdouble mean = 0;

  for (gsize i = 0; i < wanted->n_values; i++)
    mean += fabs (wanted->values[i] * wanted->factor) / (gdouble) wanted->n_values;
  return mean;
}

static TpsBuffer *
make_wanted (const Work *work, const Wanted *wanted, GError **error)
{
  g_autoptr (TpsBuffer)
      host = device_work_alloc_host (work, wanted->n_values * sizeof (gfloat), error);

  if (host == NULL)
    return NULL;
  for (gsize i = 0; i < wanted->n_values; i++)
    tps_device_floats_of (host)[i] = (gfloat) (wanted->values[i] * wanted->factor);
  return device_work_repeat (work, host, wanted->n_floats * sizeof (gfloat), error);
}

/* Sets `*is_wrong` to TRUE if the mean difference of `got` is above the tolerance. Errors: those of
 * the device. */
static gboolean
compare (const Work *work, TpsBuffer *got, const Wanted *wanted, gdouble tolerance,
         gboolean *is_wrong, GError **error)
{
  g_autoptr (TpsBuffer) there = make_wanted (work, wanted, error);
  gdouble difference;

  if (there == NULL)
    return FALSE;
  tps_dense_ops (work->stream)
      ->l1_loss (work->stream, (gdouble *) (gpointer) tps_buffer_get_data (work->loss), NULL,
                 tps_device_floats_of (got), tps_device_floats_of (there), wanted->n_floats);
  ops_of (work)->copy (work->stream, &difference, tps_buffer_get_data (work->loss),
                       sizeof difference);
  if (!ops_of (work)->stream_sync (work->stream, error))
    return FALSE;
  if (!(difference <= tolerance * get_mean (wanted))) /* also if the difference is NAN */
    *is_wrong = TRUE;
  return TRUE;
}

/* Compares `a` and the updated part of `state`. `whole` contains the results of the CPU for all
 * elements; NULL = the results of a few elements repeat. */
static gboolean
compare_floats (const Work *work, const Case *entry, const gfloat *expected, const gfloat *whole,
                gboolean *is_wrong, GError **error)
{
  const gfloat *from = whole != NULL ? whole : expected;
  Work little = get_little (work);
  const Work *source = whole != NULL ? work : &little;
  gdouble tolerance = entry->growth == TPS_DEVICE_GROWS_AS_SUM ? SUM_TOLERANCE : entry->tolerance;
  Wanted a = { from, tps_device_case_get_n_results (source, entry),
               factor_of (entry, whole != NULL ? TPS_DEVICE_CHECK_ELEMS : work->n_elems),
               tps_device_case_get_n_results (work, entry) };
  Wanted state = { from + source->n_elems, tps_device_case_get_n_state (source, entry), 1,
                   tps_device_case_get_n_state (work, entry) };

  if (whole == NULL)
    a.n_values = (gsize) 1 << (g_bit_storage (a.n_values) - 1); /* only complete repetitions */
  return compare (work, work->a, &a, tolerance, is_wrong, error)
         && (state.n_floats == 0
             || compare (work, work->state, &state, entry->tolerance, is_wrong, error));
}

/* Returns TRUE if `found` contains each different id of `ids` once, in ascending order, and if
 * `n_found` is their number. */
static gboolean
are_different_ids (const gint64 *ids, gsize n_ids, const gint64 *found, gint64 n_found)
{
  g_autofree guint8 *is_there = g_new0 (guint8, n_ids);
  gsize n = 0;

  for (gsize i = 0; i < n_ids; i++)
    is_there[ids[i]] = 1;
  for (gsize id = 0; id < n_ids; id++)
    if (is_there[id] && (n >= (gsize) MAX (n_found, 0) || found[n++] != (gint64) id))
      return FALSE;
  return n == (gsize) n_found;
}

static gboolean
compare_ids (const Work *work, const Case *entry, gboolean *is_wrong, GError **error)
{
  gsize n_ids = tps_device_case_get_n_ids (work->n_elems, entry);
  g_autofree gint64 *ids = g_new (gint64, n_ids);
  g_autofree gint64 *found = g_new (gint64, n_ids + 1);

  tps_device_case_fill_ids (work->n_elems, entry, ids);
  ops_of (work)->copy (work->stream, found, tps_buffer_get_data (work->found_ids),
                       (n_ids + 1) * sizeof found[0]);
  if (!ops_of (work)->stream_sync (work->stream, error))
    return FALSE;
  if (!are_different_ids (ids, n_ids, found, found[n_ids]))
    *is_wrong = TRUE;
  return TRUE;
}

/* Compares the loss. The elements repeat a short pattern, so their mean loss equals the mean loss
 * of a few elements. */
static gboolean
compare_loss (const Work *work, const TpsDeviceExpected *expected, gboolean *is_wrong,
              GError **error)
{
  gdouble loss;

  ops_of (work)->copy (work->stream, &loss, tps_buffer_get_data (work->loss), sizeof loss);
  if (!ops_of (work)->stream_sync (work->stream, error))
    return FALSE;
  if (!is_right_loss (expected, loss))
    *is_wrong = TRUE;
  return TRUE;
}

/* Runs the operation once on `work`, whose arrays must be new. Sets `*is_wrong` to TRUE if the
 * results differ, otherwise to FALSE. RESOURCE_EXHAUSTED. */
static gboolean
device_check_all (const TpsDeviceWork *work, const TpsDeviceCase *entry,
                  const TpsDeviceExpected *expected, gboolean *is_wrong, GError **error)
{
  g_autofree gfloat *whole = NULL;

  *is_wrong = FALSE;
  if (entry->growth == TPS_DEVICE_GROWS_TOO_FAST)
    return TRUE;
  if (entry->growth == TPS_DEVICE_GROWS_FREELY)
    {
      whole = result_of (tps_device_find ("cpu", NULL), entry, work->n_elems, NULL, error);
      if (whole == NULL)
        return FALSE;
    }
  entry->enqueue (work, entry);
  /* The loss first: the comparison of floats overwrites it. */
  return (!entry->has_loss || compare_loss (work, expected, is_wrong, error))
         && (!entry->finds_ids || compare_ids (work, entry, is_wrong, error))
         && compare_floats (work, entry, expected->floats, whole, is_wrong, error);
}

#define CHECK_ELEMS TPS_DEVICE_CHECK_ELEMS
#define SMOKE_ELEMS (2 * CHECK_ELEMS) /* the minimum that repeats the results of the check */
#define MAX_ROUNDS 1000
#define WARM_UP_NS G_GINT64_CONSTANT (100000000)

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

  is_done = device_expected_init (&expected, entry, error)
            && (result->n_wrong = device_check_few (device, entry, &expected, error)) >= 0
            && device_work_init (&work, device, plan->n_elems, entry, error)
            && device_check_all (&work, entry, &expected, &result->is_wrong, error)
            && measure_rate (&work, copy, plan, &before, error)
            && measure_rate (&work, entry, plan, &result->gb_per_s, error)
            && measure_rate (&work, copy, plan, &after, error);

  result->copy_gb_per_s = (before + after) / 2;
  device_work_clear (&work);
  device_expected_clear (&expected);
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
      while (plan.n_elems > CHECK_ELEMS && !device_has_memory_for (device, plan.n_elems))
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
