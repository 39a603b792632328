/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The rules of updating a model by its trainers, as a state machine without lock, clock, thread,
 * socket or arithmetic. The input of the machine is events and their times. Its output is the
 * actions that the caller must take: calls to answer, an update to compute, and the next deadline.
 *
 * A call is represented by a ticket. The caller passes the ticket to push(), and gets it back once,
 * in the `answered` list of an output. An update is represented by a job, the `job` of an output.
 * The caller must compute the update, at any time and on any thread, and then pass the job to
 * job_done(), which answers the participants.
 *
 * Digests distinguish a repeat from a different request. A digest is computed from all gradients,
 * which the computation of the update reads anyway, so a ticket may be pushed without a digest. The
 * digest is needed earlier only if a trainer comes to a round a second time. In this case, the
 * output has the ticket as `undecided`, and the contribution with which the ticket must be compared
 * as `original`. The caller must compute the digests of both without a lock, by
 * tps_update_contribution_compute_digest() for the contribution, call
 * tps_update_contribution_set_digest(), and push the ticket, now with a digest, again.
 *
 * A round is one update:
 *
 *   open -> updating -> done      all trainers have contributed; or at least `min_trainers` have,
 *                                 and the deadline has passed or all others are lost -> there is a
 *                                 new version
 *   open -> aborted               too few trainers have come at the deadline, which is counted from
 *                                 the first arrival; or all rounds were ended
 *   updating -> aborted           the update failed, or all rounds were ended
 *
 * While a model is being updated, trainers that do not take part in this update open the next
 * round, which is not closed before the current update is complete. The contributions of an aborted
 * round are forgotten; the next push opens a new round.
 *
 * A trainer is lost from tps_updating_lose() to its next push or tps_updating_find().
 *
 * Versions: the model has version 1 when it is set, and each update increases the version by 1. The
 * age of a gradient of version v is the version from which the open round starts, minus v. A
 * gradient is STALE if its age exceeds max_staleness. So the age depends on the rounds that were
 * closed before the gradient came, and not on the duration of arithmetic.
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
/* The contribution of one trainer to a round. Reference-counted. */
typedef struct TpsUpdateContribution TpsUpdateContribution;

typedef struct
{
  guint n_trainers; /* >= 1 */
  /* The number of trainers that suffices for an update at the deadline, or when all other trainers
   * are lost; 1 to n_trainers. */
  guint min_trainers;
  gint64 round_timeout_ns; /* > 0 */
  guint max_staleness;
} TpsUpdatingOptions;

/* One call, in the caller's storage. A ticket must not be moved between push() and its answer. */
typedef struct TpsUpdateTicket TpsUpdateTicket;
struct TpsUpdateTicket
{
  gint32 trainer;
  gint64 version; /* of the model for which the gradients were computed; 0 = not given */
  gboolean may_wait;
  guint n_gradients;
  TpsTensor *gradients; /* [n_gradients], owned; NULL once a round has taken them */
  gboolean has_digest;
  /* tps_update_digest_compute(); every ticket that is answered without an error has one */
  TpsPushDigest digest;

  GError *error; /* the answer; NULL = the newest model */
  /* in TpsUpdatingOutput.answered; must be read before the call is answered */
  TpsUpdateTicket *next;
};

/* Identifies a trainer's part of an update. */
typedef struct
{
  gint64 version;
  gboolean has_digest;
  /* If has_digest is FALSE, the caller must fill in the digest when it computes the update. */
  TpsPushDigest digest;
} TpsUpdateMark;

/* An update that is due: a step of the optimizer with the mean of these gradients. */
typedef struct
{
  guint n_took_part;
  gint32 *trainers; /* [n_took_part], ascending */
  /* [n_took_part]: one for each parameter, borrowed until job_done() */
  const TpsTensor **gradients;
  TpsUpdateMark *marks;         /* [n_took_part] */
  gint64 started_ns, closed_ns; /* the times of the round's first arrival and of its closing */
  TpsUpdateRound *round;        /* private */
} TpsUpdatingJob;

/* Actions for the caller. All zero: there are none. Must be cleared with clear() after each use. */
typedef struct
{
  TpsUpdateTicket *answered; /* in order; the caller owns them now */
  TpsUpdatingJob *job;       /* NULL, or the update that is due */
  gboolean has_taken;        /* a trainer came to a round that had `n_before` trainers */
  guint n_before;
  TpsUpdateTicket *undecided; /* NULL, or must be pushed again; then there are no other actions */
  /* the contribution with which `undecided` must be compared; a reference */
  TpsUpdateContribution *original;

  /* private */
  TpsUpdateTicket *last_answered;
  TpsUpdateRound *dead_rounds;
} TpsUpdatingOutput;

/* Creates a machine without a model. `options` is copied. The caller owns the machine. */
TpsUpdating *tps_updating_new (const TpsUpdatingOptions *options);
/* Frees the machine. No ticket may be waiting (see tps_updating_end_all()), and no job may be
 * outstanding. */
void tps_updating_free (TpsUpdating *updating);
void tps_update_ticket_clear (TpsUpdateTicket *ticket);

/* Sets the model to version 1. Names and shapes are copied. There must be no model yet. */
void tps_updating_set_model (TpsUpdating *updating, const TpsNamedTensor *parameters,
                             guint n_parameters);

/* Sets the version, when a model is restored or an update is replayed. No round may be open, and no
 * job may be outstanding. */
void tps_updating_set_version (TpsUpdating *updating, gint64 version);

gboolean tps_updating_has_job (const TpsUpdating *updating);

/* Returns the error NOT_FOUND for calls that need a model. The caller owns the error. */
GError *tps_updating_new_no_model_error (void);

/* Lets a trainer take part in an update. The machine borrows `ticket` until it is in an output, and
 * takes its gradients. For the errors of the ticket, see the wire documentation of
 * ParameterServer.update_and_fetch_model. `now_ns` must not decrease from call to call. */
void tps_updating_push (TpsUpdating *updating, TpsUpdateTicket *ticket, gint64 now_ns,
                        TpsUpdatingOutput *output);

/* Marks the trainer, in [0, n_trainers), as lost until it comes again. Rounds that have
 * `min_trainers` trainers do not wait for lost trainers. A contribution that the trainer has
 * already made counts. */
void tps_updating_lose (TpsUpdating *updating, gint32 trainer, gint64 now_ns,
                        TpsUpdatingOutput *output);

/* Marks the trainer, in [0, n_trainers), as not lost: it has come again, with a push that need not
 * reach this machine. */
void tps_updating_find (TpsUpdating *updating, gint32 trainer);

/* Returns TRUE if the trainer has a contribution in a round that has not ended. */
gboolean tps_updating_has_contribution (const TpsUpdating *updating, gint32 trainer);

/* Returns the digest of a contribution. Reads all gradients. Thread: any; no lock is needed. */
TpsPushDigest tps_update_contribution_compute_digest (const TpsUpdateContribution *contribution,
                                                      gint32 trainer);
void tps_update_contribution_set_digest (TpsUpdateContribution *contribution,
                                         const TpsPushDigest *digest);
/* Releases a reference. May free large memory. Thread: any. */
void tps_update_contribution_unref (TpsUpdateContribution *contribution);

/* Ends an update and frees the job. If `error` is NULL, the update succeeded, and all marks must
 * have digests. Otherwise the update failed with `error`, whose ownership is taken. */
void tps_updating_job_done (TpsUpdating *updating, TpsUpdatingJob *job, GError *error,
                            gint64 now_ns, TpsUpdatingOutput *output);

/* Returns the next time at which expire() may have an effect, or G_MAXINT64 if it can have none
 * before the next event. */
gint64 tps_updating_get_deadline (const TpsUpdating *updating);

/* Closes or aborts the open round if its deadline is not later than `now_ns`. */
void tps_updating_expire (TpsUpdating *updating, gint64 now_ns, TpsUpdatingOutput *output);

/* Fills in `status`. Examines at most TPS_OPEN_ROUNDS_MAX_LOOKS trainers. */
void tps_updating_get_status (const TpsUpdating *updating, gint64 now_ns,
                              TpsUpdatingStatus *status);

/* Answers all waiting tickets with `error` (borrowed), forgets the model, and marks all trainers as
 * not lost. An outstanding job must still be passed to job_done(). */
void tps_updating_end_all (TpsUpdating *updating, const GError *error, TpsUpdatingOutput *output);

/* Frees the memory that the machine no longer needs, and resets the output. The memory may be
 * large, so no lock should be held. The caller must have taken `answered` and `job` from the
 * output. */
void tps_updating_output_clear (TpsUpdatingOutput *output);

G_END_DECLS
