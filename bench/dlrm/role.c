/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/dlrm/role.h"

#include <stdio.h>
#include <string.h>
#include <thriftps/client.h>

#include "bench/dlrm/click_log.h"
#include "bench/dlrm/options.h"
#include "bench/dlrm/quality.h"
#include "bench/served/served.h"
#include "plugin/client/remote_tables.h"
#include "runtime/base/error.h"
#include "runtime/base/metrics.h"
#include "runtime/base/sync.h"
#include "runtime/ports/table_client.h"
#include "runtime/server/tables/table_store.h"
#include "runtime/trainer/ddp/ddp.h"
#include "runtime/trainer/dense/blas.h"
#include "runtime/trainer/nn/dlrm_model.h"
#include "runtime/trainer/ports/process_group.h"
#include "runtime/trainer/table_steps/table_call.h"
#include "runtime/trainer/table_steps/table_steps.h"

/* Points that all trainers must reach before any trainer continues. */

/* A series of meetings, one at a time. A meeting is a collective of the group. With one trainer,
 * meeting_arrive() and meeting_wait() do nothing. */
typedef struct
{
  TpsProcessGroup *group; /* borrowed */
  gfloat number;          /* the operand of the all-reduce */
  TpsMutex lock;
  TpsCond ended;
  gboolean is_pending; /* guarded by the lock during a meeting, like the next field */
  GError *error;
} Meeting;

/* meeting_init() borrows `group`. No meeting may be in progress at
 * meeting_clear(). */
static void
meeting_init (Meeting *meeting, TpsProcessGroup *group)
{
  *meeting = (Meeting) { .group = group };
  tps_mutex_init (&meeting->lock);
  tps_cond_init (&meeting->ended);
}

static void
meeting_clear (Meeting *meeting)
{
  tps_cond_clear (&meeting->ended);
  tps_mutex_clear (&meeting->lock);
  g_clear_error (&meeting->error);
}

static void
on_done (gpointer user_data, const GError *error)
{
  Meeting *meeting = user_data;

  tps_mutex_lock (&meeting->lock);
  meeting->is_pending = FALSE;
  meeting->error = error != NULL ? g_error_copy (error) : NULL;
  tps_cond_signal (&meeting->ended);
  tps_mutex_unlock (&meeting->lock);
}

/* Announces, without blocking, that this trainer is at the point, after the previous meeting. */
static void
meeting_arrive (Meeting *meeting)
{
  if (meeting->group->size == 1)
    return;
  meeting->number = 0;
  meeting->is_pending = TRUE;
  meeting->group->ops->all_reduce_f32 (meeting->group, &meeting->number, 1, on_done, meeting);
}

/* Waits until all trainers have reached the point; not if this one has not announced itself. */
static gboolean
meeting_wait (Meeting *meeting, GError **error)
{
  GError *failure;

  tps_mutex_lock (&meeting->lock);
  while (meeting->is_pending)
    tps_cond_wait (&meeting->ended, &meeting->lock);
  failure = g_steal_pointer (&meeting->error);
  tps_mutex_unlock (&meeting->lock);
  if (failure == NULL)
    return TRUE;
  g_propagate_error (error, failure);
  return FALSE;
}

/* Runs a meeting in which each trainer contributes `n_bytes` bytes. `counts` [size of the group]
 * and `gathered` receive the numbers and the bytes of all trainers in the order of ranks. */
static gboolean
meeting_gather (Meeting *meeting, gconstpointer data, gsize n_bytes, gsize *counts,
                TpsBuffer **gathered, GError **error)
{
  meeting->is_pending = TRUE;
  meeting->group->ops->all_gather_bytes (meeting->group, data, n_bytes, counts, gathered, on_done,
                                         meeting);
  return meeting_wait (meeting, error);
}

/* The trainers exchange the ids of rows that their pushes have changed. Rows that a trainer has
 * prefetched before such a change must be fetched again. */

static GArray *
list_pushed (const TpsTableSteps *steps, guint n_tables)
{
  GArray *list = g_array_new (FALSE, FALSE, sizeof (gint64));

  for (guint t = 0; t < n_tables; t++)
    {
      gsize n;
      const gint64 *ids = tps_table_steps_get_pushed (steps, t, &n);
      gint64 count = (gint64) n;

      g_array_append_val (list, count);
      g_array_append_vals (list, ids, (guint) n);
    }
  return list;
}

/* Notes the ids of one list. The numbers come from another process, so they are checked. */
static gboolean
note_list (TpsTableSteps *steps, guint n_tables, const gint64 *list, gsize n_numbers,
           GError **error)
{
  for (guint t = 0; t < n_tables; t++)
    {
      gsize n = n_numbers > 0 ? (gsize) list[0] : G_MAXSIZE;

      if (n_numbers == 0 || n > n_numbers - 1)
        {
          g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL,
                       "the list of rows that another trainer has changed ends in table %u", t);
          return FALSE;
        }
      tps_table_steps_note_changes (steps, t, list + 1, n);
      list += 1 + n;
      n_numbers -= 1 + n;
    }
  return TRUE;
}

/* Exchanges the ids of the last push of each trainer, which must have ended, and notes the ids of
 * all other trainers in `steps`. INTERNAL (a list that cannot be read). */
static gboolean
exchange_changes (Meeting *meeting, TpsTableSteps *steps, guint n_tables, GError **error)
{
  g_autoptr (GArray) own = list_pushed (steps, n_tables);
  g_autofree gsize *n_bytes = g_new (gsize, meeting->group->size);
  g_autoptr (TpsBuffer) all = NULL;
  const guint8 *at;

  if (!meeting_gather (meeting, own->data, own->len * sizeof (gint64), n_bytes, &all, error))
    return FALSE;
  at = tps_buffer_get_data (all);
  for (guint rank = 0; rank < meeting->group->size; rank++)
    {
      if (rank != meeting->group->rank
          && !note_list (steps, n_tables, (const gint64 *) (gconstpointer) at,
                         n_bytes[rank] / sizeof (gint64), error))
        return FALSE;
      at += n_bytes[rank];
    }
  return TRUE;
}

#define CALL_NS (G_GINT64_CONSTANT (20) * 1000000000)
#define N_VECTORS (TPS_CLICK_TABLES + 1)

/* Tables in this process, for the single process. */

typedef struct
{
  TpsTableClient base; /* must be the first member */
  TpsTableStore *store;
} LocalTables;

static void
lookup_bags (TpsTableClient *client, const TpsBagQuery *queries, guint n_queries,
             G_GNUC_UNUSED gint64 deadline_ns, TpsTablesLookedUp done, gpointer user_data)
{
  g_autoptr (GError) error = NULL;
  g_autofree TpsTensor *outputs = g_new0 (TpsTensor, n_queries);

  if (tps_table_store_lookup_bags (((LocalTables *) client)->store, NULL, queries, n_queries,
                                   outputs, &error))
    done (user_data, outputs, NULL);
  else
    done (user_data, NULL, error);
  for (guint i = 0; i < n_queries; i++)
    tps_tensor_clear (&outputs[i]);
}

static void
apply_bags (TpsTableClient *client, const TpsBagGradient *gradients, guint n_gradients,
            G_GNUC_UNUSED gint64 deadline_ns, TpsTablesApplied done, gpointer user_data)
{
  g_autoptr (GError) error = NULL;

  tps_table_store_apply_bags (((LocalTables *) client)->store, gradients, n_gradients, &error);
  done (user_data, error);
}

/* Does nothing: no call is in flight after the function that starts it has returned. */
static void
cancel (G_GNUC_UNUSED TpsTableClient *client)
{
}

static void
free_tables (TpsTableClient *client)
{
  tps_table_store_free (((LocalTables *) client)->store);
  g_free (client);
}

/* Creates the tables and fills their rows. Returns a client that computes on the calling thread,
 * and calls `done` before a call returns. */
static TpsTableClient *
local_tables_new (const TpsDlrmOptions *options, GError **error)
{
  static const TpsTableClientOps ops = {
    .lookup_bags = lookup_bags, .apply_bags = apply_bags, .cancel = cancel, .free = free_tables
  };
  TpsTableStoreOptions none = { 0 };
  LocalTables *tables = g_new0 (LocalTables, 1);

  tables->base.ops = &ops;
  tables->store = tps_table_store_new (&none);
  for (guint t = 0; t < TPS_CLICK_TABLES; t++)
    {
      g_auto (TpsTableSpec) spec = { 0 };

      tps_dlrm_table_spec_init (&spec, options, t);
      if (tps_table_spec_resolve (&spec, error)
          && tps_table_store_create (tables->store, &spec, error))
        continue;
      free_tables (&tables->base);
      return NULL;
    }
  return &tables->base;
}

/* The dense layers of one trainer. An all-reduce adds up the gradients of all trainers. Their
 * losses form one mean, so each trainer divides its gradients by the number of all samples. */

/* The layers and the state of their passes. */
typedef struct
{
  TpsModel *model;
  TpsDdp *ddp;
  TpsHookContext context;
  gdouble learning_rate;
  gfloat *output_gradient; /* [max_samples] */
} Dense;

#define BUCKET_MIB 25 /* the default of trainers */
#define FIRST_BUCKET_MIB 1
#define AVERAGE_NS (G_GINT64_CONSTANT (60) * 1000000000)

static gboolean
init_context (Dense *dense, TpsProcessGroup *group, GError **error)
{
  const TpsHookStateClass *klass = tps_hook_state_class_find ("BasicHookState", error);

  if (klass == NULL)
    return FALSE;
  dense->context = (TpsHookContext) {
    .state = klass->create (),
    .metrics = tps_metrics_new (NULL, NULL),
    .group = group,
    .delivers_sum = TRUE,
    .timeout_ns = AVERAGE_NS,
  };
  return TRUE;
}

/* Creates the layers. `group` is borrowed. It must be freed before the layers, because it may still
 * use their memory. `seed` must be the same on all trainers. */
static gboolean
dense_init (Dense *dense, gsize dim, gsize max_samples, gint64 seed, gdouble learning_rate,
            TpsProcessGroup *group, GError **error)
{
  TpsDlrmShape shape = { .n_dense = TPS_CLICK_DENSE,
                         .n_tables = TPS_CLICK_TABLES,
                         .dim = dim,
                         .bottom = { 512, 256 },
                         .top = { 512, 256 } };
  TpsDdpOptions options = { .first_bucket_mib = FIRST_BUCKET_MIB,
                            .bucket_cap_mib = BUCKET_MIB,
                            .hook = tps_hook_find ("allreduce_hook", error),
                            .context = &dense->context };

  *dense = (Dense) { .learning_rate = learning_rate };
  if (options.hook == NULL || !init_context (dense, group, error))
    return FALSE;
  dense->model = tps_dlrm_model_new (&shape, error);
  if (dense->model == NULL)
    return FALSE;
  dense->ddp = tps_ddp_new (dense->model, &options, error);
  dense->output_gradient = g_new (gfloat, max_samples);
  return dense->ddp != NULL && tps_model_fill_parameters (dense->model, seed, error)
         && tps_ddp_check_layouts (dense->ddp, &dense->context.group_on_devices, error);
}

static void
dense_clear (Dense *dense)
{
  g_clear_pointer (&dense->ddp, tps_ddp_free);
  if (dense->model != NULL)
    dense->model->klass->free (dense->model);
  g_clear_pointer (&dense->context.metrics, tps_metrics_unref);
  if (dense->context.state != NULL)
    dense->context.state->klass->free (dense->context.state);
  g_free (dense->output_gradient);
}

/* Computes the logits of the samples and the gradient of their loss, divided by `divisor`. `logits`
 * is borrowed until the next pass. The pooled vectors must be in place (tps_dlrm_model_reserve()).
 * */
static gboolean
dense_forward (Dense *dense, const TpsClickBatch *batch, gdouble divisor, const gfloat **logits,
               GError **error)
{
  TpsTensorView output, input = tps_view_rows (batch->dense, batch->n_samples, TPS_CLICK_DENSE);

  if (!dense->model->klass->forward (dense->model, input, &output, error))
    return FALSE;
  tps_binary_cross_entropy (output.data, batch->labels, batch->n_samples, divisor,
                            dense->output_gradient);
  *logits = output.data;
  return TRUE;
}

/* Runs the backward pass and the all-reduce, and updates the parameters. */
static gboolean
dense_backward (Dense *dense, GError **error)
{
  /* nothing reads the records of the hook, which would accumulate */
  tps_metrics_clear (dense->context.metrics);
  dense->context.state->klass->next_batch (dense->context.state);
  if (!tps_ddp_backward (dense->ddp, dense->output_gradient, error))
    return FALSE;
  tps_ddp_step_sgd (dense->ddp, dense->learning_rate);
  return TRUE;
}

/* The embedding tables of a process. Trainers use runtime/trainer/table_steps. The single process
 * makes direct calls: the lookup of the pooled vectors of a batch, and the push of their gradients,
 * both with all ids of the bags. */
typedef struct
{
  TpsClickShape shape;
  gsize dim;
  gint64 *offsets[TPS_CLICK_TABLES]; /* [max_samples]; i * bag_length */
  TpsTableSteps *steps;              /* NULL = direct calls */
  const TpsClickBatch *prefetched;   /* the batch whose lookup has been started; NULL = none */

  /* For direct calls. */
  gfloat *gradients; /* of all pooled vectors, table by table */
  TpsTableCall lookup, push;
} Embeddings;

static TpsTableSteps *
make_steps (TpsTableClient *client, const TpsDlrmOptions *options, GError **error)
{
  const gchar *names[TPS_CLICK_TABLES];
  gsize dims[TPS_CLICK_TABLES];
  TpsTableStepsOptions of_steps = { .client = client,
                                    .tables = names,
                                    .dims = dims,
                                    .n_tables = TPS_CLICK_TABLES,
                                    .max_staleness = (guint) options->staleness,
                                    .timeout_ns = CALL_NS };

  for (guint t = 0; t < TPS_CLICK_TABLES; t++)
    {
      names[t] = tps_dlrm_table_name (t);
      dims[t] = (gsize) options->dim;
    }
  return tps_table_steps_new (&of_steps, error);
}

/* Initialises the embeddings in the caller's storage. `client` is borrowed, and `max_samples` is
 * the size of the largest batch. INVALID_ARGUMENT. */
static gboolean
embeddings_init (Embeddings *embeddings, TpsTableClient *client, const TpsDlrmOptions *options,
                 gsize max_samples, gboolean is_direct, GError **error)
{
  *embeddings = (Embeddings) { .shape = options->shape, .dim = (gsize) options->dim };
  for (guint t = 0; t < TPS_CLICK_TABLES; t++)
    {
      embeddings->offsets[t] = g_new (gint64, max_samples);
      for (gsize i = 0; i < max_samples; i++)
        embeddings->offsets[t][i] = (gint64) (i * options->shape.bag_length[t]);
    }
  if (!is_direct)
    return (embeddings->steps = make_steps (client, options, error)) != NULL;
  embeddings->gradients = g_new (gfloat, TPS_CLICK_TABLES * max_samples * embeddings->dim);
  tps_table_call_init (&embeddings->lookup, client, TPS_CLICK_TABLES);
  tps_table_call_init (&embeddings->push, client, 0);
  return TRUE;
}

/* Cancels calls in flight and frees the contents. A second call has no effect. */
static void
embeddings_clear (Embeddings *embeddings)
{
  if (embeddings->gradients != NULL)
    {
      tps_table_call_clear (&embeddings->lookup);
      tps_table_call_clear (&embeddings->push);
    }
  g_clear_pointer (&embeddings->gradients, g_free);
  g_clear_pointer (&embeddings->steps, tps_table_steps_free);
  for (guint t = 0; t < TPS_CLICK_TABLES; t++)
    g_clear_pointer (&embeddings->offsets[t], g_free);
}

/* -- direct calls -- */

static TpsBagQuery
make_query (const Embeddings *embeddings, const TpsClickBatch *batch, guint table, gsize first,
            gsize n_samples)
{
  gsize length = embeddings->shape.bag_length[table];

  return (TpsBagQuery) {
    .table = tps_dlrm_table_name (table),
    .indices = tps_view_ids (batch->ids[table] + first * length, n_samples * length),
    .offsets = tps_view_ids (embeddings->offsets[table], n_samples),
    .pooling = TPS_POOLING_SUM,
  };
}

static gboolean
look_up (Embeddings *embeddings, const TpsClickBatch *batch, gfloat *features, GError **error)
{
  gsize dim = embeddings->dim, stride = N_VECTORS * dim;
  TpsBagQuery queries[TPS_CLICK_TABLES];

  for (guint t = 0; t < TPS_CLICK_TABLES; t++)
    queries[t] = make_query (embeddings, batch, t, 0, batch->n_samples);
  tps_table_call_lookup (&embeddings->lookup, queries, TPS_CLICK_TABLES, 0,
                         tps_clock_now_ns () + CALL_NS);
  if (!tps_table_call_wait (&embeddings->lookup, error))
    return FALSE;
  for (guint t = 0; t < TPS_CLICK_TABLES; t++)
    {
      const gfloat *pooled = tps_tensor_data (&embeddings->lookup.outputs[t]);

      for (gsize i = 0; i < batch->n_samples; i++)
        memcpy (features + i * stride + (t + 1) * dim, pooled + i * dim, dim * sizeof *pooled);
      tps_tensor_clear (&embeddings->lookup.outputs[t]);
    }
  return TRUE;
}

/* Starts the push of the gradients of `n_samples` samples from number `first` on. The previous push
 * must have ended. `batch` is borrowed until the push has ended. */
static void
push_part (Embeddings *embeddings, const TpsClickBatch *batch, gsize first, gsize n_samples,
           const gfloat *feature_gradient)
{
  gsize dim = embeddings->dim, stride = N_VECTORS * dim;
  TpsBagGradient gradients[TPS_CLICK_TABLES];

  for (guint t = 0; t < TPS_CLICK_TABLES; t++)
    {
      gfloat *gradient = embeddings->gradients + t * n_samples * dim;

      for (gsize i = 0; i < n_samples; i++)
        memcpy (gradient + i * dim, feature_gradient + (first + i) * stride + (t + 1) * dim,
                dim * sizeof *gradient);
      gradients[t] = (TpsBagGradient) {
        .query = make_query (embeddings, batch, t, first, n_samples),
        .gradient = tps_view_rows (gradient, n_samples, dim),
      };
    }
  tps_table_call_apply (&embeddings->push, gradients, TPS_CLICK_TABLES,
                        tps_clock_now_ns () + CALL_NS);
}

/* -- steps -- */

/* Starts the lookup of a batch, unless it has been started. Direct calls do nothing here. `batch`
 * is borrowed until the push of its gradients has ended. */
static gboolean
embeddings_prefetch (Embeddings *embeddings, const TpsClickBatch *batch, GError **error)
{
  TpsStepBags bags[TPS_CLICK_TABLES];

  if (embeddings->steps == NULL || embeddings->prefetched == batch)
    return TRUE;
  for (guint t = 0; t < TPS_CLICK_TABLES; t++)
    bags[t] = (TpsStepBags) { .ids = batch->ids[t],
                              .n_ids = batch->n_samples * embeddings->shape.bag_length[t],
                              .offsets = embeddings->offsets[t],
                              .n_bags = batch->n_samples };
  embeddings->prefetched = batch;
  return tps_table_steps_prefetch (embeddings->steps, bags, error);
}

/* Describes the vectors of each table within the features of all samples. */
static void
view_features (const Embeddings *embeddings, gfloat *features, TpsStepVectors *vectors)
{
  for (guint t = 0; t < TPS_CLICK_TABLES; t++)
    vectors[t] = (TpsStepVectors) { .values = features + (t + 1) * embeddings->dim,
                                    .stride = N_VECTORS * embeddings->dim };
}

/* Writes the pooled vectors of a batch to vectors 1 to 26 of `features` [n_samples, 27, dim]. The
 * batch must have been prefetched. */
static gboolean
embeddings_take (Embeddings *embeddings, const TpsClickBatch *batch, gfloat *features,
                 GError **error)
{
  TpsStepVectors vectors[TPS_CLICK_TABLES];

  if (embeddings->steps == NULL)
    return look_up (embeddings, batch, features, error);
  view_features (embeddings, features, vectors);
  return tps_table_steps_take (embeddings->steps, vectors, error);
}

/* Starts the push of `gradient` [n_samples, 27, dim] for the features of the last
 * embeddings_take(). Direct calls push `n_parts` parts of the batch one after another, and only the
 * last push overlaps the caller. */
static gboolean
embeddings_push (Embeddings *embeddings, const TpsClickBatch *batch, gsize n_parts,
                 gfloat *gradient, GError **error)
{
  gsize n_samples = batch->n_samples / n_parts;
  TpsStepVectors vectors[TPS_CLICK_TABLES];

  if (embeddings->steps != NULL)
    {
      view_features (embeddings, gradient, vectors);
      return tps_table_steps_push (embeddings->steps, vectors, error);
    }
  for (gsize part = 0; part < n_parts; part++)
    {
      if (!tps_table_call_wait (&embeddings->push, error))
        return FALSE;
      push_part (embeddings, batch, part * n_samples, n_samples, gradient);
    }
  return TRUE;
}

/* embeddings_wait() waits until the pushes in flight are within the bound of staleness;
 * embeddings_settle() waits until no push is in flight. */
static gboolean
embeddings_wait (Embeddings *embeddings, GError **error)
{
  return embeddings->steps != NULL ? tps_table_steps_wait (embeddings->steps, error)
                                   : tps_table_call_wait (&embeddings->push, error);
}

static gboolean
embeddings_settle (Embeddings *embeddings, GError **error)
{
  /* The next pass may allocate a batch at the same address. */
  embeddings->prefetched = NULL;
  return embeddings->steps != NULL ? tps_table_steps_settle (embeddings->steps, error)
                                   : tps_table_call_wait (&embeddings->push, error);
}

/* The steps of one process. Step k of T trainers has the samples [k * T * batch, (k + 1) * T *
 * batch). Trainer r trains on the r-th of T equal parts. The single process trains on all parts,
 * and pushes their gradients one after another, in the order of the trainers.
 *
 * With the staleness bound 0, all trainers have the rows of a step before any trainer pushes. All
 * pushes have ended before any trainer takes the rows of the next step. The speed of the trainers
 * therefore affects only the order in which servers apply the pushes of one step. With a larger
 * bound, trainers meet only in the all-reduce of the dense layers. */

/* The training of one process. */
typedef struct
{
  const TpsDlrmOptions *options;
  gsize first_part, n_parts; /* the parts of each step that belong to this process */
  TpsSyntheticLog log;
  Embeddings embeddings;
  Dense dense;
  Meeting meeting;

  /* The state of the running step. */
  const TpsClickBatch *batch;
  GError *push_error; /* of the push in the backward pass */
  gint64 passed_ns;   /* the end of the backward pass */
} Training;

/* -- the push, started in the backward pass -- */

/* Called with the gradients of the features. Waits for the rows of all trainers, and pushes. */
static void
on_features (gpointer user_data, gfloat *gradient, G_GNUC_UNUSED gsize rows)
{
  Training *training = user_data;

  if (meeting_wait (&training->meeting, &training->push_error))
    embeddings_push (&training->embeddings, training->batch, training->n_parts, gradient,
                     &training->push_error);
}

static void
on_passed (gpointer user_data)
{
  ((Training *) user_data)->passed_ns = tps_clock_now_ns ();
}

/* -- life -- */

/* Initialises the training of the trainer with the number group->rank, or of the single process
 * (`is_single`). `options`, `client` and `group` are borrowed. */
static gboolean
training_init (Training *training, const TpsDlrmOptions *options, TpsTableClient *client,
               TpsProcessGroup *group, gboolean is_single, GError **error)
{
  gsize n_parts = is_single ? (gsize) options->n_trainers : 1;
  gsize max_samples = n_parts * (gsize) options->batch;
  TpsDlrmWatch watch = { .features_ready = on_features,
                         .passed = on_passed,
                         .user_data = training };

  *training = (Training) { .options = options,
                           .first_part = is_single ? 0 : group->rank,
                           .n_parts = n_parts };
  tps_dlrm_options_init_log (options, &training->log);
  meeting_init (&training->meeting, group);
  if (!embeddings_init (&training->embeddings, client, options, max_samples, is_single, error)
      || !dense_init (&training->dense, (gsize) options->dim, max_samples, options->seed,
                      options->lr, group, error))
    return FALSE;
  tps_dlrm_model_watch (training->dense.model, &watch);
  return TRUE;
}

/* Frees the contents. If a pass has failed, the group must already have been freed. */
static void
training_clear (Training *training)
{
  embeddings_clear (&training->embeddings);
  dense_clear (&training->dense);
  meeting_clear (&training->meeting);
  g_clear_error (&training->push_error);
}

/* -- steps -- */

static gboolean
is_exact (const Training *training)
{
  return training->options->staleness == 0;
}

static gdouble
get_ms (gint64 *from_ns, gint64 to_ns)
{
  gdouble ms = (gdouble) (to_ns - *from_ns) / 1e6;

  *from_ns = to_ns;
  return ms;
}

static void
keep_predictions (const TpsClickBatch *batch, const gfloat *logits, TpsDlrmPass *pass)
{
  for (gsize i = 0; i < batch->n_samples; i++)
    {
      TpsPrediction prediction = { .logit = (gdouble) logits[i],
                                   .label = (gdouble) batch->labels[i] };

      g_array_append_val (pass->predictions, prediction);
    }
}

static gboolean
run_backward (Training *training, GError **error)
{
  gboolean ok = dense_backward (&training->dense, error);

  if (training->push_error == NULL)
    return ok;
  if (ok)
    g_propagate_error (error, g_steal_pointer (&training->push_error));
  return FALSE;
}

/* Waits for the push and, with the staleness bound 0, for those of all other trainers. */
static gboolean
end_push (Training *training, GError **error)
{
  if (!embeddings_wait (&training->embeddings, error))
    return FALSE;
  if (!is_exact (training) || training->meeting.group->size == 1)
    return TRUE;
  if (training->embeddings.steps != NULL)
    return exchange_changes (&training->meeting, training->embeddings.steps, TPS_CLICK_TABLES,
                             error);
  meeting_arrive (&training->meeting);
  return meeting_wait (&training->meeting, error);
}

/* Runs one step. `next` is the batch of the next step, whose lookup starts early; NULL = none. */
static gboolean
run_step (Training *training, const TpsClickBatch *batch, const TpsClickBatch *next,
          TpsDlrmPass *pass, GError **error)
{
  const TpsDlrmOptions *options = training->options;
  gdouble divisor = (gdouble) options->batch * options->n_trainers;
  gint64 start_ns = tps_clock_now_ns (), at_ns = start_ns;
  gdouble times[TPS_DLRM_N_PHASES];
  const gfloat *logits;
  gfloat *features;

  training->batch = batch;
  if (!tps_dlrm_model_reserve (training->dense.model, batch->n_samples, &features, error)
      || !embeddings_prefetch (&training->embeddings, batch, error))
    return FALSE;
  times[TPS_DLRM_IDS] = get_ms (&at_ns, tps_clock_now_ns ());
  if (!embeddings_take (&training->embeddings, batch, features, error))
    return FALSE;
  if (is_exact (training))
    meeting_arrive (&training->meeting);
  times[TPS_DLRM_LOOKUP] = get_ms (&at_ns, tps_clock_now_ns ());
  if (next != NULL && !embeddings_prefetch (&training->embeddings, next, error))
    return FALSE;
  times[TPS_DLRM_IDS] += get_ms (&at_ns, tps_clock_now_ns ());
  if (!dense_forward (&training->dense, batch, divisor, &logits, error))
    return FALSE;
  times[TPS_DLRM_FORWARD] = get_ms (&at_ns, tps_clock_now_ns ());
  if (!run_backward (training, error))
    return FALSE;
  times[TPS_DLRM_BACKWARD] = get_ms (&at_ns, training->passed_ns);
  times[TPS_DLRM_AVERAGE] = get_ms (&at_ns, tps_clock_now_ns ());
  if (!end_push (training, error))
    return FALSE;
  times[TPS_DLRM_PUSH] = get_ms (&at_ns, tps_clock_now_ns ());
  times[TPS_DLRM_STEP] = get_ms (&start_ns, at_ns);
  g_array_append_vals (pass->times, times, TPS_DLRM_N_PHASES);
  keep_predictions (batch, logits, pass);
  return TRUE;
}

/* -- passes -- */

static void
fill_batches (Training *training, guint64 first, guint n_steps, TpsClickBatch *batches)
{
  const TpsDlrmOptions *options = training->options;
  guint64 batch = (guint64) options->batch, n_trainers = (guint64) options->n_trainers;

  for (guint i = 0; i < n_steps; i++)
    {
      tps_click_batch_init (&batches[i], &options->shape, training->n_parts * batch);
      tps_synthetic_log_fill (
          &training->log, ((first + i) * n_trainers + training->first_part) * batch, &batches[i]);
    }
}

static gboolean
run_steps (Training *training, guint64 first, guint n_steps, TpsClickBatch *batches,
           TpsDlrmPass *pass, gdouble *seconds, GError **error)
{
  gint64 start_ns;

  fill_batches (training, first, n_steps, batches);
  meeting_arrive (&training->meeting);
  if (!meeting_wait (&training->meeting, error))
    return FALSE;
  start_ns = tps_clock_now_ns ();
  for (guint i = 0; i < n_steps; i++)
    {
      gboolean looks_ahead = !training->options->no_prefetch && i + 1 < n_steps;

      if (run_step (training, &batches[i], looks_ahead ? &batches[i + 1] : NULL, pass, error))
        continue;
      g_prefix_error (error, "step %" G_GUINT64_FORMAT ": ", first + i);
      return FALSE;
    }
  if (!embeddings_settle (&training->embeddings, error))
    return FALSE;
  *seconds = (gdouble) (tps_clock_now_ns () - start_ns) / 1e9;
  return TRUE;
}

/* Runs `n_steps` steps from number `first` on, and appends their measurements to `pass`. The
 * samples are made before the first step. `*seconds` receives the duration of the steps. */
static gboolean
training_run (Training *training, guint64 first, guint n_steps, TpsDlrmPass *pass, gdouble *seconds,
              GError **error)
{
  g_autofree TpsClickBatch *batches = g_new0 (TpsClickBatch, n_steps);
  gboolean ok = run_steps (training, first, n_steps, batches, pass, seconds, error);

  if (!ok) /* calls in flight borrow the batches */
    embeddings_clear (&training->embeddings);
  for (guint i = 0; i < n_steps; i++)
    tps_click_batch_clear (&batches[i]);
  return ok;
}

#define TIMEOUT_NS (G_GINT64_CONSTANT (120) * 1000000000)

typedef struct
{
  TpsTableClient *tables;
  TpsProcessGroup *group;
  Training training;
} Role;

static TpsTableClient *
connect_tables (const TpsDlrmOptions *options, GError **error)
{
  g_auto (GStrv) addresses = g_strsplit (options->addresses, ",", -1);
  TpsRemoteTablesOptions remote = { .addresses = (const gchar *const *) addresses,
                                    .n_addresses = g_strv_length (addresses) };
  g_autoptr (TpsRemoteTables) tables = tps_remote_tables_new (&remote, error);

  if (tables == NULL
      || !tps_remote_tables_discover (tables, tps_clock_now_ns () + TIMEOUT_NS, error))
    return NULL;
  return tps_remote_tables_as_client (g_steal_pointer (&tables));
}

/* Joins the group of trainers through the rendezvous service of the first server. */
static TpsProcessGroup *
join_group (const TpsDlrmOptions *options, gboolean is_single, GError **error)
{
  g_auto (GStrv) addresses = g_strsplit (is_single ? "" : options->addresses, ",", -1);
  TpsProcessGroupOptions group = { .rank = is_single ? 0 : (guint) options->rank,
                                   .size = is_single ? 1 : (guint) options->n_trainers,
                                   .prefix = "dlrm/",
                                   .timeout_ns = TIMEOUT_NS };
  TpsProcessGroup *joined;

  if (group.size > 1)
    {
      TpsRemoteStoreOptions store = { .address = addresses[0], .timeout_ns = TIMEOUT_NS };

      group.store = tps_remote_store_new (&store, error);
      if (group.store == NULL)
        return NULL;
    }
  joined = tps_process_group_new ("gloo", &group, error);
  if (group.store != NULL)
    group.store->ops->free (group.store);
  return joined;
}

static gboolean
start (Role *role, const TpsDlrmOptions *options, GError **error)
{
  gboolean is_single = g_str_equal (options->role, "local");

  tps_blas_set_num_threads ((guint) options->n_threads);
  role->tables = is_single ? local_tables_new (options, error) : connect_tables (options, error);
  role->group = role->tables != NULL ? join_group (options, is_single, error) : NULL;
  return role->group != NULL
         && training_init (&role->training, options, role->tables, role->group, is_single, error);
}

/* Aborts the collectives first: they use memory that is freed next. */
static void
stop (Role *role)
{
  if (role->group != NULL)
    {
      role->group->ops->abort (role->group);
      role->group->ops->free (role->group);
    }
  if (role->training.options != NULL)
    training_clear (&role->training);
  if (role->tables != NULL)
    role->tables->ops->free (role->tables);
}

/* -- orders -- */

static gboolean
obey (Role *role, const gchar *order, gdouble *seconds, GError **error)
{
  gchar *at;
  guint64 first = g_ascii_strtoull (order, &at, 10);
  guint n_steps = (guint) g_ascii_strtoull (at, &at, 10);
  g_auto (TpsDlrmPass) pass = { 0 };

  tps_dlrm_pass_init (&pass);
  return training_run (&role->training, first, n_steps, &pass, seconds, error)
         && tps_dlrm_pass_write (&pass, at + strspn (at, " "), error);
}

static gint
serve (Role *role)
{
  gchar line[4096];

  printf ("ready\n");
  fflush (stdout);
  while (fgets (line, sizeof line, stdin) != NULL)
    {
      g_autoptr (GError) error = NULL;
      gdouble seconds;

      g_strchomp (line);
      if (obey (role, line, &seconds, &error))
        printf ("ok %.9f\n", seconds);
      else
        printf ("error %s\n", error->message);
      fflush (stdout);
      if (error != NULL)
        return 1;
    }
  return 0;
}

gint
tps_dlrm_run_role (const TpsDlrmOptions *options)
{
  g_autoptr (GError) error = NULL;
  Role role = { 0 };
  gint status;

  if (start (&role, options, &error))
    status = serve (&role);
  else
    {
      printf ("error %s\n", error->message);
      status = 1;
    }
  stop (&role);
  return status;
}
