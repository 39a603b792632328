/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The rules of averaging, as a state machine: no lock, clock, thread or socket. It is told what
 * happened and when, and says what is to be done: which calls are to be answered, which arithmetic
 * is to be run, when to come back.
 *
 * A call is a ticket; it goes in with push() and comes out, once, in some output's `answered`.
 * Arithmetic is a job; it comes out in some output's `jobs`, is run by the caller with
 * tps_averaging_job_run(), where and when it likes, and goes back in with job_done(). Jobs of a
 * round that has ended meanwhile go back like all others.
 *
 * A round is (batch, param_loc):
 *
 *   open -> reducing -> complete   all trainers have come -> the arithmetic is done
 *   open -> expired                its deadline, counted from its first arrival, has passed
 *   open, reducing -> aborted      a newer batch (open rounds only), the end of everything, or
 *                                  failed arithmetic
 *
 * The rounds of a batch stay after its end so that late and repeated pushes are answered rightly:
 *  - the current batch is the greatest in which a trainer has taken part; a push in a greater one
 *    makes that the current;
 *  - the batch that it follows stays until the next one comes;
 *  - a batch with averages stays until every trainer has taken part in a newer one. It is one batch
 *    at most: a complete round means that all trainers have taken part in its batch, which ends the
 *    stay of every older one;
 *  - either ends when every trainer has taken part in a newer batch.
 * A push in any other older batch, or in a new round of one, is STALE.
 *
 * What is not decided here: whether a gradient is well formed (tps_gradient_check() comes before
 * push()). Thread: one at a time, jobs excepted.
 */

#pragma once

#include "runtime/server/averaging/device_sum.h"
#include "runtime/server/open_rounds.h"
#include "runtime/tensor/gradient.h"

G_BEGIN_DECLS

typedef struct TpsAveraging TpsAveraging;
typedef struct TpsRound TpsRound;
typedef struct TpsContribution TpsContribution;
typedef struct TpsAveragingTicket TpsAveragingTicket;
typedef struct TpsAveragingJob TpsAveragingJob;

/* Whether contributions may be folded into the sum when `n_arrived` >= 1 have come; once TRUE for a
 * number, TRUE for every greater one, and TRUE for n_trainers. Only memory and time depend on it,
 * never the average. */
typedef gboolean (*TpsMayFoldFunc) (guint n_arrived, guint n_trainers);

typedef struct
{
  guint n_trainers;        /* >= 1 */
  gboolean is_sum;         /* answer with the weighted sum, not the mean */
  gint64 round_timeout_ns; /* > 0 */
  TpsMayFoldFunc may_fold;
  TpsBufferPool *buffers;   /* borrowed; NULL = the default pool */
  TpsDeviceSums *on_device; /* borrowed; where dense sums are; NULL = host memory */
  guint max_rounds;         /* of one batch; 0 = tps_averaging_get_default_max_rounds() */
  TpsBudget *budget;        /* of rounds, besides their gradients; borrowed; NULL = none */
} TpsAveragingOptions;

/* One call. The caller's storage; it must stay where it is from push() until it is answered. */
struct TpsAveragingTicket
{
  gint32 trainer;
  gint64 batch;
  gint32 param_loc;
  /* FALSE: refuse with UNAVAILABLE, and without effect, what would wait for other trainers */
  gboolean may_wait;

  /* The answer: an average, or an error. */
  TpsGradient average;
  GError *error;
  TpsAveragingTicket *
      next; /* in TpsAveragingOutput.answered; the next is to be read before the call is answered */

  TpsContribution *contribution; /* private */
};

/* Arithmetic to be run. */
struct TpsAveragingJob
{
  gsize n_bytes; /* of gradients and sums that it reads */
  TpsAveragingJob *next;

  /* private */
  TpsRound *round;
  TpsContribution **items;
  guint n_items;
  gboolean is_fold;     /* else it computes the digest of one item */
  gboolean is_last;     /* the fold ends with the average */
  struct TpsFold *fold; /* between begin and end */
  TpsGradient average;
  GError *error;
};

/* What is to be done. An output may collect those of several calls; init() it once, clear() it
 * after each use. */
typedef struct
{
  TpsAveragingTicket *answered; /* in order; now the caller's */
  TpsAveragingJob *jobs;        /* to be run, in any order, at the same time if you like */

  /* What happened to round (batch, param_loc), for metrics. */
  gint64 batch;
  gint32 param_loc;
  gboolean has_started;   /* its first contribution came */
  gboolean has_all;       /* its last contribution came */
  gboolean has_completed; /* its average is there */

  /* private */
  TpsAveragingTicket *last_answered;
  TpsAveragingJob *last_job;
  TpsContribution *dead_contributions;
  TpsRound *dead_rounds;
} TpsAveragingOutput;

/* So many that the rounds of a batch take at most half a gigabyte besides their gradients. */
guint tps_averaging_get_default_max_rounds (guint n_trainers);

/* Rounds for which trainers are missing. */
guint tps_averaging_get_n_open (const TpsAveraging *averaging);

/* Copies `options`. */
TpsAveraging *tps_averaging_new (const TpsAveragingOptions *options);

/* No ticket may be waiting (tps_averaging_end_all()) and no job be out. */
void tps_averaging_free (TpsAveraging *averaging);

/* Moves `gradient` into the ticket. */
void tps_averaging_ticket_init (TpsAveragingTicket *ticket, gint32 trainer, gint64 batch,
                                gint32 param_loc, TpsGradient *gradient, gboolean may_wait);
void tps_averaging_ticket_clear (TpsAveragingTicket *ticket);

/* Computes the digest of the ticket's gradient now, before push(), which then needs no job for it.
 * For small gradients. Thread: any; reads all elements. */
void tps_averaging_ticket_compute_digest (TpsAveragingTicket *ticket);

/* Borrowed; until push(). Its weight and tensors may be replaced. */
TpsGradient *tps_averaging_ticket_get_gradient (const TpsAveragingTicket *ticket);

/* A trainer takes part in a round. Errors on the ticket: see the wire documentation of
 * ParameterServer.average_gradient. `now_ns` must not decrease from call to call. */
void tps_averaging_push (TpsAveraging *averaging, TpsAveragingTicket *ticket, gint64 now_ns,
                         TpsAveragingOutput *output);

/* Does the job's arithmetic. Thread: any, at the same time as everything else. */
void tps_averaging_job_run (TpsAveragingJob *job);

/* The same in steps: begin() says how many blocks there are (>= 1), run() is called for ranges of
 * them that make up all, in any order and on any threads, end() when all have returned. */
guint tps_averaging_job_begin (TpsAveragingJob *job);
void tps_averaging_job_run_blocks (TpsAveragingJob *job, guint first_block, guint n_blocks);
void tps_averaging_job_end (TpsAveragingJob *job);

/* The average that a job has made, and its round, between its end and job_done(); NULL: it has made
 * none. Its elements may be changed; with an `error` of the caller's, which is taken over, the
 * round fails instead. */
TpsGradient *tps_averaging_job_get_average (TpsAveragingJob *job, gint64 *batch, gint32 *param_loc);
void tps_averaging_job_fail (TpsAveragingJob *job, GError *error);

/* Takes back a job that has been run, and frees it. */
void tps_averaging_job_done (TpsAveraging *averaging, TpsAveragingJob *job,
                             TpsAveragingOutput *output);

/* When expire() has something to do; G_MAXINT64 = never. Never earlier than what it last said,
 * except after end_all(). */
gint64 tps_averaging_get_deadline (const TpsAveraging *averaging);

/* Ends the rounds whose deadline is not after `now_ns`. */
void tps_averaging_expire (TpsAveraging *averaging, gint64 now_ns, TpsAveragingOutput *output);

/* `rounds` [n_max] gets the oldest open rounds, `n_listed` of them. */
void tps_averaging_get_status (const TpsAveraging *averaging, gint64 now_ns,
                               TpsAveragingStatus *status, TpsOpenRound *rounds, guint n_max);

/* Answers all that waits with `error` (borrowed) and forgets all rounds, trainers and batches. */
void tps_averaging_end_all (TpsAveraging *averaging, const GError *error,
                            TpsAveragingOutput *output);

void tps_averaging_output_init (TpsAveragingOutput *output);

/* Frees what the machine no longer needs (large memory: not to be done under a lock) and makes the
 * output as new. `answered` and `jobs` must have been dealt with. */
void tps_averaging_output_clear (TpsAveragingOutput *output);

G_END_DECLS
