/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include <math.h>

#include "bench/lookup/bags.h"
#include "bench/lookup/parts.h"
#include "bench/lookup/server.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/device/device_memory.h"
#include "runtime/tensor/optimizer.h"

/* A few rows of a trained table, computed here for comparison with the rows of the systems.
 *
 * The rows are those of the first ids of the bags (see `n_samples` of TpsLookupBags). All rows are
 * zero before the first step. Gradients of bags are multiples of 1/256 with a magnitude below 1/4,
 * so their sums are exact in any order. bench/peers/embedding_work.py has the same formulas. */

#define LEARNING_RATE 0.01
#define EPSILON 1e-8

/* The relative difference that sums may have, because systems compute in single precision. */
#define TOLERANCE 1e-3

/* The defaults of Adam, in ThriftPS and in PyTorch. */
#define BETA1 0.9
#define BETA2 0.999

typedef struct
{
  const TpsLookupBags *bags;
  gfloat *gradients; /* [n_sets, n_samples, dim] */
  gsize *n_found;    /* [n_sets, n_samples], how often the id occurs in the set */
} Samples;

typedef struct
{
  const Samples *samples;
  TpsOptimizerKind optimizer;
  gsize n_steps;
  gdouble *values;  /* [n_samples, dim] */
  gdouble *moments; /* [n_samples, dim], the first moments of Adam */
  gdouble *squares; /* [n_samples, dim]; row-wise Adagrad uses the first element of each row */
} TrainedRows;

/* -- gradients -- */

/* Writes the gradients [n_bags, dim], which are the same for every batch. */
static void
fill_gradients (gfloat *gradients, const TpsLookupShape *shape)
{
  for (gsize bag = 0; bag < shape->n_bags; bag++)
    for (gsize column = 0; column < shape->dim; column++)
      gradients[bag * shape->dim + column] = ((gfloat) ((bag * 13 + column * 5) % 127) - 63) / 256;
}

/* Returns the index of the last sample of each id. The caller owns the table. */
static GHashTable *
index_samples (const TpsLookupBags *bags)
{
  GHashTable *index = g_hash_table_new (g_int64_hash, g_int64_equal);

  for (gsize i = 0; i < bags->n_samples; i++)
    g_hash_table_insert (index, bags->ids + i, GSIZE_TO_POINTER (i));
  return index;
}

static void
add_gradient (Samples *samples, gsize at, const gfloat *gradient)
{
  gsize dim = samples->bags->shape.dim;

  samples->n_found[at]++;
  for (gsize d = 0; d < dim; d++)
    samples->gradients[at * dim + d] += gradient[d];
}

/* Adds the gradients of one set. The last sample of an id receives them. */
static void
add_set (Samples *samples, GHashTable *index, gsize set, const gfloat *gradients)
{
  const TpsLookupBags *bags = samples->bags;
  const TpsLookupShape *shape = &bags->shape;
  const gint64 *ids = tps_lookup_bags_get_ids (bags, set);
  gpointer sample;

  for (gsize i = 0; i < shape->n_bags * shape->bag_length; i++)
    if (g_hash_table_lookup_extended (index, ids + i, NULL, &sample))
      add_gradient (samples, set * bags->n_samples + GPOINTER_TO_SIZE (sample),
                    gradients + i / shape->bag_length * shape->dim);
}

/* Adds up the gradients of the rows for all sets of ids. */
static Samples *
samples_new (const TpsLookupBags *bags, const gfloat *gradients)
{
  Samples *samples = g_new0 (Samples, 1);
  g_autoptr (GHashTable) index = index_samples (bags);
  gsize n = bags->shape.n_sets * bags->n_samples;

  samples->bags = bags;
  samples->gradients = g_new0 (gfloat, n * bags->shape.dim);
  samples->n_found = g_new0 (gsize, n);
  for (gsize set = 0; set < bags->shape.n_sets; set++)
    add_set (samples, index, set, gradients);
  return samples;
}

static void
samples_free (Samples *samples)
{
  g_free (samples->gradients);
  g_free (samples->n_found);
  g_free (samples);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Samples, samples_free)

/* -- rows -- */

/* Creates the rows of one table of one system. */
static TrainedRows *
trained_rows_new (const Samples *samples, TpsOptimizerKind optimizer)
{
  TrainedRows *rows = g_new0 (TrainedRows, 1);
  gsize n = samples->bags->n_samples * samples->bags->shape.dim;

  rows->samples = samples;
  rows->optimizer = optimizer;
  rows->values = g_new0 (gdouble, n);
  rows->moments = g_new0 (gdouble, n);
  rows->squares = g_new0 (gdouble, n);
  return rows;
}

static void
trained_rows_free (TrainedRows *rows)
{
  g_free (rows->values);
  g_free (rows->moments);
  g_free (rows->squares);
  g_free (rows);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TrainedRows, trained_rows_free)

/* The steps of runtime/device/cpu/optimizer in double precision, for the row at `at`. */
static void
step_rowwise_adagrad (TrainedRows *rows, gsize at, const gfloat *gradient, gsize dim)
{
  gdouble sum = 0;

  for (gsize d = 0; d < dim; d++)
    sum += (gdouble) gradient[d] * (gdouble) gradient[d];
  rows->squares[at] += sum / (gdouble) dim;
  for (gsize d = 0; d < dim; d++)
    rows->values[at + d] -= LEARNING_RATE * (gdouble) gradient[d]
                            / (sqrt (rows->squares[at]) + EPSILON);
}

static void
step_adagrad (TrainedRows *rows, gsize at, const gfloat *gradient, gsize dim)
{
  for (gsize d = 0; d < dim; d++)
    {
      gdouble g = (gdouble) gradient[d];

      rows->squares[at + d] += g * g;
      rows->values[at + d] -= LEARNING_RATE * g / (sqrt (rows->squares[at + d]) + EPSILON);
    }
}

static void
step_adam (TrainedRows *rows, gsize at, const gfloat *gradient, gsize dim)
{
  gdouble n = (gdouble) rows->n_steps;
  gdouble rate = LEARNING_RATE / (1 - pow (BETA1, n));
  gdouble correction = sqrt (1 - pow (BETA2, n));

  for (gsize d = 0; d < dim; d++)
    {
      gdouble g = (gdouble) gradient[d];
      gdouble *moment = &rows->moments[at + d], *square = &rows->squares[at + d];

      *moment = BETA1 * *moment + (1 - BETA1) * g;
      *square = BETA2 * *square + (1 - BETA2) * g * g;
      rows->values[at + d] -= rate * *moment / (sqrt (*square) / correction + EPSILON);
    }
}

static void
step (TrainedRows *rows)
{
  const Samples *samples = rows->samples;
  gsize n_samples = samples->bags->n_samples, dim = samples->bags->shape.dim;
  gsize first = rows->n_steps % samples->bags->shape.n_sets * n_samples;

  rows->n_steps++;
  for (gsize i = 0; i < n_samples; i++)
    {
      const gfloat *gradient = samples->gradients + (first + i) * dim;

      if (samples->n_found[first + i] == 0)
        continue;
      if (rows->optimizer == TPS_OPTIMIZER_ADAM)
        step_adam (rows, i * dim, gradient, dim);
      else if (rows->optimizer == TPS_OPTIMIZER_ADAGRAD)
        step_adagrad (rows, i * dim, gradient, dim);
      else
        step_rowwise_adagrad (rows, i * dim, gradient, dim);
    }
}

/* Makes `n` more steps; step number i has the ids of set i % n_sets. Then compares the sum of all
 * elements with `sum`, the result of the system after the same steps. */
static gboolean
trained_rows_check (TrainedRows *rows, gsize n, gdouble sum, const gchar *system, GError **error)
{
  const TpsLookupBags *bags = rows->samples->bags;
  g_autoptr (GHashTable) index = index_samples (bags);
  gdouble expected = 0, magnitude = 0;

  for (gsize i = 0; i < n; i++)
    step (rows);
  for (gsize i = 0; i < bags->n_samples; i++)
    {
      gsize sample = GPOINTER_TO_SIZE (g_hash_table_lookup (index, bags->ids + i));

      for (gsize d = 0; d < bags->shape.dim; d++)
        {
          expected += rows->values[sample * bags->shape.dim + d];
          magnitude += fabs (rows->values[sample * bags->shape.dim + d]);
        }
    }
  if (fabs (sum - expected) <= TOLERANCE * magnitude)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL,
               "%s, %s: after %" G_GSIZE_FORMAT " steps the sum of %" G_GSIZE_FORMAT
               " rows is %.9g, expected %.9g",
               system, tps_optimizer_kind_name (rows->optimizer), rows->n_steps, bags->n_samples,
               sum, expected);
  return FALSE;
}

/* The steps of one trainer by RPC, over a Unix socket with shared memory: pooled lookups, alone or
 * followed by a push of the gradients of bags. */

#define OURS "step"
#define USUAL_ROWS_PER_S 5e6 /* for the estimate of the time */

/* One kind of step; static. */
typedef struct
{
  const gchar *name;          /* the name of the work of peers, such as "lookup" or "adagrad" */
  const gchar *row;           /* the row of the report, such as "lookup + push, adagrad" */
  const gchar *table;         /* the table of the server */
  TpsOptimizerKind optimizer; /* 0 = the step only has a lookup */
  gboolean peer_has[TPS_LOOKUP_N_PEERS];
} Work;

#define N_WORKS 4

static const Work works[N_WORKS] = {
  { "lookup", "lookup", "step/lookup", 0, { TRUE, TRUE } },
  { "rowwise-adagrad",
    "lookup + push, rowwise-adagrad",
    "step/rowwise-adagrad",
    TPS_OPTIMIZER_ROWWISE_ADAGRAD,
    { [TPS_LOOKUP_FBGEMM] = TRUE } },
  { "adagrad", "lookup + push, adagrad", "step/adagrad", TPS_OPTIMIZER_ADAGRAD, { TRUE, TRUE } },
  { "adam",
    "lookup + push, adam",
    "step/adam",
    TPS_OPTIMIZER_ADAM,
    { [TPS_LOOKUP_PYTORCH] = TRUE } },
};

/* A caller whose model computes on the GPU that has the tables of the server. A lookup ends when
 * the result is in the array of the caller, in memory of that GPU. */
typedef struct
{
  TpsRemoteTables *tables;
  TpsStream *stream;
  TpsBuffer *array; /* [n_bags, dim], on the device */
  guint n_results, n_there;
  gsize n_done; /* batches so far; both paths look up the same ids */
} DeviceCaller;

/* The path of a result to the array of the caller. */
typedef enum
{
  THROUGH_HOST, /* the result is in host memory, and is copied to the device */
  ON_DEVICE,    /* the result is in memory of the device that both processes share */
  N_WAYS
} Way;

/* One work on one system, and its progress. */
typedef struct
{
  TrainedRows *rows; /* the expected rows; NULL = the work only has lookups */
  gsize n_done;      /* batches so far */
} StepTask;

struct TpsLookupSteps
{
  gfloat *gradients; /* [n_bags, dim] */
  gint64 *offsets;   /* [n_bags] */
  Samples *samples;
  TpsRemoteTables *tables;
  StepTask tasks[1 + TPS_LOOKUP_N_PEERS][N_WORKS]; /* the first system is ours */
  DeviceCaller callers[N_WAYS];                    /* for a caller on a device */
};

void
tps_lookup_steps_free (TpsLookupSteps *steps)
{
  for (guint way = 0; way < N_WAYS; way++)
    {
      DeviceCaller *caller = &steps->callers[way];

      if (caller->stream != NULL)
        caller->stream->device->ops->stream_free (caller->stream);
      g_clear_pointer (&caller->array, tps_buffer_unref);
      g_clear_pointer (&caller->tables, tps_remote_tables_free);
    }
  g_clear_pointer (&steps->tables, tps_remote_tables_free);
  for (guint system = 0; system <= TPS_LOOKUP_N_PEERS; system++)
    for (guint i = 0; i < N_WORKS; i++)
      g_clear_pointer (&steps->tasks[system][i].rows, trained_rows_free);
  g_clear_pointer (&steps->samples, samples_free);
  g_free (steps->gradients);
  g_free (steps->offsets);
  g_free (steps);
}

/* -- calls -- */

static gboolean
look_up (TpsRemoteTables *tables, const TpsBagQuery *query, TpsTensor *output, GError **error)
{
  TpsTensor result = { 0 };

  if (!tps_remote_tables_lookup_bags_sync (tables, query, 1, tps_served_get_deadline (), &result,
                                           error))
    return FALSE;
  tps_tensor_move (output, &result);
  return TRUE;
}

/* Returns the query of a batch. It borrows all arguments. */
static TpsBagQuery
make_query (const TpsLookup *lookup, const gchar *table, gsize batch)
{
  const TpsLookupShape *shape = &lookup->bags.shape;
  const gint64 *ids = tps_lookup_bags_get_ids (&lookup->bags, batch % shape->n_sets);

  return (TpsBagQuery) { .table = table,
                         .indices = tps_view_ids (ids, shape->n_bags * shape->bag_length),
                         .offsets = tps_view_ids (lookup->steps->offsets, shape->n_bags),
                         .pooling = TPS_POOLING_SUM };
}

/* Returns the sum of `elements` [n]. */
static gdouble
sum_up (const gfloat *elements, gsize n)
{
  gdouble sum = 0;

  for (gsize i = 0; i < n; i++)
    sum += (gdouble) elements[i];
  return sum;
}

static gboolean
push_bags (const TpsLookup *lookup, const TpsBagQuery *query, GError **error)
{
  const TpsLookupShape *shape = &lookup->bags.shape;
  TpsBagGradient gradient = {
    .query = *query,
    .gradient = tps_view_rows (lookup->steps->gradients, shape->n_bags, shape->dim),
  };

  return tps_remote_tables_apply_bags_sync (lookup->steps->tables, &gradient, 1,
                                            tps_served_get_deadline (), error);
}

/* Looks up the rows of the samples, and adds up their elements. */
static gboolean
sum_up_samples (const TpsLookup *lookup, const Work *work, gdouble *sum, GError **error)
{
  const TpsLookupBags *bags = &lookup->bags;
  g_auto (TpsTensor) rows = { 0 };

  if (!tps_remote_tables_lookup_rows_sync (lookup->steps->tables, work->table,
                                           tps_view_ids (bags->ids, bags->n_samples),
                                           tps_served_get_deadline (), &rows, error))
    return FALSE;
  *sum = sum_up (tps_tensor_data (&rows), bags->n_samples * bags->shape.dim);
  return TRUE;
}

/* Runs `n_batches` batches from number `first` on. Each batch has one lookup. If the work has an
 * optimizer, a push follows, and is applied at its end. Returns the seconds; -1 with an error. */
static gdouble
run_ours (const TpsLookup *lookup, const Work *work, gsize first, gsize n_batches,
          gdouble *checksum, GError **error)
{
  const TpsLookupShape *shape = &lookup->bags.shape;
  g_auto (TpsTensor) output = { 0 };
  gint64 start_ns = tps_clock_now_ns (), end_ns;

  for (gsize i = first; i < first + n_batches; i++)
    {
      TpsBagQuery query = make_query (lookup, work->table, i);

      if (!look_up (lookup->steps->tables, &query, &output, error)
          || (work->optimizer != 0 && !push_bags (lookup, &query, error)))
        return -1;
    }
  end_ns = tps_clock_now_ns ();
  if (work->optimizer == 0)
    *checksum = sum_up (tps_tensor_data (&output), shape->n_bags * shape->dim);
  else if (!sum_up_samples (lookup, work, checksum, error))
    return -1;
  return (gdouble) (end_ns - start_ns) / 1e9;
}

/* -- systems: number 0 is our system, the other numbers are the peers -- */

static const gchar *
get_name (const TpsLookup *lookup, guint system)
{
  return system > 0 ? lookup->peers[system - 1].name : OURS;
}

static gdouble
run_batches (TpsLookup *lookup, guint system, const Work *work, gsize first, gdouble *checksum,
             GError **error)
{
  TpsLookupPeerWork peer_work = { .name = work->name,
                                  .n_threads = (guint) lookup->options->n_threads,
                                  .first = first,
                                  .n_batches = (gsize) lookup->options->n_steps };

  if (system > 0)
    return tps_lookup_peer_run (&lookup->peers[system - 1], &peer_work, checksum, error);
  return run_ours (lookup, work, first, peer_work.n_batches, checksum, error);
}

/* Adds the rate of a round. */
static void
add_rate (const TpsLookup *lookup, const gchar *system, const gchar *row, gdouble seconds)
{
  const TpsLookupShape *shape = &lookup->bags.shape;

  tps_figures_add (lookup->figures, system, row, &tps_lookup_rows_per_s,
                   (gdouble) ((gsize) lookup->options->n_steps * shape->n_bags * shape->bag_length)
                       / seconds);
}

/* Returns the expected seconds of a round. */
static gdouble
foretell (const TpsLookup *lookup)
{
  const TpsLookupShape *shape = &lookup->bags.shape;

  return (gdouble) lookup->options->n_steps * (gdouble) (shape->n_bags * shape->bag_length)
         / USUAL_ROWS_PER_S;
}

static gboolean
run_steps (gpointer bench, gpointer system, gpointer row, gboolean is_warm_up, GError **error)
{
  TpsLookup *lookup = bench;
  guint number = GPOINTER_TO_UINT (system), i = GPOINTER_TO_UINT (row);
  const gchar *name = get_name (lookup, number);
  StepTask *task = &lookup->steps->tasks[number][i];
  gsize n_batches = (gsize) lookup->options->n_steps;
  gdouble checksum = 0;
  gdouble seconds = run_batches (lookup, number, &works[i], task->n_done, &checksum, error);

  if (seconds < 0)
    return FALSE;
  task->n_done += n_batches;
  if (task->rows != NULL
          ? !trained_rows_check (task->rows, n_batches, checksum, name, error)
          : !tps_lookup_bags_check (&lookup->bags, (task->n_done - 1) % lookup->bags.shape.n_sets,
                                    checksum, name, error))
    return FALSE;
  if (!is_warm_up)
    add_rate (lookup, name, works[i].row, seconds);
  return TRUE;
}

/* -- lookups to a device: a row with both paths -- */

/* A client opens a shared segment only after a result in host memory: the first are there. */
#define MAX_FIRST_LOOKUPS 1000

static gsize
get_n_bytes (const TpsLookup *lookup)
{
  return lookup->bags.shape.n_bags * lookup->bags.shape.dim * sizeof (gfloat);
}

/* Looks up one batch. `*is_there` receives TRUE if the result was in memory of the device. Copies
 * the result to the array, and waits until the copy has ended: after the release of the result, the
 * server may write the next result to the same memory. */
static gboolean
look_up_there (const TpsLookup *lookup, DeviceCaller *caller, gsize batch, gboolean *is_there,
               GError **error)
{
  TpsBagQuery query = make_query (lookup, works[0].table, batch);
  const TpsDeviceOps *ops = caller->stream->device->ops;
  g_auto (TpsTensor) result = { 0 };

  if (!look_up (caller->tables, &query, &result, error))
    return FALSE;
  *is_there = tps_device_memory_of_tensor (&result) != NULL;
  ops->copy (caller->stream, tps_buffer_get_data (caller->array), tps_tensor_data (&result),
             get_n_bytes (lookup));
  return ops->stream_sync (caller->stream, error);
}

/* Repeats lookups until the first result is in memory of the device. */
static gboolean
look_up_until_there (const TpsLookup *lookup, DeviceCaller *caller, GError **error)
{
  gboolean is_there = FALSE;

  for (guint i = 0; i < MAX_FIRST_LOOKUPS && !is_there; i++)
    if (!look_up_there (lookup, caller, i, &is_there, error))
      return FALSE;
  if (!is_there)
    g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
                 "no result of %d lookups was in memory of %s: the server and this program do not "
                 "share it",
                 MAX_FIRST_LOOKUPS, lookup->device->name);
  return is_there;
}

static gboolean
start_caller (const TpsLookup *lookup, Way way, GError **error)
{
  DeviceCaller *caller = &lookup->steps->callers[way];
  TpsDevice *device = lookup->device;

  return (caller->tables = tps_served_connect (lookup->server->addresses[0], NULL,
                                               way == ON_DEVICE ? device : NULL, error))
             != NULL
         && (caller->stream = device->ops->stream_new (device, error)) != NULL
         && (caller->array = device->ops->alloc (device, get_n_bytes (lookup), error)) != NULL
         && (way != ON_DEVICE || look_up_until_there (lookup, caller, error));
}

static gchar *
name_row (const TpsLookup *lookup, guint way)
{
  return g_strdup_printf ("lookup to %s%s", lookup->device->name,
                          way == THROUGH_HOST ? " through the host" : "");
}

static gboolean
run_lookups (gpointer bench, gpointer system, G_GNUC_UNUSED gpointer row, gboolean is_warm_up,
             GError **error)
{
  TpsLookup *lookup = bench;
  DeviceCaller *caller = &lookup->steps->callers[GPOINTER_TO_UINT (system)];
  gsize n_bytes = get_n_bytes (lookup), end = caller->n_done + (gsize) lookup->options->n_steps;
  g_autofree gchar *name = name_row (lookup, GPOINTER_TO_UINT (system));
  g_autofree gfloat *elements = g_malloc (n_bytes);
  gint64 start_ns = tps_clock_now_ns (), end_ns;

  for (; caller->n_done < end; caller->n_done++)
    {
      gboolean is_there = FALSE;

      if (!look_up_there (lookup, caller, caller->n_done, &is_there, error))
        return FALSE;
      caller->n_results++;
      caller->n_there += is_there;
    }
  end_ns = tps_clock_now_ns ();
  if (!tps_device_memory_copy (lookup->device, elements, tps_buffer_get_data (caller->array),
                               n_bytes, error)
      || !tps_lookup_bags_check (&lookup->bags, (end - 1) % lookup->bags.shape.n_sets,
                                 sum_up (elements, n_bytes / sizeof *elements), name, error))
    return FALSE;
  if (!is_warm_up)
    add_rate (lookup, OURS, name, (gdouble) (end_ns - start_ns) / 1e9);
  return TRUE;
}

static gboolean
prepare_device (TpsLookup *lookup, TpsBenchRun *run, GError **error)
{
  tps_engine_begin_row (run->engine);
  for (guint way = 0; way < N_WAYS; way++)
    {
      g_autofree gchar *title = name_row (lookup, way);
      TpsTask task = { .run = run_lookups,
                       .bench = lookup,
                       .system = GUINT_TO_POINTER (way),
                       .measured_s = foretell (lookup) };

      if (!start_caller (lookup, (Way) way, error))
        {
          g_prefix_error (error, "--to-device: ");
          return FALSE;
        }
      tps_engine_add (run->engine, &task, "%s", title);
    }
  return TRUE;
}

gchar *
tps_lookup_describe_device (const TpsLookup *lookup)
{
  const DeviceCaller *caller = lookup->steps != NULL ? &lookup->steps->callers[ON_DEVICE] : NULL;

  if (caller == NULL || caller->array == NULL)
    return NULL;
  return g_strdup_printf ("%u of %u results stayed in memory of %s", caller->n_there,
                          caller->n_results, lookup->device->name);
}

/* -- tasks: a row of systems for each work -- */

static gboolean
make_table (const TpsLookup *lookup, const Work *work, GError **error)
{
  TpsOptimizerSpec optimizer = tps_optimizer_spec (work->optimizer, LEARNING_RATE);
  TpsLookupTable table = { .name = work->table,
                           .n_rows = lookup->bags.shape.n_rows,
                           .dim = lookup->bags.shape.dim,
                           .place = &lookup->options->place };

  if (work->optimizer == 0)
    return tps_lookup_server_make_filled_table (lookup->server, &table, error);
  optimizer.epsilon = EPSILON;
  table.optimizer = &optimizer;
  return tps_lookup_server_make_table (lookup->server, &table, error);
}

static void
add_task (TpsLookup *lookup, TpsEngine *engine, guint system, guint i)
{
  TpsTask task = { .run = run_steps,
                   .bench = lookup,
                   .system = GUINT_TO_POINTER (system),
                   .row = GUINT_TO_POINTER (i),
                   .measured_s = foretell (lookup) };

  if (works[i].optimizer != 0)
    lookup->steps->tasks[system][i].rows = trained_rows_new (lookup->steps->samples,
                                                             works[i].optimizer);
  tps_engine_add (engine, &task, "%s, %s", get_name (lookup, system), works[i].row);
}

gboolean
tps_lookup_prepare_steps (TpsLookup *lookup, TpsBenchRun *run, GError **error)
{
  const TpsLookupShape *shape = &lookup->bags.shape;
  TpsLookupSteps *steps = lookup->steps = g_new0 (TpsLookupSteps, 1);

  steps->gradients = g_new (gfloat, shape->n_bags * shape->dim);
  fill_gradients (steps->gradients, shape);
  steps->samples = samples_new (&lookup->bags, steps->gradients);
  steps->offsets = g_new (gint64, shape->n_bags);
  for (gsize bag = 0; bag < shape->n_bags; bag++)
    steps->offsets[bag] = (gint64) (bag * shape->bag_length);
  for (guint i = 0; i < N_WORKS; i++)
    {
      if (!make_table (lookup, &works[i], error))
        return FALSE;
      tps_engine_begin_row (run->engine);
      add_task (lookup, run->engine, 0, i);
      for (guint peer = 0; peer < TPS_LOOKUP_N_PEERS; peer++)
        if (lookup->peers[peer].child != NULL && works[i].peer_has[peer])
          add_task (lookup, run->engine, peer + 1, i);
    }
  steps->tables = tps_lookup_server_connect (lookup->server, 0, error);
  return steps->tables != NULL && (lookup->device == NULL || prepare_device (lookup, run, error));
}
