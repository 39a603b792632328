/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Compares the operations of a device with its copy: the bytes that an operation must move, divided
 * by the time between two events, relative to the same rate of copies within the device before and
 * after it.
 *
 *   device_ops --device=cuda:0 [--mib=1024] [--rounds=30] [--skip=0] [--only=NAME] [--smoke]
 *   device_ops --list
 *
 * Arrays have half the size, or less, if there is no memory for more. Each operation first runs on
 * a few elements, also on the CPU, and the results are compared, bit by bit where the bits are
 * guaranteed. Then it runs once on the arrays that are measured. They repeat a short pattern, which
 * the device copies, so their result repeats too, and the device compares it with the CPU's; the
 * same holds for updated states of optimizers. The CPU computes the whole result where it does not
 * repeat. Found ids and losses are compared on the host.
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
#include "bench/gpu_bundle/device_ids.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

#define CHECK_ELEMS TPS_DEVICE_CHECK_ELEMS
#define SMOKE_ELEMS (2 * CHECK_ELEMS) /* the least that repeats the result of the check */
#define MAX_ROUNDS 1000
#define WARM_UP_NS G_GINT64_CONSTANT (100000000)
#define LOSS_TOLERANCE 1e-6 /* relative: the order of additions and expf() differ */
#define SUM_TOLERANCE 1e-4  /* of a sum of many rows against a multiple of that of a few */

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

/* Returns a copy of `host`, which must not be empty, in an array of `n_bytes` that repeats it. */
static TpsBuffer *
repeat (const Work *work, TpsBuffer *host, gsize n_bytes, GError **error)
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

static TpsBuffer *
alloc_host (const Work *work, gsize n_bytes, GError **error)
{
  return ops_of (work)->alloc_host (work->device, n_bytes, error);
}

static TpsBuffer *
make_floats (const Work *work, gsize n_elems, guint seed, GError **error)
{
  g_autoptr (TpsBuffer) host = alloc_host (work, TPS_DEVICE_PERIOD * sizeof (gfloat), error);

  if (host == NULL)
    return NULL;
  for (gsize i = 0; i < TPS_DEVICE_PERIOD; i++)
    tps_device_floats_of (host)[i] = (gfloat) ((i * 2654435761u + seed) % 10007) / 10007 + 0.001f;
  return repeat (work, host, n_elems * sizeof (gfloat), error);
}

/* Ids that the device cannot compute. */
static TpsBuffer *
draw_ids (Work *work, const Case *what, gsize n_bytes, GError **error)
{
  g_autoptr (TpsBuffer) host = alloc_host (work, n_bytes, error);

  if (host == NULL)
    return NULL;
  tps_device_ids_of (host)[0] = 0;
  work->n_different_ids = tps_device_case_fill_ids (work->n_elems, what, tps_device_ids_of (host));
  return repeat (work, host, n_bytes, error);
}

static gboolean
make_ids (Work *work, const Case *what, GError **error)
{
  gsize n_ids = tps_device_case_get_n_ids (work->n_elems, what);
  gsize n_bytes = MAX (n_ids, 1) * sizeof (gint64);
  TpsDeviceIdRule rule;

  work->found_ids = alloc (work, (n_ids + 1) * sizeof (gint64), error);
  if (work->found_ids == NULL)
    return FALSE;
  if (!tps_device_case_get_id_rule (work->n_elems, what, &rule)
      || !tps_device_ids_can_fill (&rule, n_ids))
    return (work->ids = draw_ids (work, what, n_bytes, error)) != NULL;
  work->n_different_ids = rule.n_different;
  work->ids = alloc (work, n_bytes, error);
  return work->ids != NULL
         && tps_device_ids_fill (work->stream, &rule, n_ids, tps_device_ids_of (work->ids), error);
}

static gboolean
make_halves (Work *work, const Case *what, GError **error)
{
  if (what->dtype == 0)
    return TRUE;
  work->halves = alloc (work, work->n_elems * tps_dtype_size (what->dtype), error);
  if (work->halves == NULL)
    return FALSE;
  if (what->has_half_rows)
    {
      ops_of (work)->cast (work->stream, what->dtype, tps_buffer_get_data (work->halves),
                           TPS_DTYPE_FLOAT32, tps_buffer_get_data (work->a), work->n_elems);
      ops_of (work)->copy (work->stream, tps_buffer_get_data (work->a),
                           tps_buffer_get_data (work->halves),
                           work->n_elems * tps_dtype_size (what->dtype));
    }
  ops_of (work)->cast (work->stream, what->dtype, tps_buffer_get_data (work->halves),
                       TPS_DTYPE_FLOAT32, tps_buffer_get_data (work->b), work->n_elems);
  return TRUE;
}

static gboolean
work_init (Work *work, TpsDevice *device, gsize n_elems, const Case *what, GError **error)
{
  *work = (Work) { .device = device, .n_elems = n_elems };
  return (work->stream = device->ops->stream_new (device, error)) != NULL
         && (work->a = make_floats (work, n_elems, 1, error)) != NULL
         && (work->b = make_floats (work, n_elems, 2, error)) != NULL
         && (work->state = make_floats (work, n_elems * 2, 3, error)) != NULL
         && (work->loss = alloc (work, sizeof (gdouble), error)) != NULL
         && make_halves (work, what, error) && make_ids (work, what, error);
}

/* Returns whether the device has memory for all arrays of a case, and for a comparison. */
static gboolean
has_memory_for (TpsDevice *device, gsize n_elems)
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

/* -- results -- */

/* Returns the contents of `a` [n_elems] and `state` [2 * n_elems] after one call. Owned by the
 * caller. Sets *loss, unless that is NULL, to the loss if there is one. */
static gfloat *
result_of (TpsDevice *device, const Case *what, gsize n_elems, gdouble *loss, GError **error)
{
  Work work;
  g_autofree gfloat *result = g_try_new (gfloat, n_elems * 3);
  gboolean is_done = result != NULL && work_init (&work, device, n_elems, what, error);

  if (result == NULL)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                   "no host memory for %" G_GSIZE_FORMAT " elements", n_elems);
      return NULL;
    }
  if (is_done)
    {
      what->enqueue (&work, what);
      ops_of (&work)->copy (work.stream, result, tps_buffer_get_data (work.a),
                            n_elems * sizeof result[0]);
      ops_of (&work)->copy (work.stream, result + n_elems, tps_buffer_get_data (work.state),
                            2 * n_elems * sizeof result[0]);
      if (loss != NULL && what->has_loss)
        ops_of (&work)->copy (work.stream, loss, tps_buffer_get_data (work.loss), sizeof *loss);
      is_done = ops_of (&work)->stream_sync (work.stream, error);
    }
  work_clear (&work);
  return is_done ? g_steal_pointer (&result) : NULL;
}

static gboolean
is_right (const Case *what, const gfloat *wanted, const gfloat *got)
{
  if (what->tolerance == 0)
    return memcmp ((const guint8 *) wanted, (const guint8 *) got, sizeof *got) == 0;
  return fabs ((gdouble) *got - (gdouble) *wanted)
         <= what->tolerance * (fabs ((gdouble) *wanted) + 1e-6);
}

/* The CPU's results of CHECK_ELEMS elements. */
typedef struct
{
  gfloat *floats; /* `a`, then `state` */
  gdouble loss;
} Small;

static gboolean
is_right_loss (const Small *small, gdouble loss)
{
  return fabs (loss - small->loss) <= LOSS_TOLERANCE * fabs (small->loss);
}

/* Returns the number of results that differ from the CPU's; -1 with an error. */
static gssize
count_wrong (TpsDevice *device, const Case *what, const Small *small, GError **error)
{
  gdouble loss = 0;
  g_autofree gfloat *got = result_of (device, what, CHECK_ELEMS, &loss, error);
  gssize n_wrong = 0;

  if (got == NULL)
    return -1;
  for (gsize i = 0; i < 3 * CHECK_ELEMS; i++)
    n_wrong += !is_right (what, &small->floats[i], &got[i]);
  return n_wrong + (what->has_loss && !is_right_loss (small, loss));
}

/* -- results of large arrays -- */

static gdouble
factor_of (const Case *what, gsize n_elems)
{
  gdouble growth = (gdouble) n_elems / CHECK_ELEMS;

  return what->growth == TPS_DEVICE_GROWS_AS_MEAN  ? 1 / growth
         : what->growth == TPS_DEVICE_GROWS_AS_SUM ? growth
                                                   : 1;
}

/* The arrays of a few elements, without memory: for counts of results. */
static Work
get_little (const Work *work)
{
  return (Work) {
    .n_elems = CHECK_ELEMS,
    .n_different_ids = work->n_different_ids / (work->n_elems / CHECK_ELEMS),
  };
}

/* Wanted floats of an array: `values` times `factor`, repeated. */
typedef struct
{
  const gfloat *values;
  gsize n_values;
  gdouble factor;
  gsize n_floats; /* of the array, the first ones */
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
  g_autoptr (TpsBuffer) host = alloc_host (work, wanted->n_values * sizeof (gfloat), error);

  if (host == NULL)
    return NULL;
  for (gsize i = 0; i < wanted->n_values; i++)
    tps_device_floats_of (host)[i] = (gfloat) (wanted->values[i] * wanted->factor);
  return repeat (work, host, wanted->n_floats * sizeof (gfloat), error);
}

/* Sets *is_wrong if the mean difference of `got` is above the tolerance. Returns FALSE with an
 * error if the device fails. */
static gboolean
compare (const Work *work, TpsBuffer *got, const Wanted *wanted, gdouble tolerance,
         gboolean *is_wrong, GError **error)
{
  g_autoptr (TpsBuffer) there = make_wanted (work, wanted, error);
  gdouble difference;

  if (there == NULL)
    return FALSE;
  ops_of (work)->l1_loss (work->stream, (gdouble *) (gpointer) tps_buffer_get_data (work->loss),
                          NULL, tps_device_floats_of (got), tps_device_floats_of (there),
                          wanted->n_floats);
  ops_of (work)->copy (work->stream, &difference, tps_buffer_get_data (work->loss),
                       sizeof difference);
  if (!ops_of (work)->stream_sync (work->stream, error))
    return FALSE;
  if (!(difference <= tolerance * get_mean (wanted))) /* also if it is NaN */
    *is_wrong = TRUE;
  return TRUE;
}

/* Compares `a` and the updated part of `state`. `whole` are the CPU's results of all elements, or
 * NULL if those of a few repeat. */
static gboolean
compare_floats (const Work *work, const Case *what, const gfloat *small, const gfloat *whole,
                gboolean *is_wrong, GError **error)
{
  const gfloat *from = whole != NULL ? whole : small;
  Work little = get_little (work);
  const Work *source = whole != NULL ? work : &little;
  gdouble tolerance = what->growth == TPS_DEVICE_GROWS_AS_SUM ? SUM_TOLERANCE : what->tolerance;
  Wanted a = { from, tps_device_case_get_n_results (source, what),
               factor_of (what, whole != NULL ? CHECK_ELEMS : work->n_elems),
               tps_device_case_get_n_results (work, what) };
  Wanted state = { from + source->n_elems, tps_device_case_get_n_state (source, what), 1,
                   tps_device_case_get_n_state (work, what) };

  if (whole == NULL)
    a.n_values = (gsize) 1 << (g_bit_storage (a.n_values) - 1); /* whole repetitions */
  return compare (work, work->a, &a, tolerance, is_wrong, error)
         && (state.n_floats == 0
             || compare (work, work->state, &state, what->tolerance, is_wrong, error));
}

/* Returns whether `found` are the different ones of `ids`, in ascending order, and their number. */
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
compare_ids (const Work *work, const Case *what, gboolean *is_wrong, GError **error)
{
  gsize n_ids = tps_device_case_get_n_ids (work->n_elems, what);
  g_autofree gint64 *ids = g_new (gint64, n_ids);
  g_autofree gint64 *found = g_new (gint64, n_ids + 1);

  tps_device_case_fill_ids (work->n_elems, what, ids);
  ops_of (work)->copy (work->stream, found, tps_buffer_get_data (work->found_ids),
                       (n_ids + 1) * sizeof found[0]);
  if (!ops_of (work)->stream_sync (work->stream, error))
    return FALSE;
  if (!are_different_ids (ids, n_ids, found, found[n_ids]))
    *is_wrong = TRUE;
  return TRUE;
}

/* Repeated elements have the mean loss of a few. */
static gboolean
compare_loss (const Work *work, const Small *small, gboolean *is_wrong, GError **error)
{
  gdouble loss;

  ops_of (work)->copy (work->stream, &loss, tps_buffer_get_data (work->loss), sizeof loss);
  if (!ops_of (work)->stream_sync (work->stream, error))
    return FALSE;
  if (!is_right_loss (small, loss))
    *is_wrong = TRUE;
  return TRUE;
}

/* Runs the operation once on fresh arrays. Sets *is_wrong if its results differ from the CPU's.
 * Returns FALSE with an error if the device fails. */
static gboolean
check_large (const Work *work, const Case *what, const Small *small, gboolean *is_wrong,
             GError **error)
{
  g_autofree gfloat *whole = NULL;

  *is_wrong = FALSE;
  if (what->growth == TPS_DEVICE_GROWS_TOO_FAST)
    return TRUE;
  if (what->growth == TPS_DEVICE_GROWS_FREELY)
    {
      whole = result_of (tps_device_find ("cpu", NULL), what, work->n_elems, NULL, error);
      if (whole == NULL)
        return FALSE;
    }
  what->enqueue (work, what);
  /* The comparison of floats overwrites the loss. */
  return (!what->has_loss || compare_loss (work, small, is_wrong, error))
         && (!what->finds_ids || compare_ids (work, what, is_wrong, error))
         && compare_floats (work, what, small->floats, whole, is_wrong, error);
}

/* -- time -- */

/* The way to measure. */
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
time_once (const Work *work, const Case *what, TpsEvent *events[2], gdouble *ms, GError **error)
{
  ops_of (work)->event_record (events[0], work->stream);
  what->enqueue (work, what);
  ops_of (work)->event_record (events[1], work->stream);
  return ops_of (work)->stream_sync (work->stream, error)
         && ops_of (work)->events_elapsed (events[0], events[1], ms, error);
}

/* Repeats the operation until the device has its usual clock. */
static gboolean
warm_up (const Work *work, const Case *what, gint64 warm_up_ns, GError **error)
{
  gint64 end_ns = tps_clock_now_ns () + warm_up_ns;

  do
    {
      what->enqueue (work, what);
      if (!ops_of (work)->stream_sync (work->stream, error))
        return FALSE;
    }
  while (tps_clock_now_ns () < end_ns);
  return TRUE;
}

static gboolean
time_rounds (const Work *work, const Case *what, TpsEvent *events[2], gint n_rounds,
             gdouble *median_ms, GError **error)
{
  gdouble ms[MAX_ROUNDS];

  for (gint n = 0; n < n_rounds; n++)
    if (!time_once (work, what, events, &ms[n], error))
      return FALSE;
  qsort (ms, (gsize) n_rounds, sizeof ms[0], compare_times);
  *median_ms = ms[n_rounds / 2];
  return TRUE;
}

static gboolean
measure_rate (const Work *work, const Case *what, const Plan *plan, gdouble *gb_per_s,
              GError **error)
{
  TpsEvent *events[2] = { ops_of (work)->event_new (work->device, error), NULL };
  gdouble ms = 0;
  gboolean is_done;

  if (events[0] != NULL)
    events[1] = ops_of (work)->event_new (work->device, error);
  is_done = events[1] != NULL && warm_up (work, what, plan->warm_up_ns, error)
            && time_rounds (work, what, events, plan->n_rounds, &ms, error);
  for (guint i = 0; i < 2; i++)
    if (events[i] != NULL)
      ops_of (work)->event_free (events[i]);
  *gb_per_s = what->bytes (work, what) / MAX (ms, 1e-6) / 1e6;
  return is_done;
}

typedef struct
{
  gdouble gb_per_s;
  gdouble copy_gb_per_s; /* mean of copies before the operation and after it */
  gssize n_wrong;        /* of a few elements */
  gboolean is_wrong;     /* the result of the measured size */
} Measurement;

static gboolean
measure (TpsDevice *device, const Case *what, const Plan *plan, Measurement *result, GError **error)
{
  const Case *copy = tps_device_cases_get (NULL);
  gdouble before = 0, after = 0;
  Work work = { 0 };
  Small small = { NULL, 0 };
  gboolean is_done;

  small.floats = result_of (tps_device_find ("cpu", NULL), what, CHECK_ELEMS, &small.loss, error);
  is_done = small.floats != NULL
            && (result->n_wrong = count_wrong (device, what, &small, error)) >= 0
            && work_init (&work, device, plan->n_elems, what, error)
            && check_large (&work, what, &small, &result->is_wrong, error)
            && measure_rate (&work, copy, plan, &before, error)
            && measure_rate (&work, what, plan, &result->gb_per_s, error)
            && measure_rate (&work, copy, plan, &after, error);

  result->copy_gb_per_s = (before + after) / 2;
  work_clear (&work);
  g_free (small.floats);
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
judge (Verdict *verdict, const Case *what, const Measurement *rates)
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
run_case (TpsDevice *device, const Case *what, const Plan *plan, Verdict *verdict)
{
  g_autoptr (GError) error = NULL;
  Measurement result = { 0 };

  if (!measure (device, what, plan, &result, &error))
    {
      printf ("%-28s %10s %8s %8.2f %8s  %s\n", what->name, "-", "-", what->to_reach, "-",
              error->message);
      return FAILED;
    }
  judge (verdict, what, &result);
  printf ("%-28s %10.1f %8.3f %8.2f %8" G_GSSIZE_FORMAT "%s\n", what->name, result.gb_per_s,
          result.gb_per_s / result.copy_gb_per_s, what->to_reach, result.n_wrong,
          result.is_wrong ? "  wrong at the measured size" : "");
  return result.n_wrong == 0 && !result.is_wrong ? RIGHT : WRONG;
}

static gboolean
is_wanted (const Flags *flags, guint i, const Case *what)
{
  return i >= (guint) flags->n_skipped
         && (flags->only == NULL || g_str_equal (flags->only, what->name));
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
      while (plan.n_elems > CHECK_ELEMS && !has_memory_for (device, plan.n_elems))
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

/* Returns FALSE with an error if there is no operation of that name. */
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
  g_free (flags.only);
  return status;
}
