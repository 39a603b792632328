/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The batch-updating parameter server. It holds a model, collects one gradient of it from each
 * trainer, steps the optimizer with their mean and answers all of them with the new model.
 *
 * This is the thread-safe shell that handlers call. The rules are in the state machine beneath
 * (runtime/server/model/updating.h), which has no lock, clock or thread. Arithmetic runs on the
 * worker pool. Calls are answered outside the lock. Published models are immutable: each update
 * makes a new one, so that replies of old rounds do not change.
 *
 * Rules and errors of all calls: those of the wire methods of the same name in
 * thrift/parameter_server.thrift. Calls that change the model also have those of
 * tps_sequencer_may_admit(), before any effect, and of the sequencer's observer, after it.
 */

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

typedef struct
{
  guint n_trainers; /* 1 to 1,048,576 */
  /* The number of trainers that suffices for an update at the deadline, or when all others are
   * lost; 0 = all. */
  guint min_trainers;
  gint64 round_timeout_ns; /* from a round's first arrival; 0 = 30 s */
  /* The number of versions by which a gradient may be older than the newest model. */
  guint max_staleness;
  TpsPushWindowOptions pushes;
  TpsSequencer *sequencer; /* borrowed; NULL = its own */
  TpsWorkerPool *workers;  /* borrowed; outlives the server */
  /* for models and the optimizer's state; a reference is taken; NULL = the default pool */
  TpsBufferPool *buffers;
  /* the pool for versions whose gradients came through shared memory; a reference is taken; NULL =
   * they use the same pool as all others */
  TpsBufferPool *shared_versions;
  TpsMetrics *metrics; /* a reference is taken; NULL = its own */
  /* Optional: reports progress, for logs. Called outside the lock, from any thread, in order. */
  void (*got_update) (gpointer user_data, guint n_before, guint n_trainers);
  void (*updated_model) (gpointer user_data, gint64 version, guint n_took_part);
  gpointer user_data;
} TpsModelServerOptions;

/* Called exactly once, from any thread, outside the lock. `model` is borrowed for the call (ref
 * keeps it); NULL on error. */
typedef void (*TpsModelDone) (gpointer user_data, TpsModelVersion *model, const GError *error);

/* Errors: INVALID_ARGUMENT. */
TpsModelServer *tps_model_server_new (const TpsModelServerOptions *options, GError **error);

/* Ends waiting calls with UNAVAILABLE, waits for work in progress, and frees. Must not be called
 * from a callback. */
void tps_model_server_free (TpsModelServer *server);

/* Always takes ownership of `parameters` [n] (leaves them empty); `optimizer` need not be resolved.
 * Blocks until the sequencer's observer has released the command. */
gboolean tps_model_server_init_model (TpsModelServer *server, TpsNamedTensor *parameters,
                                      guint n_parameters, const TpsOptimizerSpec *optimizer,
                                      GError **error);

/* A reference; NULL with NOT_FOUND. */
TpsModelVersion *tps_model_server_get_model (TpsModelServer *server, GError **error);

typedef struct
{
  gint32 trainer;
  guint n_gradients;
  TpsTensor *gradients; /* [n_gradients]; the call takes their contents */
  const gchar *client;  /* NULL = no push id */
  gint64 sequence;
  gint64 version; /* of the model for which the gradients were computed; 0 = not given */
  /* FALSE: a call that would have to wait for other trainers fails with UNAVAILABLE. */
  gboolean may_wait;

  /* Identifies the connection over which the push came; NULL = the push came over no connection. */
  gconstpointer connection;
  /* Whether it is still open. Called with the call's `user_data`, before its answer. Must not
   * block. */
  gboolean (*is_connected) (gpointer user_data);
} TpsModelPush;

/* Never blocks; `done` may be called before this returns. */
void tps_model_server_update_and_fetch (TpsModelServer *server, const TpsModelPush *push,
                                        TpsModelDone done, gpointer user_data);

/* The connection has closed, and is_connected() of its calls returns FALSE. If a trainer's last
 * accepted push came over this connection, the trainer is lost until it pushes again, provided that
 * an earlier push over the connection was accepted too, or that the last push has not been
 * answered. Otherwise the end of the connection means nothing: some clients open a connection for
 * each call and close it after the answer. An update does not wait for lost trainers if
 * `min_trainers` have come. Never blocks. Thread: any. */
void tps_model_server_connection_closed (TpsModelServer *server, gconstpointer connection);

/* Applies the record of a command that changed the model, unless a restored snapshot contains it;
 * blocks. Must be called before the first call. Records must come in the order of their LSNs. */
gboolean tps_model_server_replay (TpsModelServer *server, const TpsCommand *command,
                                  GError **error);

/* Ends waiting calls with ABORTED and forgets the model; later push ids belong to the next model.
 * Blocks until the sequencer's observer has released the command. Errors: those of the observer. */
gboolean tps_model_server_reset_state (TpsModelServer *server, GError **error);

/* Calls wait meanwhile, see TPS_OPEN_ROUNDS_MAX_LOOKS. Thread: any. */
void tps_model_server_get_status (TpsModelServer *server, TpsUpdatingStatus *status);

/* From now on every call is refused with UNAVAILABLE; waiting calls end with it. */
void tps_model_server_shut_down (TpsModelServer *server);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsModelServer, tps_model_server_free)

G_END_DECLS
