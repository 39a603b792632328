/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The conformance client in C, with the stock C GLib library. README.md lists the checks.
 *
 *   conformance HOST PORT TABLE */

#include <stdlib.h>
#include <string.h>

#include <thrift/c_glib/protocol/thrift_binary_protocol.h>
#include <thrift/c_glib/protocol/thrift_multiplexed_protocol.h>
#include <thrift/c_glib/thrift_configuration.h>
#include <thrift/c_glib/transport/thrift_framed_transport.h>
#include <thrift/c_glib/transport/thrift_socket.h>

#include "tps_wire_embedding_table.h"
#include "tps_wire_parameter_server.h"

#define BATCH ((G_GINT64_CONSTANT (1) << 53) + 1)
#define LARGE 5000000
#define LIMIT (256 << 20)

static void
fill_tensor (TpsWireTensor *tensor, TpsWireDType dtype, gint64 dim0, gint64 dim1,
             gconstpointer values, gsize n_bytes)
{
  tensor->dtype = dtype;
  tensor->__isset_dtype = TRUE;
  g_array_append_val (tensor->shape, dim0);
  if (dim1 > 0)
    g_array_append_val (tensor->shape, dim1);
  tensor->data = g_byte_array_append (g_byte_array_new (), values, (guint) n_bytes);
  tensor->__isset_data = TRUE;
}

static void
fill_ids (TpsWireTensor *tensor, const gint64 *ids, gint64 n_ids)
{
  fill_tensor (tensor, TPS_WIRE_D_TYPE_INT64, n_ids, 0, ids, (gsize) n_ids * sizeof *ids);
}

static gboolean
fail (GError **error, const gchar *what)
{
  g_set_error_literal (error, g_quark_from_static_string ("conformance"), 1, what);
  return FALSE;
}

static gboolean
is_equal (const TpsWireTensor *tensor, const gfloat *values, gsize n_elems)
{
  return tensor->dtype == TPS_WIRE_D_TYPE_FLOAT32 && tensor->data != NULL
         && tensor->data->len == n_elems * sizeof *values
         && memcmp (tensor->data->data, values, n_elems * sizeof *values) == 0;
}

static gboolean
create_table (TpsWireEmbeddingTableIf *tables, const gchar *name, GError **error)
{
  g_autoptr (GObject)
      object = g_object_new (TPS_WIRE_TYPE_TABLE_SPEC, "name", name, "rows", (gint64) 10, "dim", 2,
                             "dtype", TPS_WIRE_D_TYPE_FLOAT32, NULL);
  TpsWireTableSpec *spec = (TpsWireTableSpec *) object;
  TpsWireServiceError *failure = NULL;

  g_object_set (spec->initializer, "kind", TPS_WIRE_INITIALIZER_KIND_ZEROS, NULL);
  spec->__isset_initializer = TRUE;
  g_object_set (spec->optimizer, "kind", TPS_WIRE_OPTIMIZER_KIND_SGD, "learning_rate", 1.0, NULL);
  spec->__isset_optimizer = TRUE;
  return tps_wire_embedding_table_client_create_table (tables, spec, &failure, error);
}

/* Sends two pushes with the same id. The server must apply only one. */
static gboolean
push_rows (TpsWireEmbeddingTableIf *tables, const gchar *name, GError **error)
{
  static const gint64 ids[] = { 3, 7 };
  static const gfloat values[] = { 1, 2, 3, 4 };
  static const gint64 shape[] = { 10, 2 };
  g_autoptr (GObject) object = g_object_new (TPS_WIRE_TYPE_SPARSE_TENSOR, NULL);
  g_autoptr (GObject)
      push = g_object_new (TPS_WIRE_TYPE_PUSH_ID, "client", name, "sequence", BATCH, NULL);
  TpsWireSparseTensor *gradient = (TpsWireSparseTensor *) object;

  fill_ids (gradient->indices, ids, 2);
  fill_tensor (gradient->values, TPS_WIRE_D_TYPE_FLOAT32, 2, 2, values, sizeof values);
  g_array_append_vals (gradient->shape, shape, 2);
  for (int i = 0; i < 2; i++)
    {
      TpsWireServiceError *failure = NULL;

      if (!tps_wire_embedding_table_client_apply_row_gradients (
              tables, name, gradient, (TpsWirePushId *) push, &failure, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
look_up_rows (TpsWireEmbeddingTableIf *tables, const gchar *name, GError **error)
{
  static const gint64 ids[] = { 3, 7, 0 };
  static const gfloat expected[] = { -1, -2, -3, -4, 0, 0 };
  g_autoptr (GObject) indices = g_object_new (TPS_WIRE_TYPE_TENSOR, NULL);
  g_autoptr (GObject) answer = g_object_new (TPS_WIRE_TYPE_TENSOR, NULL);
  TpsWireTensor *rows = (TpsWireTensor *) answer;
  TpsWireServiceError *failure = NULL;

  fill_ids ((TpsWireTensor *) indices, ids, 3);
  if (!tps_wire_embedding_table_client_lookup_rows (tables, &rows, name, (TpsWireTensor *) indices,
                                                    &failure, error))
    return FALSE;
  return is_equal (rows, expected, 6) || fail (error, "rows: wrong values");
}

static gboolean
look_up_bags (TpsWireEmbeddingTableIf *tables, const gchar *name, GError **error)
{
  static const gint64 ids[] = { 3, 7, 7 };
  static const gint64 offsets[] = { 0, 1 };
  static const gfloat expected[] = { -1, -2, -6, -8 };
  TpsWireBagQuery *query = g_object_new (TPS_WIRE_TYPE_BAG_QUERY, "table", name, "pooling",
                                         TPS_WIRE_POOLING_SUM, NULL);
  g_autoptr (GPtrArray) queries = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr (GPtrArray) pooled = g_ptr_array_new_with_free_func (g_object_unref);
  TpsWireServiceError *failure = NULL;

  g_ptr_array_add (queries, query);
  fill_ids (query->indices, ids, 3);
  fill_ids (query->offsets, offsets, 2);
  if (!tps_wire_embedding_table_client_lookup_bags (tables, &pooled, queries, &failure, error))
    return FALSE;
  return (pooled->len == 1 && is_equal (g_ptr_array_index (pooled, 0), expected, 4))
         || fail (error, "bags: wrong values");
}

static gboolean
check_error (TpsWireEmbeddingTableIf *tables, GError **error)
{
  static const gint64 id = 0;
  g_autoptr (GObject) indices = g_object_new (TPS_WIRE_TYPE_TENSOR, NULL);
  g_autoptr (GObject) answer = g_object_new (TPS_WIRE_TYPE_TENSOR, NULL);
  g_autoptr (GError) ignored = NULL;
  TpsWireTensor *rows = (TpsWireTensor *) answer;
  TpsWireServiceError *failure = NULL;
  gboolean is_typed;

  fill_ids ((TpsWireTensor *) indices, &id, 1);
  if (tps_wire_embedding_table_client_lookup_rows (tables, &rows, "missing",
                                                   (TpsWireTensor *) indices, &failure, &ignored))
    return fail (error, "a lookup in a missing table succeeded");
  is_typed = failure != NULL && failure->code == TPS_WIRE_ERROR_CODE_NOT_FOUND
             && strstr (failure->message, "missing") != NULL;
  g_clear_object (&failure);
  return is_typed || fail (error, "a missing table: no typed error");
}

static gboolean
check_average (TpsWireParameterServerIf *server, gint32 param_loc, const gfloat *values,
               const gfloat *expected, gsize n_elems, GError **error)
{
  g_autoptr (GObject) object = g_object_new (TPS_WIRE_TYPE_GRADIENT, NULL);
  g_autoptr (GObject) answer = g_object_new (TPS_WIRE_TYPE_GRADIENT, NULL);
  TpsWireGradient *gradient = (TpsWireGradient *) object;
  TpsWireGradient *average = (TpsWireGradient *) answer;
  TpsWireServiceError *failure = NULL;

  fill_tensor (gradient->dense, TPS_WIRE_D_TYPE_FLOAT32, (gint64) n_elems, 0, values,
               n_elems * sizeof *values);
  gradient->__isset_dense = TRUE;
  if (!tps_wire_parameter_server_client_average_gradient (server, &average, 1, BATCH, param_loc,
                                                          gradient, &failure, error))
    return FALSE;
  return is_equal (average->dense, expected, n_elems) || fail (error, "average: wrong values");
}

static gboolean
check_averages (TpsWireParameterServerIf *server, GError **error)
{
  static const gfloat values[] = { 1, 2, 3 };
  static const gfloat expected[] = { 2, 3, 4 };
  g_autofree gfloat *ones = g_new (gfloat, LARGE);
  g_autofree gfloat *twos = g_new (gfloat, LARGE);

  for (gsize i = 0; i < LARGE; i++)
    {
      ones[i] = 1;
      twos[i] = 2;
    }
  return check_average (server, 0, values, expected, 3, error)
         && check_average (server, 1, ones, twos, LARGE, error);
}

/* The multiplexed protocol also needs its transport. Without it, the first call crashes. */
static GObject *
protocol_for (GObject *transport, GObject *protocol, const gchar *service)
{
  return g_object_new (THRIFT_TYPE_MULTIPLEXED_PROTOCOL, "transport", transport, "protocol",
                       protocol, "service-name", service, NULL);
}

static gboolean
run (const gchar *host, gint port, const gchar *table, GError **error)
{
  /* The library's default limits are below 20 MB (OPERATING.md, languages). */
  g_autoptr (GObject) limits = g_object_new (THRIFT_TYPE_CONFIGURATION, "max_message_size", LIMIT,
                                             "max_frame_size", LIMIT, NULL);
  g_autoptr (GObject) socket = g_object_new (THRIFT_TYPE_SOCKET, "hostname", host, "port", port,
                                             "configuration", limits, NULL);
  g_autoptr (GObject) transport = g_object_new (THRIFT_TYPE_FRAMED_TRANSPORT, "transport", socket,
                                                "configuration", limits, NULL);
  g_autoptr (GObject)
      protocol = g_object_new (THRIFT_TYPE_BINARY_PROTOCOL, "transport", transport, NULL);
  g_autoptr (GObject) to_tables = protocol_for (transport, protocol, "EmbeddingTable");
  g_autoptr (GObject) to_server = protocol_for (transport, protocol, "ParameterServer");
  g_autoptr (GObject) tables = g_object_new (TPS_WIRE_TYPE_EMBEDDING_TABLE_CLIENT, "input_protocol",
                                             protocol, "output_protocol", to_tables, NULL);
  g_autoptr (GObject)
      server = g_object_new (TPS_WIRE_TYPE_PARAMETER_SERVER_CLIENT, "input_protocol", protocol,
                             "output_protocol", to_server, NULL);

  return thrift_transport_open (THRIFT_TRANSPORT (transport), error)
         && create_table (TPS_WIRE_EMBEDDING_TABLE_IF (tables), table, error)
         && push_rows (TPS_WIRE_EMBEDDING_TABLE_IF (tables), table, error)
         && look_up_rows (TPS_WIRE_EMBEDDING_TABLE_IF (tables), table, error)
         && look_up_bags (TPS_WIRE_EMBEDDING_TABLE_IF (tables), table, error)
         && check_error (TPS_WIRE_EMBEDDING_TABLE_IF (tables), error)
         && check_averages (TPS_WIRE_PARAMETER_SERVER_IF (server), error)
         && thrift_transport_close (THRIFT_TRANSPORT (transport), error);
}

int
main (int argc, char **argv)
{
  g_autoptr (GError) error = NULL;

  if (argc != 4)
    return 2;
  if (!run (argv[1], atoi (argv[2]), argv[3], &error))
    {
      g_printerr ("%s\n", error != NULL ? error->message : "no message");
      return 1;
    }
  g_print ("ok\n");
  return 0;
}
