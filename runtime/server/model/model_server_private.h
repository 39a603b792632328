/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The structures that the files of the model server share. Internal to this folder.
 *
 * The normal course of a call:
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
 * Order of locks: the lock of init_model(), then the shell's lock, then the locks of the news, the
 * metrics and the worker pool. While the shell's lock or a later lock is held, calls must not be
 * answered, observers must not be called, and elements must not be accessed. While the shell's lock
 * is held, the push window's lock must not be taken; the sequencer's lock may be taken. "The lock"
 * below means the shell's lock.
 */

#pragma once

#include "runtime/base/answer_queue.h"
#include "runtime/server/model/kept_versions.h"
#include "runtime/server/model/model_capture.h"
#include "runtime/server/model/model_server.h"
#include "runtime/server/model/trained_model.h"
#include "runtime/server/model/trainer_presence.h"
#include "runtime/server/model/update_news.h"
#include "runtime/server/model/updating.h"
#include "runtime/server/round_numbers.h"
#include "runtime/server/shell.h"

G_BEGIN_DECLS

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

/* An update in progress. */
typedef struct TpsModelStep TpsModelStep;

/* A command in progress. */
typedef struct TpsModelCommand TpsModelCommand;

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
  TpsModelCapture
      *wanted; /* the capture of a thread that waits for the end of an update; or NULL */
  TpsCond captured;
};

/* -- model_server.c -- */

/* Return the errors of calls that end because of a shut-down (UNAVAILABLE) or a reset (ABORTED).
 * The caller owns the error. */
GError *tps_model_server_new_shut_down_error (void);
GError *tps_model_server_new_reset_error (void);

/* -- model_step.c: consequences of a step of the machine -- */

/* Updates news, metrics and the timer after a step of the machine. Returns the update that is due,
 * for tps_model_step_carry_out(), or NULL. Must be called once after each step, before the lock is
 * released. */
TpsModelStep *tps_model_step_begin (TpsModelServer *server, TpsUpdatingOutput *output);

/* Ends the open round if its deadline has passed. Called by the shell; `user_data` is the
 * TpsModelServer. */
void tps_model_step_expire (gpointer user_data);

/* Carries out all actions of a step, and all actions that follow from them. Takes ownership of
 * `step`, which may be NULL. No lock may be held. */
void tps_model_step_carry_out (TpsModelServer *server, TpsUpdatingOutput *output,
                               TpsModelStep *step);

/* Answers the calls of a list of tickets, which begins with `first`; an empty list is NULL. No lock
 * may be held. */
void tps_model_step_answer (TpsUpdateTicket *first);

/* Captures the state for the thread that waits for it, if any. Must be called between two updates.
 * The lock must be held. */
void tps_model_server_take_wanted (TpsModelServer *server);

/* -- model_push.c: calls and their push ids -- */

/* Returns the call that contains the ticket. */
static inline TpsModelCall *
tps_model_call_of (TpsUpdateTicket *ticket)
{
  return (TpsModelCall *) (gpointer) ((guint8 *) ticket - G_STRUCT_OFFSET (TpsModelCall, ticket));
}

/* Ends the call in the push window if necessary, answers it and frees it. `answer` must be that of
 * a TpsModelCall. */
void tps_model_call_answer (TpsAnswer *answer);

/* -- model_command.c: commands that change the model -- */

/* Create a command and admit it to the sequencer, which sets the server's LSN. The lock must be
 * held, and the caller must make the change under the same lock. tps_model_command_finish(), which
 * frees the command, must follow without the lock. */
TpsModelCommand *tps_model_command_admit_init (TpsModelServer *server,
                                               const TpsTrainedModel *model);
TpsModelCommand *tps_model_command_admit_update (TpsModelServer *server, const TpsUpdatingJob *job,
                                                 guint n_parameters);
TpsModelCommand *tps_model_command_admit_reset (TpsModelServer *server);

/* Defers all answers of a step until the command of its update has ended. The push ids of the calls
 * that the update answers without an error become part of the record. The lock must be held. */
void tps_model_command_take_answered (TpsModelCommand *command, TpsUpdatingOutput *output);

/* Passes the command to the sequencer's observer. No lock except that of init_model() may be
 * held. */
void tps_model_command_finish (TpsModelCommand *command);

/* As tps_model_command_finish(), but waits until the command has ended. Errors: those of the
 * observer. */
gboolean tps_model_command_finish_and_wait (TpsModelCommand *command, GError **error);

G_END_DECLS
