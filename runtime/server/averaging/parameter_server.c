/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The thread-safe server around the state machine. The normal course of a call:
 *
 *   average_gradient()   makes the call and checks its gradient
 *   take_part()          pushes the ticket under the lock
 *   carry_out()          without the lock, answers calls, runs small jobs, and submits large jobs
 *                        to workers; idle workers help with the blocks of a large job
 *   finish_job()         passes a job back to the machine under the lock; carry_out() follows
 *
 * The lock, the deadlines and the shut-down are those of the shell (runtime/server/shell.h).
 *
 * Order of locks: the shell's lock, then the locks of the metrics and of the worker pool. While one
 * of these locks is held, calls must not be answered, and elements must not be accessed.
 */

#include "runtime/server/averaging/parameter_server.h"

#include "runtime/base/answer_queue.h"
#include "runtime/server/averaging/averaging.h"
#include "runtime/server/averaging/server_kind.h"
#include "runtime/base/parallel.h"
#include "runtime/device/device_memory.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/server/averaging/digest.h"
#include "runtime/server/open_rounds.h"
#include "runtime/server/shell.h"
#include "runtime/machine/tuning.h"

#define MAX_TRAINERS (1024 * 1024)

/* The limit of released memory of averages that is kept for reuse. The memory is page-locked if the
 * server uses a device. */
#define KEEP_AVERAGES_BYTES ((gsize) 1 << 30)
#define DEFAULT_ROUND_TIMEOUT_NS (G_GINT64_CONSTANT (30) * 1000000000)

typedef struct
{
  TpsAnswer answer; /* must be the first member: an answer is cast to its call */
  TpsAveragingTicket ticket;
  TpsParameterServer *server;
  TpsAverageDone done;
  gpointer user_data;
} Call;

/* A job that workers run. */
typedef struct
{
  TpsParameterServer *server;
  TpsAveragingJob *job;
  gint64 start_ns;
} WorkerJob;

struct TpsParameterServer
{
  TpsWorkerPool *workers;
  TpsMetrics *metrics;
  TpsRoundNumbers numbers;
  const TpsServerKind *kind;
  gpointer state;                 /* of the kind */
  TpsDeviceSums *on_device;       /* NULL = sums are in host memory */
  TpsBufferPool *averages;        /* for averages, and for sums in host memory */
  TpsBufferPool *shared_averages; /* for gradients in shared memory; NULL = `averages` */

  TpsShell shell; /* its lock guards the machine */
  TpsAveraging *averaging;
};

/* ---- answers ---- */

static void
answer_call (TpsAnswer *answer)
{
  Call *call = (Call *) answer;
  TpsAveragingTicket *ticket = &call->ticket;

  tps_gauge_add (call->server->numbers.waiting, -1);
  call->done (call->user_data, ticket->error == NULL ? &ticket->average : NULL, ticket->error);
  tps_averaging_ticket_clear (ticket);
  g_free (call);
}

static Call *
call_of (TpsAveragingTicket *ticket)
{
  return (Call *) (gpointer) ((guint8 *) ticket - G_STRUCT_OFFSET (Call, ticket));
}

static void
answer_tickets (TpsAveragingTicket *first)
{
  TpsAnswers answers = { NULL, NULL };

  for (TpsAveragingTicket *ticket = first; ticket != NULL; ticket = ticket->next)
    tps_answers_add (&answers, &call_of (ticket)->answer, answer_call);
  tps_answers_give (&answers);
}

/* ---- metrics ---- */

static void
record (TpsParameterServer *server, TpsServerRecord record, const TpsRoundId *round)
{
  if (server->kind->record != NULL)
    server->kind->record (server->state, server->metrics, record, round);
  else
    tps_server_kind_record (server->metrics, record, round);
}

/* Records the spans of a round. They must be complete before calls are answered, because callers
 * may read the metrics. The lock must be held. */
static void
record_spans (TpsParameterServer *server, const TpsAveragingOutput *output)
{
  TpsRoundId round = { output->batch, output->param_loc };

  if (output->has_started)
    {
      record (server, TPS_RECORD_STRAGGLER_START, &round);
      record (server, TPS_RECORD_BATCH_START, &round);
    }
  if (output->has_all)
    record (server, TPS_RECORD_STRAGGLER_END, &round);
  if (output->has_completed)
    record (server, TPS_RECORD_BATCH_END, &round);
}

/* ---- consequences of a step of the machine ---- */

/* Updates metrics and the timer under the lock. Must be called once after a step, before the lock
 * is released. */
static void
after_step (TpsParameterServer *server, TpsAveragingOutput *output)
{
  record_spans (server, output);
  tps_gauge_set (server->numbers.open, tps_averaging_get_n_open (server->averaging));
  if (output->has_completed)
    tps_counter_add (server->numbers.completed, 1);
  for (TpsAveragingJob *job = output->jobs; job != NULL; job = job->next)
    tps_shell_begin (&server->shell);
  tps_shell_set_deadline (&server->shell, tps_averaging_get_deadline (server->averaging));
}

static void
process_average (TpsParameterServer *server, TpsAveragingJob *job)
{
  TpsRoundId round;
  TpsGradient *average;
  GError *error = NULL;

  if (server->kind->process_average == NULL)
    return;
  average = tps_averaging_job_get_average (job, &round.batch, &round.param_loc);
  if (average != NULL && !server->kind->process_average (server->state, &round, average, &error))
    tps_averaging_job_fail (job, error);
}

static void
finish_job (TpsParameterServer *server, TpsAveragingJob *job, gint64 start_ns,
            TpsAveragingOutput *output)
{
  gint64 elapsed_ns;

  process_average (server, job);
  elapsed_ns = tps_clock_now_ns () - start_ns;
  *output = (TpsAveragingOutput) { 0 };
  TPS_LOCK_SCOPE (&server->shell.lock);
  tps_averaging_job_done (server->averaging, job, output);
  if (output->has_completed)
    tps_metrics_record (server->metrics, "method_metric", "average computation",
                        (gdouble) elapsed_ns / 1e6);
  after_step (server, output);
}

static void run_on_worker (gpointer user_data);

static void
submit_job (TpsParameterServer *server, TpsAveragingJob *job)
{
  WorkerJob *worker_job = g_new0 (WorkerJob, 1);

  worker_job->server = server;
  worker_job->job = job;
  tps_worker_pool_submit (server->workers, run_on_worker, worker_job);
}

static void
share_jobs (TpsParameterServer *server, TpsAveragingJob *jobs, TpsAveragingJob **ours)
{
  for (TpsAveragingJob *job = jobs, *next; job != NULL; job = next)
    {
      next = job->next;
      if (job->n_bytes > tps_tuning_get ()->inline_bytes)
        {
          submit_job (server, job);
          continue;
        }
      job->next = *ours;
      *ours = job;
    }
}

/* Carries out all actions of an output. Runs small jobs, and carries out the actions that follow
 * from them. No lock may be held. */
static void
carry_out (TpsParameterServer *server, TpsAveragingOutput *output)
{
  TpsAveragingJob *ours = NULL;

  for (;;)
    {
      TpsAveragingTicket *answered = output->answered;
      TpsAveragingJob *jobs = output->jobs;
      TpsAveragingJob *job;
      gint64 start_ns;

      /* This must precede the jobs, whose sums may need the memory of a finished batch. It must
       * also precede the replies, because it releases shared memory. */
      tps_averaging_output_clear (output);
      share_jobs (server, jobs, &ours);
      answer_tickets (answered);
      job = ours;
      if (job == NULL)
        return;
      ours = job->next;
      start_ns = tps_clock_now_ns ();
      tps_averaging_job_run (job);
      finish_job (server, job, start_ns, output);
      tps_shell_end (&server->shell);
    }
}

/* ---- on a worker ---- */

static void
run_blocks (gpointer user_data, guint first_block, guint n_blocks)
{
  WorkerJob *worker_job = user_data;

  tps_averaging_job_run_blocks (worker_job->job, first_block, n_blocks);
}

static void
blocks_done (gpointer user_data)
{
  WorkerJob *worker_job = user_data;
  TpsParameterServer *server = worker_job->server;
  TpsAveragingOutput output;

  tps_averaging_job_end (worker_job->job);
  finish_job (server, worker_job->job, worker_job->start_ns, &output);
  g_free (worker_job);
  carry_out (server, &output);
  tps_shell_end (&server->shell);
}

static void
run_on_worker (gpointer user_data)
{
  WorkerJob *worker_job = user_data;
  const TpsTuning *tuning = tps_tuning_get ();
  TpsBlockWork work = {
    .range_blocks = tps_digest_n_blocks (tuning->average_range_bytes),
    .blocks_per_helper = tps_digest_n_blocks (tuning->average_helper_bytes),
    .run = run_blocks,
    .done = blocks_done,
    .user_data = worker_job,
  };

  worker_job->start_ns = tps_clock_now_ns ();
  work.n_blocks = tps_averaging_job_begin (worker_job->job);
  tps_block_work_run (worker_job->server->workers, &work);
}

/* Runs on the timer thread. */
static void
expire (gpointer user_data)
{
  TpsParameterServer *server = user_data;
  TpsAveragingOutput output = { 0 };

  tps_mutex_lock (&server->shell.lock);
  tps_averaging_expire (server->averaging, tps_clock_now_ns (), &output);
  after_step (server, &output);
  tps_mutex_unlock (&server->shell.lock);
  carry_out (server, &output);
}

/* ---- calls ---- */

static void
fail_call (Call *call, GError *error)
{
  call->ticket.error = error;
  tps_answer_give (&call->answer, answer_call);
}

static void
take_part (Call *call)
{
  TpsParameterServer *server = call->server;
  gboolean is_shut_down;
  TpsAveragingOutput output = { 0 };

  tps_mutex_lock (&server->shell.lock);
  is_shut_down = server->shell.is_shut_down;
  if (!is_shut_down)
    {
      tps_averaging_push (server->averaging, &call->ticket, tps_clock_now_ns (), &output);
      after_step (server, &output);
    }
  tps_mutex_unlock (&server->shell.lock);
  if (is_shut_down)
    fail_call (call,
               g_error_new (TPS_ERROR, TPS_ERROR_UNAVAILABLE, "the parameter server is shut down"));
  else
    carry_out (server, &output);
}

static gsize
tensor_n_bytes (const TpsTensor *tensor)
{
  return tps_tensor_is_empty (tensor) ? 0 : tps_shape_n_bytes (&tensor->shape);
}

/* Checks that this server can read the elements: they must lie in host memory, or in the memory of
 * the server's device. */
static gboolean
check_place (const TpsParameterServer *server, const TpsGradient *gradient, GError **error)
{
  TpsDevice *device = tps_device_memory_of_tensor (&gradient->dense);
  TpsDevice *own = server->on_device != NULL ? tps_device_sums_get_device (server->on_device)
                                             : NULL;

  if (device == NULL || device == own)
    return TRUE;
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                   "gradient.dense lies in memory of %s, this server averages %s%s", device->name,
                   own != NULL ? "on " : "in host memory", own != NULL ? own->name : "");
}

static gboolean
check (const TpsParameterServer *server, const TpsGradient *gradient, GError **error)
{
  return check_place (server, gradient, error) && tps_gradient_check (gradient, error);
}

/* Lets the kind process the gradient. The result is checked like a received gradient. */
static gboolean
process_gradient (Call *call, TpsGradient *gradient, GError **error)
{
  const TpsParameterServer *server = call->server;
  TpsRoundId round = { call->ticket.batch, call->ticket.param_loc };

  if (server->kind->process_gradient == NULL)
    return TRUE;
  return server->kind->process_gradient (server->state, call->ticket.trainer, &round, gradient,
                                         error)
         && check (server, gradient, error);
}

static void
check_and_take_part (Call *call)
{
  TpsGradient *gradient = tps_averaging_ticket_get_gradient (&call->ticket);
  GError *error = NULL;

  if (!check (call->server, gradient, &error) || !process_gradient (call, gradient, &error))
    {
      fail_call (call, error);
      return;
    }
  if (tensor_n_bytes (&gradient->dense) + tensor_n_bytes (&gradient->indices)
          + tensor_n_bytes (&gradient->values)
      <= tps_tuning_get ()->inline_bytes)
    tps_averaging_ticket_compute_digest (&call->ticket);
  take_part (call);
}

gboolean
tps_parameter_server_is_long_check (const TpsGradient *gradient)
{
  return tensor_n_bytes (&gradient->indices) > tps_tuning_get ()->inline_bytes;
}

void
tps_parameter_server_average_gradient (TpsParameterServer *server, gint32 trainer, gint64 batch,
                                       gint32 param_loc, TpsGradient *gradient, gboolean may_wait,
                                       TpsAverageDone done, gpointer user_data)
{
  Call *call = g_new0 (Call, 1);

  call->server = server;
  call->done = done;
  call->user_data = user_data;
  tps_gauge_add (server->numbers.waiting, 1);
  tps_averaging_ticket_init (&call->ticket, trainer, batch, param_loc, gradient, may_wait);
  check_and_take_part (call);
}

/* ---- beginning and end ---- */

static gboolean
check_options (const TpsParameterServerOptions *options, GError **error)
{
  if (options->n_trainers < 1 || options->n_trainers > MAX_TRAINERS)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%u trainers, expected 1 to %d",
                     options->n_trainers, MAX_TRAINERS);
  if (options->round_timeout_ns < 0)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "round timeout is %" G_GINT64_FORMAT " ns, expected 0 or more",
                     options->round_timeout_ns);
  return TRUE;
}

TpsParameterServer *
tps_parameter_server_new (const TpsParameterServerOptions *options, GError **error)
{
  const TpsServerKind *kind = tps_server_kind_find (options->kind, error);
  const TpsBudgets *budgets = tps_budgets_or_none (options->budgets);
  TpsAveragingOptions averaging_options;
  TpsParameterServer *server;

  if (kind == NULL || !check_options (options, error))
    return NULL;
  averaging_options = (TpsAveragingOptions) {
    .n_trainers = options->n_trainers,
    .is_sum = options->reduce == TPS_REDUCE_SUM,
    .round_timeout_ns = options->round_timeout_ns > 0 ? options->round_timeout_ns
                                                      : DEFAULT_ROUND_TIMEOUT_NS,
    .may_fold = kind->may_fold,
    .budget = budgets->averages,
  };
  server = g_new0 (TpsParameterServer, 1);
  server->kind = kind;
  server->state = kind->create != NULL ? kind->create (options->n_trainers) : NULL;
  server->workers = options->workers;
  server->metrics = options->metrics != NULL ? tps_metrics_ref (options->metrics)
                                             : tps_metrics_new (NULL, NULL);
  tps_round_numbers_init (&server->numbers, server->metrics, "averaging");
  if (options->device != NULL)
    server->on_device = tps_device_sums_new (options->device);
  averaging_options.on_device = server->on_device;
  server->averages = tps_pinned_pool_new (options->device, budgets->averages, budgets->kept,
                                          KEEP_AVERAGES_BYTES);
  averaging_options.buffers = server->averages;
  if (options->shared_averages != NULL)
    server->shared_averages = tps_buffer_pool_ref (options->shared_averages);
  averaging_options.shared_buffers = server->shared_averages;
  server->averaging = tps_averaging_new (&averaging_options);
  tps_shell_init (&server->shell, server->workers, expire, server);
  return server;
}

void
tps_parameter_server_reset_state (TpsParameterServer *server)
{
  g_autoptr (GError)
      error = g_error_new (TPS_ERROR, TPS_ERROR_ABORTED, "the parameter server's state was reset");
  TpsAveragingOutput output = { 0 };

  tps_mutex_lock (&server->shell.lock);
  if (!server->shell.is_shut_down)
    {
      tps_averaging_end_all (server->averaging, error, &output);
      tps_metrics_clear (server->metrics);
    }
  after_step (server, &output);
  tps_mutex_unlock (&server->shell.lock);
  if (server->kind->reset_state != NULL)
    server->kind->reset_state (server->state);
  carry_out (server, &output);
}

void
tps_parameter_server_shut_down (TpsParameterServer *server)
{
  g_autoptr (GError)
      error = g_error_new (TPS_ERROR, TPS_ERROR_UNAVAILABLE, "the parameter server is shut down");
  TpsAveragingOutput output = { 0 };

  tps_mutex_lock (&server->shell.lock);
  tps_averaging_end_all (server->averaging, error, &output);
  tps_shell_shut_down (&server->shell);
  after_step (server, &output);
  tps_mutex_unlock (&server->shell.lock);
  carry_out (server, &output);
}

void
tps_parameter_server_free (TpsParameterServer *server)
{
  tps_parameter_server_shut_down (server);
  tps_shell_drain (&server->shell);
  tps_averaging_free (server->averaging);
  g_clear_pointer (&server->on_device, tps_device_sums_free);
  g_clear_pointer (&server->averages, tps_buffer_pool_unref);
  g_clear_pointer (&server->shared_averages, tps_buffer_pool_unref);
  tps_metrics_unref (server->metrics);
  tps_shell_clear (&server->shell);
  if (server->kind->destroy != NULL)
    server->kind->destroy (server->state);
  g_free (server);
}

void
tps_parameter_server_get_status (TpsParameterServer *server, TpsAveragingStatus *status,
                                 TpsOpenRound *rounds, guint n_max)
{
  TPS_LOCK_SCOPE (&server->shell.lock);
  tps_averaging_get_status (server->averaging, tps_clock_now_ns (), status, rounds, n_max);
}
