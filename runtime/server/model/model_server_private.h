/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The structures that the files of the model server share. Internal to this folder.
 *
 * Happy path: update_and_fetch() makes a call -> prepare(): push id -> push() under the lock ->
 * carry_out() without it: calls are answered; an update that is due is computed here if it is
 * small, otherwise by the workers, together with the digests of large pushes -> finish_update()
 * under the lock: the new version is the newest -> carry_out() again, which finishes the command;
 * when that has ended, the participants of the round are answered. If a push id or a trainer
 * repeats, compare() computes the missing digests, on a worker, and tries again. Failures: a call
 * is refused at once; its round ends by deadline, by reset, by shut-down; no memory for a new
 * version.
 *
 * Locks: that of init_model(), then the shell's; under it those of the news, of the metrics and of
 * the worker pool. Calls must not be answered, observers must not be called, and elements must not
 * be touched, under any of them. The push window's lock must not be taken while the shell's is
 * held; the sequencer's may be.
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
  TpsAnswer answer; /* first: an answer is a call */
  TpsUpdateTicket ticket;
  TpsModelServer *server;
  gchar *client; /* NULL = the push has no id */
  gint64 sequence;
  gint64 incarnation;    /* of the model when the call came; 0 = there was none */
  gint64 lsn;            /* of the update that is the answer */
  gboolean is_in_window; /* the call must be ended in the window */
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
  TpsTrainerPresence presence; /* empty if every trainer is needed */
  TpsTrainedModel *model;      /* NULL before init_model() */
  gint64 incarnation;          /* the LSN of init_model(); 0 = no model */
  gint64 lsn;                  /* of the last command */
  TpsKeptVersions kept;
  TpsModelCapture *wanted; /* of a thread that waits for the end of an update; NULL = none */
  TpsCond captured;
};

/* -- model_server.c -- */

/* The errors UNAVAILABLE and ABORTED of calls that end because of a shut-down or a reset. */
GError *tps_model_server_new_shut_down_error (void);
GError *tps_model_server_new_reset_error (void);

/* -- model_step.c: consequences of a step of the machine -- */

/* Updates news, metrics and the timer under the lock. Must be called once after a step, before the
 * lock is released. Returns the update that is due, if any. */
TpsModelStep *tps_model_step_begin (TpsModelServer *server, TpsUpdatingOutput *output);

/* Ends the rounds whose deadline has passed; called by the shell. `user_data` is the
 * TpsModelServer. */
void tps_model_step_expire (gpointer user_data);

/* Carries out all actions of a step and those that follow from them; `step` may be NULL. No lock is
 * held. */
void tps_model_step_carry_out (TpsModelServer *server, TpsUpdatingOutput *output,
                               TpsModelStep *step);

/* Answers the calls of a list of tickets; may be NULL. No lock is held. */
void tps_model_step_answer (TpsUpdateTicket *first);

/* -- model_capture.c -- */

/* Captures the state for the waiting thread, if any. Must be called between two updates; the lock
 * is held. */
void tps_model_capture_take (TpsModelServer *server);

/* -- model_push.c: calls and their push ids -- */

static inline TpsModelCall *
tps_model_call_of (TpsUpdateTicket *ticket)
{
  return (TpsModelCall *) (gpointer) ((guint8 *) ticket - G_STRUCT_OFFSET (TpsModelCall, ticket));
}

/* Ends the call in its push window, answers and frees it. */
void tps_model_call_answer (TpsAnswer *answer);

/* -- model_command.c: commands that change the model -- */

/* Each command takes effect now. The lock is held; tps_model_command_finish() must follow without
 * it. */
TpsModelCommand *tps_model_command_admit_init (TpsModelServer *server,
                                               const TpsTrainedModel *model);
TpsModelCommand *tps_model_command_admit_update (TpsModelServer *server, const TpsUpdatingJob *job,
                                                 guint n_parameters);
TpsModelCommand *tps_model_command_admit_reset (TpsModelServer *server);

/* Defers the answers of a step until the command has ended: those of the update, and all others of
 * the same step. The push ids of the former become part of the record. The lock is held. */
void tps_model_command_take_answered (TpsModelCommand *command, TpsUpdatingOutput *output);

/* Passes the command to the sequencer's observer. No lock may be held. */
void tps_model_command_finish (TpsModelCommand *command);

/* The same, and waits until the command has ended. Errors: those of the observer. */
gboolean tps_model_command_finish_and_wait (TpsModelCommand *command, GError **error);

G_END_DECLS
