/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The rules of averaging, as a state machine without lock, clock, thread or socket. The input is
 * events and their times. The output is the actions that the caller must take: calls to answer,
 * arithmetic to run, and the next deadline.
 *
 * A call is a ticket. The caller passes it to push(), and it is returned, once, in the `answered`
 * list of an output. Arithmetic is a job, returned in the `jobs` list of an output. The caller must
 * run each job with tps_averaging_job_run(), at any time and on any thread, and then pass it to
 * job_done(), even if the round of the job has ended meanwhile.
 *
 * A round is (batch, param_loc):
 *
 *   open -> reducing -> complete   all trainers have contributed -> the arithmetic is done
 *   open -> expired                its deadline, counted from its first arrival, has passed
 *   open, reducing -> aborted      a newer batch (open rounds only), a reset or shut-down, or
 *                                  failed arithmetic
 *
 * The rounds of a batch are kept after the end of the batch so that late and repeated pushes are
 * answered correctly:
 *
 *   - The current batch is the batch with the highest number in which a trainer has taken part. A
 *     push in a batch with a higher number makes that batch the current one.
 *   - The previous batch is kept until the next batch begins.
 *   - An older batch with averages is kept, too. There is at most one such batch: when a round is
 *     complete, all trainers have taken part in its batch, and every older batch is forgotten.
 *   - The previous batch and the batch with averages are forgotten as soon as every trainer has
 *     taken part in a newer batch.
 *   - A push in any other older batch is STALE. So is the first push of a new round in one of
 *     these two batches.
 *
 * The machine does not check that gradients are well formed: the caller must call
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

typedef struct
{
  guint n_trainers;        /* >= 1 */
  gboolean is_sum;         /* answer with the weighted sum, not the mean */
  gint64 round_timeout_ns; /* > 0 */
  gboolean (*may_fold) (guint n_arrived, guint n_trainers); /* see TpsServerKind */
  TpsBufferPool *buffers;                                   /* borrowed; NULL = the default pool */
  TpsBufferPool *shared_buffers; /* for averages of gradients in shared memory; borrowed; NULL =
                                  * `buffers` */
  TpsDeviceSums *on_device; /* borrowed; holds the dense sums; NULL = they are in host memory */
  /* Of one batch; 0 = 64 Mi / n_trainers, but at least 256 and at most 65,536. A round takes 32
   * bytes for each trainer, apart from gradients: the rounds of a batch take at most about 2 GiB,
   * or up to 8 GiB with more than 262,144 trainers. */
  guint max_rounds;
  TpsBudget *budget; /* of rounds, apart from their gradients; borrowed; NULL = none */
} TpsAveragingOptions;

/* One call, in the caller's storage. It must not move between push() and its return in
 * `answered`. */
struct TpsAveragingTicket
{
  gint32 trainer;
  gint64 batch;
  gint32 param_loc;
  /* if FALSE, a call that would have to wait for other trainers is refused with UNAVAILABLE */
  gboolean may_wait;

  /* The answer: an average, or an error. */
  TpsGradient average;
  GError *error;
  /* The next ticket in TpsAveragingOutput.answered; must be read before this call is answered. */
  TpsAveragingTicket *next;

  TpsContribution *contribution; /* private */
};

/* Arithmetic that the caller must run. */
struct TpsAveragingJob
{
  gsize n_bytes; /* of the gradients and sums that the job reads */
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

/* Actions for the caller. An output may collect the actions of several calls. All zero =
 * no actions. Must be cleared after each use with tps_averaging_output_clear(). */
typedef struct
{
  TpsAveragingTicket *answered; /* in order; the caller owns them now */
  TpsAveragingJob *jobs;        /* to be run, in any order, possibly at the same time */

  /* The progress of round (batch, param_loc), for metrics. */
  gint64 batch;
  gint32 param_loc;
  gboolean has_started;   /* its first contribution has arrived */
  gboolean has_all;       /* its last contribution has arrived */
  gboolean has_completed; /* its average is complete */

  /* private */
  TpsAveragingTicket *last_answered;
  TpsAveragingJob *last_job;
  TpsContribution *dead_contributions;
  TpsRound *dead_rounds;
} TpsAveragingOutput;

/* Returns the number of open rounds: those for which trainers are missing. */
guint tps_averaging_get_n_open (const TpsAveraging *averaging);

/* Creates a machine without rounds. Copies `options`; the objects in it stay borrowed. */
TpsAveraging *tps_averaging_new (const TpsAveragingOptions *options);
/* Frees the machine. No ticket may be waiting (see tps_averaging_end_all()), and no job may be
 * outstanding. */
void tps_averaging_free (TpsAveraging *averaging);

/* Initialises a ticket in the caller's storage, and moves `gradient` into it. The caller must clear
 * the ticket after it has been answered. */
void tps_averaging_ticket_init (TpsAveragingTicket *ticket, gint32 trainer, gint64 batch,
                                gint32 param_loc, TpsGradient *gradient, gboolean may_wait);
void tps_averaging_ticket_clear (TpsAveragingTicket *ticket);

/* Computes the digest of the ticket's gradient, so that push() creates no job for the digest. Must
 * be called before push(). Reads all elements that the host can read; meant for small gradients.
 * Thread: any. */
void tps_averaging_ticket_compute_digest (TpsAveragingTicket *ticket);

/* Returns the ticket's gradient, borrowed until push(). The caller may replace the weight and the
 * tensors of the gradient. */
TpsGradient *tps_averaging_ticket_get_gradient (const TpsAveragingTicket *ticket);

/* Makes the ticket's trainer take part in the ticket's round. The ticket stays borrowed until it is
 * returned in `answered`. `now_ns` must not decrease from call to call. Errors, in the ticket:
 * those of the wire method ParameterServer.average_gradient. */
void tps_averaging_push (TpsAveraging *averaging, TpsAveragingTicket *ticket, gint64 now_ns,
                         TpsAveragingOutput *output);

/* Runs the arithmetic of a job. Thread: any, even at the same time as all other functions. */
void tps_averaging_job_run (TpsAveragingJob *job);

/* As tps_averaging_job_run(), in steps for several threads: begin() returns the number of blocks
 * (>= 1), run_blocks() must be called for ranges that contain each block once, and end() after
 * them. */
guint tps_averaging_job_begin (TpsAveragingJob *job);
void tps_averaging_job_run_blocks (TpsAveragingJob *job, guint first_block, guint n_blocks);
void tps_averaging_job_end (TpsAveragingJob *job);

/* Returns the average that a job has computed, borrowed, whose elements may be changed, and its
 * round; or NULL. tps_averaging_job_fail() takes ownership of `error` and makes the round fail
 * instead of the average. Between end() and job_done(). */
TpsGradient *tps_averaging_job_get_average (TpsAveragingJob *job, gint64 *batch, gint32 *param_loc);
void tps_averaging_job_fail (TpsAveragingJob *job, GError *error);

/* Takes back a job that has been run, and frees it. */
void tps_averaging_job_done (TpsAveraging *averaging, TpsAveragingJob *job,
                             TpsAveragingOutput *output);

/* Returns the next time at which expire() must be called; G_MAXINT64 = never. Apart from
 * G_MAXINT64, no result is earlier than a previous one. */
gint64 tps_averaging_get_deadline (const TpsAveraging *averaging);

/* Ends the open rounds whose deadline is at or before `now_ns`. */
void tps_averaging_expire (TpsAveraging *averaging, gint64 now_ns, TpsAveragingOutput *output);

/* Fills in `status`, and status->n_listed of the oldest open rounds into `rounds` [n_max]. */
void tps_averaging_get_status (const TpsAveraging *averaging, gint64 now_ns,
                               TpsAveragingStatus *status, TpsOpenRound *rounds, guint n_max);

/* Answers all waiting calls with `error` (borrowed); forgets all rounds, trainers and batches. */
void tps_averaging_end_all (TpsAveraging *averaging, const GError *error,
                            TpsAveragingOutput *output);

/* Frees the memory that the machine no longer needs, and resets the output. The caller must have
 * saved `answered` and `jobs`. The memory may be large, so no lock should be held. */
void tps_averaging_output_clear (TpsAveragingOutput *output);

G_END_DECLS
