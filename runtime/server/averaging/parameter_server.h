/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The averaging parameter server. It collects one gradient from each trainer for each round (batch,
 * param_loc), and answers all trainers with the average.
 *
 * This is the thread-safe shell around the state machine in averaging.h. Arithmetic on more than
 * `inline_bytes` (runtime/machine/tuning.h) runs on the worker pool. Calls are answered outside the
 * lock. A call is refused at once, or its round ends by its deadline, a newer batch, a reset or a
 * shut-down. */

#pragma once

#include "runtime/device/backend.h"
#include "runtime/tensor/gradient.h"
#include "runtime/base/metrics.h"
#include "runtime/base/worker_pool.h"
#include "runtime/server/budgets.h"
#include "runtime/server/open_rounds.h"

G_BEGIN_DECLS

typedef struct TpsParameterServer TpsParameterServer;

typedef struct
{
  /* key of the registry: "AverageParameterServer" (NULL) or "AverageBatchParameterServer" */
  const gchar *kind;
  guint n_trainers; /* 1 to 1,048,576 */
  TpsReduce reduce;
  gint64 round_timeout_ns; /* from a round's first arrival; 0 = 30 s */
  TpsWorkerPool *workers;  /* borrowed; must outlive the server */
  /* `averages` is charged for sums in host memory, and for averages kept for repeated calls until
   * the next batch (of two batches while some trainers are ahead). A gradient that becomes the sum
   * in place keeps its charge. A round beyond the budget fails with RESOURCE_EXHAUSTED. References
   * are taken; may be NULL. */
  const TpsBudgets *budgets;
  /* The pool for averages of gradients that came through shared memory. A reference is taken; NULL
   * = these averages use the same pool as all others. */
  TpsBufferPool *shared_averages;
  TpsDevice *device;   /* adds up dense gradients; NULL = workers do so in host memory */
  TpsMetrics *metrics; /* a reference is taken; NULL = the server creates its own */
} TpsParameterServerOptions;

/* Receives the result of a call. Called exactly once for each call, from any thread and without a
 * lock of the server; may call functions of the server. `average` is borrowed for the call
 * (tps_gradient_init_ref() keeps it) and immutable; NULL on error. */
typedef void (*TpsAverageDone) (gpointer user_data, const TpsGradient *average,
                                const GError *error);

/* Creates a server, owned by the caller. Errors: TPS_ERROR_NOT_FOUND for an unknown kind (the
 * message lists the known kinds), INVALID_ARGUMENT. */
TpsParameterServer *tps_parameter_server_new (const TpsParameterServerOptions *options,
                                              GError **error);
/* Ends waiting calls with UNAVAILABLE, waits for work in progress, and frees the server. Must not
 * be called from a callback. */
void tps_parameter_server_free (TpsParameterServer *server);

/* Makes a trainer take part in round (batch, param_loc). Takes the contents of `gradient`, even
 * after an error. If the dense elements of all gradients of a round lie in the memory of the
 * server's device, so does the average. If `may_wait` is FALSE, a call that would wait for other
 * trainers fails with UNAVAILABLE. `done` may come before this returns. Never blocks, but reads all
 * indices: call it on a worker if tps_parameter_server_is_long_check(). Errors: those of the wire
 * method. Thread: any. */
void tps_parameter_server_average_gradient (TpsParameterServer *server, gint32 trainer,
                                            gint64 batch, gint32 param_loc, TpsGradient *gradient,
                                            gboolean may_wait, TpsAverageDone done,
                                            gpointer user_data);

/* Returns TRUE if the check of `gradient` takes too long for an I/O thread. Thread: any. */
gboolean tps_parameter_server_is_long_check (const TpsGradient *gradient);

/* Ends waiting calls with ABORTED, forgets all rounds, clears the metrics, and calls reset_state()
 * of the server kind. Thread: any. */
void tps_parameter_server_reset_state (TpsParameterServer *server);

/* Ends waiting calls, and refuses every later call, with UNAVAILABLE. Thread: any. */
void tps_parameter_server_shut_down (TpsParameterServer *server);

/* Fills in `status`, and the first status->n_listed elements of `rounds` [n_max] with the oldest
 * open rounds. Holds the server's lock meanwhile, see TPS_OPEN_ROUNDS_MAX_LOOKS. Thread: any. */
void tps_parameter_server_get_status (TpsParameterServer *server, TpsAveragingStatus *status,
                                      TpsOpenRound *rounds, guint n_max);

G_END_DECLS
