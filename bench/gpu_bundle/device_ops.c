/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Operations of a device against its own copy: bytes that must move, divided by the time between two events, beside the
 * same of a copy within the device in the same run. Each is first run on few elements on the CPU too, and compared bit by
 * bit.
 *
 *   device_ops --device=cuda:0 [--mib=256] [--rounds=30] [--smoke]
 *
 * Exit code: 0, or 1 where a result is wrong or the device fails, 2 for bad flags, 3 where there is no such device.
 */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/backend.h"
#include "runtime/error.h"

#define BAG_ROWS 20
#define CHECK_ELEMS ((gsize) 1 << 16)
#define MAX_ROUNDS 1000

typedef struct
{
  TpsDevice *device;
  TpsStream *stream;
  gsize n_elems;              /* a power of two, so that any odd factor permutes rows */
  TpsBuffer *a, *b, *c, *ids; /* float [n_elems] each, gint64 [n_elems] */
} Work;

typedef struct Case Case;
struct Case
{
  const gchar *name;
  gsize dim;
  gdouble (*bytes) (const Work *work, const Case *what);
  void (*enqueue) (const Work *work, const Case *what);
  gdouble to_reach; /* of the copy; 0 = it is the copy */
};

static gfloat *
floats_of (TpsBuffer *buffer)
{
  return (gfloat *) (gpointer) tps_buffer_get_data (buffer);
}

static gint64 *
ids_of (TpsBuffer *buffer)
{
  return (gint64 *) (gpointer) tps_buffer_get_data (buffer);
}

static const TpsDeviceOps *
ops_of (const Work *work)
{
  return work->device->ops;
}

/* -- what is measured: results go to a -- */

static gdouble
bytes_8 (const Work *work, const Case *what)
{
  return (gdouble) work->n_elems * 8;
}

static gdouble
bytes_12 (const Work *work, const Case *what)
{
  return (gdouble) work->n_elems * 12;
}

static void
enqueue_copy (const Work *work, const Case *what)
{
  ops_of (work)->copy (work->stream, floats_of (work->a), floats_of (work->b),
                       work->n_elems * sizeof (gfloat));
}

static void
enqueue_accumulate (const Work *work, const Case *what)
{
  ops_of (work)->accumulate (work->stream, TPS_DTYPE_FLOAT32, floats_of (work->a),
                             floats_of (work->b), work->n_elems);
}

static void
enqueue_sgd (const Work *work, const Case *what)
{
  TpsSgdFactors factors = { .learning_rate = 1e-4 };

  ops_of (work)->sgd (work->stream, &factors, floats_of (work->a), floats_of (work->b), NULL,
                      work->n_elems);
}

static gdouble
bytes_rowwise (const Work *work, const Case *what)
{
  gsize rows = work->n_elems / what->dim;

  return (gdouble) work->n_elems * 12 + (gdouble) rows * (8 + 8);
}

static void
enqueue_rowwise (const Work *work, const Case *what)
{
  TpsOptimizerSpec spec = tps_optimizer_spec (TPS_OPTIMIZER_ROWWISE_ADAGRAD, 1e-4);
  TpsRowUpdate update = {
    .indices = ids_of (work->ids),
    .n_rows = work->n_elems / what->dim,
    .dim = what->dim,
    .values = floats_of (work->a),
    .state = floats_of (work->c),
    .gradients = floats_of (work->b),
  };

  tps_optimizer_spec_resolve (&spec, "optimizer", NULL);
  ops_of (work)->update_rows (work->stream, &spec, 1, &update);
}

static TpsBags
bags_of (const Work *work, const Case *what, gsize bag_rows)
{
  gsize rows = work->n_elems / what->dim;
  gsize n_bags = rows / bag_rows;

  return (TpsBags) {
    .rows = (gint64) rows,
    .dim = (gint64) what->dim,
    .indices = ids_of (work->ids),
    .n_indices = n_bags * bag_rows,
    .n_bags = n_bags,
    .pooling = TPS_POOLING_SUM,
  };
}

static gdouble
bytes_of_bags (const Work *work, const Case *what, gsize bag_rows)
{
  TpsBags bags = bags_of (work, what, bag_rows);
  gdouble row_bytes = (gdouble) what->dim * sizeof (gfloat);

  return (gdouble) bags.n_indices * (row_bytes + sizeof (gint64))
         + (gdouble) bags.n_bags * row_bytes;
}

static gdouble
bytes_gather (const Work *work, const Case *what)
{
  return bytes_of_bags (work, what, 1);
}

static gdouble
bytes_pool (const Work *work, const Case *what)
{
  return bytes_of_bags (work, what, BAG_ROWS);
}

static void
enqueue_gather (const Work *work, const Case *what)
{
  TpsBags bags = bags_of (work, what, 1);

  ops_of (work)->embedding_pool (work->stream, &bags, floats_of (work->b), floats_of (work->a),
                                 NULL);
}

static void
enqueue_pool (const Work *work, const Case *what)
{
  TpsBags bags = bags_of (work, what, BAG_ROWS);

  ops_of (work)->embedding_pool (work->stream, &bags, floats_of (work->b), floats_of (work->a),
                                 NULL);
}

static const Case cases[] = {
  { "copy", 1, bytes_8, enqueue_copy, 0 },
  { "accumulate", 1, bytes_12, enqueue_accumulate, 0.85 },
  { "sgd", 1, bytes_12, enqueue_sgd, 0.85 },
  { "row-wise adagrad, dim 64", 64, bytes_rowwise, enqueue_rowwise, 0.85 },
  { "row-wise adagrad, dim 128", 128, bytes_rowwise, enqueue_rowwise, 0.85 },
  { "gather, dim 64", 64, bytes_gather, enqueue_gather, 0.8 },
  { "gather, dim 128", 128, bytes_gather, enqueue_gather, 0.8 },
  { "pool of 20, dim 64", 64, bytes_pool, enqueue_pool, 0.8 },
  { "pool of 20, dim 128", 128, bytes_pool, enqueue_pool, 0.8 },
};

/* -- memory -- */

static void
work_clear (Work *work)
{
  g_clear_pointer (&work->a, tps_buffer_unref);
  g_clear_pointer (&work->b, tps_buffer_unref);
  g_clear_pointer (&work->c, tps_buffer_unref);
  g_clear_pointer (&work->ids, tps_buffer_unref);
  g_clear_pointer (&work->stream, ops_of (work)->stream_free);
}

/* The same contents on every device: by way of the host. */
static TpsBuffer *
filled (const Work *work, gsize elem_bytes, gsize dim, guint seed, GError **error)
{
  gsize n_bytes = work->n_elems * elem_bytes;
  g_autoptr (TpsBuffer) host = ops_of (work)->alloc_host (work->device, n_bytes, error);
  TpsBuffer *buffer;

  if (host == NULL || (buffer = ops_of (work)->alloc (work->device, n_bytes, error)) == NULL)
    return NULL;
  for (gsize i = 0; i < work->n_elems; i++)
    if (elem_bytes == sizeof (gint64))
      ids_of (host)[i] = (gint64) (i * 0x9e3779b1u % (work->n_elems / dim));
    else
      floats_of (host)[i] = (gfloat) ((i * 2654435761u + seed) % 10007) / 10007 + 0.001f;
  ops_of (work)->copy (work->stream, tps_buffer_get_data (buffer), tps_buffer_get_data (host),
                       n_bytes);
  if (ops_of (work)->stream_sync (work->stream, error))
    return buffer;
  tps_buffer_unref (buffer);
  return NULL;
}

static gboolean
work_init (Work *work, TpsDevice *device, gsize n_elems, gsize dim, GError **error)
{
  *work = (Work) { .device = device, .n_elems = n_elems };
  return (work->stream = device->ops->stream_new (device, error)) != NULL
         && (work->a = filled (work, sizeof (gfloat), dim, 1, error)) != NULL
         && (work->b = filled (work, sizeof (gfloat), dim, 2, error)) != NULL
         && (work->c = filled (work, sizeof (gfloat), dim, 3, error)) != NULL
         && (work->ids = filled (work, sizeof (gint64), dim, 0, error)) != NULL;
}

/* -- results -- */

/* What `a` is after one call; owned by the caller. */
static gfloat *
result_of (TpsDevice *device, const Case *what, GError **error)
{
  Work work;
  gfloat *result = g_new (gfloat, CHECK_ELEMS);
  gboolean is_done = work_init (&work, device, CHECK_ELEMS, what->dim, error);

  if (is_done)
    {
      what->enqueue (&work, what);
      ops_of (&work)->copy (work.stream, result, floats_of (work.a),
                            CHECK_ELEMS * sizeof result[0]);
      is_done = ops_of (&work)->stream_sync (work.stream, error);
    }
  if (work.stream != NULL)
    work_clear (&work);
  return is_done ? result : (g_free (result), NULL);
}

/* Elements whose bits differ from the CPU's; -1 with an error. */
static gssize
count_wrong (TpsDevice *device, const Case *what, GError **error)
{
  g_autofree gfloat *wanted = result_of (tps_device_find ("cpu", NULL), what, error);
  g_autofree gfloat *got = wanted != NULL ? result_of (device, what, error) : NULL;
  gssize n_wrong = 0;

  if (got == NULL)
    return -1;
  for (gsize i = 0; i < CHECK_ELEMS; i++)
    n_wrong += memcmp ((const guint8 *) &wanted[i], (const guint8 *) &got[i], sizeof got[i]) != 0;
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

/* The median; the first round warms up. */
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

static gboolean
measure (TpsDevice *device, const Case *what, gsize n_elems, gint n_rounds, gdouble *gb_per_s,
         GError **error)
{
  Work work;
  gdouble ms = 0;
  gboolean is_done = work_init (&work, device, n_elems, what->dim, error)
                     && time_rounds (&work, what, n_rounds, &ms, error);

  if (is_done)
    *gb_per_s = what->bytes (&work, what) / MAX (ms, 1e-6) / 1e6;
  if (work.stream != NULL)
    work_clear (&work);
  return is_done;
}

/* -- the table -- */

typedef struct
{
  gchar *device;
  gint mib, n_rounds;
  gboolean is_smoke;
} Flags;

static gboolean
run_all (TpsDevice *device, const Flags *flags, gssize *n_wrong, GError **error)
{
  gsize n_elems = flags->is_smoke ? CHECK_ELEMS : (gsize) flags->mib << 18;
  gdouble copy = 0;

  n_elems = (gsize) 1 << (g_bit_storage (n_elems) - 1);
  printf ("%-28s %10s %8s %8s %8s\n", "operation", "GB/s", "of copy", "reach", "wrong");
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      gssize wrong = count_wrong (device, &cases[i], error);
      gdouble gb_per_s;

      if (wrong < 0 || !measure (device, &cases[i], n_elems, flags->n_rounds, &gb_per_s, error))
        return FALSE;
      copy = i == 0 ? gb_per_s : copy;
      *n_wrong += wrong;
      printf ("%-28s %10.1f %8.2f %8.2f %8" G_GSSIZE_FORMAT "\n", cases[i].name, gb_per_s,
              gb_per_s / copy, cases[i].to_reach, wrong);
    }
  return TRUE;
}

static gboolean
parse (Flags *flags, int *argc, char ***argv, GError **error)
{
  const GOptionEntry entries[] = {
    { "device", 0, 0, G_OPTION_ARG_STRING, &flags->device, "which one (cuda:0)", "NAME" },
    { "mib", 0, 0, G_OPTION_ARG_INT, &flags->mib, "size of an array, a power of two (256)", "N" },
    { "rounds", 0, 0, G_OPTION_ARG_INT, &flags->n_rounds, "the median of so many counts (30)",
      "N" },
    { "smoke", 0, 0, G_OPTION_ARG_NONE, &flags->is_smoke, "small arrays", NULL },
    { 0 },
  };
  g_autoptr (GOptionContext) context = g_option_context_new ("- operations against a copy");

  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, argc, argv, error))
    return FALSE;
  if (flags->mib >= 1 && flags->mib <= 1 << 20 && flags->n_rounds >= 1
      && flags->n_rounds <= MAX_ROUNDS)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "--mib=%d --rounds=%d: expected 1 to 1048576, and 1 to %d", flags->mib,
               flags->n_rounds, MAX_ROUNDS);
  return FALSE;
}

int
main (int argc, char **argv)
{
  Flags flags = { .mib = 256, .n_rounds = 30 };
  g_autoptr (GError) error = NULL;
  TpsDevice *device;
  gssize n_wrong = 0;
  gint status = 0;

  if (!parse (&flags, &argc, &argv, &error))
    status = 2;
  else if ((device = tps_device_find (flags.device != NULL ? flags.device : "cuda:0", &error))
           == NULL)
    status = 3;
  else if (!run_all (device, &flags, &n_wrong, &error) || n_wrong > 0)
    status = 1;
  if (error != NULL)
    fprintf (stderr, "device_ops: %s\n", error->message);
  g_free (flags.device);
  return status;
}
