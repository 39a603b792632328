/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The rules of updating a model by its trainers, as a state machine without lock, clock, thread,
 * socket or arithmetic. Its input is events and their times. Its output is the actions that the
 * caller must take: calls to answer, an update to make, and the next deadline.
 *
 * A call is a ticket. It goes in with push() and comes out, once, in the `answered` list of an
 * output. An update is a job. It comes out as the `job` of an output. The caller computes it, at
 * any time and on any thread, and passes it back to job_done(), which answers its participants.
 *
 * Digests distinguish a repeat from another request. Computing one means reading all gradients, so
 * a ticket may come without: the computation of the update reads the gradients anyway. A digest is
 * needed earlier only if a trainer comes a second time. In this case the output has the ticket as
 * `undecided`, and the contribution with which the ticket must be compared as `original`. The
 * caller calls tps_update_contribution_compute_digest() without a lock, then
 * tps_update_contribution_set_digest(), and pushes the ticket, now with a digest, again.
 *
 * A round is one update:
 *
 *   open -> updating -> done      all trainers have contributed; or at least `min_trainers` have,
 *                                 and the deadline has passed or all others are lost -> there is a
 *                                 new version
 *   open -> aborted               too few have come at the deadline, counted from its first arrival
 *   updating -> aborted           the update failed
 *
 * While a model is being updated, trainers that do not take part in that update open the next
 * round; it is not closed before the current update is complete. The contributions of an aborted
 * round are forgotten; the next push opens another round.
 *
 * A trainer is lost from tps_updating_lose() to its next push or tps_updating_find().
 *
 * Versions: the model has version 1 when it is set, and one more after each update. The age of a
 * gradient of version v is (the version that the current round starts from) - v. It is STALE beyond
 * max_staleness. The age thus depends on the rounds that were closed before it came, and not on the
 * duration of arithmetic.
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
  /* The number of trainers that suffices for an update at the deadline, or when all others are
   * lost; 1 to n_trainers. */
  guint min_trainers;
  gint64 round_timeout_ns; /* > 0 */
  guint max_staleness;
} TpsUpdatingOptions;

/* One call. The caller's storage; it must stay where it is from push() until it is answered. */
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

  GError *error; /* the answer; NULL = the model after that step */
  /* in TpsUpdatingOutput.answered; must be read before the call is answered */
  TpsUpdateTicket *next;
};

/* Identifies a trainer's part of an update. */
typedef struct
{
  gint64 version;
  gboolean has_digest;
  /* If it is not known, the caller must fill it in when it computes the update. */
  TpsPushDigest digest;
} TpsUpdateMark;

/* A due update: with the mean of these gradients. */
typedef struct
{
  guint n_took_part;
  gint32 *trainers; /* [n_took_part], ascending */
  /* [n_took_part]: one for each parameter, borrowed until job_done() */
  const TpsTensor **gradients;
  TpsUpdateMark *marks;         /* [n_took_part] */
  gint64 started_ns, closed_ns; /* its first arrival, and when it was closed */
  TpsUpdateRound *round;        /* private */
} TpsUpdatingJob;

/* Actions for the caller. init() it once, clear() it after each use. */
typedef struct
{
  TpsUpdateTicket *answered; /* in order; the caller owns them now */
  TpsUpdatingJob *job;       /* NULL, or the update that is due */
  gboolean has_taken;        /* a trainer came to a round that had `n_before` trainers */
  guint n_before;
  TpsUpdateTicket *undecided; /* NULL, or to be pushed again; then there are no other actions */
  /* the contribution with which `undecided` must be compared; a reference */
  TpsUpdateContribution *original;

  /* private */
  TpsUpdateTicket *last_answered;
  TpsUpdateRound *dead_rounds;
} TpsUpdatingOutput;

/* Copies `options`. */
TpsUpdating *tps_updating_new (const TpsUpdatingOptions *options);

/* No ticket may be waiting (tps_updating_end_all()) and no job may be outstanding. */
void tps_updating_free (TpsUpdating *updating);

/* Frees the gradients and the error of a ticket. */
void tps_update_ticket_clear (TpsUpdateTicket *ticket);

/* Sets the model: version 1 with these parameters, whose names and shapes are copied. There must
 * have been none before. */
void tps_updating_set_model (TpsUpdating *updating, const TpsNamedTensor *parameters,
                             guint n_parameters);

/* Advances the model to its next version without a round, when an update is replayed. No round may
 * be open and no job outstanding. */
void tps_updating_skip_version (TpsUpdating *updating);

/* The same, with the version of a restored model. */
void tps_updating_set_version (TpsUpdating *updating, gint64 version);

/* Whether an update is in progress. */
gboolean tps_updating_has_job (const TpsUpdating *updating);

/* 0 = there is no model. */
gint64 tps_updating_get_version (const TpsUpdating *updating);

/* NOT_FOUND, for calls that need a model. */
GError *tps_updating_new_no_model_error (void);

/* A trainer takes part in an update. Errors on the ticket: see the wire documentation of
 * ParameterServer.update_and_fetch_model. `now_ns` must not decrease from call to call. */
void tps_updating_push (TpsUpdating *updating, TpsUpdateTicket *ticket, gint64 now_ns,
                        TpsUpdatingOutput *output);

/* The trainer, in [0, n_trainers), is lost: no round waits for it before it comes again. A
 * contribution that it has made counts. */
void tps_updating_lose (TpsUpdating *updating, gint32 trainer, gint64 now_ns,
                        TpsUpdatingOutput *output);

/* The trainer comes again, with a push that need not reach this machine. */
void tps_updating_find (TpsUpdating *updating, gint32 trainer);

/* Whether the trainer has a contribution in a round that has not ended. */
gboolean tps_updating_has_contribution (const TpsUpdating *updating, gint32 trainer);

/* Reads all gradients, which are those of `trainer`. Thread: any; no lock is needed. */
TpsPushDigest tps_update_contribution_compute_digest (const TpsUpdateContribution *contribution,
                                                      gint32 trainer);
void tps_update_contribution_set_digest (TpsUpdateContribution *contribution,
                                         const TpsPushDigest *digest);
/* Thread: any. May free large memory. */
void tps_update_contribution_unref (TpsUpdateContribution *contribution);

/* The update was made, and all marks have digests, or it failed with `error` (ownership moves).
 * Frees the job. */
void tps_updating_job_done (TpsUpdating *updating, TpsUpdatingJob *job, GError *error,
                            gint64 now_ns, TpsUpdatingOutput *output);

/* The next time at which expire() may have an effect; G_MAXINT64 = not before the next step. */
gint64 tps_updating_get_deadline (const TpsUpdating *updating);

/* Ends the round if its deadline is not after `now_ns`. */
void tps_updating_expire (TpsUpdating *updating, gint64 now_ns, TpsUpdatingOutput *output);

/* Fills in `status`. Examines at most TPS_OPEN_ROUNDS_MAX_LOOKS trainers. */
void tps_updating_get_status (const TpsUpdating *updating, gint64 now_ns,
                              TpsUpdatingStatus *status);

/* Answers all waiting tickets with `error` (borrowed), forgets the model, and expects all trainers
 * again. An outstanding job must be passed back as usual. */
void tps_updating_end_all (TpsUpdating *updating, const GError *error, TpsUpdatingOutput *output);

/* Makes an output without actions, in the caller's storage. */
void tps_updating_output_init (TpsUpdatingOutput *output);

/* Frees the memory that the machine no longer needs and resets the output. It may be large, so no
 * lock should be held. `answered` and `job` must have been processed. */
void tps_updating_output_clear (TpsUpdatingOutput *output);

G_END_DECLS
