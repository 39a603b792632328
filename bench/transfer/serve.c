/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/transfer/serve.h"

#include <stdio.h>
#include <unistd.h>

#include "bench/transfer/row.h"
#include "bench/transfer/stream.h"
#include "bench/transfer/tensor.h"
#include "plugin/plugin.h"
#include "runtime/error.h"
#include "runtime/sync.h"

#define MAX_FRAME_BYTES ((gsize) 1 << 30)
#define MAX_CONNECTIONS 16384

static void
wait_for_end_of_input (void)
{
  gchar chunk[64];

  while (read (STDIN_FILENO, chunk, sizeof chunk) > 0)
    continue;
}

static gint
fail (const GError *error)
{
  fprintf (stderr, "transfer: %s\n", error->message);
  return 1;
}

static void
announce (const gchar *address)
{
  printf ("listening on %s\n", address);
  fflush (stdout);
}

/* -- ours -- */

/* The tensor has been received whole by now; there is nothing to do with it. */
static void
handle_push (TpsCall *call, G_GNUC_UNUSED gpointer object)
{
  tps_call_reply (call, NULL, NULL);
}

static void
write_tensor_result (TpsWriter *out, gconstpointer tensor)
{
  tps_writer_field (out, 0, TPS_WIRE_STRUCT);
  tps_transfer_tensor_write (out, tensor);
}

static void
refuse (TpsCall *call, const gchar *what)
{
  g_autoptr (GError) error = g_error_new (TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "%s", what);

  tps_call_reply_error (call, error);
}

/* What is pulled is the same memory again and again, as a table or a model would be. */
static void
handle_pull (TpsCall *call, gpointer object)
{
  TpsTransferTensor tensor = { .buffer = object };
  TpsReader in;
  gint16 id;
  TpsWireType type;

  tps_call_get_arguments (call, &in);
  tps_reader_struct_begin (&in);
  if (!tps_reader_field (&in, &id, &type) || type != TPS_WIRE_I64)
    {
      refuse (call, "n_bytes is missing");
      return;
    }
  tensor.n_bytes = (gsize) tps_reader_i64 (&in);
  if (tensor.n_bytes > tps_buffer_get_size (tensor.buffer))
    refuse (call, "n_bytes is too large");
  else
    tps_call_reply (call, write_tensor_result, &tensor);
}

static void
handle_echo (TpsCall *call, G_GNUC_UNUSED gpointer object)
{
  TpsTransferTensor tensor;
  TpsReader in;
  gint16 id;
  TpsWireType type;

  tps_call_get_arguments (call, &in);
  tps_reader_struct_begin (&in);
  if (!tps_reader_field (&in, &id, &type) || type != TPS_WIRE_STRUCT
      || !tps_transfer_tensor_read (&in, &tensor))
    refuse (call, "tensor is missing");
  else
    tps_call_reply (call, write_tensor_result, &tensor);
}

static const TpsMethod transfer_methods[] = {
  { .name = "push", .handle = handle_push },
  { .name = "pull", .handle = handle_pull },
  { .name = "echo", .handle = handle_echo },
  { .name = NULL },
};

gint
tps_transfer_serve_ours (const gchar *address)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TpsBuffer) pulled = tps_buffer_new_zeroed (TPS_TRANSFER_MAX_BYTES);
  TpsPluginOptions options = { .name = "transfer", .parameter_server = { .n_trainers = 1 } };
  TpsServerOptions server_options = { .default_service = "Node",
                                      .max_frame_bytes = MAX_FRAME_BYTES,
                                      .max_connections = MAX_CONNECTIONS };
  const TpsService transfer = { .name = "Transfer", .methods = transfer_methods, .object = pulled };
  g_autoptr (TpsPlugin) plugin = tps_plugin_new (&options, &error);
  g_autoptr (TpsServer) server = NULL;

  if (plugin == NULL)
    return fail (error);
  tps_plugin_add_service (plugin, &transfer);
  server = tps_plugin_new_server (plugin, &server_options);
  if (!tps_server_listen (server, address, &error) || !tps_server_start (server, &error))
    return fail (error);
  announce (tps_server_get_addresses (server)[0]);
  wait_for_end_of_input ();
  tps_server_stop (server);
  return 0;
}

/* -- the raw socket -- */

static gboolean
answer_raw (gint fd, guint8 *memory, const guint64 head[2])
{
  guint8 ack = 1;
  gboolean sends = head[0] != TPS_TRANSFER_PULL;
  gboolean receives = head[0] != TPS_TRANSFER_PUSH;

  if (head[1] > TPS_TRANSFER_MAX_BYTES)
    return FALSE;
  if (sends && !tps_stream_receive_all (fd, memory, head[1]))
    return FALSE;
  return receives ? tps_stream_send_all (fd, memory, head[1]) : tps_stream_send_all (fd, &ack, 1);
}

static gpointer
serve_raw_connection (gpointer data)
{
  gint fd = GPOINTER_TO_INT (data);
  g_autofree guint8 *memory = g_malloc0 (TPS_TRANSFER_MAX_BYTES);
  guint64 head[2];

  while (tps_stream_receive_all (fd, head, sizeof head) && answer_raw (fd, memory, head))
    continue;
  close (fd);
  return NULL;
}

static gpointer
accept_raw (gpointer data)
{
  gint listener = GPOINTER_TO_INT (data);
  gint fd;

  while ((fd = tps_stream_accept (listener)) >= 0)
    {
      TpsThread thread;

      tps_sync_check (pthread_create (&thread, NULL, serve_raw_connection, GINT_TO_POINTER (fd)));
      tps_sync_check (pthread_detach (thread));
    }
  return NULL;
}

/* Its threads end with the process. */
gint
tps_transfer_serve_raw (const gchar *address)
{
  g_autoptr (GError) error = NULL;
  g_autofree gchar *bound = NULL;
  gint listener = tps_stream_listen (address, &bound, &error);
  TpsThread thread;

  if (listener < 0)
    return fail (error);
  announce (bound);
  tps_sync_check (pthread_create (&thread, NULL, accept_raw, GINT_TO_POINTER (listener)));
  wait_for_end_of_input ();
  _exit (0);
}
