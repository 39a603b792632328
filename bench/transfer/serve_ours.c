/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/transfer/ours.h"

#include "bench/transfer/rpcs.h"
#include "bench/transfer/system/pattern.h"
#include "bench/transfer/system/serve.h"
#include "plugin/plugin.h"
#include "runtime/base/error.h"

#define MAX_FRAME_BYTES ((gsize) 1 << 30)
/* the maximum that clients send before they ask */
#define MAX_CHUNKED_FRAME_BYTES ((gsize) 32 << 20)
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

/* Does nothing with the tensor, which has been received by now. With the reply, its memory belongs
 * to the client again. */
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
  { TPS_RIGHT_PUSH, &tps_transfer_rpcs[TPS_TRANSFER_PUSH], handle_push },
  { TPS_RIGHT_PUSH, &tps_transfer_rpcs[TPS_TRANSFER_PULL], handle_pull },
  { TPS_RIGHT_PUSH, &tps_transfer_rpcs[TPS_TRANSFER_ECHO], handle_echo },
  { 0 },
};

/* Runs a server. `tls` is borrowed; NULL = none. */
static gint
serve (const gchar *address, gsize max_bytes, gsize max_frame_bytes, TpsTls *tls)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TpsBuffer) pulled = tps_transfer_pattern_new (max_bytes);
  TpsPluginOptions options = { .name = "transfer", .parameter_server = { .n_trainers = 1 } };
  TpsServerOptions server_options = { .default_service = "Node",
                                      .max_frame_bytes = max_frame_bytes,
                                      .tls = tls,
                                      .tls_required = tls != NULL,
                                      .max_connections = MAX_CONNECTIONS };
  const TpsService transfer = { .name = "Transfer", .methods = transfer_methods, .object = pulled };
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
tps_transfer_serve_ours (const gchar *address, gsize max_bytes)
{
  return serve (address, max_bytes, MAX_FRAME_BYTES, NULL);
}

gint
tps_transfer_serve_ours_chunked (const gchar *address, gsize max_bytes)
{
  return serve (address, max_bytes, MAX_CHUNKED_FRAME_BYTES, NULL);
}

gint
tps_transfer_serve_ours_tls (const gchar *address, gsize max_bytes, const gchar *certificate)
{
  const TpsTlsOptions options = { .certificate = certificate };
  g_autoptr (GError) error = NULL;
  g_autoptr (TpsTls) tls = tps_tls_new (&options, &error);

  return tls != NULL ? serve (address, max_bytes, MAX_FRAME_BYTES, tls) : tps_transfer_fail (error);
}
