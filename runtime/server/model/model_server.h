/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The batch-updating parameter server. It holds a model, collects one gradient of each parameter
 * from each trainer, steps the optimizer with their mean, and answers all trainers with the new
 * model.
 *
 * This is the thread-safe shell around the state machine of updating.h. The arithmetic of large
 * updates runs on the worker pool. Calls are answered outside the lock. Published models are
 * immutable. The rules and errors of calls are those of the wire methods
 * (thrift/parameter_server.thrift); changes of the model can also fail with the errors of
 * tps_sequencer_may_admit(), before any effect, and of the sequencer's observer, after it. */

#pragma once

#include "runtime/base/metrics.h"
#include "runtime/tensor/optimizer.h"
#include "runtime/server/open_rounds.h"
#include "runtime/server/push_window.h"
#include "runtime/server/sequencer.h"
#include "runtime/tensor/model_version.h"
#include "runtime/base/worker_pool.h"

G_BEGIN_DECLS

typedef struct TpsModelServer TpsModelServer;
typedef struct TpsModelCapture TpsModelCapture;

typedef struct
{
  guint n_trainers; /* 1 to 1,048,576 */
  /* The number of trainers that suffices for an update at the deadline, or when all other trainers
   * are lost; 0 = all. */
  guint min_trainers;
  gint64 round_timeout_ns; /* from a round's first arrival; 0 = 30 s */
  /* The largest number of versions by which a gradient may be older than the newest model. */
  guint max_staleness;
  TpsPushWindowOptions pushes;
  TpsSequencer *sequencer; /* borrowed; NULL = its own */
  TpsWorkerPool *workers;  /* borrowed; must outlive the server */
  /* for models and the optimizer's state; a reference is taken; NULL = the default pool */
  TpsBufferPool *buffers;
  /* the pool for versions whose gradients came through shared memory; a reference is taken; NULL =
   * they use the same pool as all others */
  TpsBufferPool *shared_versions;
  TpsMetrics *metrics; /* a reference is taken; NULL = its own */
  /* Report the arrival of an update, to a round of `n_before` trainers, and a new version; each may
   * be NULL. Called outside the lock, from any thread, in the order of the events. */
  void (*got_update) (gpointer user_data, guint n_before, guint n_trainers);
  void (*updated_model) (gpointer user_data, gint64 version, guint n_took_part);
  gpointer user_data;
} TpsModelServerOptions;

/* Answers a call. Called exactly once, from any thread, outside the lock. `model` is borrowed for
 * the duration of the callback, and NULL on error. */
typedef void (*TpsModelDone) (gpointer user_data, TpsModelVersion *model, const GError *error);

/* Creates a server without a model. Copies `options`. Errors: INVALID_ARGUMENT (NULL). */
TpsModelServer *tps_model_server_new (const TpsModelServerOptions *options, GError **error);
/* Ends waiting calls with UNAVAILABLE, waits for work in progress, and frees the server. Must not
 * be called from a callback. */
void tps_model_server_free (TpsModelServer *server);

/* Sets the model, with version 1; without effect if it has begun with the same parameters and
 * optimizer. Always takes the contents of `parameters` [n_parameters]; `optimizer` need not be
 * resolved. Blocks until the sequencer's observer has released the command. */
gboolean tps_model_server_init_model (TpsModelServer *server, TpsNamedTensor *parameters,
                                      guint n_parameters, const TpsOptimizerSpec *optimizer,
                                      GError **error);

/* Returns a reference to the newest version of the model. Errors (NULL): NOT_FOUND (there is no
 * model), UNAVAILABLE (the server is shut down). */
TpsModelVersion *tps_model_server_get_model (TpsModelServer *server, GError **error);

typedef struct
{
  gint32 trainer;
  guint n_gradients;
  TpsTensor *gradients; /* [n_gradients]; the call moves their contents */
  const gchar *client;  /* NULL = no push id */
  gint64 sequence;
  const gchar *tenant; /* of the caller; NULL = none; must outlive the server */
  gint64 version;      /* of the model for which the gradients were computed; 0 = not given */
  /* FALSE: a call that would have to wait for other trainers fails with UNAVAILABLE. */
  gboolean may_wait;

  /* Identifies the connection over which the push came; NULL = the push came over no connection. */
  gconstpointer connection;
  /* Returns TRUE if the connection is still open; NULL = always open. Called with the `user_data`
   * of the call, before the call is answered, sometimes under the server's lock. Must not block. */
  gboolean (*is_connected) (gpointer user_data);
} TpsModelPush;

/* Takes part in an update with the gradients of `push`. `done` is called with the new model when
 * the update has ended, perhaps before this function returns. Never blocks. */
void tps_model_server_update_and_fetch (TpsModelServer *server, const TpsModelPush *push,
                                        TpsModelDone done, gpointer user_data);

/* Reports that a connection has closed; is_connected() of its calls must already return FALSE. A
 * trainer whose last accepted push came over it is lost until it pushes again, if the connection
 * carried an earlier push too, or if the round has not ended. (Some clients open a connection for
 * each call.) If `min_trainers` have come, an update does not wait for lost trainers. Without
 * effect if `min_trainers` is 0 or all. Never blocks. Thread: any. */
void tps_model_server_connection_closed (TpsModelServer *server, gconstpointer connection);

/* Applies the record of a command that changed the model, unless a restored snapshot contains the
 * effect of the command. Blocks. Records must be replayed before the first call of a client, in the
 * order of their LSNs. */
gboolean tps_model_server_replay (TpsModelServer *server, const TpsCommand *command,
                                  GError **error);

/* Captures the state of `server` as soon as the current update, if any, has ended. Blocks until
 * then. The caller must clear the capture with tps_model_server_clear_capture(). Errors:
 * RESOURCE_EXHAUSTED (no memory for a copy of the optimizer's state). Thread: one at a time. */
gboolean tps_model_server_capture (TpsModelServer *server, TpsModelCapture *capture,
                                   GError **error);
void tps_model_server_clear_capture (TpsModelServer *server, TpsModelCapture *capture);

/* Restores a capture into a server, which must have no model and no calls. References to the
 * versions are taken; the optimizer's state is copied. Errors: INVALID_ARGUMENT,
 * RESOURCE_EXHAUSTED. */
gboolean tps_model_server_restore (TpsModelServer *server, const TpsModelCapture *capture,
                                   GError **error);
TpsPushWindow *tps_model_server_get_pushes (TpsModelServer *server);

/* Ends waiting calls with ABORTED and forgets the model. Push ids of later calls belong to the next
 * model. Blocks until the sequencer's observer has released the command. */
gboolean tps_model_server_reset_state (TpsModelServer *server, GError **error);

/* Fills in `status`. Calls wait meanwhile, see TPS_OPEN_ROUNDS_MAX_LOOKS. Thread: any. */
void tps_model_server_get_status (TpsModelServer *server, TpsUpdatingStatus *status);

/* Ends waiting calls with UNAVAILABLE, refuses all later calls with it, and forgets the model. */
void tps_model_server_shut_down (TpsModelServer *server);

G_END_DECLS
