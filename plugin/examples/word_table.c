/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* An embedding table in C with the stock Thrift C GLib library: pushes the gradient of a bag of
 * words and looks the bag up. A program that uses the client of ThriftPS
 * instead (tables.c) is shorter and faster.
 *
 * The library leaks up to 136 bytes with each object of a generated class, because the finalizer of
 * the class does not call the finalizer of GObject. A long-lived program that links ThriftPS should
 * repair the generated classes with tps_register_types() (plugin/host/library.h).
 *
 *   word_table HOST PORT */

#include <stdlib.h>

#include <thrift/c_glib/protocol/thrift_binary_protocol.h>
#include <thrift/c_glib/protocol/thrift_multiplexed_protocol.h>
#include <thrift/c_glib/transport/thrift_framed_transport.h>
#include <thrift/c_glib/transport/thrift_socket.h>

#include "tps_wire_embedding_table.h"

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

/* Fills in the query: one bag of three words. */
static void
fill_bag (TpsWireBagQuery *bag)
{
  static const gint64 words[] = { 3, 141, 59 };
  static const gint64 offset = 0;

  g_object_set (bag, "table", "words", "pooling", TPS_WIRE_POOLING_SUM, NULL);
  fill_tensor (bag->indices, TPS_WIRE_D_TYPE_INT64, 3, 0, words, sizeof words);
  fill_tensor (bag->offsets, TPS_WIRE_D_TYPE_INT64, 1, 0, &offset, sizeof offset);
}

/* Creates the table. Also succeeds if it exists with the same specification. */
static gboolean
create_table (TpsWireEmbeddingTableIf *tables, GError **error)
{
  g_autoptr (GObject)
      object = g_object_new (TPS_WIRE_TYPE_TABLE_SPEC, "name", "words", "rows", (gint64) 10000,
                             "dim", 4, "dtype", TPS_WIRE_D_TYPE_FLOAT32, NULL);
  TpsWireTableSpec *spec = (TpsWireTableSpec *) object;
  g_autoptr (GObject) failure = NULL;

  g_object_set (spec->initializer, "kind", TPS_WIRE_INITIALIZER_KIND_ZEROS, NULL);
  spec->__isset_initializer = TRUE;
  g_object_set (spec->optimizer, "kind", TPS_WIRE_OPTIMIZER_KIND_SGD, "learning_rate", 0.1, NULL);
  spec->__isset_optimizer = TRUE;
  return tps_wire_embedding_table_client_create_table (tables, spec,
                                                       (TpsWireServiceError **) &failure, error);
}

/* The gradient of the bag is 1 in every column. A push id consists of a client name, which no other
 * process may ever use, and a sequence number, which must grow with every push. */
static gboolean
push (TpsWireEmbeddingTableIf *tables, GError **error)
{
  static const gfloat ones[] = { 1, 1, 1, 1 };
  g_autofree gchar *name = g_uuid_string_random ();
  g_autoptr (GObject)
      id = g_object_new (TPS_WIRE_TYPE_PUSH_ID, "client", name, "sequence", (gint64) 1, NULL);
  g_autoptr (GPtrArray) gradients = g_ptr_array_new_with_free_func (g_object_unref);
  TpsWireBagGradient *gradient = g_object_new (TPS_WIRE_TYPE_BAG_GRADIENT, NULL);
  g_autoptr (GObject) failure = NULL;

  g_ptr_array_add (gradients, gradient);
  fill_bag (gradient->query);
  fill_tensor (gradient->gradient, TPS_WIRE_D_TYPE_FLOAT32, 1, 4, ones, sizeof ones);
  return tps_wire_embedding_table_client_apply_bag_gradients (
      tables, gradients, (TpsWirePushId *) id, (TpsWireServiceError **) &failure, error);
}

static gboolean
look_up (TpsWireEmbeddingTableIf *tables, GError **error)
{
  g_autoptr (GPtrArray) bags = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr (GPtrArray) pooled = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr (GObject) failure = NULL;
  const gfloat *values;

  g_ptr_array_add (bags, g_object_new (TPS_WIRE_TYPE_BAG_QUERY, NULL));
  fill_bag (g_ptr_array_index (bags, 0));
  if (!tps_wire_embedding_table_client_lookup_bags (tables, &pooled, bags,
                                                    (TpsWireServiceError **) &failure, error))
    return FALSE;
  values = (const gfloat *) (gconstpointer) ((TpsWireTensor *) pooled->pdata[0])->data->data;
  g_print ("%.1f %.1f %.1f %.1f\n", values[0], values[1], values[2], values[3]);
  return TRUE;
}

static gboolean
run (const gchar *host, gint port, GError **error)
{
  g_autoptr (GObject)
      socket = g_object_new (THRIFT_TYPE_SOCKET, "hostname", host, "port", port, NULL);
  g_autoptr (GObject)
      transport = g_object_new (THRIFT_TYPE_FRAMED_TRANSPORT, "transport", socket, NULL);
  g_autoptr (GObject)
      binary = g_object_new (THRIFT_TYPE_BINARY_PROTOCOL, "transport", transport, NULL);
  /* The multiplexed protocol must have the transport, too. Without it, the first call crashes. */
  g_autoptr (GObject)
      protocol = g_object_new (THRIFT_TYPE_MULTIPLEXED_PROTOCOL, "transport", transport, "protocol",
                               binary, "service-name", "EmbeddingTable", NULL);
  g_autoptr (GObject) client = g_object_new (TPS_WIRE_TYPE_EMBEDDING_TABLE_CLIENT, "input_protocol",
                                             binary, "output_protocol", protocol, NULL);
  TpsWireEmbeddingTableIf *tables = TPS_WIRE_EMBEDDING_TABLE_IF (client);

  return thrift_transport_open (THRIFT_TRANSPORT (transport), error) && create_table (tables, error)
         && push (tables, error) && look_up (tables, error)
         && thrift_transport_close (THRIFT_TRANSPORT (transport), error);
}

int
main (int argc, char **argv)
{
  g_autoptr (GError) error = NULL;

  if (argc != 3)
    {
      g_printerr ("usage: word_table HOST PORT\n");
      return 2;
    }
  if (!run (argv[1], atoi (argv[2]), &error))
    {
      g_printerr ("%s\n", error != NULL ? error->message : "no message");
      return 1;
    }
  return 0;
}
