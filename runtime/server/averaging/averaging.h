/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The rules of averaging, as a state machine without lock, clock, thread or socket. Its input is
 * events and their times. Its output is the actions that the caller must take: calls to answer,
 * arithmetic to run, and the next deadline.
 *
 * A call is a ticket. It goes in with push() and comes out, once, in the `answered` list of an
 * output. Arithmetic is a job. It comes out in the `jobs` list of an output. The caller runs it
 * with tps_averaging_job_run(), at any time and on any thread, and passes it back to job_done().
 * This also applies to jobs of a round that has ended meanwhile.
 *
 * A round is (batch, param_loc):
 *
 *   open -> reducing -> complete   all trainers have come -> the arithmetic is done
 *   open -> expired                its deadline, counted from its first arrival, has passed
 *   open, reducing -> aborted      a newer batch (open rounds only), a reset or shut-down, or
 *                                  failed arithmetic
 *
 * The rounds of a batch stay after its end so that late and repeated pushes are answered correctly:
 *
 *   - The current batch is the greatest one in which a trainer has taken part. A push in a greater
 *     one makes that the current batch.
 *   - The previous batch stays until the next one begins.
 *   - A batch with averages stays, too. There is at most one such batch: a complete round means
 *     that all trainers have taken part in its batch, and then every older batch is forgotten.
 *   - The previous batch and the batch with averages are forgotten as soon as every trainer has
 *     taken part in a newer batch.
 *   - A push in any other older batch is STALE, and so is the first push of a new round in one of
 *     these two batches.
 *
 * The machine does not decide whether a gradient is well formed: the caller must call
 * tps_gradient_check() before push(). Thread: one at a time, jobs excepted.
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

/* Whether contributions may be folded into the sum when `n_arrived` >= 1 have come. If the function
 * returns TRUE for a number of arrivals, it must also return TRUE for every greater number; for
 * n_trainers it must return TRUE. Its result affects only memory and time, never the average. */
typedef gboolean (*TpsMayFoldFunc) (guint n_arrived, guint n_trainers);

typedef struct
{
  guint n_trainers;        /* >= 1 */
  gboolean is_sum;         /* answer with the weighted sum, not the mean */
  gint64 round_timeout_ns; /* > 0 */
  TpsMayFoldFunc may_fold;
  TpsBufferPool *buffers;        /* borrowed; NULL = the default pool */
  TpsBufferPool *shared_buffers; /* for averages of gradients in shared memory; borrowed; NULL =
                                  * `buffers` */
  TpsDeviceSums *on_device;      /* borrowed; the place of dense sums; NULL = host memory */
  guint max_rounds;              /* of one batch; 0 = tps_averaging_get_default_max_rounds() */
  TpsBudget *budget;             /* of rounds, apart from their gradients; borrowed; NULL = none */
} TpsAveragingOptions;

/* One call. The caller's storage; it must stay where it is from push() until it is answered. */
struct TpsAveragingTicket
{
  gint32 trainer;
  gint64 batch;
  gint32 param_loc;
  /* FALSE: a call that would have to wait for other trainers is refused with UNAVAILABLE, without
   * effect */
  gboolean may_wait;

  /* The answer: an average, or an error. */
  TpsGradient average;
  GError *error;
  /* In TpsAveragingOutput.answered; must be read before the call is answered. */
  TpsAveragingTicket *next;

  TpsContribution *contribution; /* private */
};

/* Arithmetic that the caller must run. */
struct TpsAveragingJob
{
  gsize n_bytes; /* of gradients and sums that it reads */
  TpsAveragingJob *next;

  /* private */
  TpsRound *round;
  TpsContribution **items;
  guint n_items;
  gboolean is_fold;     /* TRUE: a fold; FALSE: the digest of one item */
  gboolean is_last;     /* the fold ends with the average */
  struct TpsFold *fold; /* between begin and end */
  TpsGradient average;
  GError *error;
};

/* Actions for the caller. An output may collect those of several calls; init() it once, clear() it
 * after each use. */
typedef struct
{
  TpsAveragingTicket *answered; /* in order; the caller owns them now */
  TpsAveragingJob *jobs;        /* to be run, in any order, possibly at the same time */

  /* The progress of round (batch, param_loc), for metrics. */
  gint64 batch;
  gint32 param_loc;
  gboolean has_started;   /* its first contribution has come */
  gboolean has_all;       /* its last contribution has come */
  gboolean has_completed; /* its average is complete */

  /* private */
  TpsAveragingTicket *last_answered;
  TpsAveragingJob *last_job;
  TpsContribution *dead_contributions;
  TpsRound *dead_rounds;
} TpsAveragingOutput;

/* Returns the default of max_rounds: a number of rounds whose memory, apart from their gradients,
 * is at most half a gigabyte. */
guint tps_averaging_get_default_max_rounds (guint n_trainers);

/* Rounds for which trainers are missing. */
guint tps_averaging_get_n_open (const TpsAveraging *averaging);

/* Copies `options`. */
TpsAveraging *tps_averaging_new (const TpsAveragingOptions *options);

/* No ticket may be waiting (tps_averaging_end_all()) and no job may be outstanding. */
void tps_averaging_free (TpsAveraging *averaging);

/* Moves `gradient` into the ticket. */
void tps_averaging_ticket_init (TpsAveragingTicket *ticket, gint32 trainer, gint64 batch,
                                gint32 param_loc, TpsGradient *gradient, gboolean may_wait);
void tps_averaging_ticket_clear (TpsAveragingTicket *ticket);

/* Computes the digest of the ticket's gradient before push(), which then needs no job for it. For
 * small gradients. Reads all elements. Thread: any. */
void tps_averaging_ticket_compute_digest (TpsAveragingTicket *ticket);

/* Borrowed until push(). Its weight and tensors may be replaced. */
TpsGradient *tps_averaging_ticket_get_gradient (const TpsAveragingTicket *ticket);

/* A trainer takes part in a round. Errors on the ticket: see the wire documentation of
 * ParameterServer.average_gradient. `now_ns` must not decrease from call to call. */
void tps_averaging_push (TpsAveraging *averaging, TpsAveragingTicket *ticket, gint64 now_ns,
                         TpsAveragingOutput *output);

/* Does the arithmetic of a job. Thread: any, at the same time as all other functions. */
void tps_averaging_job_run (TpsAveragingJob *job);

/* The same in steps: begin() returns the number of blocks (>= 1). run() must be called for ranges
 * of blocks that make up all of them, in any order and on any threads. end() must be called when
 * all calls of run() have returned. */
guint tps_averaging_job_begin (TpsAveragingJob *job);
void tps_averaging_job_run_blocks (TpsAveragingJob *job, guint first_block, guint n_blocks);
void tps_averaging_job_end (TpsAveragingJob *job);

/* The average that a job has computed, and its round, between end() and job_done(); NULL if there
 * is none. The caller may change its elements. tps_averaging_job_fail() takes ownership of `error`
 * and makes the round fail instead. */
TpsGradient *tps_averaging_job_get_average (TpsAveragingJob *job, gint64 *batch, gint32 *param_loc);
void tps_averaging_job_fail (TpsAveragingJob *job, GError *error);

/* Takes back a job that has been run, and frees it. */
void tps_averaging_job_done (TpsAveraging *averaging, TpsAveragingJob *job,
                             TpsAveragingOutput *output);

/* The next time at which expire() must be called; G_MAXINT64 = never. Never earlier than the
 * previous result, except after end_all(). */
gint64 tps_averaging_get_deadline (const TpsAveraging *averaging);

/* Ends the rounds whose deadline is not after `now_ns`. */
void tps_averaging_expire (TpsAveraging *averaging, gint64 now_ns, TpsAveragingOutput *output);

/* Fills in `status`, and the first status->n_listed elements of `rounds` [n_max] with the oldest
 * open rounds. */
void tps_averaging_get_status (const TpsAveraging *averaging, gint64 now_ns,
                               TpsAveragingStatus *status, TpsOpenRound *rounds, guint n_max);

/* Answers all waiting calls with `error` (borrowed) and forgets all rounds, trainers and
 * batches. */
void tps_averaging_end_all (TpsAveraging *averaging, const GError *error,
                            TpsAveragingOutput *output);

/* Makes an output without actions, in the caller's storage. */
void tps_averaging_output_init (TpsAveragingOutput *output);

/* Frees the memory that the machine no longer needs and resets the output. It may be large, so no
 * lock should be held. `answered` and `jobs` must have been processed. */
void tps_averaging_output_clear (TpsAveragingOutput *output);

G_END_DECLS
