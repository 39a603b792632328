/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The rules of updating a model by its trainers, as a state machine: no lock, clock, thread, socket
 * or arithmetic. It is told what happened and when, and says what is to be done: which calls are to
 * be answered, whether the model is to be updated, when to come back.
 *
 * A call is a ticket; it goes in with push() and comes out, once, in some output's `answered`. An
 * update is a job; it comes out in an output's `job`, is made by the caller, where and when it
 * likes, and goes back in with job_done(), which answers those who took part in it.
 *
 * Digests tell a repeat from another request. To take one is to read all gradients, so a ticket may
 * come without: whoever makes the update reads them anyway. Only when a trainer comes a second time
 * is it needed sooner; then the output names the ticket, `undecided`, and what it is to be compared
 * with: tps_update_contribution_compute_digest() without a lock,
 * tps_update_contribution_set_digest(), and the ticket, with a digest too, is pushed again.
 *
 * A round is one update:
 *
 *   open -> updating -> done      all trainers have come, or, at the deadline, as many as suffice
 *                                 -> the model is new
 *   open -> aborted               too few have come at the deadline, counted from its first arrival
 *   updating -> aborted           the update failed
 *
 * While a model is being updated, trainers that do not take part in that update open the next
 * round; it is not closed before the update under way is done. What an aborted round collected is
 * forgotten; the next push opens another round.
 *
 * Versions: the model has version 1 when it is set, one more after each update. A gradient of
 * version v counts as old by (the version that the current round starts from) - v, and is STALE
 * beyond max_staleness: so whether it is depends on which rounds were closed before it came, not on
 * how long arithmetic takes.
 *
 * Thread: one at a time.
 */

#pragma once

#include "runtime/server/open_rounds.h"
#include "runtime/server/push_window.h"
#include "runtime/tensor/model_version.h"

G_BEGIN_DECLS

typedef struct TpsUpdating TpsUpdating;
typedef struct TpsUpdateRound TpsUpdateRound;
/* What one trainer brought to a round. Counted. */
typedef struct TpsUpdateContribution TpsUpdateContribution;

typedef struct
{
  guint n_trainers;        /* >= 1 */
  guint min_trainers;      /* that suffice at the deadline, 1 to n_trainers */
  gint64 round_timeout_ns; /* > 0 */
  guint max_staleness;
} TpsUpdatingOptions;

/* One call. The caller's storage; it must stay where it is from push() until it is answered. */
typedef struct TpsUpdateTicket TpsUpdateTicket;
struct TpsUpdateTicket
{
  gint32 trainer;
  gint64 version; /* of the model that the gradients were computed on; 0 = not said */
  gboolean may_wait;
  guint n_gradients;
  TpsTensor *gradients; /* [n_gradients], owned; NULL once a round has taken them */
  gboolean has_digest;
  /* tps_update_digest_compute(); every ticket that is answered without an error has one */
  TpsPushDigest digest;

  GError *error;         /* the answer; NULL = the model as it is after that step */
  TpsUpdateTicket *next; /* in TpsUpdatingOutput.answered; to be read before the call is answered */
};

/* What tells a trainer's part of an update from another. */
typedef struct
{
  gint64 version;
  gboolean has_digest;
  TpsPushDigest digest; /* where there is none: to be filled in by who makes the update */
} TpsUpdateMark;

/* An update to be made: with the mean of these gradients. */
typedef struct
{
  guint n_took_part;
  gint32 *trainers;             /* [n_took_part], ascending */
  const TpsTensor **gradients;  /* [n_took_part]: one a parameter each, borrowed until job_done() */
  TpsUpdateMark *marks;         /* [n_took_part] */
  gint64 started_ns, closed_ns; /* its first arrival, and when it was closed */
  TpsUpdateRound *round;        /* private */
} TpsUpdatingJob;

/* What is to be done. init() it once, clear() it after each use. */
typedef struct
{
  TpsUpdateTicket *answered; /* in order; now the caller's */
  TpsUpdatingJob *job;       /* NULL, or the update to be made */
  gboolean has_taken;        /* a trainer came to a round where `n_before` were */
  guint n_before;
  TpsUpdateTicket *undecided; /* NULL, or to be pushed again; then there is nothing else to do */
  TpsUpdateContribution *original; /* of `undecided`: what it is compared with, a reference */

  /* private */
  TpsUpdateTicket *last_answered;
  TpsUpdateRound *dead_rounds;
} TpsUpdatingOutput;

/* Copies `options`. */
TpsUpdating *tps_updating_new (const TpsUpdatingOptions *options);

/* No ticket may be waiting (tps_updating_end_all()) and no job be out. */
void tps_updating_free (TpsUpdating *updating);

void tps_update_ticket_clear (TpsUpdateTicket *ticket);

/* There is a model of these parameters from now on, of version 1. Names and shapes are copied.
 * There was none before. */
void tps_updating_set_model (TpsUpdating *updating, const TpsNamedTensor *parameters,
                             guint n_parameters);

/* The model has its next version without a round: an update was replayed. No round is open and no
 * job is out. */
void tps_updating_skip_version (TpsUpdating *updating);

/* The same to the version of a model that was restored. */
void tps_updating_set_version (TpsUpdating *updating, gint64 version);

/* Whether an update is being made. */
gboolean tps_updating_has_job (const TpsUpdating *updating);

/* 0 = there is no model. */
gint64 tps_updating_get_version (const TpsUpdating *updating);

/* NOT_FOUND: what a call that needs a model is told. */
GError *tps_updating_new_no_model_error (void);

/* A trainer takes part in an update. Errors on the ticket: see the wire documentation of
 * ParameterServer.update_and_fetch_model. `now_ns` must not decrease from call to call. */
void tps_updating_push (TpsUpdating *updating, TpsUpdateTicket *ticket, gint64 now_ns,
                        TpsUpdatingOutput *output);

/* Reads all gradients. `trainer`: whose they are. Thread: any; no lock is needed. */
TpsPushDigest tps_update_contribution_compute_digest (const TpsUpdateContribution *contribution,
                                                      gint32 trainer);
void tps_update_contribution_set_digest (TpsUpdateContribution *contribution,
                                         const TpsPushDigest *digest);
/* Thread: any. May free large memory. */
void tps_update_contribution_unref (TpsUpdateContribution *contribution);

/* The update was made, and all marks have digests, or it failed with `error` (taken). Frees the
 * job. */
void tps_updating_job_done (TpsUpdating *updating, TpsUpdatingJob *job, GError *error,
                            TpsUpdatingOutput *output);

/* When expire() may have something to do; G_MAXINT64 = nothing before the next step. */
gint64 tps_updating_get_deadline (const TpsUpdating *updating);

/* Ends the round whose deadline is not after `now_ns`. */
void tps_updating_expire (TpsUpdating *updating, gint64 now_ns, TpsUpdatingOutput *output);

void tps_updating_get_status (const TpsUpdating *updating, gint64 now_ns,
                              TpsUpdatingStatus *status);

/* Answers all that waits with `error` (borrowed) and forgets the model. A job that is out goes back
 * as always. */
void tps_updating_end_all (TpsUpdating *updating, const GError *error, TpsUpdatingOutput *output);

void tps_updating_output_init (TpsUpdatingOutput *output);

/* Frees what the machine no longer needs (large memory: not to be done under a lock) and makes the
 * output as new. `answered` and `job` must have been dealt with. */
void tps_updating_output_clear (TpsUpdatingOutput *output);

G_END_DECLS
