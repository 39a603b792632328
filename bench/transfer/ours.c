/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/transfer/ours.h"

#include "bench/transfer/system/row.h"
#include "plugin/client/client.h"
#include "plugin/plugin.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

/* -- the service -- */

/* The service Transfer of bench/peers/thrift/transfer.thrift, as plugin/wire describes methods. */

#define SERVICE "Transfer"

static const TpsField tensor_arguments[] = {
  { "tensor", 1, TPS_FIELD_REQUIRED, &tps_kind_struct, &tps_tensor_struct },
  { NULL },
};

static const TpsField pull_arguments[] = {
  { "n_bytes", 1, TPS_FIELD_REQUIRED, &tps_kind_i64 },
  { NULL },
};

static const TpsField tensor_result = { "tensor", .kind = &tps_kind_struct,
                                        .of = &tps_tensor_struct };

/* The methods, indexed by TpsTransferOp. Arguments and results: push has a TpsTensor and no result,
 * pull a gint64 and a TpsTensor, echo a TpsTensor and a TpsTensor. */
static const TpsRpc rpcs[] = {
  [TPS_TRANSFER_PUSH] = { SERVICE, "push", tensor_arguments },
  [TPS_TRANSFER_PULL] = { SERVICE, "pull", pull_arguments, &tensor_result },
  [TPS_TRANSFER_ECHO] = { SERVICE, "echo", tensor_arguments, &tensor_result },
};

/* -- the server -- */

#define MAX_FRAME_BYTES ((gsize) 1 << 30)
#define MAX_CONNECTIONS 65536

/* Reads the arguments. If they are invalid, replies with an error and returns FALSE. */
static gboolean
receive (TpsCall *call, gpointer arguments)
{
  g_autoptr (GError) error = NULL;

  if (tps_call_read_arguments (call, arguments, &error))
    return TRUE;
  tps_call_reply_error (call, error);
  return FALSE;
}

/* Does nothing with the received tensor. The reply returns its memory to the client. */
static void
handle_push (TpsCall *call, G_GNUC_UNUSED gpointer object)
{
  TpsTensor tensor = { 0 };
  gboolean received = receive (call, &tensor);

  tps_tensor_clear (&tensor);
  if (received)
    tps_call_reply (call, NULL, NULL);
}

/* Replies with the same memory for every pull, as with a table or a model. */
static void
handle_pull (TpsCall *call, gpointer object)
{
  TpsTensor tensor = { .shape = { .dtype = TPS_DTYPE_FLOAT32, .n_dims = 1 }, .buffer = object };
  g_autoptr (GError) error = NULL;
  gint64 n_bytes;

  if (!receive (call, &n_bytes))
    return;
  tensor.shape.dims[0] = n_bytes / 4;
  if (n_bytes >= 0 && (gsize) n_bytes <= tps_buffer_get_size (tensor.buffer))
    {
      tps_call_reply_value (call, &tensor);
      return;
    }
  g_set_error_literal (&error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "n_bytes is too large");
  tps_call_reply_error (call, error);
}

static void
handle_echo (TpsCall *call, G_GNUC_UNUSED gpointer object)
{
  g_auto (TpsTensor) tensor = { 0 };

  if (receive (call, &tensor))
    tps_call_reply_value (call, &tensor);
}

static const TpsMethod transfer_methods[] = {
  { TPS_RIGHT_PUSH, &rpcs[TPS_TRANSFER_PUSH], handle_push },
  { TPS_RIGHT_PUSH, &rpcs[TPS_TRANSFER_PULL], handle_pull },
  { TPS_RIGHT_PUSH, &rpcs[TPS_TRANSFER_ECHO], handle_echo },
  { 0 },
};

/* Runs a server. `tls` is borrowed; NULL = none. */
static gint
serve (const gchar *address, gsize max_bytes, TpsTls *tls)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TpsBuffer) pulled = tps_transfer_pattern_new (max_bytes);
  TpsPluginOptions options = { .name = "transfer", .n_trainers = 1 };
  TpsServerOptions server_options = { .default_service = "Node",
                                      .max_frame_bytes = MAX_FRAME_BYTES,
                                      .tls = tls,
                                      .tls_required = tls != NULL,
                                      .max_connections = MAX_CONNECTIONS };
  const TpsService transfer = {
    .name = "Transfer", .methods = transfer_methods, .object = pulled, .borrows_shared = TRUE
  };
  g_autoptr (TpsPlugin) plugin = tps_plugin_new (&options, &error);
  g_autoptr (TpsServer) server = NULL;

  if (plugin == NULL)
    return tps_transfer_fail (error);
  tps_plugin_add_service (plugin, &transfer);
  server = tps_plugin_new_server (plugin, &server_options);
  if (!tps_server_listen (server, address, &error) || !tps_server_start (server, &error))
    return tps_transfer_fail (error);
  tps_transfer_announce (tps_server_get_addresses (server)[0]);
  tps_transfer_wait_for_end ();
  tps_server_stop (server);
  return 0;
}

gint
tps_transfer_serve_ours (const gchar *address, gsize max_bytes,
                         G_GNUC_UNUSED const gchar *certificate)
{
  return serve (address, max_bytes, NULL);
}

gint
tps_transfer_serve_ours_tls (const gchar *address, gsize max_bytes, const gchar *certificate)
{
  const TpsTlsOptions options = { .certificate = certificate };
  g_autoptr (GError) error = NULL;
  g_autoptr (TpsTls) tls = tps_tls_new (&options, &error);

  return tls != NULL ? serve (address, max_bytes, tls) : tps_transfer_fail (error);
}

/* -- the load generator -- */

#define CALL_NS G_GINT64_CONSTANT (60000000000)
/* the timeout until a connection has shared memory */
#define SHARING_NS G_GINT64_CONSTANT (10000000000)

typedef struct Run Run;

/* One call in flight. When it has ended, the next call of its connection uses the slot. */
typedef struct
{
  Run *run;
  TpsClient *client;
  gint64 start_ns;
} Slot;

struct Run
{
  const TpsTransferRow *row;
  const TpsTensor *tensor;
  gint64 *ns;

  TpsMutex lock; /* guards the following fields while calls are in flight */
  TpsCond ended;
  guint n_started;
  guint n_ended; /* calls with a reply */
  guint n_slots; /* slots that still make calls */
  GError *error;
};

typedef struct
{
  const gchar *address;
  gboolean is_shared;
  TpsTls *tls;        /* NULL = no TLS */
  GPtrArray *clients; /* of TpsClient; later rows use the connections again */
  TpsBuffer *memory;
} Loader;

static gboolean
is_right (const Run *run, TpsReader *result, TpsWireType type)
{
  const TpsTransferRow *row = run->row;
  g_auto (TpsTensor) tensor = { 0 };

  if (row->op == TPS_TRANSFER_PUSH)
    return type == TPS_WIRE_STOP;
  return tps_rpc_read_result (&rpcs[row->op], result, type, &tensor, NULL)
         && tps_shape_n_bytes (&tensor.shape) == row->n_bytes
         && (!row->is_check
             || tps_transfer_pattern_matches (tps_tensor_data (&tensor), row->n_bytes));
}

/* Records the result of a call. Returns TRUE if the slot must make another call. */
static gboolean
take_answer (Run *run, gint64 ns, gboolean right, const GError *error)
{
  gboolean goes_on;

  tps_mutex_lock (&run->lock);
  run->ns[run->n_ended++] = ns;
  if (error != NULL && run->error == NULL)
    run->error = g_error_copy (error);
  else if (!right && run->error == NULL)
    g_set_error (&run->error, TPS_ERROR, TPS_ERROR_INTERNAL, "a wrong reply");
  goes_on = run->error == NULL && run->n_started < run->row->n_calls;
  if (goes_on)
    run->n_started++;
  else if (--run->n_slots == 0)
    tps_cond_signal (&run->ended);
  tps_mutex_unlock (&run->lock);
  return goes_on;
}

static void start_call (Slot *slot);

static void
on_answer (gpointer data, TpsReader *result, TpsWireType type, const GError *error)
{
  Slot *slot = data;
  gint64 ns = tps_clock_now_ns () - slot->start_ns;
  gboolean right = error == NULL && is_right (slot->run, result, type);

  if (take_answer (slot->run, ns, right, error))
    start_call (slot);
}

static void
start_call (Slot *slot)
{
  const TpsTransferRow *row = slot->run->row;
  /* tps_client_call_rpc() reads it before it returns */
  const gint64 n_bytes = (gint64) row->n_bytes;
  gconstpointer arguments = row->op == TPS_TRANSFER_PULL ? (gconstpointer) &n_bytes
                                                         : slot->run->tensor;

  slot->start_ns = tps_clock_now_ns ();
  tps_client_call_rpc (slot->client, &rpcs[row->op], arguments, slot->start_ns + CALL_NS, on_answer,
                       slot);
}

static gboolean
connect_clients (Loader *loader, guint n, GError **error)
{
  TpsClientOptions options = { .address = loader->address,
                               .no_shared_memory = !loader->is_shared,
                               .tls = loader->tls };

  while (loader->clients->len < n)
    {
      TpsClient *client = tps_client_new (&options, error);

      if (client == NULL)
        return FALSE;
      g_ptr_array_add (loader->clients, client);
    }
  return TRUE;
}

static void
run_slots (Loader *loader, Run *run)
{
  guint n_slots = MIN (run->row->n_connections * run->row->n_in_flight, run->row->n_calls);
  g_autofree Slot *slots = g_new0 (Slot, n_slots);

  run->n_slots = run->n_started = n_slots;
  for (guint i = 0; i < n_slots; i++)
    {
      slots[i] = (Slot) { .run = run,
                          .client = loader->clients->pdata[i % run->row->n_connections] };
      start_call (&slots[i]);
    }
  tps_mutex_lock (&run->lock);
  while (run->n_slots > 0)
    tps_cond_wait (&run->ended, &run->lock);
  tps_mutex_unlock (&run->lock);
}

/* Returns the number of large tensors that have gone through sockets so far. */
static guint64
count_inline (const Loader *loader)
{
  TpsSharingStats stats = { 0 };

  for (guint i = 0; i < loader->clients->len; i++)
    {
      TpsSharingStats of_one;

      tps_client_get_sharing_stats (loader->clients->pdata[i], &of_one);
      stats.sent_inline.n_tensors += of_one.sent_inline.n_tensors;
      stats.received_inline.n_tensors += of_one.received_inline.n_tensors;
    }
  return stats.sent_inline.n_tensors + stats.received_inline.n_tensors;
}

/* Makes calls until all tensors go through shared memory. A client obtains the memory in the
 * background, and calls do not wait for it. */
static void
run_shared_check (Loader *loader, Run *run)
{
  gint64 until_ns = tps_clock_now_ns () + SHARING_NS;
  guint64 n_inline;

  do
    {
      run->n_ended = 0;
      n_inline = count_inline (loader);
      run_slots (loader, run);
      n_inline = count_inline (loader) - n_inline;
    }
  while (n_inline > 0 && run->error == NULL && tps_clock_now_ns () < until_ns);
  if (n_inline > 0 && run->error == NULL)
    g_set_error (&run->error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
                 "tensors do not go through shared memory");
}

static gint64
run_row (gpointer user_data, const TpsTransferRow *row, gint64 *ns, GError **error)
{
  Loader *loader = user_data;
  const TpsTensor tensor = {
    .shape = { .dtype = TPS_DTYPE_FLOAT32, .n_dims = 1, .dims = { (gint64) row->n_bytes / 4 } },
    .buffer = loader->memory
  };
  Run run = { .row = row, .tensor = &tensor, .ns = ns };
  gint64 start_ns = tps_clock_now_ns ();

  if (!connect_clients (loader, row->n_connections, error))
    return -1;
  tps_mutex_init (&run.lock);
  tps_cond_init (&run.ended);
  if (loader->is_shared && row->is_check)
    run_shared_check (loader, &run);
  else
    run_slots (loader, &run);
  tps_mutex_clear (&run.lock);
  tps_cond_clear (&run.ended);
  if (run.error == NULL)
    return tps_clock_now_ns () - start_ns;
  g_propagate_error (error, run.error);
  return -1;
}

static void
free_client (gpointer client)
{
  tps_client_free (client);
}

static gint
load (const gchar *address, gsize max_bytes, gboolean is_shared, TpsTls *tls)
{
  g_autoptr (GPtrArray) clients = g_ptr_array_new_with_free_func (free_client);
  g_autoptr (TpsBuffer) memory = tps_transfer_pattern_new (max_bytes);
  Loader loader = { address, is_shared, tls, clients, memory };

  return tps_transfer_serve_rows (run_row, &loader);
}

gint
tps_transfer_load_ours (const gchar *address, gsize max_bytes,
                        G_GNUC_UNUSED const gchar *certificate)
{
  return load (address, max_bytes, FALSE, NULL);
}

gint
tps_transfer_load_ours_shared (const gchar *address, gsize max_bytes,
                               G_GNUC_UNUSED const gchar *certificate)
{
  return load (address, max_bytes, TRUE, NULL);
}

gint
tps_transfer_load_ours_tls (const gchar *address, gsize max_bytes, const gchar *certificate)
{
  const TpsTlsOptions options = { .authorities = certificate };
  g_autoptr (GError) error = NULL;
  g_autoptr (TpsTls) tls = tps_tls_new (&options, &error);

  return tls != NULL ? load (address, max_bytes, FALSE, tls) : tps_transfer_fail (error);
}
