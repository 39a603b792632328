/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Clients: averages of gradients, models, a key-value store, and calls of any method. Clients of
 * embedding tables are in tables.h.
 *
 *   const gchar *servers[] = { "10.0.0.1:9090", "10.0.0.2:9090" };
 *   TpsRemoteExchangeOptions options = TPS_INIT (TpsRemoteExchangeOptions);
 *   options.trainer = 1, options.addresses = servers, options.n_addresses = 2;
 *   exchange = tps_remote_exchange_new (&options, &error);
 *
 *   gradient.kind = TPS_GRADIENT_DENSE, gradient.weight = 1;
 *   tps_tensor_init_copy (&gradient.dense, view);
 *   tps_exchange_average_sync (exchange, server, batch, bucket, &gradient, deadline_ns, &average,
 *                              &error);
 *
 * A method of the descriptor `find_rpc` (wire.h) is called with
 *
 *   TpsClientOptions options = TPS_INIT (TpsClientOptions);
 *   options.address = "10.0.0.1:9090";
 *   client = tps_client_new (&options, &error);
 *   tps_rpc_call_sync (client, &find_rpc, &arguments, TPS_RETRY_UNTIL_DEADLINE, deadline_ns,
 *                      &found, &error);
 *
 * Deadlines are monotonic: g_get_monotonic_time () * 1000 plus the timeout, in nanoseconds. At its
 * deadline a call ends with DEADLINE_EXCEEDED, and a late reply is dropped. All functions may be
 * called from any thread, unless their comment says otherwise.
 *
 * Connections. A client connects with its first call, and reconnects with the first call after a
 * lost connection. Many calls may be in flight on a connection. The calls of one thread are sent in
 * their order, except that later calls may overtake calls in chunks. Replies arrive in any order,
 * on the client's own I/O thread, which also runs the callbacks: these must not block, or wait for
 * a call of the same client. If bytes of a call are still unsent at its deadline, because the
 * server does not read, the client closes the connection, and the other calls on it fail with
 * CONNECTION_LOST.
 *
 * Large messages. Before a client sends a message of more than `ask_bytes`, it asks for the
 * server's frame limit. A message or reply that exceeds the limit is sent in chunks if the server
 * has the service Chunks (thrift/chunks.thrift). Chunks continue after lost connections, until the
 * deadline of the call.
 *
 * Shared memory. On a Unix socket, large tensors pass through memory that the client shares with
 * the server. Tensors of a reply are then read-only views that keep the server's memory in use, and
 * may outlive the client. Copy a tensor that is kept for long: without free shared memory, later
 * tensors travel through the socket. Tensors in memory of a device must be released before the
 * server's process exits.
 */

#pragma once

#include <thriftps/access.h>
#include <thriftps/tables.h>
#include <thriftps/wire.h>

G_BEGIN_DECLS

/* ---- clients --------------------------------------------------------------------------------- */

typedef struct TpsClient TpsClient;

typedef struct
{
  gsize size;                /* see TPS_INIT() */
  const gchar *address;      /* of the server: HOST:PORT or unix:PATH; required */
  gsize max_message_bytes;   /* limit of a reply in one frame; 0 = the maximum, 2^31 - 1 */
  gsize ask_bytes;           /* see "Large messages"; 0 = 32 MiB */
  gint64 connect_timeout_ns; /* 0 = 10 s */
  guint max_in_flight;       /* 0 = 1024; further calls fail with RESOURCE_EXHAUSTED */
  TpsProtocolKind protocol;  /* 0 = binary */
  gboolean no_shared_memory; /* TRUE: all tensors travel through the socket */
  gsize max_shared_bytes;    /* limit of the memory shared with the server; 0 = 1 GiB */
  /* TRUE: several clients receive the same tensors (averages), and may map the same memory to read
   * them. */
  gboolean shares_answers;
  TpsDevice *lookup_device; /* as in TpsRemoteTablesOptions; borrowed */
  TpsTls *tls; /* encrypts TCP connections; a reference is taken; NULL = no encryption */
  /* The name that the server's certificate must have: a host name, an IP address, or a URI such as
   * "spiffe://cluster/ps". NULL = the host of `address`. Calls to a server without such a
   * certificate fail with UNAUTHENTICATED. */
  const gchar *tls_peer;
  /* A token that the client sends with Session.authenticate on each new connection, before other
   * calls; copied; NULL = none. The token is readable on a plain connection: set `tls` for
   * connections between hosts. If the server does not know the token, calls fail with
   * UNAUTHENTICATED. */
  const gchar *token;
} TpsClientOptions;

/* Creates a client, and copies the options; it does not connect yet. The caller owns the client.
 * Errors: INVALID_ARGUMENT if the address cannot be parsed; RESOURCE_EXHAUSTED (descriptors,
 * threads). */
TpsClient *tps_client_new (const TpsClientOptions *options, GError **error);
/* Ends pending calls with ABORTED, waits until no callback runs, and frees the client, which may be
 * NULL. Must not be called from a callback. */
void tps_client_free (TpsClient *client);
/* Ends pending calls with ABORTED. Later calls fail with ABORTED, too. */
void tps_client_cancel (TpsClient *client);

/* Makes all calls that begin from now on part of a trace. They carry `traceparent` (W3C Trace
 * Context; copied; NULL = none) in the header of a THeader frame, which the server must support.
 * The trace applies to calls of all threads, so a program with several traces at the same time
 * needs a client for each trace. Errors: INVALID_ARGUMENT if `traceparent` cannot be parsed. */
gboolean tps_client_set_traceparent (TpsClient *client, const gchar *traceparent, GError **error);

/* Returns memory of `n_bytes` bytes that the server maps, too. Tensors that begin at multiples of
 * 64 bytes in this memory are sent without a copy. The caller must not change the bytes of a call
 * before the call has ended. `current` is the result of an earlier call of this function, any other
 * buffer, or NULL. If the server still maps `current`, and its size is `n_bytes`, the result is a
 * new reference to `current`. After the connection has been lost, the memory stays valid, but
 * tensors in it are copied. The caller owns the result. NULL: no such memory is available now; it
 * may be later. Does not block. */
TpsBuffer *tps_client_get_send_memory (TpsClient *client, gsize n_bytes, TpsBuffer *current);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsClient, tps_client_free)

/* ---- calls of any method --------------------------------------------------------------------- */

/* Whether a call is sent again. The server must reply to a repeated call as to the first one.
 *
 *   CONNECTION_LOST      The call is sent again on a new connection: once, or until the deadline.
 *                        The first retry has no delay. Later delays are random, and grow up to one
 *                        second, to give a server time to restart.
 *   RESOURCE_EXHAUSTED, UNAVAILABLE
 *                        If the error has retry_after_ms, the call is sent again after this time,
 *                        until the deadline.
 *
 * All other errors end the call, and so do errors that come too late for a retry. */
typedef enum
{
  TPS_RETRY_NEVER,
  TPS_RETRY_ONCE,           /* for calls on an object that the server loses when it restarts */
  TPS_RETRY_UNTIL_DEADLINE, /* for calls on an object that may survive a restart of the server */
} TpsRetry;

/* Called exactly once, on the I/O thread, when nothing refers to the arguments any more. `result`
 * is the value that `rpc->result` describes; NULL on failure, and for methods without a result. The
 * callee may move parts out of it, and zero them; the rest is released after the call.
 *
 * Errors: those of the server, which are the codes of its ServiceError; NOT_FOUND if the server
 * does not know the method; INTERNAL for other exceptions, and for a reply that cannot be decoded.
 * Errors of the client: DEADLINE_EXCEEDED, CONNECTION_LOST (including a peer that violates the
 * protocol), ABORTED, RESOURCE_EXHAUSTED (too many calls in flight, the message is too long, no
 * memory for the reply), INVALID_ARGUMENT (the host does not exist). */
typedef void (*TpsRpcDone) (gpointer user_data, gpointer result, const GError *error);

/* Calls a method and never blocks. `arguments` (NULL: the method has none) must stay until `done`,
 * which may run before this returns. They are written again for each attempt. A descriptor with a
 * result must have `n_result_bytes`. */
void tps_rpc_call (TpsClient *client, const TpsRpc *rpc, gconstpointer arguments, TpsRetry retry,
                   gint64 deadline_ns, TpsRpcDone done, gpointer user_data);

/* As tps_rpc_call(), but waits. Writes the result to `result` (NULL = it is not needed) on success
 * only; the caller owns it. Must not be called from a callback. */
gboolean tps_rpc_call_sync (TpsClient *client, const TpsRpc *rpc, gconstpointer arguments,
                            TpsRetry retry, gint64 deadline_ns, gpointer result, GError **error);

/* ---- averages -------------------------------------------------------------------------------- */

/* The connections of a trainer to the servers that average gradients. In round (batch, param_loc),
 * each trainer of the server contributes one gradient, and receives the average: the sum of weight
 * times gradient in the order of the trainers, divided by the sum of the weights. */
typedef struct TpsExchange TpsExchange;

/* Receives the average of a round. Called exactly once, from any thread; must not block. `average`
 * is NULL on error. The callee may move its contents out, and leave an all-zero gradient; otherwise
 * they are released after the call. */
typedef void (*TpsExchangeDone) (gpointer user_data, TpsGradient *average, const GError *error);

typedef struct
{
  /* Sends `gradient` as this trainer's contribution to round (batch, param_loc) to server `server`
   * in [0, n_servers). `batch` >= 0 must grow; `param_loc` >= 0 is the number of the bucket. The
   * shape, the dtype and the kind must be the same for every trainer of a round. The elements must
   * not change until `done`, and lie in host memory, except as allowed by takes_device. Never
   * blocks on the network. Errors: those of TpsRpcDone; ABORTED, too, if a greater batch has begun;
   * STALE. Thread: one call at a time. */
  void (*average_gradient) (TpsExchange *exchange, guint server, gint64 batch, gint32 param_loc,
                            const TpsGradient *gradient, gint64 deadline_ns, TpsExchangeDone done,
                            gpointer user_data);

  /* Ends all calls in flight with ABORTED; later calls fail at once. */
  void (*cancel) (TpsExchange *exchange);

  /* Cancels, and frees the exchange. */
  void (*free) (TpsExchange *exchange);

  /* Returns TRUE if dense tensors for `server` may lie in the memory of `device`; must be asked
   * before each such average_gradient(), whose tensors must be complete. Averages may then lie
   * there as well. Must not block. Optional: NULL means never. */
  gboolean (*takes_device) (TpsExchange *exchange, guint server, TpsDevice *device);

  /* As tps_client_get_send_memory(), for dense tensors for `server`. The memory stays valid after
   * the exchange was freed. Optional: NULL means never. */
  TpsBuffer *(*get_memory) (TpsExchange *exchange, guint server, gsize n_bytes, TpsBuffer *current);
} TpsExchangeOps;

/* Implementations embed this struct as their first member. */
struct TpsExchange
{
  const TpsExchangeOps *ops;
  guint n_servers;
};

typedef struct
{
  gsize size;                    /* see TPS_INIT() */
  gint32 trainer;                /* the number of this trainer, in [0, trainers of the server) */
  const gchar *const *addresses; /* of the servers, in their order; as in TpsClientOptions */
  guint n_addresses;
  gsize max_message_bytes; /* limit of a reply; 0 = the maximum */
  TpsTls *tls;             /* see TpsClientOptions */
  const gchar *token;      /* see TpsClientOptions */
  /* The device to which averages will be copied; borrowed. Large averages are received into memory
   * from which the device can copy directly. NULL = none. */
  TpsDevice *device;
} TpsRemoteExchangeOptions;

/* Creates an exchange with one client for each server, which does not connect yet. The caller frees
 * it with ops->free(). Gradients are sent from their own memory, and averages refer to the receive
 * buffers. Gradients in memory of a device are copied within the device, into memory that the
 * server's process shares, or else to the host.
 *
 * A gradient is retried as with TPS_RETRY_ONCE. The server may have counted the first one; the same
 * bytes in the same round have no further effect, and get the same reply. At most 32 gradients are
 * in flight at a server, and further gradients wait in their order; the server's --max-inflight
 * must not be less than 32. Errors: INVALID_ARGUMENT if an address cannot be parsed. */
TpsExchange *tps_remote_exchange_new (const TpsRemoteExchangeOptions *options, GError **error);

/* As average_gradient(), but waits. `average` must be zero before the call; the caller owns its
 * contents. Must not be called from a callback. */
gboolean tps_exchange_average_sync (TpsExchange *exchange, guint server, gint64 batch,
                                    gint32 param_loc, const TpsGradient *gradient,
                                    gint64 deadline_ns, TpsGradient *average, GError **error);

/* ---- models ---------------------------------------------------------------------------------- */

typedef struct
{
  gchar *name;
  TpsTensor tensor;
} TpsNamedTensor;

/* A reference-counted version of a model, immutable after its publication. */
typedef struct
{
  gint64 version; /* 1 after init_model(); grows by 1 with every update */
  guint n_parameters;
  TpsNamedTensor *parameters;
} TpsModelVersion;

/* Take and release a reference. */
TpsModelVersion *tps_model_version_ref (TpsModelVersion *model);
void tps_model_version_unref (TpsModelVersion *model);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsModelVersion, tps_model_version_unref)

/* The connection of a trainer to the server that stores and updates the model. */
typedef struct TpsModelClient TpsModelClient;

/* Receives the reply, exactly once, from any thread; must not block. `model` is borrowed; NULL on
 * error and for replies without a model. */
typedef void (*TpsModelAnswered) (gpointer user_data, TpsModelVersion *model, const GError *error);

/* No function blocks on the network. Errors: those of TpsRpcDone. */
typedef struct
{
  /* Sets the initial parameters, all FLOAT32 with unique names, and the optimizer of the model.
   * Borrowed arguments must not change until `done`, which receives no model. Every trainer may
   * call this with the same arguments. Errors: ALREADY_EXISTS if they differ. */
  void (*init_model) (TpsModelClient *client, const TpsNamedTensor *parameters, guint n_parameters,
                      const TpsOptimizerSpec *optimizer, gint64 deadline_ns, TpsModelAnswered done,
                      gpointer user_data);

  /* Fetches the newest version of the model. */
  void (*get_model) (TpsModelClient *client, gint64 deadline_ns, TpsModelAnswered done,
                     gpointer user_data);

  /* Sends `gradients` [n], one for each parameter, of model `version` (0 = unknown), as this
   * trainer's contribution to the next update, and fetches the updated model. They must not change
   * until `done`. After a failure the call may be repeated; it is applied once. Errors: STALE if
   * `version` is too old; ABORTED if too few trainers have contributed. */
  void (*update_and_fetch) (TpsModelClient *client, const TpsTensor *gradients, guint n_gradients,
                            gint64 version, gint64 deadline_ns, TpsModelAnswered done,
                            gpointer user_data);

  /* Ends all calls in flight with ABORTED; later calls fail at once. */
  void (*cancel) (TpsModelClient *client);

  /* Cancels, and frees the client. */
  void (*free) (TpsModelClient *client);

  /* As tps_client_get_send_memory(), for gradients. Optional: NULL means never. */
  TpsBuffer *(*get_memory) (TpsModelClient *client, gsize n_bytes, TpsBuffer *current);
} TpsModelClientOps;

/* Implementations embed this struct as their first member. */
struct TpsModelClient
{
  const TpsModelClientOps *ops;
};

typedef struct
{
  gsize size;              /* see TPS_INIT() */
  const gchar *address;    /* of the server; as in TpsClientOptions */
  gint32 trainer;          /* the number of this trainer, in [0, trainers of the server) */
  const gchar *client;     /* name in push ids, unique among all clients; NULL = a random name */
  gsize max_message_bytes; /* limit of a reply; 0 = the maximum */
  TpsTls *tls;             /* see TpsClientOptions */
  const gchar *token;      /* see TpsClientOptions */
} TpsRemoteModelOptions;

/* Creates a model client, which does not connect yet. The caller frees it with ops->free(). Calls
 * are retried as with TPS_RETRY_UNTIL_DEADLINE. Every update has its own push id, so that a retried
 * update is applied only once. Errors: INVALID_ARGUMENT if the address cannot be parsed. */
TpsModelClient *tps_remote_model_new (const TpsRemoteModelOptions *options, GError **error);

/* ---- key-value store ------------------------------------------------------------------------- */

/* The store of a server, in which the processes of a job find each other. Keys must match
 * [A-Za-z0-9_.:/-]{1,255}; a value has at most 1 MiB. */
typedef struct TpsStore TpsStore;

/* Errors: those of TpsRpcDone. */
typedef struct
{
  /* Sets a key to `value`, which is borrowed. Blocks for one round trip. */
  gboolean (*put) (TpsStore *store, const gchar *key, GBytes *value, GError **error);

  /* Waits until the key exists; the server replies as soon as it does. The value is owned by the
   * caller. Errors (NULL): DEADLINE_EXCEEDED. */
  GBytes *(*get) (TpsStore *store, const gchar *key, gint64 deadline_ns, GError **error);

  /* Removes all keys that begin with `prefix`. Blocks for one round trip. */
  gboolean (*remove) (TpsStore *store, const gchar *prefix, GError **error);

  /* Closes the connection and frees the store. */
  void (*free) (TpsStore *store);
} TpsStoreOps;

/* Implementations embed this struct as their first member. */
struct TpsStore
{
  const TpsStoreOps *ops;
};

typedef struct
{
  gsize size;           /* see TPS_INIT() */
  const gchar *address; /* of the server; as in TpsClientOptions */
  gint64 timeout_ns;    /* of a put or remove; 0 = 30 s */
  TpsTls *tls;          /* see TpsClientOptions */
  const gchar *token;   /* see TpsClientOptions */
} TpsRemoteStoreOptions;

/* Creates a store over the service Rendezvous, which does not connect yet. The caller frees it with
 * ops->free(). Calls are retried as with TPS_RETRY_ONCE, because a repeated put, get or remove has
 * no further effect. Errors: INVALID_ARGUMENT if the address cannot be parsed. */
TpsStore *tps_remote_store_new (const TpsRemoteStoreOptions *options, GError **error);

G_END_DECLS
