/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Services of your own, and averaging servers of your own.
 *
 * A service is a table of methods with descriptors (wire.h) and an object. It is served next to the
 * library's services, by the same threads, over the same connections, with their limits, rights,
 * metrics, shared memory and chunks:
 *
 *   static void
 *   handle_scale (TpsCall *call, gpointer object)
 *   {
 *     ScaleArguments arguments = { 0 };
 *     g_autoptr (GError) error = NULL;
 *
 *     if (tps_call_read_arguments (call, &arguments, &error))
 *       scale (&arguments.tensor, arguments.factor);
 *     if (error == NULL)
 *       tps_call_reply_value (call, &arguments.tensor);
 *     else
 *       tps_call_reply_error (call, error);
 *     tps_tensor_clear (&arguments.tensor);
 *   }
 *
 *   static const TpsMethod methods[] = {
 *     { TPS_RIGHT_PUSH, &scale_rpc, handle_scale, TPS_METHOD_ON_WORKER, FALSE, FALSE },
 *     TPS_METHODS_END
 *   };
 *
 *   TpsService service = TPS_INIT (TpsService);
 *   service.name = "Scaler", service.methods = methods;
 *   tps_plugin_add_service (plugin, &service);
 *
 * A handler must answer its call exactly once, now or later, on any thread, with one of the
 * functions tps_call_reply_*(). Errors become the ServiceError of thrift/node.thrift, with their
 * code, message and retry_after_ms.
 */

#pragma once

#include <thriftps/access.h>
#include <thriftps/wire.h>

G_BEGIN_DECLS

/* ---- services -------------------------------------------------------------------------------- */

typedef struct TpsCall TpsCall;
typedef struct TpsServiceHooks TpsServiceHooks;

/* The thread that handles the calls of a method. Calls with long arguments are always handled on a
 * worker. */
typedef enum
{
  TPS_METHOD_INLINE = 0,    /* on the I/O thread: short, and never blocks */
  TPS_METHOD_ON_WORKER = 1, /* in the short lane */
  TPS_METHOD_LONG = 2,      /* on a worker, in the long lane */
} TpsMethodPlace;

/* The right is the first field, so that a method without one does not compile. */
typedef struct
{
  TpsRight right; /* callers need it */
  const TpsRpc *rpc;
  void (*handle) (TpsCall *call, gpointer object);
  TpsMethodPlace place;
  gboolean is_a_command; /* TRUE: a log may record its arguments */
  /* TRUE: the carrier may serve the method even if the tenant of the caller is at a limit, so that
   * a flood of anonymous peers cannot keep other peers from authenticating. */
  gboolean is_login;
} TpsMethod;

#define TPS_METHODS_END                                          \
  {                                                              \
    TPS_RIGHT_UNSET, NULL, NULL, TPS_METHOD_INLINE, FALSE, FALSE \
  }

/* A service: its name in the multiplexed protocol, its methods and their object. */
typedef struct
{
  gsize size;               /* see TPS_INIT() */
  const gchar *name;        /* borrowed; must outlive the server */
  const TpsMethod *methods; /* as `name`; ends with TPS_METHODS_END */
  gpointer object;          /* borrowed; must outlive the server */
  /* Optional: frees the object. tps_plugin_close() calls it when no call of the service runs. */
  GDestroyNotify destroy;
  /* Optional: ends pending calls with UNAVAILABLE, and refuses later calls with the same code. Must
   * not block. */
  void (*shut_down) (gpointer object);
  /* Optional: ends the pending calls of `connection` (tps_call_get_connection()). Must not
   * block. */
  void (*connection_closed) (gpointer object, gconstpointer connection);
  /* FALSE: tensors that a client passes in shared memory are copied when they are read, so that
   * they may be kept. TRUE: they are not copied. The client waits for its memory, so they must be
   * released before the reply, and their contents may change at any time. */
  gboolean borrows_shared;
  const TpsServiceHooks *hooks; /* of services of the library; NULL in yours */
} TpsService;

/* ---- calls ----------------------------------------------------------------------------------- */

/* Reads the arguments with the method's descriptor. The caller must clear them, even after a
 * failure. Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED. */
gboolean tps_call_read_arguments (TpsCall *call, gpointer arguments, GError **error);

/* Charges `n_bytes` of memory that the handler uses to the budgets of the server and of the
 * caller's tenant, until the call is answered. Errors: RESOURCE_EXHAUSTED. */
gboolean tps_call_charge (TpsCall *call, gsize n_bytes, GError **error);

/* Returns TRUE if the call may be answered later. Returns FALSE in servers where a wait would block
 * all clients. If a handler would then have to wait for other calls, it must answer with
 * UNAVAILABLE. */
gboolean tps_call_may_wait (TpsCall *call);

/* Returns the peer, for the log; NULL = unknown. Borrowed until the call is answered. */
const gchar *tps_call_get_peer (TpsCall *call);

/* Returns the principal of the caller, never NULL: the anonymous principal if the carrier does not
 * identify peers. Borrowed until the call is answered; later changes of the connection's identity
 * do not affect it. */
const TpsPrincipal *tps_call_get_principal (TpsCall *call);

/* Checks that the caller has `right` for `table`; the right to call the method has already been
 * checked. Handlers must call this for each name of a table before they look up the table. NULL
 * `table` = every table, now and later. Errors: PERMISSION_DENIED, UNAUTHENTICATED; they do not
 * depend on the existence of the table. */
gboolean tps_call_check_table (TpsCall *call, const gchar *table, TpsRight right, GError **error);

/* Returns a pointer that identifies the connection of the call among the open ones; NULL = the call
 * has no connection that may close before it is answered. */
gconstpointer tps_call_get_connection (TpsCall *call);

/* Returns FALSE if the connection of the call has closed, which may be before
 * TpsService.connection_closed is called. */
gboolean tps_call_is_connected (TpsCall *call);

typedef enum
{
  TPS_LANE_SHORT = 0,
  TPS_LANE_LONG = 1, /* for functions that may take more than about 10 ms */
} TpsLane;

/* Runs `func (call, user_data)` on a worker, where it may block. If the call's connection closes
 * before `func` has begun, the call is cancelled: a worker calls `release (user_data)` instead
 * (NULL = nothing to release), and the call ends. */
void tps_call_run_on_worker (TpsCall *call, TpsLane lane,
                             void (*func) (TpsCall *call, gpointer user_data), gpointer user_data,
                             GDestroyNotify release);

/* Answers the call: the method's descriptor writes the result from `value`, which may be freed
 * afterwards. Buffers of tensors are sent from their own memory, with a reference; large ones are
 * placed in memory that the connection shares with its client. Thread: any. */
void tps_call_reply_value (TpsCall *call, gconstpointer value);

/* Answers with an error. Thread: any. */
void tps_call_reply_error (TpsCall *call, const GError *error);

/* Answers a method without a result: NULL `error` = success. Thread: any. */
void tps_call_reply_done (TpsCall *call, const GError *error);

/* ---- averaging servers ----------------------------------------------------------------------- */

/* A kind of averaging server, by name (TpsPluginOptions.server_kind). A kind of yours may override
 * the methods that subclasses override in the PyTorch benchmarks' ParameterServerBase:
 * process_gradient, the average, reset_state, and the records of stragglers and batches. Rounds,
 * deadlines, repeats and errors stay those of the library. */

typedef struct TpsMetrics TpsMetrics; /* opaque */

typedef enum
{
  TPS_REDUCE_MEAN = 0,
  TPS_REDUCE_SUM = 1, /* the actual result of the PyTorch benchmarks that bench/ repeats */
} TpsReduce;

/* The events of a round that are recorded, in order of time. */
typedef enum
{
  TPS_RECORD_STRAGGLER_START = 1, /* the first gradient has arrived */
  TPS_RECORD_BATCH_START = 2,     /* the first gradient has arrived */
  TPS_RECORD_STRAGGLER_END = 3,   /* the last gradient has arrived */
  TPS_RECORD_BATCH_END = 4,       /* the average is complete */
} TpsServerRecord;

typedef struct
{
  gint64 batch;
  gint32 param_loc;
} TpsRoundId;

/* All functions but `may_fold` are optional. `state` is the result of `create` for this server;
 * NULL without `create`. The functions must not block. Unless stated otherwise, they may run on
 * several threads at a time, and no lock is held. */
typedef struct
{
  gsize size; /* see TPS_INIT() */
  const gchar *name;
  const gchar *summary; /* one line for --list */

  /* Returns TRUE if contributions may be folded into the sum when `n_arrived` >= 1 of them have
   * arrived. If the function returns TRUE for a number of arrivals, it must return TRUE for every
   * larger number; for n_trainers it must return TRUE. The result affects only memory and time,
   * never the average. Called with the server's lock held. */
  gboolean (*may_fold) (guint n_arrived, guint n_trainers);

  /* Creates the state of a server. */
  gpointer (*create) (guint n_trainers);
  /* Frees the state. Called once, after all other calls have returned. */
  void (*destroy) (gpointer state);

  /* Examines each gradient before it takes part in a round. The function is also called for repeats
   * of a request, and must have the same result for the same bytes. It may change the weight and
   * replace tensors. It must not write to the elements of a tensor, because other gradients may
   * share them. If it returns FALSE, the call is refused with the error. */
  gboolean (*process_gradient) (gpointer state, gint32 trainer, const TpsRoundId *round,
                                TpsGradient *gradient, GError **error);

  /* Turns the average of all gradients into the reply to the trainers, once for each round. It may
   * write to the elements of `average`, and replace tensors by others of the same dtype and shape.
   * If the server uses a device, the elements may lie in its memory. If the function returns FALSE,
   * the calls of the round fail with the error. */
  gboolean (*process_average) (gpointer state, const TpsRoundId *round, TpsGradient *average,
                               GError **error);

  /* Resets the state. Called after ParameterServer.reset_state has ended and forgotten all
   * rounds. */
  void (*reset_state) (gpointer state);

  /* Replaces tps_server_kind_record(), which it may call. The server's lock is held: calls come one
   * at a time, and the function must not call the server. */
  void (*record) (gpointer state, TpsMetrics *metrics, TpsServerRecord record,
                  const TpsRoundId *round);
} TpsServerKind;

/* Registers a kind of the program; `kind` must live as long as the process. Must be called before
 * the first use of the kind. Errors: TPS_ERROR_ALREADY_EXISTS, TPS_ERROR_RESOURCE_EXHAUSTED (more
 * than 64 kinds, with the built-in ones). Thread: any. */
gboolean tps_server_kind_register (const TpsServerKind *kind, GError **error);

/* Records the spans "param_index_straggler" and "param_index_batch" of a round in `metrics`. */
void tps_server_kind_record (TpsMetrics *metrics, TpsServerRecord record, const TpsRoundId *round);

G_END_DECLS
