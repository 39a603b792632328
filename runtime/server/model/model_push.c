/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Calls, and their push ids. Small pushes are hashed on arrival. Large pushes are hashed by the
 * update, which reads them anyway. If a large push must be compared with another push, a worker
 * hashes it.
 *
 * A new call is ended in the push window just before it is answered. A repeat of a running call
 * waits in the window, not in a round, and is answered by on_first_ended(). Ids are scoped to the
 * model: after a reset and a new init_model(), they may be used again. The overview of the server
 * is in model_server_private.h.
 */

#include "runtime/server/model/model_server_private.h"

#include "runtime/base/error.h"
#include "runtime/machine/tuning.h"
#include "runtime/server/model/update_digest.h"

static void
leave_window (TpsModelCall *call)
{
  TpsPushWindow *window = call->server->pushes;

  if (call->ticket.error != NULL)
    {
      tps_push_window_fail (window, call->client, call->sequence, call->ticket.error);
      return;
    }
  tps_push_window_set_digest (window, call->client, call->sequence, &call->ticket.digest);
  tps_push_window_end (window, call->client, call->sequence, call->model->version, call->lsn);
}

void
tps_model_call_answer (TpsAnswer *answer)
{
  TpsModelCall *call = (TpsModelCall *) answer;
  const GError *error = call->ticket.error;

  tps_gauge_add (call->server->numbers.waiting, -1);
  if (call->is_in_window)
    leave_window (call);
  call->done (call->user_data, error == NULL ? call->model : NULL, error);
  tps_update_ticket_clear (&call->ticket);
  g_clear_pointer (&call->model, tps_model_version_unref);
  g_free (call->client);
  g_free (call);
}

/* Answers the call with `error`, whose ownership is taken; NULL = with the call's model. */
static void
answer_call (TpsModelCall *call, GError *error)
{
  call->ticket.error = error;
  tps_answer_give (&call->answer, tps_model_call_answer);
}

/* ---- connections ---- */

static gboolean
has_quorum (const TpsModelServer *server)
{
  return server->options.min_trainers > 0
         && server->options.min_trainers < server->options.n_trainers;
}

/* Returns TRUE if the call has a connection that is open. If the lock is held,
 * tps_model_server_connection_closed() handles the end of an open connection later. */
static gboolean
is_open (const TpsModelCall *call)
{
  return call->connection != NULL
         && (call->is_connected == NULL || call->is_connected (call->user_data));
}

/* Must be called when the machine has accepted the push. Notes the connection of the trainer, or
 * marks the trainer as lost if the connection has closed. The lock must be held. */
static void
note_push (TpsModelCall *call, gboolean is_repeat, TpsUpdatingOutput *output)
{
  TpsModelServer *server = call->server;

  if (is_open (call))
    tps_trainer_presence_note (&server->presence, call->ticket.trainer, call->connection,
                               is_repeat);
  else if (call->connection != NULL)
    tps_updating_lose (server->updating, call->ticket.trainer, tps_clock_now_ns (), output);
}

/* ---- push ids ---- */

static GError *
new_not_kept_error (const TpsModelCall *call, gint64 version)
{
  return g_error_new (TPS_ERROR, TPS_ERROR_STALE,
                      "push (%s, %" G_GINT64_FORMAT ") was applied and answered with model version "
                      "%" G_GINT64_FORMAT ", which is no longer kept: fetch the model",
                      call->client, call->sequence, version);
}

/* Answers a repeat with the version that was the answer to the first call. */
static void
answer_with_version (TpsModelCall *call, gint64 version)
{
  TpsModelServer *server = call->server;
  TpsModelVersion *model;

  tps_mutex_lock (&server->shell.lock);
  if (is_open (call))
    tps_trainer_presence_note (&server->presence, call->ticket.trainer, call->connection, TRUE);
  model = tps_kept_versions_find (&server->kept, version);
  if (model != NULL)
    call->model = tps_model_version_ref (model);
  tps_mutex_unlock (&server->shell.lock);
  answer_call (call, model == NULL ? new_not_kept_error (call, version) : NULL);
}

static void
on_first_ended (gpointer user_data, gint64 version, const GError *error)
{
  TpsModelCall *call = user_data;

  if (error != NULL)
    answer_call (call, g_error_copy (error));
  else
    answer_with_version (call, version);
}

/* Notes the incarnation of the model at the arrival of the call. Also marks the trainer as not
 * lost, because the push may be a repeat, which does not reach the machine. */
static void
note_arrival (TpsModelCall *call)
{
  TpsModelServer *server = call->server;

  tps_mutex_lock (&server->shell.lock);
  call->incarnation = server->incarnation;
  if (call->connection != NULL)
    tps_updating_find (server->updating, call->ticket.trainer);
  tps_mutex_unlock (&server->shell.lock);
}

/* ---- digests ---- */

static void
compute_digest (TpsUpdateTicket *ticket)
{
  ticket->digest = tps_update_digest_compute (ticket->trainer, ticket->version, ticket->gradients,
                                              ticket->n_gradients);
  ticket->has_digest = TRUE;
}

/* The work of a worker on a push that may be a repeat. */
typedef struct
{
  TpsModelCall *call;
  /* The contribution with which the push must be compared; a reference. NULL = only the digest of
   * the push is needed. */
  TpsUpdateContribution *original;
} Comparison;

static void
compute_both (TpsModelServer *server, const Comparison *comparison)
{
  TpsUpdateTicket *ticket = &comparison->call->ticket;
  TpsPushDigest digest;

  if (!ticket->has_digest)
    compute_digest (ticket);
  if (comparison->original == NULL)
    return;
  digest = tps_update_contribution_compute_digest (comparison->original, ticket->trainer);
  tps_mutex_lock (&server->shell.lock);
  tps_update_contribution_set_digest (comparison->original, &digest);
  tps_mutex_unlock (&server->shell.lock);
  tps_update_contribution_unref (comparison->original);
}

static void prepare (TpsModelCall *call);
static void take_part (TpsModelCall *call);

static void
compare_on_worker (gpointer user_data)
{
  Comparison *comparison = user_data;
  TpsModelCall *call = comparison->call;
  TpsModelServer *server = call->server;

  compute_both (server, comparison);
  if (comparison->original == NULL)
    prepare (call);
  else
    take_part (call);
  g_free (comparison);
  tps_shell_end (&server->shell);
}

/* Lets a worker compute the missing digests and try the call again. Only a push whose id or trainer
 * seems to repeat needs this separate pass over its gradients. */
static void
compare (TpsModelCall *call, TpsUpdateContribution *original)
{
  TpsModelServer *server = call->server;
  Comparison *comparison = g_new (Comparison, 1);

  *comparison = (Comparison) { call, original };
  tps_mutex_lock (&server->shell.lock);
  tps_shell_begin (&server->shell);
  tps_mutex_unlock (&server->shell.lock);
  tps_worker_pool_submit (server->workers, compare_on_worker, comparison);
}

/* ---- calls ---- */

/* Looks up the push id. Returns TRUE if the push is new. Otherwise the call is answered, now or
 * later, and must not be used any more. */
static gboolean
enter_window (TpsModelCall *call)
{
  TpsUpdateTicket *ticket = &call->ticket;
  TpsPushRequest request = { .client = call->client,
                             .sequence = call->sequence,
                             .digest = ticket->has_digest ? &ticket->digest : NULL,
                             .incarnation = call->incarnation,
                             .ended = on_first_ended,
                             .user_data = call,
                             .tenant = call->tenant };
  GError *error = NULL;
  gint64 version = 0;

  switch (tps_push_window_begin (call->server->pushes, &request, &version, &error))
    {
    case TPS_PUSH_NEW:
      call->is_in_window = TRUE;
      return TRUE;
    case TPS_PUSH_UNDECIDED:
      compare (call, NULL);
      return FALSE;
    case TPS_PUSH_REPEAT:
      answer_with_version (call, version);
      return FALSE;
    case TPS_PUSH_REFUSED:
      answer_call (call, error);
      return FALSE;
    case TPS_PUSH_RUNNING: /* on_first_ended() answers the call */
    default:
      return FALSE;
    }
}

/* Returns the error with which the call must be refused, or NULL. A push with an id may take part
 * only in updates of the model for which its id was looked up. The lock must be held. */
static GError *
check_model (TpsModelServer *server, const TpsModelCall *call)
{
  if (server->shell.is_shut_down)
    return tps_model_server_new_shut_down_error ();
  if (call->client == NULL || call->incarnation == server->incarnation)
    return NULL;
  return call->incarnation == 0 ? tps_updating_new_no_model_error ()
                                : tps_model_server_new_reset_error ();
}

static gsize
count_bytes (const TpsTensor *tensors, guint n_tensors)
{
  gsize n_bytes = 0;

  for (guint i = 0; i < n_tensors; i++)
    n_bytes += tps_shape_n_bytes (&tensors[i].shape);
  return n_bytes;
}

static void
take_part (TpsModelCall *call)
{
  TpsModelServer *server = call->server;
  TpsUpdatingOutput output;
  GError *error = NULL;
  TpsModelStep *step = NULL;

  if (!tps_sequencer_may_admit (server->sequencer,
                                count_bytes (call->ticket.gradients, call->ticket.n_gradients),
                                &error))
    {
      answer_call (call, error);
      return;
    }
  tps_updating_output_init (&output);
  tps_mutex_lock (&server->shell.lock);
  error = check_model (server, call);
  if (error == NULL)
    {
      tps_updating_push (server->updating, &call->ticket, tps_clock_now_ns (), &output);
      if (call->ticket.error == NULL && output.undecided == NULL)
        note_push (call, !output.has_taken, &output);
      step = tps_model_step_begin (server, &output);
    }
  tps_mutex_unlock (&server->shell.lock);
  if (error != NULL)
    answer_call (call, error);
  else if (output.undecided != NULL)
    compare (call, output.original);
  else
    tps_model_step_carry_out (server, &output, step);
}

static void
prepare (TpsModelCall *call)
{
  if (call->client == NULL || call->incarnation == 0 || enter_window (call))
    take_part (call);
}

/* Connections are needed only if an update can be made without some trainers. */
static gboolean
needs_connection (const TpsModelServer *server, gint32 trainer)
{
  return has_quorum (server) && trainer >= 0 && (guint) trainer < server->options.n_trainers;
}

static TpsModelCall *
model_call_new (TpsModelServer *server, const TpsModelPush *push, TpsModelDone done,
                gpointer user_data)
{
  TpsModelCall *call = g_new0 (TpsModelCall, 1);

  call->ticket = (TpsUpdateTicket) { .trainer = push->trainer,
                                     .version = push->version,
                                     .may_wait = push->may_wait,
                                     .n_gradients = push->n_gradients,
                                     .gradients = g_new0 (TpsTensor, push->n_gradients) };
  for (guint i = 0; i < push->n_gradients; i++)
    tps_tensor_move (&call->ticket.gradients[i], &push->gradients[i]);
  call->server = server;
  call->client = g_strdup (push->client);
  call->sequence = push->sequence;
  call->tenant = push->tenant;
  if (needs_connection (server, push->trainer))
    {
      call->connection = push->connection;
      call->is_connected = push->is_connected;
    }
  call->done = done;
  call->user_data = user_data;
  return call;
}

void
tps_model_server_update_and_fetch (TpsModelServer *server, const TpsModelPush *push,
                                   TpsModelDone done, gpointer user_data)
{
  TpsModelCall *call = model_call_new (server, push, done, user_data);
  TpsUpdateTicket *ticket = &call->ticket;

  tps_gauge_add (server->numbers.waiting, 1);
  if (call->client != NULL)
    note_arrival (call);
  if (count_bytes (ticket->gradients, ticket->n_gradients) <= tps_tuning_get ()->inline_bytes)
    compute_digest (ticket);
  prepare (call);
}

/* ---- departed trainers ---- */

/* Marks departed trainers as lost. Some clients open a connection for each call and close it after
 * the answer. A trainer is therefore not lost if its connection carried at most one push and the
 * round of this push has ended. The lock must be held. */
static void
lose_trainers (TpsModelServer *server, const GArray *departed, TpsUpdatingOutput *output)
{
  gint64 now_ns = tps_clock_now_ns ();

  for (guint i = 0; i < departed->len; i++)
    {
      const TpsDepartedTrainer *trainer = &g_array_index (departed, TpsDepartedTrainer, i);

      if (trainer->n_pushes > 1
          || tps_updating_has_contribution (server->updating, trainer->trainer))
        tps_updating_lose (server->updating, trainer->trainer, now_ns, output);
    }
}

void
tps_model_server_connection_closed (TpsModelServer *server, gconstpointer connection)
{
  g_autoptr (GArray) departed = NULL;
  TpsUpdatingOutput output;
  TpsModelStep *step = NULL;

  if (!has_quorum (server))
    return;
  tps_updating_output_init (&output);
  tps_mutex_lock (&server->shell.lock);
  departed = tps_trainer_presence_take (&server->presence, connection);
  if (departed != NULL && !server->shell.is_shut_down)
    {
      lose_trainers (server, departed, &output);
      step = tps_model_step_begin (server, &output);
    }
  tps_mutex_unlock (&server->shell.lock);
  tps_model_step_carry_out (server, &output, step);
}
