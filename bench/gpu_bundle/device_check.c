/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/gpu_bundle/device_check.h"

#include <math.h>
#include <string.h>

#include "bench/gpu_bundle/device_work.h"
#include "runtime/base/error.h"
#include "runtime/trainer/dense/dense.h"

#define LOSS_TOLERANCE 1e-6 /* relative: the order of additions and expf() differ */
/* relative: a sum of many rows is compared with a multiple of a sum of few rows */
#define SUM_TOLERANCE 1e-4

typedef TpsDeviceWork Work;
typedef TpsDeviceCase Case;

static const TpsDeviceOps *
ops_of (const Work *work)
{
  return work->device->ops;
}

/* -- results -- */

/* Returns the contents of `a` [n_elems] and `state` [2 * n_elems] after the operation has run once.
 * The caller owns the result. `*loss` receives the loss if the case has one; `loss` may be NULL. */
static gfloat *
result_of (TpsDevice *device, const Case *entry, gsize n_elems, gdouble *loss, GError **error)
{
  Work work;
  g_autofree gfloat *result = g_try_new (gfloat, n_elems * 3);
  gboolean is_done = result != NULL && tps_device_work_init (&work, device, n_elems, entry, error);

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
  tps_device_work_clear (&work);
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

void
tps_device_expected_clear (TpsDeviceExpected *expected)
{
  g_clear_pointer (&expected->floats, g_free);
}

gboolean
tps_device_expected_init (TpsDeviceExpected *expected, const TpsDeviceCase *entry, GError **error)
{
  expected->floats = result_of (tps_device_find ("cpu", NULL), entry, TPS_DEVICE_CHECK_ELEMS,
                                &expected->loss, error);
  return expected->floats != NULL;
}

gssize
tps_device_check_few (TpsDevice *device, const TpsDeviceCase *entry,
                      const TpsDeviceExpected *expected, GError **error)
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
      host = tps_device_work_alloc_host (work, wanted->n_values * sizeof (gfloat), error);

  if (host == NULL)
    return NULL;
  for (gsize i = 0; i < wanted->n_values; i++)
    tps_device_floats_of (host)[i] = (gfloat) (wanted->values[i] * wanted->factor);
  return tps_device_work_repeat (work, host, wanted->n_floats * sizeof (gfloat), error);
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

gboolean
tps_device_check_all (const TpsDeviceWork *work, const TpsDeviceCase *entry,
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
