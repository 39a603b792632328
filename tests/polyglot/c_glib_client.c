/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One trainer in C that uses only generated code and the stock Thrift C GLib library. The library's
 * limits are raised as OPERATING.md says.
 *
 *   c_glib_client HOST PORT TRAINER N_ELEMS N_BATCHES EXPECTED [small-limits | tls=FOLDER]
 *
 * The arguments are those of cpp_client.cc. */

#include <stdlib.h>
#include <string.h>

#include <thrift/c_glib/protocol/thrift_binary_protocol.h>
#include <thrift/c_glib/protocol/thrift_multiplexed_protocol.h>
#include <thrift/c_glib/thrift_configuration.h>
#include <thrift/c_glib/transport/thrift_framed_transport.h>
#include <thrift/c_glib/transport/thrift_socket.h>
#include <thrift/c_glib/transport/thrift_ssl_socket.h>

#include "thrift/tps_wire_parameter_server.h"

#define LIMIT (256 << 20)

typedef struct
{
  const gchar *host;
  gint port;
  gint trainer;
  gsize n_elems;
  gint n_batches;
  gfloat expected;
  gboolean small_limits;
  const gchar *tls; /* NULL = not encrypted */
} Task;

static TpsWireGradient *
gradient_of (const Task *task)
{
  TpsWireGradient *gradient = g_object_new (TPS_WIRE_TYPE_GRADIENT, NULL);
  TpsWireTensor *tensor = gradient->dense;
  gint64 dim = (gint64) task->n_elems;
  gfloat *values = g_new (gfloat, task->n_elems);

  for (gsize i = 0; i < task->n_elems; i++)
    values[i] = (gfloat) task->trainer;
  tensor->dtype = TPS_WIRE_D_TYPE_FLOAT32;
  tensor->__isset_dtype = TRUE;
  g_array_append_val (tensor->shape, dim);
  tensor->data = g_byte_array_new_take ((guint8 *) values, task->n_elems * sizeof (gfloat));
  tensor->__isset_data = TRUE;
  gradient->__isset_dense = TRUE;
  return gradient;
}

static gboolean
is_expected (const Task *task, const TpsWireGradient *average)
{
  const GByteArray *data = average->dense->data;

  if (data == NULL || data->len != task->n_elems * sizeof (gfloat))
    return FALSE;
  for (gsize i = 0; i < task->n_elems; i++)
    if (memcmp (data->data + i * sizeof (gfloat), &task->expected, sizeof (gfloat)) != 0)
      return FALSE;
  return TRUE;
}

static gboolean
average (const Task *task, TpsWireParameterServerIf *client, gint batch, GError **error)
{
  g_autoptr (GObject) gradient = G_OBJECT (gradient_of (task));
  g_autoptr (GObject) answer = g_object_new (TPS_WIRE_TYPE_GRADIENT, NULL);
  TpsWireGradient *result = (TpsWireGradient *) answer;
  TpsWireServiceError *failure = NULL;

  if (!tps_wire_parameter_server_client_average_gradient (
          client, &result, task->trainer, batch, 0, (TpsWireGradient *) gradient, &failure, error))
    return FALSE;
  if (is_expected (task, result))
    return TRUE;
  g_set_error (error, g_quark_from_static_string ("c-glib-client"), 1,
               "batch %d has a wrong average", batch);
  return FALSE;
}

/* A framed transport expects a single read to return the whole frame. A plain socket reads until it
 * has all requested bytes. The encrypted socket of 0.17 stops after a record of 16 KiB. */
static gint32 (*read_some) (ThriftTransport *transport, gpointer bytes, guint32 n_bytes,
                            GError **error);

static gint32
read_whole (ThriftTransport *transport, gpointer bytes, guint32 n_bytes, GError **error)
{
  guint32 n_read = 0;

  while (n_read < n_bytes)
    {
      gint32 n = read_some (transport, (guint8 *) bytes + n_read, n_bytes - n_read, error);

      if (n <= 0)
        return -1;
      n_read += (guint32) n;
    }
  return (gint32) n_read;
}

static void
repair_reading (GObject *socket)
{
  ThriftTransportClass *class = THRIFT_TRANSPORT_GET_CLASS (socket);

  read_some = class->read;
  class->read = read_whole;
}

/* The library checks the issuer of the server's certificate, but before 0.24 it cannot check the
 * host (THRIFT-6086). It has no function for a client's certificate. */
static GObject *
connect_encrypted (const Task *task, GObject *limits, GError **error)
{
  g_autofree gchar *authority = g_build_filename (task->tls, "ca.pem", NULL);
  g_autofree gchar *certificate = g_build_filename (task->tls, "client.pem", NULL);
  g_autofree gchar *key = g_build_filename (task->tls, "client.key", NULL);
  SSL_CTX *context;
  ThriftSSLSocket *socket;

  thrift_ssl_socket_initialize_openssl ();
  context = thrift_ssl_socket_context_initialize (SSLTLS, error);
  if (context == NULL || SSL_CTX_use_certificate_chain_file (context, certificate) != 1
      || SSL_CTX_use_PrivateKey_file (context, key, SSL_FILETYPE_PEM) != 1)
    g_error ("%s and its key cannot be used", certificate);
  socket = g_object_new (THRIFT_TYPE_SSL_SOCKET, "hostname", task->host, "port", task->port,
                         "configuration", limits, "ssl_context", context, NULL);
  if (!thrift_ssl_load_cert_from_file (socket, authority))
    g_error ("%s cannot be used", authority);
  repair_reading (G_OBJECT (socket));
  return G_OBJECT (socket);
}

static GObject *
connect_plain (const Task *task, GObject *limits)
{
  return g_object_new (THRIFT_TYPE_SOCKET, "hostname", task->host, "port", task->port,
                       "configuration", limits, NULL);
}

static gboolean
run (const Task *task, GError **error)
{
  /* Both transports need the limits, because a framed transport does not use the limits of its
   * socket. */
  g_autoptr (GObject) limits = g_object_new (
      THRIFT_TYPE_CONFIGURATION, "max_message_size",
      task->small_limits ? DEFAULT_MAX_MESSAGE_SIZE : LIMIT, "max_frame_size",
      task->small_limits ? DEFAULT_MAX_FRAME_SIZE : LIMIT, NULL);
  g_autoptr (GObject) socket = task->tls != NULL ? connect_encrypted (task, limits, error)
                                                 : connect_plain (task, limits);
  g_autoptr (GObject) framed = g_object_new (THRIFT_TYPE_FRAMED_TRANSPORT, "transport", socket,
                                             "configuration", limits, NULL);
  g_autoptr (GObject)
      binary = g_object_new (THRIFT_TYPE_BINARY_PROTOCOL, "transport", framed, NULL);
  g_autoptr (GObject)
      protocol = g_object_new (THRIFT_TYPE_MULTIPLEXED_PROTOCOL, "transport", framed, "protocol",
                               binary, "service-name", "ParameterServer", NULL);
  g_autoptr (GObject)
      client = g_object_new (TPS_WIRE_TYPE_PARAMETER_SERVER_CLIENT, "input_protocol", binary,
                             "output_protocol", protocol, NULL);

  if (!thrift_transport_open (THRIFT_TRANSPORT (framed), error))
    return FALSE;
  for (gint batch = 0; batch < task->n_batches; batch++)
    if (!average (task, TPS_WIRE_PARAMETER_SERVER_IF (client), batch, error))
      return FALSE;
  return thrift_transport_close (THRIFT_TRANSPORT (framed), error);
}

int
main (int argc, char **argv)
{
  g_autoptr (GError) error = NULL;
  Task task;

  if (argc < 7)
    {
      g_printerr ("usage: c_glib_client HOST PORT TRAINER N_ELEMS N_BATCHES EXPECTED "
                  "[small-limits | tls=FOLDER]\n");
      return 2;
    }
  task = (Task) {
    .host = argv[1],
    .port = atoi (argv[2]),
    .trainer = atoi (argv[3]),
    .n_elems = strtoul (argv[4], NULL, 10),
    .n_batches = atoi (argv[5]),
    .expected = strtof (argv[6], NULL),
    .small_limits = argc > 7 && !g_str_has_prefix (argv[7], "tls="),
    .tls = argc > 7 && g_str_has_prefix (argv[7], "tls=") ? argv[7] + strlen ("tls=") : NULL,
  };
  if (!run (&task, &error))
    {
      g_print ("%s\n", error != NULL ? error->message : "no message");
      return 1;
    }
  g_print ("ok\n");
  return 0;
}
