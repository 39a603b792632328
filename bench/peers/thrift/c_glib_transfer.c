/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The Thrift C GLib library and its generated code, without our changes, as a peer of
 * //bench:transfer: ThriftSimpleServer (the only server of the library), framed transport, binary
 * protocol.
 *
 *   c_glib_transfer --serve=simple --address=127.0.0.1:0
 *   c_glib_transfer --load=simple --address=127.0.0.1:PORT
 *
 * The server prints "listening on ADDRESS". The load generator reads rows and prints times
 * (bench/transfer/system/row.h), with one call in flight. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <thrift/c_glib/protocol/thrift_binary_protocol.h>
#include <thrift/c_glib/protocol/thrift_binary_protocol_factory.h>
#include <thrift/c_glib/server/thrift_simple_server.h>
#include <thrift/c_glib/thrift_configuration.h>
#include <thrift/c_glib/transport/thrift_framed_transport.h>
#include <thrift/c_glib/transport/thrift_transport_factory.h>
#include <thrift/c_glib/transport/thrift_server_socket.h>
#include <thrift/c_glib/transport/thrift_socket.h>

#include "bench/transfer/system/row.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "tps_peer_transfer.h"

#define LIMIT (1 << 30) /* bytes of a message or a frame */

/* -- server -- */

typedef struct
{
  TpsPeerTransferHandler parent;
  GByteArray *pulled;
} PeerHandler;

typedef struct
{
  TpsPeerTransferHandlerClass parent_class;
} PeerHandlerClass;

GType peer_handler_get_type (void);

#define PEER_HANDLER(object) \
  (G_TYPE_CHECK_INSTANCE_CAST ((object), peer_handler_get_type (), PeerHandler))

G_DEFINE_TYPE (PeerHandler, peer_handler, TPS_PEER_TYPE_TRANSFER_HANDLER)

static void
fill_tensor (TpsPeerTensor *tensor, const guint8 *data, guint n_bytes)
{
  gint64 dim = n_bytes / 4;

  tensor->dtype = 1;
  tensor->__isset_dtype = TRUE;
  g_array_append_val (tensor->shape, dim);
  g_clear_pointer (&tensor->data, g_byte_array_unref);
  tensor->data = g_byte_array_sized_new (n_bytes);
  g_byte_array_append (tensor->data, data, n_bytes);
  tensor->__isset_data = TRUE;
}

static gboolean
handle_push (G_GNUC_UNUSED TpsPeerTransferIf *service, G_GNUC_UNUSED const TpsPeerTensor *tensor,
             G_GNUC_UNUSED GError **error)
{
  return TRUE;
}

static gboolean
handle_pull (TpsPeerTransferIf *service, TpsPeerTensor **result, const gint64 n_bytes,
             G_GNUC_UNUSED GError **error)
{
  PeerHandler *handler = PEER_HANDLER (service);

  g_byte_array_set_size (handler->pulled, (guint) n_bytes);
  fill_tensor (*result, handler->pulled->data, (guint) n_bytes);
  return TRUE;
}

static gboolean
handle_echo (G_GNUC_UNUSED TpsPeerTransferIf *service, TpsPeerTensor **result,
             const TpsPeerTensor *tensor, G_GNUC_UNUSED GError **error)
{
  fill_tensor (*result, tensor->data->data, tensor->data->len);
  return TRUE;
}

static gboolean
handle_clear_metrics (G_GNUC_UNUSED TpsPeerTransferIf *service, G_GNUC_UNUSED GError **error)
{
  return TRUE;
}

static void
peer_handler_finalize (GObject *object)
{
  g_byte_array_unref (PEER_HANDLER (object)->pulled);
  G_OBJECT_CLASS (peer_handler_parent_class)->finalize (object);
}

static void
peer_handler_class_init (PeerHandlerClass *klass)
{
  TpsPeerTransferHandlerClass *methods = TPS_PEER_TRANSFER_HANDLER_CLASS (klass);

  methods->push = handle_push;
  methods->pull = handle_pull;
  methods->echo = handle_echo;
  methods->clear_metrics = handle_clear_metrics;
  G_OBJECT_CLASS (klass)->finalize = peer_handler_finalize;
}

static void
peer_handler_init (PeerHandler *handler)
{
  handler->pulled = g_byte_array_new ();
}

static ThriftConfiguration *
make_limits (void)
{
  return g_object_new (THRIFT_TYPE_CONFIGURATION, "max_message_size", LIMIT, "max_frame_size",
                       LIMIT, NULL);
}

/* Creates framed transports with our limits. The factory of the library ignores ours. */

typedef ThriftTransportFactory LargeFramesFactory;
typedef ThriftTransportFactoryClass LargeFramesFactoryClass;

GType large_frames_factory_get_type (void);
G_DEFINE_TYPE (LargeFramesFactory, large_frames_factory, THRIFT_TYPE_TRANSPORT_FACTORY)

static ThriftTransport *
get_large_frames (G_GNUC_UNUSED ThriftTransportFactory *factory, ThriftTransport *inner)
{
  ThriftConfiguration *limits = make_limits ();
  ThriftTransport *framed = g_object_new (THRIFT_TYPE_FRAMED_TRANSPORT, "transport", inner,
                                          "configuration", limits, NULL);

  g_object_unref (limits);
  return framed;
}

static void
large_frames_factory_class_init (LargeFramesFactoryClass *klass)
{
  klass->get_transport = get_large_frames;
}

static void
large_frames_factory_init (G_GNUC_UNUSED LargeFramesFactory *factory)
{
}

static gpointer
end_with_input (G_GNUC_UNUSED gpointer data)
{
  tps_transfer_wait_for_end ();
  _exit (0);
}

/* Returns a free port, because ThriftServerSocket cannot report one that it chose; 0 on error. */
static gint
find_port (void)
{
  struct sockaddr_in address = { .sin_family = AF_INET,
                                 .sin_addr.s_addr = htonl (INADDR_LOOPBACK) };
  socklen_t length = sizeof address;
  gint fd = socket (AF_INET, SOCK_STREAM, 0);

  if (fd < 0 || bind (fd, (struct sockaddr *) &address, length) != 0
      || getsockname (fd, (struct sockaddr *) &address, &length) != 0)
    return 0;
  close (fd);
  return ntohs (address.sin_port);
}

static gint
serve (void)
{
  gint port = find_port ();
  g_autofree gchar *address = NULL;
  g_autoptr (GError) error = NULL;
  GObject *limits = G_OBJECT (make_limits ());
  GObject *processor = g_object_new (TPS_PEER_TYPE_TRANSFER_PROCESSOR, "handler",
                                     g_object_new (peer_handler_get_type (), NULL), NULL);
  GObject *socket = g_object_new (THRIFT_TYPE_SERVER_SOCKET, "port", port, "configuration", limits,
                                  NULL);
  GObject *server = g_object_new (
      THRIFT_TYPE_SIMPLE_SERVER, "processor", processor, "server_transport", socket,
      "input_transport_factory", g_object_new (large_frames_factory_get_type (), NULL),
      "output_transport_factory", g_object_new (large_frames_factory_get_type (), NULL),
      "input_protocol_factory", g_object_new (THRIFT_TYPE_BINARY_PROTOCOL_FACTORY, NULL),
      "output_protocol_factory", g_object_new (THRIFT_TYPE_BINARY_PROTOCOL_FACTORY, NULL), NULL);

  address = g_strdup_printf ("127.0.0.1:%d", port);
  tps_transfer_announce (address);
  g_thread_unref (g_thread_new ("input", end_with_input, NULL));
  thrift_server_serve (THRIFT_SERVER (server), &error);
  fprintf (stderr, "c_glib_transfer: %s\n", error != NULL ? error->message : "ended");
  return 1;
}

/* -- load -- */

#define OPEN_TRIES 500
#define OPEN_PAUSE_US 10000

/* Opens the transport, with retries: the server prints its address shortly before it listens. */
static gboolean
open_patiently (ThriftTransport *transport, GError **error)
{
  for (guint i = 0; i < OPEN_TRIES; i++)
    {
      g_clear_error (error);
      if (thrift_transport_open (transport, error))
        return TRUE;
      g_usleep (OPEN_PAUSE_US);
    }
  return FALSE;
}

static gboolean
call (TpsPeerTransferIf *client, const TpsTransferRow *row, TpsPeerTensor *tensor, GError **error)
{
  g_autoptr (GObject) answer = g_object_new (TPS_PEER_TYPE_TENSOR, NULL);
  TpsPeerTensor *result = TPS_PEER_TENSOR (answer);
  gboolean ok;

  if (row->op == TPS_TRANSFER_PUSH)
    return tps_peer_transfer_if_push (client, tensor, error);
  if (row->op == TPS_TRANSFER_PULL)
    ok = tps_peer_transfer_if_pull (client, &result, (gint64) row->n_bytes, error);
  else
    ok = tps_peer_transfer_if_echo (client, &result, tensor, error);
  if (ok && (result->data == NULL || result->data->len != row->n_bytes))
    g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL, "a wrong reply");
  return ok && *error == NULL;
}

static gint64
run_row (gpointer client, const TpsTransferRow *row, gint64 *ns, GError **error)
{
  g_autoptr (GObject) object = g_object_new (TPS_PEER_TYPE_TENSOR, NULL);
  g_autofree guint8 *zeros = g_malloc0 (row->n_bytes);
  gint64 start_ns;

  fill_tensor (TPS_PEER_TENSOR (object), zeros, (guint) row->n_bytes);
  start_ns = tps_clock_now_ns ();
  for (guint i = 0; i < row->n_calls; i++)
    {
      gint64 before_ns = tps_clock_now_ns ();

      if (!call (client, row, TPS_PEER_TENSOR (object), error))
        return -1;
      ns[i] = tps_clock_now_ns () - before_ns;
    }
  return tps_clock_now_ns () - start_ns;
}

static gint
load (const gchar *address)
{
  GObject *limits = G_OBJECT (make_limits ());
  GObject *socket = g_object_new (THRIFT_TYPE_SOCKET, "hostname", "127.0.0.1", "port",
                                  atoi (strrchr (address, ':') + 1), "configuration", limits, NULL);
  GObject *transport = g_object_new (THRIFT_TYPE_FRAMED_TRANSPORT, "transport", socket,
                                     "configuration", limits, NULL);
  GObject *protocol = g_object_new (THRIFT_TYPE_BINARY_PROTOCOL, "transport", transport, NULL);
  GObject *client = g_object_new (TPS_PEER_TYPE_TRANSFER_CLIENT, "input_protocol", protocol,
                                  "output_protocol", protocol, NULL);
  g_autoptr (GError) error = NULL;

  if (open_patiently (THRIFT_TRANSPORT (transport), &error))
    return tps_transfer_serve_rows (run_row, TPS_PEER_TRANSFER_IF (client));
  return tps_transfer_fail (error);
}

static const gchar *
find_flag (gint argc, gchar **argv, const gchar *start)
{
  for (gint i = 1; i < argc; i++)
    if (g_str_has_prefix (argv[i], start))
      return argv[i] + strlen (start);
  return NULL;
}

gint
main (gint argc, gchar **argv)
{
  const gchar *address = find_flag (argc, argv, "--address=");

  if (find_flag (argc, argv, "--serve=") != NULL)
    return serve ();
  if (find_flag (argc, argv, "--load=") != NULL && address != NULL)
    return load (address);
  fprintf (stderr, "c_glib_transfer: --serve=simple or --load=simple --address=ADDRESS\n");
  return 2;
}
