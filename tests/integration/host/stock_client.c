/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/integration/host/stock_client.h"

#include <string.h>
#include <thrift/c_glib/protocol/thrift_binary_protocol.h>
#include <thrift/c_glib/protocol/thrift_compact_protocol.h>
#include <thrift/c_glib/protocol/thrift_multiplexed_protocol.h>
#include <thrift/c_glib/transport/thrift_buffered_transport.h>
#include <thrift/c_glib/transport/thrift_framed_transport.h>
#include <thrift/c_glib/transport/thrift_socket.h>

#include "plugin/host/library.h"

#include "fleet_log_journal.h"
#include "tps_wire_parameter_server.h"

static const TpsGetType get_types[] = {
  fleet_log_health_ping_args_get_type,
  fleet_log_health_ping_result_get_type,
  tps_wire_gradient_get_type,
  tps_wire_parameter_server_average_gradient_args_get_type,
  tps_wire_parameter_server_average_gradient_result_get_type,
  tps_wire_service_error_get_type,
  tps_wire_shared_slice_get_type,
  tps_wire_sparse_tensor_get_type,
  tps_wire_tensor_get_type,
};

void
stock_client_register_types (void)
{
  tps_register_types (get_types, G_N_ELEMENTS (get_types));
}

struct StockClient
{
  ThriftTransport *socket;
  ThriftTransport *transport;
  ThriftProtocol *protocol;
  ThriftProtocol *average_protocol;
  ThriftProtocol *journal_protocol;
  TpsWireParameterServerIf *averaging;
  FleetLogHealthIf *journal;
};

/* Generated clients read the field `transport` of the decorator. It must be set explicitly, because
 * the decorator does not take it from the inner protocol. */
static ThriftProtocol *
multiplex (StockClient *client, const gchar *service)
{
  return g_object_new (THRIFT_TYPE_MULTIPLEXED_PROTOCOL, "transport", client->transport, "protocol",
                       client->protocol, "service-name", service, NULL);
}

StockClient *
stock_client_new (guint16 port, gboolean framed, gboolean compact)
{
  StockClient *client = g_new0 (StockClient, 1);
  GType transport = framed ? THRIFT_TYPE_FRAMED_TRANSPORT : THRIFT_TYPE_BUFFERED_TRANSPORT;
  GType protocol = compact ? THRIFT_TYPE_COMPACT_PROTOCOL : THRIFT_TYPE_BINARY_PROTOCOL;

  client->socket = g_object_new (THRIFT_TYPE_SOCKET, "hostname", "127.0.0.1", "port", port, NULL);
  client->transport = g_object_new (transport, "transport", client->socket, NULL);
  client->protocol = g_object_new (protocol, "transport", client->transport, NULL);
  if (!thrift_transport_open (client->transport, NULL))
    g_error ("cannot connect");
  client->average_protocol = multiplex (client, "ps.ParameterServer");
  client->journal_protocol = multiplex (client, "Journal");
  client->averaging = g_object_new (TPS_WIRE_TYPE_PARAMETER_SERVER_CLIENT, "input_protocol",
                                    client->protocol, "output_protocol", client->average_protocol,
                                    NULL);
  client->journal = g_object_new (FLEET_LOG_TYPE_JOURNAL_CLIENT, "input_protocol", client->protocol,
                                  "output_protocol", client->journal_protocol, NULL);
  return client;
}

void
stock_client_free (StockClient *client)
{
  thrift_transport_close (client->transport, NULL);
  g_object_unref (client->averaging);
  g_object_unref (client->journal);
  g_object_unref (client->average_protocol);
  g_object_unref (client->journal_protocol);
  g_object_unref (client->protocol);
  g_object_unref (client->transport);
  g_object_unref (client->socket);
  g_free (client);
}

static TpsWireGradient *
make_gradient (const gfloat *elements, guint n_elems)
{
  TpsWireGradient *gradient = g_object_new (TPS_WIRE_TYPE_GRADIENT, NULL);
  TpsWireTensor *tensor = g_object_new (TPS_WIRE_TYPE_TENSOR, NULL);
  gint64 n = n_elems;

  tensor->dtype = TPS_WIRE_D_TYPE_FLOAT32;
  tensor->__isset_dtype = TRUE;
  g_array_append_val (tensor->shape, n);
  tensor->data = g_byte_array_append (g_byte_array_new (), (const guint8 *) elements,
                                      n_elems * (guint) sizeof (gfloat));
  tensor->__isset_data = TRUE;
  g_object_set (gradient, "dense", tensor, NULL);
  g_object_unref (tensor);
  return gradient;
}

gint
stock_client_average (StockClient *client, gint trainer, gint64 batch, const gfloat *elements,
                      guint n_elems, gfloat *average, gchar **message)
{
  TpsWireGradient *gradient = make_gradient (elements, n_elems);
  TpsWireGradient *result = g_object_new (TPS_WIRE_TYPE_GRADIENT, NULL);
  TpsWireServiceError *failure = NULL;
  g_autoptr (GError) error = NULL;
  gint code = -1;

  if (tps_wire_parameter_server_if_average_gradient (client->averaging, &result, trainer, batch, 0,
                                                     gradient, &failure, &error)
      && result->dense->data != NULL && result->dense->data->len == n_elems * sizeof (gfloat))
    {
      memcpy (average, result->dense->data->data, result->dense->data->len);
      code = 0;
    }
  else if (failure != NULL)
    {
      code = (gint) failure->code;
      *message = g_strdup (failure->message);
    }
  else
    g_message ("average_gradient: %s", error != NULL ? error->message : "no error");
  g_clear_object (&failure);
  g_clear_object (&result);
  g_object_unref (gradient);
  return code;
}

gchar *
stock_client_ping (StockClient *client, const gchar *text)
{
  gchar *reply = NULL;

  if (!fleet_log_health_if_ping (client->journal, &reply, text, NULL))
    return NULL;
  return reply;
}
