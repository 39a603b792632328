/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One round of the averaging state machine (runtime/server/averaging/averaging.h): the trainers
 * that have contributed, the contributions that are folded, and the tickets that wait. The machine
 * creates and ends rounds.
 *
 * A contribution is idle, busy (a job reads or writes it, and no other code may access it) or
 * folded. Only one fold is in progress at a time; it takes the next contributions in ascending
 * order of their trainers. If a contribution cannot be folded yet, its digest is computed
 * meanwhile, so that the later fold has less work.
 *
 * Private to the machine. Thread: one at a time.
 */

#pragma once

#include "runtime/server/averaging/averaging.h"
#include "runtime/server/averaging/reduction.h"
#include "runtime/server/missing_trainers.h"

G_BEGIN_DECLS

typedef enum
{
  TPS_ROUND_OPEN,
  TPS_ROUND_REDUCING,
  TPS_ROUND_COMPLETE,
  TPS_ROUND_EXPIRED,
  TPS_ROUND_ABORTED,
} TpsRoundState;

typedef enum
{
  TPS_CONTRIBUTION_IDLE,
  TPS_CONTRIBUTION_BUSY,
  TPS_CONTRIBUTION_FOLDED,
} TpsContributionStage;

struct TpsContribution
{
  TpsFoldItem item;
  TpsContributionStage stage;
  TpsContribution *next; /* in TpsAveragingOutput.dead_contributions */
};

typedef struct
{
  TpsAveragingTicket *first;
  TpsAveragingTicket *last;
} TpsTicketList;

struct TpsRound
{
  const TpsAveragingOptions *options; /* borrowed */
  gint64 batch;
  gint32 param_loc;
  TpsRoundState state;
  gint64 deadline_ns;
  GQueue *open_rounds;   /* borrowed: all open rounds, oldest first */
  GList open_link;       /* its link in that queue */
  gboolean is_forgotten; /* belongs to no batch; freed after its last job */
  guint n_jobs;          /* jobs that have not been returned */

  /* Valid until the round is complete or has ended. */
  TpsContribution **by_trainer; /* [n_trainers]; NULL = has not arrived */
  guint n_arrived;
  guint next_trainer; /* the lowest trainer whose contribution no fold has taken */
  gboolean is_folding;
  TpsGradient signature; /* the kind, dtype and shape of all gradients; no elements */
  gint32 signature_trainer;
  TpsReduction reduction;

  /* Valid once the round is complete. */
  TpsGradient average;
  TpsDigest *digests; /* [n_trainers] */

  /* Valid once the round has ended without an average. */
  GError *error;

  TpsCharge charge;
  TpsTicketList waiters;
  TpsTicketList repeats; /* repeats whose bytes have not yet been compared with the first push */
  TpsRound *next;        /* in TpsAveragingOutput.dead_rounds */
};

/* Creates an open round, owned by the caller, and appends it to `open_rounds`. Charges its memory,
 * apart from the gradients. Errors: RESOURCE_EXHAUSTED. */
TpsRound *tps_round_new (const TpsAveragingOptions *options, gint64 batch, gint32 param_loc,
                         gint64 deadline_ns, GQueue *open_rounds, GError **error);
void tps_round_free (TpsRound *round);

/* Returns TRUE if the round has ended without an average. */
gboolean tps_round_is_closed (const TpsRound *round);

/* Returns TRUE if `trainer` has contributed to the round, which must not be closed. */
gboolean tps_round_has_contribution (const TpsRound *round, gint32 trainer);

/* Checks that kind, dtype and shape of the ticket's gradient match those of the other gradients.
 * Errors: TPS_ERROR_INVALID_ARGUMENT naming both forms. */
gboolean tps_round_check_signature (const TpsRound *round, const TpsAveragingTicket *ticket,
                                    GError **error);

/* Takes the first contribution of a trainer. The ticket waits for the end of the round. */
void tps_round_accept (TpsRound *round, TpsAveragingTicket *ticket, TpsAveragingOutput *output);

/* Takes a further push of a trainer that has contributed. The ticket waits until the digests of
 * both pushes are known. If they differ, it fails with INVALID_ARGUMENT. Otherwise it is treated as
 * the first push: it receives the average, or waits for the end of the round. */
void tps_round_repeat (TpsRound *round, TpsAveragingTicket *ticket, TpsAveragingOutput *output);

/* Takes back a job of this round that has been run, and starts the work that depends on it. */
void tps_round_job_done (TpsRound *round, TpsAveragingJob *job, TpsAveragingOutput *output);

/* Ends an open or reducing round with `state`, EXPIRED or ABORTED. Takes over `error`. */
void tps_round_close (TpsRound *round, TpsRoundState state, GError *error,
                      TpsAveragingOutput *output);

/* Removes the round from its batch. The round is freed with `output`, or with that of its last
 * job. */
void tps_round_forget (TpsRound *round, TpsAveragingOutput *output);

/* Returns a text with the trainers that have not contributed: "trainers 3, 5 and 1000 more". Owned
 * by the caller. */
gchar *tps_round_describe_missing (const TpsRound *round);

/* Describes an open round, for reports; `n_looks` as in tps_open_round_list_missing(). */
void tps_round_describe (const TpsRound *round, gint64 now_ns, guint *n_looks, TpsOpenRound *open);

/* Answers a ticket with `error`, of which it takes ownership. */
void tps_ticket_fail (TpsAveragingTicket *ticket, GError *error, TpsAveragingOutput *output);

/* Frees a contribution with its gradient. */
void tps_contribution_free (TpsContribution *contribution);

G_END_DECLS
