/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The shell around the state machine.
 *
 * Happy path: update_and_fetch() makes a call -> prepare(): digest (on a worker where that means to read much), push id ->
 * push() under the lock -> carry_out() without it: answers are given; the update, if one is to be made, is computed here
 * when it is small, else by the workers -> finish_update() under the lock: the new version is the newest -> carry_out()
 * again, which answers those who took part.
 * Failures: a call is refused at once; its round ends by deadline, by reset, by shut-down; no memory for a new version.
 *
 * Push ids: a call that is new to the window is ended in it just before it is answered. One that repeats a call that still
 * runs waits in the window, not in a round, and is answered by on_first_ended(). A reset makes a new window; the calls
 * under way hold the old one until they have ended in it.
 *
 * Deadlines: one timer at a time, for the machine's. Deadlines only grow, so a timer that is set is never late; one that
 * comes too early sets the next.
 *
 * Locks: the server's; under it the metrics' and the worker pool's. Nothing is answered, nobody is told, and no element is
 * touched, under any of them. The push window's is never taken under it.
 */

#include "runtime/updating/model_server.h"

#include "runtime/block_work.h"
#include "runtime/error.h"
#include "runtime/push_digest.h"
#include "runtime/sync.h"
#include "runtime/updating/kept_versions.h"
#include "runtime/updating/trained_model.h"
#include "runtime/updating/updating.h"

#define MAX_TRAINERS (1024 * 1024)

/* Work on more bytes goes to a worker. */
#define MAX_INLINE_BYTES (64 * 1024)
/* Blocks of the model that are taken at a time, and how many a helper must be worth. */
#define RANGE_BLOCKS 8
#define HELPER_BLOCKS 32
#define DEFAULT_ROUND_TIMEOUT_NS (G_GINT64_CONSTANT (30) * 1000000000)

#define STRAGGLER_METRIC "parameter_server_straggler_metric"
#define BATCH_METRIC "parameter_server_batch_metric"

/* A push window and those who still have a push in it. */
typedef struct
{
  TpsRefcount refcount;
  TpsPushWindow *window;
} Pushes;

typedef struct
{
  TpsUpdateTicket ticket; /* first: a ticket is a call */
  TpsModelServer *server;
  Pushes *pushes; /* NULL = the push has no id */
  gchar *client;
  gint64 sequence;
  gboolean is_in_window;  /* it is to be ended there */
  TpsModelVersion *model; /* the answer where there is no error */
  TpsModelDone done;
  gpointer user_data;
} Call;

/* An update that is being made. */
typedef struct
{
  TpsModelServer *server;
  TpsUpdatingJob *job;
  TpsTrainedModel *model;
  TpsModelUpdate update;
  GError *error;
  gint64 started_ns;
} Update;

/* What observers are to be told. */
typedef struct
{
  gboolean is_update;
  guint n_before;
  gint64 version;
  guint n_took_part;
} News;

struct TpsModelServer
{
  TpsModelServerOptions options;
  TpsWorkerPool *workers;
  TpsMetrics *metrics;

  TpsMutex lock; /* guards everything below */
  TpsCond idle;  /* n_pending has become 0 */
  TpsUpdating *updating;
  TpsTrainedModel *model; /* NULL before init_model() */
  TpsKeptVersions kept;
  Pushes *pushes;
  GQueue news; /* of News, for observers */
  gboolean is_telling;
  gboolean is_shut_down;
  guint64 timer_id; /* 0 = none is set */
  guint n_pending;  /* jobs, checks and timers that a worker holds or will */
};

static void run_timer (gpointer user_data);

/* The lock is held. */
static void
begin_pending (TpsModelServer *server)
{
  server->n_pending++;
}

static void
end_pending (TpsModelServer *server)
{
  tps_mutex_lock (&server->lock);
  if (--server->n_pending == 0)
    tps_cond_broadcast (&server->idle);
  tps_mutex_unlock (&server->lock);
}

static Pushes *
pushes_new (const TpsPushWindowOptions *options)
{
  Pushes *pushes = g_new (Pushes, 1);

  tps_refcount_init (&pushes->refcount);
  pushes->window = tps_push_window_new (options);
  return pushes;
}

static void
pushes_unref (Pushes *pushes)
{
  if (!tps_refcount_dec (&pushes->refcount))
    return;
  tps_push_window_free (pushes->window);
  g_free (pushes);
}

/* ---- answers ---- */

/* The calls that this thread is about to answer. A callback may call back into a server and be answered at once; that
 * answer is given when the callback has returned, so that the stack does not grow with the number of rounds. */
static _Thread_local struct
{
  gboolean is_active;
  TpsUpdateTicket *first;
  TpsUpdateTicket *last;
} delivery;

static void
deliver_one (TpsUpdateTicket *ticket)
{
  Call *call = (Call *) ticket;
  const GError *error = ticket->error;

  if (call->is_in_window)
    tps_push_window_end (call->pushes->window, call->client, call->sequence,
                         error == NULL ? call->model->version : 0, error);
  call->done (call->user_data, error == NULL ? call->model : NULL, error);
  tps_update_ticket_clear (ticket);
  g_clear_pointer (&call->model, tps_model_version_unref);
  g_clear_pointer (&call->pushes, pushes_unref);
  g_free (call->client);
  g_free (call);
}

static void
deliver (TpsUpdateTicket *first, TpsUpdateTicket *last)
{
  if (first == NULL)
    return;
  if (delivery.first == NULL)
    delivery.first = first;
  else
    delivery.last->next = first;
  delivery.last = last;
  if (delivery.is_active)
    return;
  delivery.is_active = TRUE;
  while (delivery.first != NULL)
    {
      TpsUpdateTicket *ticket = delivery.first;

      delivery.first = ticket->next;
      deliver_one (ticket);
    }
  delivery.is_active = FALSE;
}

/* With `error` (taken), or the model that the call has. */
static void
answer_call (Call *call, GError *error)
{
  call->ticket.error = error;
  call->ticket.next = NULL;
  deliver (&call->ticket, &call->ticket);
}

/* ---- observers ---- */

/* The lock is held. */
static void
add_news (TpsModelServer *server, const News *news)
{
  const TpsModelServerOptions *options = &server->options;

  if ((news->is_update ? options->updated_model != NULL : options->got_update != NULL))
    g_queue_push_tail (&server->news, g_memdup2 (news, sizeof *news));
}

static void
tell_one (TpsModelServer *server, const News *news)
{
  const TpsModelServerOptions *options = &server->options;

  if (news->is_update)
    options->updated_model (options->user_data, news->version, news->n_took_part);
  else
    options->got_update (options->user_data, news->n_before, options->n_trainers);
}

/* In order: while one thread tells, others leave their news to it. */
static void
tell_observers (TpsModelServer *server)
{
  News *news;

  if (server->options.got_update == NULL && server->options.updated_model == NULL)
    return;
  tps_mutex_lock (&server->lock);
  while (!server->is_telling && (news = g_queue_pop_head (&server->news)) != NULL)
    {
      server->is_telling = TRUE;
      tps_mutex_unlock (&server->lock);
      tell_one (server, news);
      g_free (news);
      tps_mutex_lock (&server->lock);
      server->is_telling = FALSE;
    }
  tps_mutex_unlock (&server->lock);
}

/* ---- what follows from a step of the machine ---- */

/* Sets the timer for the deadline, unless one is set. The lock is held. */
static void
ensure_timer (TpsModelServer *server)
{
  gint64 deadline_ns = tps_updating_get_deadline (server->updating);

  if (server->timer_id != 0 || deadline_ns == G_MAXINT64)
    return;
  begin_pending (server);
  server->timer_id = tps_worker_pool_add_timer (server->workers, deadline_ns, run_timer, server);
}

/* Notes what the lock guards; to be called once after a step, before the lock is given up. */
static Update *
after_step (TpsModelServer *server, TpsUpdatingOutput *output)
{
  Update *update = NULL;

  if (output->has_taken)
    add_news (server, &(News) { .n_before = output->n_before });
  if (output->job != NULL)
    {
      update = g_new0 (Update, 1);
      update->server = server;
      update->job = output->job;
      update->model = tps_trained_model_ref (server->model);
      begin_pending (server);
    }
  ensure_timer (server);
  return update;
}

/* Spans end before the answers are given: who has its answer finds them. The lock is held. */
static void
record_spans (TpsModelServer *server, const Update *update)
{
  const TpsUpdatingJob *job = update->job;
  gint64 now_ns = tps_clock_now_ns ();

  tps_metrics_record (server->metrics, STRAGGLER_METRIC, "update_straggler",
                      (gdouble) (job->closed_ns - job->started_ns) / 1e6);
  tps_metrics_record (server->metrics, BATCH_METRIC, "update_batch",
                      (gdouble) (now_ns - job->started_ns) / 1e6);
  tps_metrics_record (server->metrics, "method_metric", "update computation",
                      (gdouble) (now_ns - update->started_ns) / 1e6);
}

/* The new version is the newest, and the answer. The lock is held. */
static void
install (TpsModelServer *server, Update *update, GPtrArray *dropped)
{
  gboolean is_current = server->model == update->model;
  TpsModelVersion *newest;

  tps_model_update_end (&update->update);
  if (!is_current)
    return; /* a reset has come first */
  newest = tps_trained_model_get_newest (server->model);
  tps_kept_versions_add (&server->kept, newest, update->job->trainers, update->job->n_took_part,
                         dropped);
  record_spans (server, update);
  add_news (server, &(News) { .is_update = TRUE,
                              .version = newest->version,
                              .n_took_part = update->job->n_took_part });
}

/* Whoever is answered without an error is answered with the newest model. The lock is held. */
static void
give_model (TpsModelServer *server, TpsUpdateTicket *answered)
{
  for (TpsUpdateTicket *ticket = answered; ticket != NULL; ticket = ticket->next)
    if (ticket->error == NULL)
      ((Call *) ticket)->model = tps_model_version_ref (
          tps_trained_model_get_newest (server->model));
}

/* Takes back an update that was computed, or has failed; frees it. */
static Update *
finish_update (Update *update, TpsUpdatingOutput *output)
{
  TpsModelServer *server = update->server;
  g_autoptr (GPtrArray)
      dropped = g_ptr_array_new_with_free_func ((GDestroyNotify) tps_model_version_unref);
  Update *next;

  tps_updating_output_init (output);
  tps_mutex_lock (&server->lock);
  if (update->error == NULL)
    install (server, update, dropped);
  tps_updating_job_done (server->updating, update->job, g_steal_pointer (&update->error), output);
  give_model (server, output->answered);
  next = after_step (server, output);
  tps_mutex_unlock (&server->lock);
  tps_trained_model_unref (update->model);
  g_free (update);
  return next;
}

static void carry_out (TpsModelServer *server, TpsUpdatingOutput *output, Update *update);

static void
run_blocks (gpointer user_data, guint first_block, guint n_blocks)
{
  Update *update = user_data;

  tps_model_update_run (&update->update, first_block, n_blocks);
}

static void
blocks_done (gpointer user_data)
{
  Update *update = user_data;
  TpsModelServer *server = update->server;
  TpsUpdatingOutput output;
  Update *next = finish_update (update, &output);

  carry_out (server, &output, next);
  end_pending (server);
}

static void
compute_on_workers (gpointer user_data)
{
  Update *update = user_data;
  TpsBlockWork work = {
    .n_blocks = update->update.n_blocks,
    .range_blocks = RANGE_BLOCKS,
    .blocks_per_helper = HELPER_BLOCKS,
    .run = run_blocks,
    .done = blocks_done,
    .user_data = update,
  };

  tps_block_work_run (update->server->workers, &work);
}

/* Begins to compute. TRUE: it is done, or has failed; FALSE: workers do it. */
static gboolean
compute (TpsModelServer *server, Update *update)
{
  const TpsUpdatingJob *job = update->job;
  gsize n_bytes = tps_trained_model_get_n_bytes (update->model) * job->n_took_part;

  update->started_ns = tps_clock_now_ns ();
  if (!tps_model_update_begin (&update->update, update->model, job->gradients, job->n_took_part,
                               &update->error))
    return TRUE;
  if (n_bytes > MAX_INLINE_BYTES)
    {
      tps_worker_pool_submit (server->workers, compute_on_workers, update);
      return FALSE;
    }
  tps_model_update_run (&update->update, 0, update->update.n_blocks);
  return TRUE;
}

/* Does everything that a step has asked for, with what follows from it. No lock is held. */
static void
carry_out (TpsModelServer *server, TpsUpdatingOutput *output, Update *update)
{
  for (;;)
    {
      tell_observers (server);
      deliver (output->answered, output->last_answered);
      tps_updating_output_clear (output);
      if (update == NULL || !compute (server, update))
        return;
      update = finish_update (update, output);
      end_pending (server);
    }
}

static void
run_timer (gpointer user_data)
{
  TpsModelServer *server = user_data;
  TpsUpdatingOutput output;
  Update *update;

  tps_updating_output_init (&output);
  tps_mutex_lock (&server->lock);
  server->timer_id = 0;
  tps_updating_expire (server->updating, tps_clock_now_ns (), &output);
  update = after_step (server, &output);
  tps_mutex_unlock (&server->lock);
  carry_out (server, &output, update);
  end_pending (server);
}

/* ---- push ids ---- */

static GError *
new_not_kept_error (const Call *call, gint64 version)
{
  return g_error_new (TPS_ERROR, TPS_ERROR_STALE,
                      "push (%s, %" G_GINT64_FORMAT ") was applied and answered with model version "
                      "%" G_GINT64_FORMAT ", which is no longer kept: fetch the model",
                      call->client, call->sequence, version);
}

/* As the first one was. */
static void
answer_with_version (Call *call, gint64 version)
{
  TpsModelServer *server = call->server;
  TpsModelVersion *model;

  tps_mutex_lock (&server->lock);
  model = tps_kept_versions_find (&server->kept, version);
  if (model != NULL)
    call->model = tps_model_version_ref (model);
  tps_mutex_unlock (&server->lock);
  answer_call (call, model == NULL ? new_not_kept_error (call, version) : NULL);
}

static void
on_first_ended (gpointer user_data, gint64 version, const GError *error)
{
  Call *call = user_data;

  if (error != NULL)
    answer_call (call, g_error_copy (error));
  else
    answer_with_version (call, version);
}

/* TRUE: the push is a new one. Else it is answered, or will be. */
static gboolean
enter_window (Call *call)
{
  TpsModelServer *server = call->server;
  GError *error = NULL;
  gint64 version = 0;

  tps_mutex_lock (&server->lock);
  call->pushes = server->pushes;
  tps_refcount_inc (&call->pushes->refcount);
  tps_mutex_unlock (&server->lock);
  switch (tps_push_window_begin (call->pushes->window, call->client, call->sequence,
                                 &call->ticket.digest, on_first_ended, call, &version, &error))
    {
    case TPS_PUSH_NEW:
      call->is_in_window = TRUE;
      return TRUE;
    case TPS_PUSH_REPEAT:
      answer_with_version (call, version);
      return FALSE;
    case TPS_PUSH_REFUSED:
      answer_call (call, error);
      return FALSE;
    case TPS_PUSH_RUNNING:
    default:
      return FALSE;
    }
}

/* ---- calls ---- */

static GError *
new_shut_down_error (void)
{
  return g_error_new_literal (TPS_ERROR, TPS_ERROR_UNAVAILABLE,
                              "the parameter server is shut down");
}

static GError *
new_reset_error (void)
{
  return g_error_new_literal (TPS_ERROR, TPS_ERROR_ABORTED,
                              "the parameter server's state was reset");
}

static void
take_part (Call *call)
{
  TpsModelServer *server = call->server;
  TpsUpdatingOutput output;
  GError *error = NULL;
  Update *update = NULL;

  tps_updating_output_init (&output);
  tps_mutex_lock (&server->lock);
  if (server->is_shut_down)
    error = new_shut_down_error ();
  else if (call->pushes != NULL && call->pushes != server->pushes)
    error = new_reset_error ();
  else
    {
      tps_updating_push (server->updating, &call->ticket, tps_clock_now_ns (), &output);
      update = after_step (server, &output);
    }
  tps_mutex_unlock (&server->lock);
  if (error != NULL)
    answer_call (call, error);
  else
    carry_out (server, &output, update);
}

/* Of everything that is asked for. */
static TpsPushDigest
compute_digest (const TpsUpdateTicket *ticket)
{
  TpsPushHash *hash = tps_push_hash_new ();

  tps_push_hash_add_i64 (hash, ticket->trainer);
  tps_push_hash_add_i64 (hash, ticket->version);
  for (guint i = 0; i < ticket->n_gradients; i++)
    tps_push_hash_add_tensor (hash, tps_tensor_view (&ticket->gradients[i]));
  return tps_push_hash_end (hash);
}

static void
prepare (Call *call)
{
  call->ticket.digest = compute_digest (&call->ticket);
  if (call->client == NULL || enter_window (call))
    take_part (call);
}

static void
prepare_on_worker (gpointer user_data)
{
  Call *call = user_data;
  TpsModelServer *server = call->server;

  prepare (call);
  end_pending (server);
}

static gsize
count_bytes (const TpsTensor *tensors, guint n_tensors)
{
  gsize n_bytes = 0;

  for (guint i = 0; i < n_tensors; i++)
    n_bytes += tps_shape_n_bytes (&tensors[i].shape);
  return n_bytes;
}

void
tps_model_server_update_and_fetch (TpsModelServer *server, gint32 trainer, TpsTensor *gradients,
                                   guint n_gradients, const gchar *client, gint64 sequence,
                                   gint64 version, gboolean may_wait, TpsModelDone done,
                                   gpointer user_data)
{
  Call *call = g_new0 (Call, 1);

  call->ticket = (TpsUpdateTicket) { .trainer = trainer,
                                     .version = version,
                                     .may_wait = may_wait,
                                     .n_gradients = n_gradients,
                                     .gradients = g_new0 (TpsTensor, n_gradients) };
  for (guint i = 0; i < n_gradients; i++)
    tps_tensor_move (&call->ticket.gradients[i], &gradients[i]);
  call->server = server;
  call->client = g_strdup (client);
  call->sequence = sequence;
  call->done = done;
  call->user_data = user_data;
  if (count_bytes (call->ticket.gradients, n_gradients) <= MAX_INLINE_BYTES)
    {
      prepare (call);
      return;
    }
  tps_mutex_lock (&server->lock);
  begin_pending (server);
  tps_mutex_unlock (&server->lock);
  tps_worker_pool_submit (server->workers, prepare_on_worker, call);
}

/* Takes over `model`. */
static gboolean
set_model (TpsModelServer *server, TpsTrainedModel *model, GError **error)
{
  GError *refusal = NULL;

  tps_mutex_lock (&server->lock);
  if (server->is_shut_down)
    refusal = new_shut_down_error ();
  else if (server->model == NULL)
    {
      const TpsModelVersion *first = tps_trained_model_get_newest (model);

      tps_updating_set_model (server->updating, first->parameters, first->n_parameters);
      server->model = g_steal_pointer (&model);
    }
  else if (!tps_trained_model_began_as (server->model, model))
    refusal = g_error_new_literal (
        TPS_ERROR, TPS_ERROR_ALREADY_EXISTS,
        "there is a model already, which began with other parameters or another optimizer");
  tps_mutex_unlock (&server->lock);
  if (model != NULL)
    tps_trained_model_unref (model);
  if (refusal == NULL)
    return TRUE;
  g_propagate_error (error, refusal);
  return FALSE;
}

gboolean
tps_model_server_init_model (TpsModelServer *server, TpsNamedTensor *parameters, guint n_parameters,
                             const TpsOptimizerSpec *optimizer, GError **error)
{
  TpsTrainedModel *model = tps_trained_model_new (parameters, n_parameters, optimizer, error);

  for (guint i = 0; i < n_parameters; i++)
    tps_named_tensor_clear (&parameters[i]);
  return model != NULL && set_model (server, model, error);
}

TpsModelVersion *
tps_model_server_get_model (TpsModelServer *server, GError **error)
{
  TpsModelVersion *model = NULL;
  GError *refusal = NULL;

  tps_mutex_lock (&server->lock);
  if (server->is_shut_down)
    refusal = new_shut_down_error ();
  else if (server->model == NULL)
    refusal = tps_updating_new_no_model_error ();
  else
    model = tps_model_version_ref (tps_trained_model_get_newest (server->model));
  tps_mutex_unlock (&server->lock);
  if (refusal != NULL)
    g_propagate_error (error, refusal);
  return model;
}

/* ---- life ---- */

static gboolean
check_options (const TpsModelServerOptions *options, GError **error)
{
  if (options->n_trainers < 1 || options->n_trainers > MAX_TRAINERS)
    g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "%u trainers, expected 1 to %d",
                 options->n_trainers, MAX_TRAINERS);
  else if (options->min_trainers > options->n_trainers)
    g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                 "%u trainers are to suffice, there are only %u", options->min_trainers,
                 options->n_trainers);
  else if (options->round_timeout_ns < 0)
    g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                 "round timeout is %" G_GINT64_FORMAT " ns, expected 0 or more",
                 options->round_timeout_ns);
  else
    return TRUE;
  return FALSE;
}

TpsModelServer *
tps_model_server_new (const TpsModelServerOptions *options, GError **error)
{
  TpsUpdatingOptions rules = {
    .n_trainers = options->n_trainers,
    .min_trainers = options->min_trainers > 0 ? options->min_trainers : options->n_trainers,
    .round_timeout_ns = options->round_timeout_ns > 0 ? options->round_timeout_ns
                                                      : DEFAULT_ROUND_TIMEOUT_NS,
    .max_staleness = options->max_staleness,
  };
  TpsModelServer *server;

  if (!check_options (options, error))
    return NULL;
  server = g_new0 (TpsModelServer, 1);
  server->options = *options;
  server->workers = options->workers;
  server->metrics = options->metrics != NULL ? tps_metrics_ref (options->metrics)
                                             : tps_metrics_new (NULL, NULL);
  server->updating = tps_updating_new (&rules);
  tps_kept_versions_init (&server->kept, options->n_trainers);
  server->pushes = pushes_new (&options->pushes);
  g_queue_init (&server->news);
  tps_mutex_init (&server->lock);
  tps_cond_init (&server->idle);
  return server;
}

/* The lock is held. A timer that a worker already holds finds nothing to do. */
static void
cancel_timer (TpsModelServer *server)
{
  if (server->timer_id == 0 || !tps_worker_pool_cancel_timer (server->workers, server->timer_id))
    return;
  server->timer_id = 0;
  server->n_pending--;
}

/* Ends all that waits and forgets the model. */
static void
end_all (TpsModelServer *server, const GError *error, gboolean is_end)
{
  g_autoptr (GPtrArray)
      dropped = g_ptr_array_new_with_free_func ((GDestroyNotify) tps_model_version_unref);
  TpsUpdatingOutput output;
  TpsTrainedModel *model;
  Pushes *pushes;

  tps_updating_output_init (&output);
  tps_mutex_lock (&server->lock);
  tps_updating_end_all (server->updating, error, &output);
  tps_kept_versions_reset (&server->kept, server->options.n_trainers, dropped);
  model = g_steal_pointer (&server->model);
  pushes = server->pushes;
  server->pushes = pushes_new (&server->options.pushes);
  if (!is_end && !server->is_shut_down)
    tps_metrics_clear (server->metrics);
  server->is_shut_down |= is_end;
  if (is_end)
    cancel_timer (server);
  tps_mutex_unlock (&server->lock);
  carry_out (server, &output, NULL);
  g_clear_pointer (&model, tps_trained_model_unref);
  pushes_unref (pushes);
}

void
tps_model_server_reset_state (TpsModelServer *server)
{
  g_autoptr (GError) error = new_reset_error ();

  end_all (server, error, FALSE);
}

void
tps_model_server_shut_down (TpsModelServer *server)
{
  g_autoptr (GError) error = new_shut_down_error ();

  end_all (server, error, TRUE);
}

void
tps_model_server_free (TpsModelServer *server)
{
  tps_model_server_shut_down (server);
  tps_mutex_lock (&server->lock);
  while (server->n_pending > 0)
    tps_cond_wait (&server->idle, &server->lock);
  tps_mutex_unlock (&server->lock);

  tps_updating_free (server->updating);
  tps_kept_versions_clear (&server->kept);
  pushes_unref (server->pushes);
  g_queue_clear_full (&server->news, g_free);
  tps_metrics_unref (server->metrics);
  tps_cond_clear (&server->idle);
  tps_mutex_clear (&server->lock);
  g_free (server);
}
