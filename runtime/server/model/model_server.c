/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The normal course of a call:
 *
 *   update_and_fetch()   creates the call
 *   prepare()            looks up the push id
 *   take_part()          pushes the ticket under the lock
 *   carry_out()          without the lock, answers calls, and begins an update that is due; workers
 *                        compute a large update, together with the digests of large pushes
 *   finish_update()      under the lock, makes the new version the newest
 *   carry_out()          finishes the command of the update; when this command has ended, the
 *                        participants of the round are answered
 *
 * If a push id or a trainer repeats, compare() lets a worker compute the missing digests and try
 * the call again. A call fails if it is refused at once, if its round ends by deadline, reset or
 * shut-down, or if there is no memory for a new version.
 *
 * Push ids. Small pushes are hashed on arrival. Large pushes are hashed by the update, which reads
 * them anyway. If a large push must be compared with another push, a worker hashes it. A new call
 * is ended in the push window just before it is answered. A repeat of a running call waits in the
 * window, not in a round, and is answered by on_first_ended(). Ids are scoped to the model: after a
 * reset and a new init_model(), they may be used again.
 *
 * Commands. Each command is admitted and takes effect under the server's lock, and is finished
 * without the lock. Records hold references to gradients, so a record may outlive the round. The
 * calls of an update are answered when its command has ended. Replay applies records again.
 *
 * Order of locks: the lock of init_model(), then the shell's lock, then the locks of the news, the
 * metrics and the worker pool. While the shell's lock or a later lock is held, calls must not be
 * answered, observers must not be called, and elements must not be accessed. While the shell's lock
 * is held, the push window's lock must not be taken; the sequencer's lock may be taken. "The lock"
 * below means the shell's lock. */

#include "runtime/server/model/model_server.h"

#include <glib.h>

#include "runtime/base/answer_queue.h"
#include "runtime/base/error.h"
#include "runtime/base/outcome.h"
#include "runtime/base/sync.h"
#include "runtime/machine/tuning.h"
#include "runtime/server/model/model_capture.h"
#include "runtime/server/model/trained_model.h"
#include "runtime/server/model/update_digest.h"
#include "runtime/server/model/updating.h"
#include "runtime/server/open_rounds.h"
#include "runtime/server/shell.h"

/* -- update news -- */

/* Reports for the observers of a model server, in the order of the events. Events are added under
 * the server's lock and reported without the lock. While one thread reports, it also reports the
 * events of other threads. */

typedef struct
{
  const TpsModelServerOptions *options; /* borrowed: the observers */
  TpsMutex lock;                        /* guards everything below; taken under the server's lock */
  GQueue waiting;                       /* of Item */
  gboolean is_telling;
} TpsUpdateNews;

typedef struct
{
  gboolean is_update; /* TRUE: a new version; FALSE: an arrival */
  guint n_before;     /* of an arrival */
  gint64 version;     /* of an update, as is `n_took_part` */
  guint n_took_part;
} Item;

static void
add (TpsUpdateNews *news, const Item *item)
{
  TPS_LOCK_SCOPE (&news->lock);
  g_queue_push_tail (&news->waiting, g_memdup2 (item, sizeof *item));
}

/* One thread reports at a time, so that the observers get the events in order. The lock is released
 * during each report. */
static void
update_news_tell (TpsUpdateNews *news)
{
  const TpsModelServerOptions *options = news->options;
  Item *item;

  if (options->got_update == NULL && options->updated_model == NULL)
    return;
  tps_mutex_lock (&news->lock);
  while (!news->is_telling && (item = g_queue_pop_head (&news->waiting)) != NULL)
    {
      news->is_telling = TRUE;
      tps_mutex_unlock (&news->lock);
      if (item->is_update && options->updated_model != NULL)
        options->updated_model (options->user_data, item->version, item->n_took_part);
      else if (!item->is_update && options->got_update != NULL)
        options->got_update (options->user_data, item->n_before, options->n_trainers);
      g_free (item);
      tps_mutex_lock (&news->lock);
      news->is_telling = FALSE;
    }
  tps_mutex_unlock (&news->lock);
}

/* -- trainer presence -- */

/* A table of the connections over which the last accepted pushes of trainers came. A server with a
 * quorum concludes from the end of a connection that its trainers are gone. The table has at most
 * one entry for each trainer. Thread: one at a time. */
typedef struct
{
  GHashTable *by_trainer;    /* of Entry */
  GHashTable *by_connection; /* of GPtrArray of Entry, borrowed */
} TpsTrainerPresence;

typedef struct
{
  gint32 trainer;
  guint n_pushes; /* over this connection, without repeats */
  gconstpointer connection;
} Entry;

static void
detach (TpsTrainerPresence *presence, Entry *entry)
{
  GPtrArray *entries = g_hash_table_lookup (presence->by_connection, entry->connection);

  g_ptr_array_remove_fast (entries, entry);
  if (entries->len == 0)
    g_hash_table_remove (presence->by_connection, entry->connection);
}

static void
attach (TpsTrainerPresence *presence, Entry *entry, gconstpointer connection)
{
  GPtrArray *entries = g_hash_table_lookup (presence->by_connection, connection);

  if (entries == NULL)
    {
      entries = g_ptr_array_new ();
      g_hash_table_insert (presence->by_connection, (gpointer) (gsize) connection, entries);
    }
  g_ptr_array_add (entries, entry);
  entry->connection = connection;
  entry->n_pushes = 0;
}

/* Notes that a push of the trainer over `connection` was accepted. `connection` only identifies the
 * connection and is not dereferenced. If `is_repeat`, the push is not counted. */
static void
trainer_presence_note (TpsTrainerPresence *presence, gint32 trainer, gconstpointer connection,
                       gboolean is_repeat)
{
  Entry *entry = g_hash_table_lookup (presence->by_trainer, GINT_TO_POINTER (trainer));

  if (entry == NULL)
    {
      entry = g_new0 (Entry, 1);
      entry->trainer = trainer;
      g_hash_table_insert (presence->by_trainer, GINT_TO_POINTER (trainer), entry);
      attach (presence, entry, connection);
    }
  else if (entry->connection != connection)
    {
      detach (presence, entry);
      attach (presence, entry, connection);
    }
  if (!is_repeat)
    entry->n_pushes++;
}

/* Forgets the trainers whose last push came over `connection`, which has closed. Returns them as an
 * array that owns entries, owned by the caller, or NULL if there are none. */
static GPtrArray *
trainer_presence_take (TpsTrainerPresence *presence, gconstpointer connection)
{
  GPtrArray *entries = g_hash_table_lookup (presence->by_connection, connection);

  if (entries == NULL)
    return NULL;
  for (guint i = 0; i < entries->len; i++)
    g_hash_table_steal (presence->by_trainer,
                        GINT_TO_POINTER (((const Entry *) entries->pdata[i])->trainer));
  g_hash_table_steal (presence->by_connection, connection);
  g_ptr_array_set_free_func (entries, g_free);
  return entries;
}

/* -- model server -- */

typedef struct
{
  TpsAnswer answer; /* must be the first member: an answer is cast to its call */
  TpsUpdateTicket ticket;
  TpsModelServer *server;
  gchar *client; /* NULL = the push has no id */
  gint64 sequence;
  const gchar *tenant;   /* of the caller; NULL = none */
  gint64 incarnation;    /* of the model when the call came; 0 = there was none */
  gint64 lsn;            /* of the update whose version is the answer */
  gboolean is_in_window; /* the push window has the call, which must be ended there */
  gconstpointer connection;
  gboolean (*is_connected) (gpointer user_data);
  TpsModelVersion *model; /* the answer if there is no error */
  TpsModelDone done;
  gpointer user_data;
} TpsModelCall;

struct TpsModelServer
{
  TpsModelServerOptions options;
  TpsWorkerPool *workers;
  TpsMetrics *metrics;
  TpsRoundNumbers numbers;
  TpsUpdateNews news;
  TpsPushWindow *pushes;
  TpsSequencer *sequencer;
  gboolean owns_sequencer;

  TpsMutex init_lock; /* see set_model() */

  TpsShell shell; /* its lock guards everything below */
  TpsUpdating *updating;
  TpsTrainerPresence presence; /* empty if updates need all trainers */
  TpsTrainedModel *model;      /* NULL before init_model() */
  gint64 incarnation;          /* the LSN of init_model(); 0 = no model */
  gint64 lsn;                  /* of the last command */
  TpsKeptVersions kept;
  TpsModelCapture *wanted; /* of a thread that waits for the end of an update; or NULL */
  TpsCond captured;
};

/* An update in progress. */
typedef struct
{
  TpsModelServer *server;
  TpsUpdatingJob *job;
  TpsTrainedModel *model;
  TpsModelUpdate arithmetic;
  GError *error;
  gint64 started_ns;
} TpsModelStep;

/* A command in progress. */
typedef struct
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
} TpsModelCommand;

/* The work of a worker on a push that may be a repeat. */
typedef struct
{
  TpsModelCall *call;
  /* The contribution with which the push must be compared; a reference. NULL = only the digest of
   * the push is needed. */
  TpsUpdateContribution *original;
} Comparison;

static void prepare (TpsModelCall *call);
static void take_part (TpsModelCall *call);

#define STRAGGLER_METRIC "parameter_server_straggler_metric"
#define BATCH_METRIC "parameter_server_batch_metric"

static void carry_out (TpsModelServer *server, TpsUpdatingOutput *output, TpsModelCommand *command,
                       TpsModelStep *step);

#define MAX_TRAINERS (1024 * 1024)
#define DEFAULT_ROUND_TIMEOUT_NS (G_GINT64_CONSTANT (30) * 1000000000)

static inline TpsModelCall *
call_of (TpsUpdateTicket *ticket)
{
  return (TpsModelCall *) (gpointer) ((guint8 *) ticket - G_STRUCT_OFFSET (TpsModelCall, ticket));
}

static void
clear_record (TpsModelCommand *command)
{
  g_clear_pointer (&command->version, tps_model_version_unref);
  for (guint i = 0; i < command->n_contributions * command->n_parameters; i++)
    tps_tensor_clear (&command->gradients[i]);
  g_free (command->gradients);
  g_free (command->contributions);
  for (guint i = 0; i < command->ids->len; i++)
    g_free ((gchar *) (guintptr) g_array_index (command->ids, TpsCommandId, i).client);
  g_array_unref (command->ids);
}

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

/* Ends the call in the push window if necessary, answers it and frees it. `answer` must be that of
 * a TpsModelCall. */
static void
give_answer (TpsAnswer *answer)
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

/* Answers the calls of a list of tickets, which begins with `first`; an empty list is NULL. No lock
 * may be held. */
static void
answer_tickets (TpsUpdateTicket *first)
{
  TpsAnswers answers = { NULL, NULL };

  for (TpsUpdateTicket *ticket = first; ticket != NULL; ticket = ticket->next)
    tps_answers_add (&answers, &call_of (ticket)->answer, give_answer);
  tps_answers_give (&answers);
}

/* Answers all calls of the command. If `error` is set, the command has taken effect, but its record
 * is lost, so no call may succeed. The record is released before, because it refers to shared
 * memory. */
static void
command_ended (TpsOrdered *ordered, const GError *error)
{
  TpsModelCommand *command = (TpsModelCommand *) ordered;
  TpsModelServer *server = command->server;

  clear_record (command);
  for (TpsUpdateTicket *ticket = command->answered; error != NULL && ticket != NULL;
       ticket = ticket->next)
    if (ticket->error == NULL)
      ticket->error = g_error_copy (error);
  answer_tickets (command->answered);
  if (command->outcome != NULL)
    tps_outcome_set (command->outcome, error);
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

static TpsModelCommand *
admit (TpsModelServer *server, TpsModelCommand *command)
{
  server->lsn = tps_sequencer_admit (server->sequencer, &command->ordered, NULL);
  return command;
}

/* Create a command and admit it to the sequencer, which sets the server's LSN. The lock must be
 * held, and the caller must make the change under the same lock. finish(), which frees the command,
 * must follow without the lock. */
static TpsModelCommand *
admit_init (TpsModelServer *server, const TpsTrainedModel *model)
{
  TpsModelCommand *command = command_new (server, TPS_COMMAND_INIT_MODEL);

  command->version = tps_model_version_ref (model->newest);
  command->optimizer = model->optimizer;
  command->command.model = (TpsCommandModel) { command->version->n_parameters,
                                               command->version->parameters, &command->optimizer };
  return admit (server, command);
}

static TpsModelCommand *
admit_update (TpsModelServer *server, const TpsUpdatingJob *job, guint n_parameters)
{
  TpsModelCommand *command = command_new (server, TPS_COMMAND_UPDATE_MODEL);

  if (tps_sequencer_has_observer (server->sequencer))
    {
      command->n_contributions = job->n_took_part;
      command->n_parameters = n_parameters;
      command->contributions = g_new (TpsCommandContribution, job->n_took_part);
      command->gradients = g_new0 (TpsTensor, (gsize) job->n_took_part * n_parameters);
      for (guint i = 0; i < job->n_took_part; i++)
        {
          TpsTensor *gradients = command->gradients + i * n_parameters;

          for (guint p = 0; p < n_parameters; p++)
            tps_tensor_init_ref (&gradients[p], &job->gradients[i][p]);
          command->contributions[i] = (TpsCommandContribution) { job->trainers[i], gradients };
        }
    }
  return admit (server, command);
}

/* Defers all answers of a step until the command of its update has ended. The push ids of the calls
 * that the update answers without an error become part of the record. The lock must be held. */
static void
take_answered (TpsModelCommand *command, TpsUpdatingOutput *output)
{
  command->answered = g_steal_pointer (&output->answered);
  for (TpsUpdateTicket *ticket = command->answered; ticket != NULL; ticket = ticket->next)
    {
      const TpsModelCall *call = call_of (ticket);
      TpsCommandId id = { NULL, call->sequence, ticket->digest, call->tenant };

      if (ticket->error != NULL || call->client == NULL)
        continue;
      id.client = g_strdup (call->client);
      g_array_append_val (command->ids, id);
    }
}

/* Passes the command to the sequencer's observer. No lock except that of init_model() may be
 * held. */
static void
finish (TpsModelCommand *command)
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

/* As finish(), but waits until the command has ended. Errors: those of the observer. */
static gboolean
finish_and_wait (TpsModelCommand *command, GError **error)
{
  TpsOutcome outcome;

  tps_outcome_init (&outcome);
  command->outcome = &outcome;
  finish (command);
  return tps_outcome_wait (&outcome, error);
}

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

      if (!tps_push_window_replay (server->pushes, &request, command->moment.time_ms, version,
                                   server->lsn, error))
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
  newest = server->model->newest;
  tps_updating_set_version (server->updating, newest->version);
  if (n_known > 0)
    tps_kept_versions_add (&server->kept, newest, known, n_known, dropped);
  command = admit_update (server, &job, newest->n_parameters);
  tps_mutex_unlock (&server->shell.lock);
  return finish_and_wait (command, error)
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
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "command %d does not change the model",
                   (gint) command->kind);
}

/* Answers the call with `error`, whose ownership is taken; NULL = with the call's model. */
static void
answer_call (TpsModelCall *call, GError *error)
{
  call->ticket.error = error;
  tps_answer_give (&call->answer, give_answer);
}

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
    trainer_presence_note (&server->presence, call->ticket.trainer, call->connection, is_repeat);
  else if (call->connection != NULL)
    tps_updating_lose (server->updating, call->ticket.trainer, tps_clock_now_ns (), output);
}

static void
answer_with_version (TpsModelCall *call, gint64 version)
{
  TpsModelServer *server = call->server;
  TpsModelVersion *model;
  GError *error = NULL;

  tps_mutex_lock (&server->shell.lock);
  if (is_open (call))
    trainer_presence_note (&server->presence, call->ticket.trainer, call->connection, TRUE);
  model = tps_kept_versions_find (&server->kept, version);
  if (model != NULL)
    call->model = tps_model_version_ref (model);
  tps_mutex_unlock (&server->shell.lock);
  if (model == NULL)
    error = g_error_new (TPS_ERROR, TPS_ERROR_STALE,
                         "push (%s, %" G_GINT64_FORMAT ") was applied and answered with model "
                         "version %" G_GINT64_FORMAT ", which is no longer kept: fetch the model",
                         call->client, call->sequence, version);
  answer_call (call, error);
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

  TPS_LOCK_SCOPE (&server->shell.lock);
  call->incarnation = server->incarnation;
  if (call->connection != NULL)
    tps_updating_find (server->updating, call->ticket.trainer);
}

static void
compute_digest (TpsUpdateTicket *ticket)
{
  ticket->digest = tps_update_digest_compute (ticket->trainer, ticket->version, ticket->gradients,
                                              ticket->n_gradients);
  ticket->has_digest = TRUE;
}

static void
compare_on_worker (gpointer user_data)
{
  g_autofree Comparison *comparison = user_data;
  TpsUpdateContribution *original = comparison->original;
  TpsModelCall *call = comparison->call;
  TpsModelServer *server = call->server;

  if (!call->ticket.has_digest)
    compute_digest (&call->ticket);
  if (original == NULL)
    prepare (call);
  else
    {
      TpsPushDigest digest = tps_update_contribution_compute_digest (original,
                                                                     call->ticket.trainer);

      tps_mutex_lock (&server->shell.lock);
      tps_update_contribution_set_digest (original, &digest);
      tps_mutex_unlock (&server->shell.lock);
      tps_update_contribution_unref (original);
      take_part (call);
    }
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

/* The error has a retry delay, because the server may be started again. */
static GError *
new_shut_down_error (void)
{
  GError *error = g_error_new_literal (TPS_ERROR, TPS_ERROR_UNAVAILABLE,
                                       "the parameter server is shut down");

  tps_error_set_retry_after_ms (error, TPS_RETRY_AFTER_MS);
  return error;
}

static GError *
new_reset_error (void)
{
  return g_error_new_literal (TPS_ERROR, TPS_ERROR_ABORTED,
                              "the parameter server's state was reset");
}

/* Returns the error with which the call must be refused, or NULL. A push with an id may take part
 * only in updates of the model for which its id was looked up. The lock must be held. */
static GError *
check_model (TpsModelServer *server, const TpsModelCall *call)
{
  if (server->shell.is_shut_down)
    return new_shut_down_error ();
  if (call->client == NULL || call->incarnation == server->incarnation)
    return NULL;
  return call->incarnation == 0 ? tps_updating_new_no_model_error () : new_reset_error ();
}

static gsize
count_bytes (const TpsTensor *tensors, guint n_tensors)
{
  gsize n_bytes = 0;

  for (guint i = 0; i < n_tensors; i++)
    n_bytes += tps_shape_n_bytes (&tensors[i].shape);
  return n_bytes;
}

/* Updates news, metrics and the timer after a step of the machine. Returns the update that is due,
 * for carry_out(), or NULL. Must be called once after each step, before the lock is released. */
static TpsModelStep *
begin_step (TpsModelServer *server, TpsUpdatingOutput *output)
{
  TpsModelStep *step = NULL;

  if (output->has_taken && server->news.options->got_update != NULL)
    add (&server->news, &(Item) { .n_before = output->n_before });
  if (output->job != NULL)
    {
      step = g_new0 (TpsModelStep, 1);
      step->server = server;
      step->job = output->job;
      step->model = tps_trained_model_ref (server->model);
      tps_shell_begin (&server->shell);
    }
  tps_gauge_set (server->numbers.open, tps_updating_get_deadline (server->updating) != G_MAXINT64);
  tps_shell_set_deadline (&server->shell, tps_updating_get_deadline (server->updating));
  return step;
}

static void
take_part (TpsModelCall *call)
{
  TpsModelServer *server = call->server;
  TpsUpdatingOutput output = { 0 };
  GError *error = NULL;
  TpsModelStep *step = NULL;

  if (!tps_sequencer_may_admit (server->sequencer,
                                count_bytes (call->ticket.gradients, call->ticket.n_gradients),
                                &error))
    {
      answer_call (call, error);
      return;
    }
  tps_mutex_lock (&server->shell.lock);
  error = check_model (server, call);
  if (error == NULL)
    {
      tps_updating_push (server->updating, &call->ticket, tps_clock_now_ns (), &output);
      if (call->ticket.error == NULL && output.undecided == NULL)
        note_push (call, !output.has_taken, &output);
      step = begin_step (server, &output);
    }
  tps_mutex_unlock (&server->shell.lock);
  if (error != NULL)
    answer_call (call, error);
  else if (output.undecided != NULL)
    compare (call, output.original);
  else
    carry_out (server, &output, NULL, step);
}

static void
prepare (TpsModelCall *call)
{
  if (call->client == NULL || call->incarnation == 0 || enter_window (call))
    take_part (call);
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
  /* Connections are needed only if an update can be made without some trainers. */
  if (has_quorum (server) && push->trainer >= 0
      && (guint) push->trainer < server->options.n_trainers)
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

/* Marks departed trainers as lost. Some clients open a connection for each call and close it after
 * the answer. A trainer is therefore not lost if its connection carried at most one push and the
 * round of this push has ended. The lock must be held. */
static void
lose_trainers (TpsModelServer *server, const GPtrArray *departed, TpsUpdatingOutput *output)
{
  gint64 now_ns = tps_clock_now_ns ();

  for (guint i = 0; i < departed->len; i++)
    {
      const Entry *trainer = departed->pdata[i];

      if (trainer->n_pushes > 1
          || tps_updating_has_contribution (server->updating, trainer->trainer))
        tps_updating_lose (server->updating, trainer->trainer, now_ns, output);
    }
}

void
tps_model_server_connection_closed (TpsModelServer *server, gconstpointer connection)
{
  g_autoptr (GPtrArray) departed = NULL;
  TpsUpdatingOutput output = { 0 };
  TpsModelStep *step = NULL;

  if (!has_quorum (server))
    return;
  tps_mutex_lock (&server->shell.lock);
  departed = trainer_presence_take (&server->presence, connection);
  if (departed != NULL && !server->shell.is_shut_down)
    {
      lose_trainers (server, departed, &output);
      step = begin_step (server, &output);
    }
  tps_mutex_unlock (&server->shell.lock);
  carry_out (server, &output, NULL, step);
}

/* Makes the new version the newest version and the last answer to the trainers of the round.
 * Versions that are no longer kept are moved to `dropped`, so that they are freed without the lock.
 * Returns the command of the update; NULL if there was a reset meanwhile. The lock must be held. */
static TpsModelCommand *
install (TpsModelServer *server, TpsModelStep *step, GPtrArray *dropped)
{
  const TpsUpdatingJob *job = step->job;
  gboolean is_current = server->model == step->model;
  TpsModelVersion *newest;
  gint64 now_ns;

  tps_model_update_end (&step->arithmetic);
  if (!is_current)
    return NULL;
  newest = server->model->newest;
  tps_kept_versions_add (&server->kept, newest, job->trainers, job->n_took_part, dropped);
  now_ns = tps_clock_now_ns ();
  /* The spans must be complete before calls are answered, because callers may read them. */
  tps_metrics_record (server->metrics, STRAGGLER_METRIC, "update_straggler",
                      (gdouble) (job->closed_ns - job->started_ns) / 1e6);
  tps_metrics_record (server->metrics, BATCH_METRIC, "update_batch",
                      (gdouble) (now_ns - job->started_ns) / 1e6);
  tps_metrics_record (server->metrics, "method_metric", "update computation",
                      (gdouble) (now_ns - step->started_ns) / 1e6);
  tps_counter_add (server->numbers.completed, 1);
  if (server->news.options->updated_model != NULL)
    add (
        &server->news,
        &(Item) { .is_update = TRUE, .version = newest->version, .n_took_part = job->n_took_part });
  return admit_update (server, job, newest->n_parameters);
}

/* Gives the newest model to all calls that are answered without an error. The lock must be held. */
static void
give_model (TpsModelServer *server, TpsUpdateTicket *answered)
{
  for (TpsUpdateTicket *ticket = answered; ticket != NULL; ticket = ticket->next)
    if (ticket->error == NULL)
      {
        TpsModelCall *call = call_of (ticket);

        call->model = tps_model_version_ref (server->model->newest);
        call->lsn = server->lsn;
      }
}

/* Captures the state, if there is a model. Returns FALSE if the spare in `capture->state` is too
 * small for the optimizer's state. The lock must be held, and no update may be in progress. */
static gboolean
take_capture (TpsModelServer *server, TpsModelCapture *capture)
{
  capture->lsn = server->lsn;
  if (server->model == NULL)
    {
      g_clear_pointer (&capture->state, tps_buffer_unref);
      return TRUE;
    }
  capture->incarnation = server->incarnation;
  return tps_model_capture_take (capture, server->model, &server->kept, server->options.n_trainers);
}

/* Captures the state for the thread that waits for it, if any. Must be called between two updates.
 * The lock must be held. */
static void
take_wanted (TpsModelServer *server)
{
  if (server->wanted == NULL)
    return;
  if (!take_capture (server, server->wanted))
    server->wanted->lsn = -1; /* the spare is too small */
  server->wanted = NULL;
  tps_cond_broadcast (&server->captured);
}

/* Passes a complete or failed update back to the machine, and frees `step`. Sets `command` to the
 * command of the update, or NULL. Returns the update that is due next, or NULL. */
static TpsModelStep *
finish_update (TpsModelStep *step, TpsUpdatingOutput *output, TpsModelCommand **command)
{
  TpsModelServer *server = step->server;
  g_autoptr (GPtrArray)
      dropped = g_ptr_array_new_with_free_func ((GDestroyNotify) tps_model_version_unref);
  TpsModelStep *next;

  *command = NULL;
  if (step->error == NULL)
    {
      const TpsUpdatingJob *job = step->job;

      for (guint i = 0; i < job->n_took_part; i++)
        if (step->arithmetic.hashes[i] != NULL)
          job->marks[i].digest = tps_update_digest_combine (
              job->trainers[i], job->marks[i].version, job->gradients[i],
              step->arithmetic.version->n_parameters, step->arithmetic.hashes[i]);
    }
  *output = (TpsUpdatingOutput) { 0 };
  tps_mutex_lock (&server->shell.lock);
  if (step->error == NULL)
    *command = install (server, step, dropped);
  take_wanted (server); /* no update is in progress here */
  tps_updating_job_done (server->updating, step->job, g_steal_pointer (&step->error),
                         tps_clock_now_ns (), output);
  give_model (server, output->answered);
  if (*command != NULL)
    take_answered (*command, output);
  next = begin_step (server, output);
  tps_mutex_unlock (&server->shell.lock);
  tps_trained_model_unref (step->model);
  g_free (step);
  return next;
}

static void
blocks_done (gpointer user_data)
{
  TpsModelStep *step = user_data;
  TpsModelServer *server = step->server;
  TpsUpdatingOutput output;
  TpsModelCommand *command;
  TpsModelStep *next = finish_update (step, &output, &command);

  carry_out (server, &output, command, next);
  tps_shell_end (&server->shell);
}

/* Begins to compute an update. Returns TRUE if the update is complete or has failed, and FALSE if
 * workers continue it. */
static gboolean
compute (TpsModelServer *server, TpsModelStep *step)
{
  const TpsUpdatingJob *job = step->job;
  guint n_threads = tps_trained_model_get_n_threads (step->model, server->workers);

  step->started_ns = tps_clock_now_ns ();
  if (!tps_model_update_begin (&step->arithmetic, step->model, job->gradients, job->n_took_part,
                               n_threads, &step->error))
    return TRUE;
  for (guint i = 0; i < job->n_took_part; i++)
    if (!job->marks[i].has_digest)
      tps_model_update_want_hashes (&step->arithmetic, i);
  return tps_model_update_compute (&step->arithmetic, server->workers, blocks_done, step);
}

/* Carries out all actions of a step of the machine, and all actions that follow from them.
 * `command` is the command of the update that has just ended, or NULL. No lock may be held. */
static void
carry_out (TpsModelServer *server, TpsUpdatingOutput *output, TpsModelCommand *command,
           TpsModelStep *step)
{
  for (;;)
    {
      TpsUpdateTicket *answered = output->answered;

      update_news_tell (&server->news);
      /* Must precede the replies, because it releases shared memory. */
      tps_updating_output_clear (output);
      answer_tickets (answered);
      if (command != NULL)
        finish (command);
      if (step == NULL || !compute (server, step))
        return;
      step = finish_update (step, output, &command);
      tps_shell_end (&server->shell);
    }
}

/* Ends the open round if its deadline has passed. Called by the shell. */
static void
expire (gpointer user_data)
{
  TpsModelServer *server = user_data;
  TpsUpdatingOutput output = { 0 };
  TpsModelStep *step;

  tps_mutex_lock (&server->shell.lock);
  tps_updating_expire (server->updating, tps_clock_now_ns (), &output);
  step = begin_step (server, &output);
  tps_mutex_unlock (&server->shell.lock);
  carry_out (server, &output, NULL, step);
}

/* Sets the model, and takes ownership of `model`. Returns when the record is durable. The lock of
 * init_model() must be held: a second call would find the model, but must not be answered before
 * the record of the first call is durable. */
static gboolean
set_model (TpsModelServer *server, TpsTrainedModel *model, GError **error)
{
  GError *refusal = NULL;
  TpsModelCommand *command = NULL;

  tps_mutex_lock (&server->shell.lock);
  if (server->shell.is_shut_down)
    refusal = new_shut_down_error ();
  else if (server->model == NULL)
    {
      const TpsModelVersion *first = model->newest;

      tps_updating_set_model (server->updating, first->parameters, first->n_parameters);
      command = admit_init (server, model);
      server->incarnation = server->lsn;
      server->model = g_steal_pointer (&model);
    }
  else if (!tps_trained_model_began_as (server->model, model))
    refusal = g_error_new_literal (
        TPS_ERROR, TPS_ERROR_ALREADY_EXISTS,
        "a model with other initial parameters or another optimizer already exists");
  tps_mutex_unlock (&server->shell.lock);
  if (command != NULL && !finish_and_wait (command, &refusal))
    g_assert (refusal != NULL);
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
  TpsTrainedModel *model = NULL;
  gsize n_bytes = 0;

  for (guint i = 0; i < n_parameters; i++)
    n_bytes += tps_shape_n_bytes (&parameters[i].tensor.shape);
  if (tps_sequencer_may_admit (server->sequencer, n_bytes, error))
    model = tps_trained_model_new (parameters, n_parameters, optimizer, server->options.buffers,
                                   error);
  for (guint i = 0; i < n_parameters; i++)
    tps_named_tensor_clear (&parameters[i]);
  if (model == NULL)
    return FALSE;
  tps_trained_model_set_shared_versions (model, server->options.shared_versions);
  TPS_LOCK_SCOPE (&server->init_lock);
  return set_model (server, model, error);
}

TpsModelVersion *
tps_model_server_get_model (TpsModelServer *server, GError **error)
{
  TpsModelVersion *model = NULL;
  GError *refusal = NULL;

  tps_mutex_lock (&server->shell.lock);
  if (server->shell.is_shut_down)
    refusal = new_shut_down_error ();
  else if (server->model == NULL)
    refusal = tps_updating_new_no_model_error ();
  else
    model = tps_model_version_ref (server->model->newest);
  tps_mutex_unlock (&server->shell.lock);
  if (refusal != NULL)
    g_propagate_error (error, refusal);
  return model;
}

/* Waits for the end of the current update, if any, and captures the state. `capture->state` must
 * hold the spare. Returns FALSE if the spare is too small. */
static gboolean
wait_and_take (TpsModelServer *server, TpsModelCapture *capture)
{
  gboolean ok;

  TPS_LOCK_SCOPE (&server->shell.lock);
  if (tps_updating_has_job (server->updating))
    {
      server->wanted = capture;
      while (server->wanted != NULL)
        tps_cond_wait (&server->captured, &server->shell.lock);
      ok = capture->lsn >= 0;
    }
  else
    ok = take_capture (server, capture);
  return ok;
}

gboolean
tps_model_server_capture (TpsModelServer *server, TpsModelCapture *capture, GError **error)
{
  for (;;)
    {
      gsize n_floats = 0, n_bytes;

      tps_mutex_lock (&server->shell.lock);
      if (server->model != NULL)
        tps_trained_model_get_state (server->model, &n_floats);
      tps_mutex_unlock (&server->shell.lock);
      n_bytes = n_floats * sizeof (gfloat);
      *capture = (TpsModelCapture) { .state = tps_buffer_pool_get (server->options.buffers,
                                                                   MAX (n_bytes, 1), NULL) };
      if (capture->state == NULL)
        return tps_fail (error, TPS_ERROR_RESOURCE_EXHAUSTED,
                         "no memory for a copy of the optimizer's state: %" G_GSIZE_FORMAT " bytes",
                         n_bytes);
      if (wait_and_take (server, capture))
        return TRUE;
      tps_buffer_unref (capture->state); /* there is another model now */
    }
}

void
tps_model_server_clear_capture (TpsModelServer *server, TpsModelCapture *capture)
{
  TpsTrainedModel *model = g_steal_pointer (&capture->model);

  tps_model_capture_clear (capture);
  if (model == NULL)
    return;
  tps_mutex_lock (&server->shell.lock);
  if (!tps_updating_has_job (server->updating)) /* an update may take the spare without the lock */
    tps_trained_model_drop_spare (model);
  tps_mutex_unlock (&server->shell.lock);
  tps_trained_model_unref (model);
}

gboolean
tps_model_server_restore (TpsModelServer *server, const TpsModelCapture *capture, GError **error)
{
  g_autoptr (GPtrArray)
      dropped = g_ptr_array_new_with_free_func ((GDestroyNotify) tps_model_version_unref);
  const TpsModelVersion *newest;
  TpsTrainedModel *model;

  server->lsn = capture->lsn;
  if (capture->incarnation == 0)
    return TRUE;
  model = tps_model_capture_new_model (capture, server->options.buffers, error);
  if (model == NULL)
    return FALSE;
  tps_trained_model_set_shared_versions (model, server->options.shared_versions);
  newest = capture->versions[capture->n_versions - 1];
  TPS_LOCK_SCOPE (&server->shell.lock);
  tps_updating_set_model (server->updating, newest->parameters, newest->n_parameters);
  tps_updating_set_version (server->updating, newest->version);
  tps_model_capture_keep_versions (capture, &server->kept, server->options.n_trainers, dropped);
  server->model = model;
  server->incarnation = capture->incarnation;
  return TRUE;
}

TpsPushWindow *
tps_model_server_get_pushes (TpsModelServer *server)
{
  return server->pushes;
}

static gboolean
check_options (const TpsModelServerOptions *options, GError **error)
{
  if (options->n_trainers < 1 || options->n_trainers > MAX_TRAINERS)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%u trainers, expected 1 to %d",
                     options->n_trainers, MAX_TRAINERS);
  if (options->min_trainers > options->n_trainers)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "min_trainers is %u, expected at most %u, the number of trainers",
                     options->min_trainers, options->n_trainers);
  if (options->round_timeout_ns < 0)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "round timeout is %" G_GINT64_FORMAT " ns, expected 0 or more",
                     options->round_timeout_ns);
  return TRUE;
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
  TpsSequencerOptions own = { .workers = options->workers };
  TpsModelServer *server;

  if (!check_options (options, error))
    return NULL;
  server = g_new0 (TpsModelServer, 1);
  server->options = *options;
  server->options.buffers = tps_buffer_pool_ref (
      options->buffers != NULL ? options->buffers : tps_buffer_pool_get_default ());
  if (options->shared_versions != NULL)
    tps_buffer_pool_ref (options->shared_versions);
  server->workers = options->workers;
  server->metrics = options->metrics != NULL ? tps_metrics_ref (options->metrics)
                                             : tps_metrics_new (NULL, NULL);
  tps_round_numbers_init (&server->numbers, server->metrics, "updating");
  server->updating = tps_updating_new (&rules);
  server->presence.by_trainer = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  server->presence.by_connection = g_hash_table_new_full (NULL, NULL, NULL,
                                                          (GDestroyNotify) g_ptr_array_unref);
  tps_kept_versions_init (&server->kept, options->n_trainers);
  server->pushes = tps_push_window_new (&options->pushes);
  server->owns_sequencer = options->sequencer == NULL;
  server->sequencer = server->owns_sequencer ? tps_sequencer_new (&own) : options->sequencer;
  server->news.options = &server->options;
  g_queue_init (&server->news.waiting);
  tps_mutex_init (&server->news.lock);
  tps_mutex_init (&server->init_lock);
  tps_cond_init (&server->captured);
  tps_shell_init (&server->shell, server->workers, expire, server);
  return server;
}

/* Ends all waiting calls and forgets the model. If `is_end` is TRUE, also shuts the server down.
 * Otherwise returns the command of the reset; NULL = there was no model. */
static TpsModelCommand *
end_all (TpsModelServer *server, const GError *error, gboolean is_end)
{
  g_autoptr (GPtrArray)
      dropped = g_ptr_array_new_with_free_func ((GDestroyNotify) tps_model_version_unref);
  TpsUpdatingOutput output = { 0 };
  TpsTrainedModel *model;
  TpsModelCommand *command = NULL;

  tps_mutex_lock (&server->shell.lock);
  tps_updating_end_all (server->updating, error, &output);
  g_hash_table_remove_all (server->presence.by_connection);
  g_hash_table_remove_all (server->presence.by_trainer);
  tps_kept_versions_reset (&server->kept, server->options.n_trainers, dropped);
  model = g_steal_pointer (&server->model);
  if (model != NULL && !is_end)
    command = admit (server, command_new (server, TPS_COMMAND_RESET_MODEL));
  server->incarnation = 0;
  if (is_end)
    tps_shell_shut_down (&server->shell);
  else if (!server->shell.is_shut_down)
    tps_metrics_clear (server->metrics);
  tps_mutex_unlock (&server->shell.lock);
  carry_out (server, &output, NULL, NULL);
  g_clear_pointer (&model, tps_trained_model_unref);
  return command;
}

gboolean
tps_model_server_reset_state (TpsModelServer *server, GError **error)
{
  g_autoptr (GError) answer = new_reset_error ();
  TpsModelCommand *command;

  if (!tps_sequencer_may_admit (server->sequencer, 0, error))
    return FALSE;
  command = end_all (server, answer, FALSE);
  return command == NULL || finish_and_wait (command, error);
}

void
tps_model_server_get_status (TpsModelServer *server, TpsUpdatingStatus *status)
{
  TPS_LOCK_SCOPE (&server->shell.lock);
  tps_updating_get_status (server->updating, tps_clock_now_ns (), status);
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
  tps_shell_drain (&server->shell);
  tps_updating_free (server->updating);
  g_hash_table_unref (server->presence.by_connection);
  g_hash_table_unref (server->presence.by_trainer);
  tps_kept_versions_clear (&server->kept);
  tps_push_window_free (server->pushes);
  if (server->owns_sequencer)
    tps_sequencer_free (server->sequencer);
  g_queue_clear_full (&server->news.waiting, g_free);
  tps_mutex_clear (&server->news.lock);
  tps_metrics_unref (server->metrics);
  tps_buffer_pool_unref (server->options.buffers);
  g_clear_pointer (&server->options.shared_versions, tps_buffer_pool_unref);
  tps_shell_clear (&server->shell);
  tps_mutex_clear (&server->init_lock);
  tps_cond_clear (&server->captured);
  g_free (server);
}
