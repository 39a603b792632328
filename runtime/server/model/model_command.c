/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Commands that change the model. Each command is admitted and takes effect under the server's
 * lock, and is finished without the lock. Records hold references to gradients, so a record may
 * outlive the round. The calls of an update are answered when its command has ended. Replay applies
 * records again. */

#include "runtime/base/error.h"
#include "runtime/base/outcome.h"
#include "runtime/server/model/model_server_private.h"

struct TpsModelCommand
{
  TpsOrdered ordered; /* must be the first member */
  TpsCommand command;
  TpsModelServer *server;
  /* Of an update: the tickets of its calls, and of other calls that are answered with them. */
  TpsUpdateTicket *answered;
  TpsOutcome *outcome;        /* of a waiting caller; NULL = no caller waits */
  TpsModelVersion *version;   /* of an initialisation */
  TpsOptimizerSpec optimizer; /* of an initialisation */
  guint n_contributions;
  TpsCommandContribution *contributions;
  guint n_parameters;
  TpsTensor *gradients; /* [n_contributions, n_parameters] */
  GArray *ids;          /* of TpsCommandId; they own their clients */
};

static void
free_ids (TpsModelCommand *command)
{
  for (guint i = 0; i < command->ids->len; i++)
    g_free ((gchar *) (guintptr) g_array_index (command->ids, TpsCommandId, i).client);
  g_array_unref (command->ids);
}

/* Releases the memory to which the record refers. */
static void
clear_record (TpsModelCommand *command)
{
  g_clear_pointer (&command->version, tps_model_version_unref);
  for (guint i = 0; i < command->n_contributions * command->n_parameters; i++)
    tps_tensor_clear (&command->gradients[i]);
  g_free (command->gradients);
  g_free (command->contributions);
  free_ids (command);
}

/* Answers all calls of the command. If `error` is set, the command has taken effect, but its record
 * is lost, so no call may succeed. */
static void
answer (TpsModelCommand *command, const GError *error)
{
  for (TpsUpdateTicket *ticket = command->answered; error != NULL && ticket != NULL;
       ticket = ticket->next)
    if (ticket->error == NULL)
      ticket->error = g_error_copy (error);
  tps_model_step_answer (command->answered);
  if (command->outcome != NULL)
    tps_outcome_set (command->outcome, error);
}

/* The record is released before calls are answered, because it refers to shared memory. */
static void
command_ended (TpsOrdered *ordered, const GError *error)
{
  TpsModelCommand *command = (TpsModelCommand *) ordered;
  TpsModelServer *server = command->server;

  clear_record (command);
  answer (command, error);
  g_free (command);
  tps_shell_end (&server->shell);
}

/* Creates a command and counts it as pending work of the shell. The lock must be held. */
static TpsModelCommand *
command_new (TpsModelServer *server, TpsCommandKind kind)
{
  TpsModelCommand *command = g_new0 (TpsModelCommand, 1);

  command->server = server;
  command->ordered.command = &command->command;
  command->ordered.ended = command_ended;
  command->command.kind = kind;
  command->ids = g_array_new (FALSE, FALSE, sizeof (TpsCommandId));
  tps_shell_begin (&server->shell);
  return command;
}

/* ---- admission ------------------------------------------------------------------------------- */

static TpsModelCommand *
admit (TpsModelServer *server, TpsModelCommand *command)
{
  server->lsn = tps_sequencer_admit (server->sequencer, &command->ordered, NULL);
  return command;
}

TpsModelCommand *
tps_model_command_admit_init (TpsModelServer *server, const TpsTrainedModel *model)
{
  TpsModelCommand *command = command_new (server, TPS_COMMAND_INIT_MODEL);

  command->version = tps_model_version_ref (tps_trained_model_get_newest (model));
  command->optimizer = *tps_trained_model_get_optimizer (model);
  command->command.model = (TpsCommandModel) { command->version->n_parameters,
                                               command->version->parameters, &command->optimizer };
  return admit (server, command);
}

TpsModelCommand *
tps_model_command_admit_reset (TpsModelServer *server)
{
  return admit (server, command_new (server, TPS_COMMAND_RESET_MODEL));
}

static void
keep_contribution (TpsModelCommand *command, const TpsUpdatingJob *job, guint i)
{
  TpsTensor *gradients = command->gradients + i * command->n_parameters;

  for (guint p = 0; p < command->n_parameters; p++)
    tps_tensor_init_ref (&gradients[p], &job->gradients[i][p]);
  command->contributions[i] = (TpsCommandContribution) { job->trainers[i], gradients };
}

TpsModelCommand *
tps_model_command_admit_update (TpsModelServer *server, const TpsUpdatingJob *job,
                                guint n_parameters)
{
  TpsModelCommand *command = command_new (server, TPS_COMMAND_UPDATE_MODEL);

  if (tps_sequencer_has_observer (server->sequencer))
    {
      command->n_contributions = job->n_took_part;
      command->n_parameters = n_parameters;
      command->contributions = g_new (TpsCommandContribution, job->n_took_part);
      command->gradients = g_new0 (TpsTensor, (gsize) job->n_took_part * n_parameters);
      for (guint i = 0; i < job->n_took_part; i++)
        keep_contribution (command, job, i);
    }
  return admit (server, command);
}

void
tps_model_command_take_answered (TpsModelCommand *command, TpsUpdatingOutput *output)
{
  command->answered = g_steal_pointer (&output->answered);
  for (TpsUpdateTicket *ticket = command->answered; ticket != NULL; ticket = ticket->next)
    {
      const TpsModelCall *call = tps_model_call_of (ticket);
      TpsCommandId id = { NULL, call->sequence, ticket->digest, call->tenant };

      if (ticket->error != NULL || call->client == NULL)
        continue;
      id.client = g_strdup (call->client);
      g_array_append_val (command->ids, id);
    }
}

void
tps_model_command_finish (TpsModelCommand *command)
{
  if (command->command.kind == TPS_COMMAND_UPDATE_MODEL)
    command->command.update = (TpsCommandUpdate) {
      .n_contributions = command->n_contributions,
      .n_parameters = command->n_parameters,
      .contributions = command->contributions,
      .n_ids = command->ids->len,
      .ids = (const TpsCommandId *) (gconstpointer) command->ids->data,
    };
  tps_sequencer_finish (command->server->sequencer, &command->ordered);
}

gboolean
tps_model_command_finish_and_wait (TpsModelCommand *command, GError **error)
{
  TpsOutcome outcome;

  tps_outcome_init (&outcome);
  command->outcome = &outcome;
  tps_model_command_finish (command);
  return tps_outcome_wait (&outcome, error);
}

/* ---- replay ---------------------------------------------------------------------------------- */

static gboolean
replay_init (TpsModelServer *server, const TpsCommandModel *record, GError **error)
{
  guint n = record->n_parameters;
  g_autofree TpsNamedTensor *parameters = g_new0 (TpsNamedTensor, n);

  for (guint i = 0; i < n; i++)
    {
      parameters[i].name = g_strdup (record->parameters[i].name);
      tps_tensor_init_ref (&parameters[i].tensor, &record->parameters[i].tensor);
    }
  return tps_model_server_init_model (server, parameters, n, record->optimizer, error);
}

static gboolean
remember_ids (TpsModelServer *server, const TpsCommand *command, gint64 version, GError **error)
{
  const TpsCommandUpdate *record = &command->update;

  for (guint i = 0; i < record->n_ids; i++)
    {
      TpsPushRequest request = { .client = record->ids[i].client,
                                 .sequence = record->ids[i].sequence,
                                 .digest = &record->ids[i].digest,
                                 .incarnation = server->incarnation,
                                 .tenant = record->ids[i].tenant };

      if (!tps_push_window_replay (server->pushes, &request, command->time_ms, version, server->lsn,
                                   error))
        return FALSE;
    }
  return TRUE;
}

/* Calls begin after the replay, so no other thread changes the server's fields, and they may be
 * read without the lock. The record may be of a server with more trainers; nobody can ask for the
 * last answer to a trainer that no longer exists. */
static gboolean
replay_update (TpsModelServer *server, const TpsCommand *replayed, GError **error)
{
  const TpsCommandUpdate *record = &replayed->update;
  guint n = record->n_contributions, n_known = 0;
  g_autofree const TpsTensor **gradients = g_new (const TpsTensor *, n);
  g_autofree gint32 *trainers = g_new (gint32, n), *known = g_new (gint32, n);
  g_autoptr (GPtrArray)
      dropped = g_ptr_array_new_with_free_func ((GDestroyNotify) tps_model_version_unref);
  TpsUpdatingJob job = { .n_took_part = n, .trainers = trainers, .gradients = gradients };
  TpsModelCommand *command;
  TpsModelVersion *newest;
  TpsModelUpdate update;

  for (guint i = 0; i < n; i++)
    {
      gradients[i] = record->contributions[i].gradients;
      trainers[i] = record->contributions[i].trainer;
      if (trainers[i] >= 0 && (guint) trainers[i] < server->options.n_trainers)
        known[n_known++] = trainers[i];
    }
  if (server->model == NULL)
    {
      g_propagate_error (error, tps_updating_new_no_model_error ());
      return FALSE;
    }
  if (!tps_model_update_begin (&update, server->model, gradients, n, 1, error))
    return FALSE;
  tps_model_update_run (&update, 0, update.n_blocks);
  tps_mutex_lock (&server->shell.lock);
  tps_model_update_end (&update);
  newest = tps_trained_model_get_newest (server->model);
  tps_updating_skip_version (server->updating);
  if (n_known > 0)
    tps_kept_versions_add (&server->kept, newest, known, n_known, dropped);
  command = tps_model_command_admit_update (server, &job, newest->n_parameters);
  tps_mutex_unlock (&server->shell.lock);
  return tps_model_command_finish_and_wait (command, error)
         && remember_ids (server, replayed, newest->version, error);
}

gboolean
tps_model_server_replay (TpsModelServer *server, const TpsCommand *command, GError **error)
{
  if (command->lsn <= server->lsn) /* the restored snapshot contains the command */
    {
      tps_sequencer_set_lsn (server->sequencer, command->lsn);
      return TRUE;
    }
  switch (command->kind)
    {
    case TPS_COMMAND_INIT_MODEL:
      return replay_init (server, &command->model, error);
    case TPS_COMMAND_UPDATE_MODEL:
      return replay_update (server, command, error);
    case TPS_COMMAND_RESET_MODEL:
      return tps_model_server_reset_state (server, error);
    case TPS_COMMAND_CREATE_TABLE:
    case TPS_COMMAND_DROP_TABLE:
    case TPS_COMMAND_APPLY_ROWS:
    case TPS_COMMAND_ASSIGN_ROWS:
    case TPS_COMMAND_APPLY_BAGS:
      break;
    }
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "command %d does not change the model",
               (gint) command->kind);
  return FALSE;
}
