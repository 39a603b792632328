/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The lookup and the push borrow the batch until both have ended. The push also borrows the slices
 * of the gradient. Both calls end within their step, so two places for batches suffice: the next
 * batch is drawn into the other place while the push is in flight.
 */

#include "runtime/trainer/ddp_rpc/ddp_rpc_trainer.h"

#include <string.h>

#include "runtime/base/config.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/device/device_memory.h"
#include "runtime/trainer/ddp_rpc/bag_batches.h"
#include "runtime/trainer/nn/hybrid_model.h"
#include "runtime/trainer/nn/device_tensor.h"
#include "runtime/trainer/table_steps/table_call.h"

/* -- table columns -- */

/* Data exchange between the tables and the model, which computes on a device. The rows of each
 * table become columns of the model's input, and columns of the input's gradient become rows again.
 * The rows of each table lie in host memory or in memory of the device. Rows in device memory are
 * copied within this memory; rows in host memory pass through one page-locked matrix. Data are
 * copied only where necessary. Thread: one at a time. */

typedef struct
{
  TpsStream *stream; /* the model's stream; borrowed */
  guint n_tables;
  gsize dim;
  gsize max_bags;
  TpsStagedTensor input; /* [max_bags, n_tables * dim] */
  TpsEvent *joined;      /* reached when the rows have been read; NULL on the CPU */
  TpsBuffer *gradient;   /* the gradient on the host; NULL on the CPU */
  TpsTensor slices;      /* [n_tables, max_bags, dim]: the gradient as rows */
} TpsTableColumns;

/* Allocates the memory. `columns` must be cleared even after an error. Errors: RESOURCE_EXHAUSTED,
 * DEVICE_LOST. */
static gboolean
table_columns_init (TpsTableColumns *columns, TpsStream *stream, guint n_tables, gint64 dim,
                    gint64 max_bags, GError **error)
{
  TpsDevice *device = stream->device;
  TpsShape shape = { .dtype = TPS_DTYPE_FLOAT32,
                     .n_dims = 2,
                     .dims = { max_bags, n_tables * dim } };

  *columns = (TpsTableColumns) {
    .stream = stream,
    .n_tables = n_tables,
    .dim = (gsize) dim,
    .max_bags = (gsize) max_bags,
  };
  tps_tensor_init (&columns->slices, &shape);
  if (!tps_staged_tensor_init (&columns->input, device, &shape, error))
    return FALSE;
  if (device->is_host)
    return TRUE;
  columns->gradient = device->ops->alloc_host (device, tps_shape_n_bytes (&shape), error);
  if (columns->gradient != NULL)
    columns->joined = device->ops->event_new (device, error);
  return columns->joined != NULL;
}

/* Waits for the stream and releases the memory. An all-zero value is allowed. */
static void
table_columns_clear (TpsTableColumns *columns)
{
  if (columns->stream != NULL)
    columns->stream->device->ops->stream_sync (columns->stream, NULL);
  if (columns->joined != NULL)
    columns->joined->device->ops->event_free (columns->joined);
  columns->joined = NULL;
  tps_staged_tensor_clear (&columns->input);
  g_clear_pointer (&columns->gradient, tps_buffer_unref);
  tps_tensor_clear (&columns->slices);
}

static gsize
get_n_bytes (const TpsTableColumns *columns, gsize n_bags)
{
  return n_bags * columns->n_tables * columns->dim * sizeof (gfloat);
}

/* Copies the rows of `n` tables from `first` on, in host memory, to their columns of the matrix in
 * host memory. */
static void
concatenate (TpsTableColumns *columns, const TpsTensor *tables, gsize first, gsize n, gsize n_bags)
{
  gfloat *input = tps_tensor_data (&columns->input.host);
  gsize dim = columns->dim;

  for (gsize t = first; t < first + n; t++)
    {
      const gfloat *rows = tps_tensor_data (&tables[t]);

      for (gsize bag = 0; bag < n_bags; bag++)
        memcpy (input + (bag * columns->n_tables + t) * dim, rows + bag * dim, dim * sizeof *rows);
    }
}

/* Enqueues a copy of the columns of `n` tables from `first` on to the matrix on the device. Rows of
 * `from` are `from_stride` bytes apart. */
static void
copy_columns (TpsTableColumns *columns, gsize first, gsize n, gsize n_bags, const gfloat *from,
              gsize from_stride)
{
  gfloat *to = (gfloat *) tps_tensor_data (&columns->input.device) + first * columns->dim;
  TpsStream *stream = columns->stream;

  stream->device->ops->copy_rows (stream, to, get_n_bytes (columns, 1), from, from_stride,
                                  n * columns->dim * sizeof *to, n_bags);
}

/* Returns the number of successive tables from `first` on whose rows lie in host memory. */
static gsize
count_on_host (const TpsTableColumns *columns, const TpsTensor *tables, gsize first)
{
  gsize t = first;

  while (t < columns->n_tables && tps_device_memory_of_tensor (&tables[t]) == NULL)
    t++;
  return t - first;
}

/* Enqueues one copy for each table whose rows lie on the device, and one copy for each run of
 * tables whose rows lie on the host. */
static void
join_on_device (TpsTableColumns *columns, const TpsTensor *tables, gsize n_bags)
{
  gsize dim = columns->dim, n;

  for (gsize t = 0; t < columns->n_tables; t += n)
    {
      const gfloat *host = (const gfloat *) tps_tensor_data (&columns->input.host) + t * dim;

      n = count_on_host (columns, tables, t);
      concatenate (columns, tables, t, n, n_bags);
      if (n == columns->n_tables)
        tps_staged_tensor_upload (&columns->input, columns->stream, get_n_bytes (columns, n_bags));
      else if (n > 0)
        copy_columns (columns, t, n, n_bags, host, get_n_bytes (columns, 1));
      else
        {
          n = 1;
          copy_columns (columns, t, n, n_bags, tps_tensor_data (&tables[t]), dim * sizeof *host);
        }
    }
}

/* Builds `input` [n_bags, n_tables * dim], in the device's memory, from the rows [n_bags, dim] of
 * each table. Only enqueues. `input` must be empty. `rows` [n_tables] must not change until the
 * stream has passed; with a single table they may be moved to `input`. */
static void
table_columns_join (TpsTableColumns *columns, TpsTensor *rows, gsize n_bags, TpsTensor *input)
{
  TpsStream *stream = columns->stream;
  const TpsDeviceOps *ops = stream->device->ops;

  if (columns->n_tables == 1 && stream->device->is_host)
    {
      tps_tensor_move (input, &rows[0]);
      return;
    }
  tps_tensor_init_ref (input, &columns->input.device);
  if (stream->device->is_host)
    concatenate (columns, rows, 0, columns->n_tables, n_bags);
  else if (columns->n_tables == 1)
    ops->copy (stream, tps_tensor_data (input), tps_tensor_data (&rows[0]),
               get_n_bytes (columns, n_bags));
  else
    join_on_device (columns, rows, n_bags);
  if (columns->joined != NULL)
    ops->event_record (columns->joined, stream);
}

/* Releases `rows` [n_tables] after the stream has passed the last join; does not wait for later
 * work of the stream. A failure of the device is reported by the next operation that returns
 * errors. */
static void
table_columns_release (TpsTableColumns *columns, TpsTensor *rows)
{
  if (columns->joined != NULL)
    columns->joined->device->ops->event_sync (columns->joined, NULL);
  for (guint t = 0; t < columns->n_tables; t++)
    tps_tensor_clear (&rows[t]);
}

/* Returns the table's columns of the gradient as contiguous rows. */
static const gfloat *
slice (TpsTableColumns *columns, gsize table, const gfloat *gradient, gsize n_bags)
{
  gsize dim = columns->dim;
  gfloat *rows = (gfloat *) tps_tensor_data (&columns->slices) + table * dim * columns->max_bags;

  for (gsize bag = 0; bag < n_bags; bag++)
    memcpy (rows + bag * dim, gradient + (bag * columns->n_tables + table) * dim,
            dim * sizeof *rows);
  return rows;
}

/* Converts the input's gradient, in the device's memory, to the rows of each table, rows[n_tables].
 * These rows are valid until the next call, and only as long as `gradient` is valid. Waits for the
 * stream. Errors: DEVICE_LOST. */
static gboolean
table_columns_split (TpsTableColumns *columns, const gfloat *gradient, gsize n_bags,
                     const gfloat **rows, GError **error)
{
  const TpsDeviceOps *ops = columns->stream->device->ops;

  if (columns->gradient != NULL)
    {
      gpointer copy = tps_buffer_get_data (columns->gradient);

      ops->copy (columns->stream, copy, gradient, get_n_bytes (columns, n_bags));
      if (!ops->stream_sync (columns->stream, error))
        return FALSE;
      gradient = copy;
    }
  for (gsize t = 0; t < columns->n_tables; t++)
    rows[t] = columns->n_tables == 1 ? gradient : slice (columns, t, gradient, n_bags);
  return TRUE;
}

/* -- ddp rpc trainer -- */

#define FORWARD_METRIC "forward_metric"
#define BACKWARD_METRIC "backward_metric"

#define MAX_ROWS_PER_BAG 1024 /* limits the model's input for the largest batch to 100 MiB */

typedef struct
{
  gchar **tables; /* NULL-terminated */
  guint n_tables;
  gint64 num_embeddings;
  gint64 embedding_dim;
  gint64 rows_per_bag;
  TpsBagTask task;
  gboolean sequential_lookups;
  gboolean host_lookups;
  gint64 first_epoch;
} Arguments;

typedef struct
{
  TpsPass *pass;
  Arguments arguments;
  TpsBagBatches batches;
  TpsBagBatch places[2];
  TpsBagBatch *batch; /* of this step */
  TpsBagBatch *next;

  TpsBagQuery *queries;      /* [tables] */
  TpsBagGradient *gradients; /* [tables] */
  TpsTableColumns columns;
  const gfloat **slices;     /* [tables], slices of the gradient */
  TpsStagedTensor targets;   /* [largest number of bags * rows_per_bag] */
  TpsTrainBatch model_batch; /* the model's input and targets, in its device's memory */
  GError *push_error;        /* the reason why this step's gradient was not pushed */
  TpsTableCall lookup;
  TpsTableCall push;

  gint64 samples;
  gint64 epoch_samples;
} Training;

/* -- arguments -- */

gboolean
tps_ddp_rpc_check_shape (gint64 n_tables, gint64 embedding_dim, gint64 *rows_per_bag,
                         GError **error)
{
  gint64 rows = n_tables * embedding_dim / TPS_HYBRID_MODEL_INPUTS;

  if (n_tables < 1 || embedding_dim < 1 || n_tables > G_MAXINT32 || embedding_dim > G_MAXINT32
      || rows * TPS_HYBRID_MODEL_INPUTS != n_tables * embedding_dim || rows > MAX_ROWS_PER_BAG)
    return tps_fail (
        error, TPS_ERROR_INVALID_ARGUMENT,
        "%" G_GINT64_FORMAT " tables of dimension %" G_GINT64_FORMAT
        ": their product must be a multiple of %d, the width of the dense layers, and at "
        "most %d",
        n_tables, embedding_dim, TPS_HYBRID_MODEL_INPUTS,
        TPS_HYBRID_MODEL_INPUTS * MAX_ROWS_PER_BAG);
  *rows_per_bag = rows;
  return TRUE;
}

static void
arguments_clear (Arguments *arguments)
{
  g_clear_pointer (&arguments->tables, g_strfreev);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Arguments, arguments_clear)

static gboolean
read_tables (TpsConfig *config, Arguments *arguments)
{
  g_autofree gchar *names = NULL;

  if (!tps_config_get_string (config, "tables", &names))
    return FALSE;
  arguments->tables = g_strsplit (names, ",", -1);
  arguments->n_tables = g_strv_length (arguments->tables);
  return TRUE;
}

static gboolean
read_task (TpsConfig *config, Arguments *arguments)
{
  g_autofree gchar *name = NULL;

  arguments->task = TPS_BAG_TASK_RANDOM;
  if (!tps_config_has (config, "task"))
    return TRUE;
  return tps_config_get_string (config, "task", &name)
         && tps_bag_task_find (name, &arguments->task, config->error);
}

static gboolean
read_optional (TpsConfig *config, Arguments *arguments)
{
  if (tps_config_has (config, "sequential_lookups")
      && !tps_config_get_bool (config, "sequential_lookups", &arguments->sequential_lookups))
    return FALSE;
  if (tps_config_has (config, "host_lookups")
      && !tps_config_get_bool (config, "host_lookups", &arguments->host_lookups))
    return FALSE;
  return !tps_config_has (config, "first_epoch")
         || tps_config_get_int (config, "first_epoch", 0, G_MAXINT32, &arguments->first_epoch);
}

static gboolean
read_arguments (const TpsTrainPlan *plan, Arguments *arguments, GError **error)
{
  TpsConfig config;

  tps_config_init (&config, plan->trainer_config, "trainer DdpRpcTrainer", error);
  return read_tables (&config, arguments)
         && tps_config_get_int (&config, "num_embeddings", 1, G_MAXINT64 / 2,
                                &arguments->num_embeddings)
         && tps_config_get_int (&config, "embedding_dim", 1, G_MAXINT32, &arguments->embedding_dim)
         && read_task (&config, arguments) && read_optional (&config, arguments)
         && tps_config_finish (&config)
         && tps_ddp_rpc_check_shape (arguments->n_tables, arguments->embedding_dim,
                                     &arguments->rows_per_bag, error);
}

static gboolean
ddp_rpc_trainer_check (const TpsTrainPlan *plan, GError **error)
{
  g_auto (Arguments) arguments = { 0 };

  if (!read_arguments (plan, &arguments, error))
    return FALSE;
  if (g_str_equal (plan->model_class, tps_hybrid_model_class.name))
    return TRUE;
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                   "model_class is %s, expected %s, which trainer DdpRpcTrainer trains",
                   plan->model_class, tps_hybrid_model_class.name);
}

/* -- memory -- */

static gboolean
init_device_memory (Training *self, GError **error)
{
  const Arguments *arguments = &self->arguments;
  TpsStream *stream = self->pass->model->stream;
  TpsShape targets = { .dtype = TPS_DTYPE_INT64,
                       .n_dims = 1,
                       .dims = { TPS_BAG_BATCH_MAX_INDICES * arguments->rows_per_bag } };

  if (!table_columns_init (&self->columns, stream, arguments->n_tables, arguments->embedding_dim,
                           TPS_BAG_BATCH_MAX_INDICES, error)
      || !tps_staged_tensor_init (&self->targets, stream->device, &targets, error))
    return FALSE;
  tps_tensor_init_ref (&self->model_batch.target, &self->targets.device);
  return TRUE;
}

static gboolean
training_init (Training *self, TpsPass *pass, GError **error)
{
  const Arguments *arguments = &self->arguments;
  const TpsTrainPlan *plan = pass->plan;
  TpsBagBatchesOptions options = {
    .task = arguments->task,
    .num_embeddings = arguments->num_embeddings,
    .batches_per_epoch = plan->steps_per_epoch,
    .seed = plan->seed,
    .trainer = plan->rank,
    .first_epoch = (guint) arguments->first_epoch,
  };

  self->pass = pass;
  tps_bag_batches_init (&self->batches, &options);
  self->batch = &self->places[0];
  self->next = &self->places[1];
  self->queries = g_new0 (TpsBagQuery, arguments->n_tables);
  self->gradients = g_new0 (TpsBagGradient, arguments->n_tables);
  self->slices = g_new0 (const gfloat *, arguments->n_tables);
  tps_table_call_init (&self->lookup, pass->tables, arguments->n_tables);
  tps_table_call_init (&self->push, pass->tables, 0);
  return init_device_memory (self, error);
}

static void
training_clear (Training *self)
{
  if (self->pass != NULL)
    {
      tps_table_call_clear (&self->push);
      /* This waits for the stream, which then no longer uses the memory released below. */
      table_columns_clear (&self->columns);
      tps_table_call_clear (&self->lookup);
    }
  tps_train_batch_clear (&self->model_batch);
  tps_staged_tensor_clear (&self->targets);
  g_clear_error (&self->push_error);
  g_free (self->slices);
  g_free (self->queries);
  g_free (self->gradients);
  arguments_clear (&self->arguments);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Training, training_clear)

/* -- lookups -- */

static TpsTensorView
view_of_ids (const gint64 *ids, guint n)
{
  return (TpsTensorView) {
    .shape = { .dtype = TPS_DTYPE_INT64, .n_dims = 1, .dims = { n } },
    .data = ids,
  };
}

static TpsTensorView
view_of_rows (const gfloat *rows, gint64 n, gint64 dim)
{
  return (TpsTensorView) {
    .shape = { .dtype = TPS_DTYPE_FLOAT32, .n_dims = 2, .dims = { n, dim } },
    .data = rows,
  };
}

static void
fill_queries (Training *self)
{
  for (guint t = 0; t < self->arguments.n_tables; t++)
    self->queries[t] = (TpsBagQuery) {
      .table = self->arguments.tables[t],
      .indices = view_of_ids (self->batch->indices, self->batch->n_indices),
      .offsets = view_of_ids (self->batch->offsets, self->batch->n_bags),
      .pooling = TPS_POOLING_SUM,
    };
}

/* Returns the deadline of a call that starts now. Reports it to the pass as the end of an expected
 * wait. */
static gint64
get_deadline (Training *self)
{
  gint64 deadline_ns = tps_clock_now_ns () + self->pass->plan->rpc_timeout_ns;

  tps_pass_alive (self->pass, deadline_ns);
  return deadline_ns;
}

static gboolean
look_up_tables (Training *self, guint first, guint n, GError **error)
{
  tps_table_call_lookup (&self->lookup, self->queries + first, n, first, get_deadline (self));
  return tps_table_call_wait (&self->lookup, error);
}

static gboolean
refuse_rows (Training *self, guint table, const TpsShape *shape, GError **error)
{
  TpsTensorView expected = view_of_rows (NULL, self->batch->n_bags, self->arguments.embedding_dim);
  g_autofree gchar *got = tps_shape_to_string (shape);
  g_autofree gchar *wanted = tps_shape_to_string (&expected.shape);

  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                   "table %s: its pooled rows are %s, expected %s", self->arguments.tables[table],
                   got, wanted);
}

static gboolean
check_rows (Training *self, guint table, GError **error)
{
  TpsTensorView expected = view_of_rows (NULL, self->batch->n_bags, self->arguments.embedding_dim);
  const TpsTensor *rows = &self->lookup.outputs[table];
  TpsDevice *device = tps_device_memory_of_tensor (rows);

  if (!tps_shape_equal (&rows->shape, &expected.shape))
    return refuse_rows (self, table, &rows->shape, error);
  if (device == NULL || device == self->pass->device)
    return TRUE;
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                   "table %s: its pooled rows are in memory of %s, expected host memory or %s",
                   self->arguments.tables[table], device->name, self->pass->device->name);
}

static gboolean
look_up (Training *self, GError **error)
{
  guint n_tables = self->arguments.n_tables;
  guint n_together = self->arguments.sequential_lookups ? 1 : n_tables;

  fill_queries (self);
  for (guint t = 0; t < n_tables; t += n_together)
    if (!look_up_tables (self, t, n_together, error))
      return FALSE;
  for (guint t = 0; t < n_tables; t++)
    if (!check_rows (self, t, error))
      return FALSE;
  return TRUE;
}

/* -- between tables and model -- */

/* Fills the model's batch with the rows of the lookup and the targets of the bags. */
static void
fill_model_batch (Training *self)
{
  gint64 rows_per_bag = self->arguments.rows_per_bag;
  TpsTrainBatch *batch = &self->model_batch;
  gint64 *targets = tps_tensor_data (&self->targets.host);

  tps_tensor_clear (&batch->input);
  table_columns_join (&self->columns, self->lookup.outputs, self->batch->n_bags, &batch->input);
  batch->input.shape.dims[0] = self->batch->n_bags * rows_per_bag;
  batch->input.shape.dims[1] = TPS_HYBRID_MODEL_INPUTS;
  batch->target.shape.dims[0] = batch->input.shape.dims[0];
  for (gint64 row = 0; row < batch->target.shape.dims[0]; row++)
    targets[row] = self->batch->targets[row / rows_per_bag];
  tps_staged_tensor_upload (&self->targets, self->pass->model->stream,
                            tps_shape_n_bytes (&batch->target.shape));
}

/* Pushes the gradient of the model's input. Called during the backward pass. An error is kept in
 * `push_error`. */
static void
push_gradient (gpointer user_data, const gfloat *gradient, gsize rows)
{
  Training *self = user_data;
  guint n_tables = self->arguments.n_tables;

  if (!table_columns_split (&self->columns, gradient, self->batch->n_bags, self->slices,
                            &self->push_error))
    return;
  /* The stream has passed the copies of the outputs. After their release, a server may write the
   * next results to the same memory. */
  table_columns_release (&self->columns, self->lookup.outputs);
  for (guint t = 0; t < n_tables; t++)
    self->gradients[t] = (TpsBagGradient) {
      .query = self->queries[t],
      .gradient = view_of_rows (self->slices[t], self->batch->n_bags,
                                self->arguments.embedding_dim),
    };
  tps_table_call_apply (&self->push, self->gradients, n_tables, get_deadline (self));
}

/* -- steps -- */

/* Records the interval from *start_ns to now, and starts the next interval. */
static void
record (Training *self, const gchar *type, const gchar *name, gint64 *start_ns)
{
  gint64 now_ns = tps_clock_now_ns ();

  tps_metrics_record (self->pass->metrics, type, name, (gdouble) (now_ns - *start_ns) / 1e6);
  *start_ns = now_ns;
}

/* Runs the dense part of a step. `key` is the step's key in the metrics. On a device, the metrics
 * are times of the device. */
static gboolean
train_dense (Training *self, const gchar *key, GError **error)
{
  TpsPass *pass = self->pass;

  tps_ddp_zero_grad (pass->ddp);
  if (!tps_pass_record_start (pass, FORWARD_METRIC, key, "forward_pass", error)
      || !tps_pass_forward (pass, &self->model_batch, error))
    return FALSE;
  tps_pass_record_end (pass, FORWARD_METRIC, key, NULL);
  if (!tps_pass_record_start (pass, BACKWARD_METRIC, key, "backward", error)
      || !tps_ddp_backward (pass->ddp, tps_tensor_data (&pass->output_gradient), error))
    return FALSE;
  tps_pass_record_end (pass, BACKWARD_METRIC, key, NULL);
  tps_ddp_step_sgd (pass->ddp, pass->plan->learning_rate);
  return TRUE;
}

static gboolean
wait_for_push (Training *self, GError **error)
{
  if (self->push_error != NULL)
    g_propagate_error (error, g_steal_pointer (&self->push_error));
  else if (tps_table_call_wait (&self->push, error))
    return TRUE;
  g_prefix_error (error, "push: ");
  return FALSE;
}

static void
draw_next_batch (Training *self)
{
  tps_bag_batches_next (&self->batches, self->next);
}

static void
take_next_batch (Training *self)
{
  TpsBagBatch *drawn = self->next;

  self->next = self->batch;
  self->batch = drawn;
}

static gboolean
run_step (Training *self, const gchar *key, GError **error)
{
  TpsPass *pass = self->pass;
  gint64 start_ns = tps_clock_now_ns ();

  if (!tps_pass_check_cancelled (pass, error))
    return FALSE;
  take_next_batch (self);
  pass->hook_state->klass->next_batch (pass->hook_state);
  if (!look_up (self, error))
    {
      g_prefix_error (error, "lookup: ");
      return FALSE;
    }
  tps_metrics_record (pass->metrics, "lookup_metric", "lookup",
                      (gdouble) (tps_clock_now_ns () - start_ns) / 1e6);
  fill_model_batch (self);
  if (!train_dense (self, key, error))
    return FALSE;
  draw_next_batch (self);
  if (!wait_for_push (self, error))
    return FALSE;
  tps_metrics_record (pass->metrics, "push_metric", "push", tps_table_call_get_ms (&self->push));
  self->samples += self->batch->n_bags;
  record (self, "batch_level_metric", "batch_all", &start_ns);
  tps_pass_step_done (pass);
  return TRUE;
}

static gboolean
run_epoch (Training *self, guint epoch, GError **error)
{
  gint64 start_ns = tps_clock_now_ns ();
  gint64 samples_before = self->samples;

  for (guint index = 0; index < self->pass->plan->steps_per_epoch; index++)
    {
      g_autofree gchar *key = tps_pass_epoch_key (epoch, index);

      if (run_step (self, key, error))
        continue;
      g_prefix_error (error, "epoch %u, batch %u: ", epoch, index);
      return FALSE;
    }
  record (self, "epoch_metric", "epoch", &start_ns);
  self->epoch_samples = self->samples - samples_before;
  tps_pass_set_samples (self->pass, self->samples, self->epoch_samples);
  return TRUE;
}

static gboolean
connect_all (TpsPass *pass, const Arguments *arguments, GError **error)
{
  TpsDevice *device = pass->device->is_host || arguments->host_lookups ? NULL : pass->device;

  return tps_pass_check_cancelled (pass, error) && tps_pass_connect_tables (pass, device, error)
         && tps_pass_connect (pass, error) && pass->ddp_model->create (pass, error);
}

static gboolean
ddp_rpc_trainer_run (TpsPass *pass, GError **error)
{
  g_auto (Training) training = { 0 };

  if (!read_arguments (pass->plan, &training.arguments, error)
      || !connect_all (pass, &training.arguments, error))
    return FALSE;
  if (!training_init (&training, pass, error))
    return FALSE;
  tps_hybrid_model_watch_input (pass->model, push_gradient, &training);
  draw_next_batch (&training);
  for (guint epoch = 0; epoch < pass->plan->epochs; epoch++)
    if (!run_epoch (&training, epoch, error))
      return FALSE;
  return TRUE;
}

const TpsTrainerClass tps_ddp_rpc_trainer_class = {
  .name = "DdpRpcTrainer",
  .takes_devices = TRUE,
  .makes_batches = TRUE,
  .check = ddp_rpc_trainer_check,
  .run = ddp_rpc_trainer_run,
};
