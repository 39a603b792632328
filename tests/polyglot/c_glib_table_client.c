/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Pushes to an embedding table and looks up its rows. It uses only generated code and the stock
 * Thrift C GLib library.
 *
 *   c_glib_table_client HOST PORT TABLE ROWS DIM CLIENT N_PUSHES
 *
 * Its pushes are the same as those of push_of() in tables_test.py. It prints "ok" or the error. */

#include <stdlib.h>
#include <string.h>

#include <thrift/c_glib/protocol/thrift_binary_protocol.h>
#include <thrift/c_glib/protocol/thrift_multiplexed_protocol.h>
#include <thrift/c_glib/transport/thrift_framed_transport.h>
#include <thrift/c_glib/transport/thrift_socket.h>

#include "thrift/tps_wire_embedding_table.h"

#define ROWS_A_PUSH 16

typedef struct
{
  const gchar *host;
  gint port;
  const gchar *table;
  gint64 rows;
  gint64 dim;
  gint64 client;
  gint64 n_pushes;
} Task;

static void
fill_tensor (TpsWireTensor *tensor, TpsWireDType dtype, gint64 dim0, gint64 dim1,
             gconstpointer data, gsize n_bytes)
{
  g_array_append_val (tensor->shape, dim0);
  if (dim1 > 0)
    g_array_append_val (tensor->shape, dim1);
  tensor->dtype = dtype;
  tensor->__isset_dtype = TRUE;
  tensor->data = g_byte_array_append (g_byte_array_new (), data, (guint) n_bytes);
  tensor->__isset_data = TRUE;
}

static void
fill_indices (TpsWireTensor *tensor, const Task *task, gint64 push)
{
  gint64 indices[ROWS_A_PUSH];

  for (gint64 i = 0; i < ROWS_A_PUSH; i++)
    indices[i] = (task->client * 31 + push * 17 + i * 13) % task->rows;
  fill_tensor (tensor, TPS_WIRE_D_TYPE_INT64, ROWS_A_PUSH, 0, indices, sizeof indices);
}

/* All columns of a row get the same value. */
static TpsWireSparseTensor *
gradient_of (const Task *task, gint64 push)
{
  TpsWireSparseTensor *gradient = g_object_new (TPS_WIRE_TYPE_SPARSE_TENSOR, NULL);
  gsize n_elems = (gsize) (ROWS_A_PUSH * task->dim);
  g_autofree gfloat *values = g_new (gfloat, n_elems);

  for (gsize i = 0; i < n_elems; i++)
    values[i] = (gfloat) ((task->client + push + (gint64) i / task->dim) % 5 - 2);
  fill_indices (gradient->indices, task, push);
  fill_tensor (gradient->values, TPS_WIRE_D_TYPE_FLOAT32, ROWS_A_PUSH, task->dim, values,
               n_elems * sizeof (gfloat));
  g_array_append_val (gradient->shape, task->rows);
  g_array_append_val (gradient->shape, task->dim);
  return gradient;
}

static gboolean
push_rows (const Task *task, TpsWireEmbeddingTableIf *client, gint64 push, GError **error)
{
  g_autoptr (GObject) gradient = G_OBJECT (gradient_of (task, push));
  g_autofree gchar *name = g_strdup_printf ("c.%" G_GINT64_FORMAT, task->client);
  g_autoptr (GObject)
      id = g_object_new (TPS_WIRE_TYPE_PUSH_ID, "client", name, "sequence", push, NULL);
  TpsWireServiceError *failure = NULL;

  return tps_wire_embedding_table_client_apply_row_gradients (
      client, task->table, (TpsWireSparseTensor *) gradient, (TpsWirePushId *) id, &failure, error);
}

static gboolean
set_wrong (GError **error, const gchar *what)
{
  g_set_error_literal (error, g_quark_from_static_string ("c-glib-client"), 1, what);
  return FALSE;
}

/* Every push adds the same value to all columns of a row, so at any time the columns of a row must
 * be equal. */
static gboolean
check_rows (const Task *task, const GByteArray *data, GError **error)
{
  const gfloat *values;

  if (data == NULL || data->len != ROWS_A_PUSH * (gsize) task->dim * sizeof (gfloat))
    return set_wrong (error, "the number of bytes does not match the requested rows");
  values = (const gfloat *) (gconstpointer) data->data;
  for (gint64 i = 0; i < ROWS_A_PUSH * task->dim; i++)
    if (memcmp (&values[i], &values[i / task->dim * task->dim], sizeof *values) != 0)
      return set_wrong (error, "a row is seen half updated");
  return TRUE;
}

static gboolean
look_up (const Task *task, TpsWireEmbeddingTableIf *client, gint64 push, GError **error)
{
  g_autoptr (GObject) indices = g_object_new (TPS_WIRE_TYPE_TENSOR, NULL);
  g_autoptr (GObject) answer = g_object_new (TPS_WIRE_TYPE_TENSOR, NULL);
  TpsWireTensor *rows = (TpsWireTensor *) answer;
  TpsWireServiceError *failure = NULL;

  fill_indices ((TpsWireTensor *) indices, task, push);
  return tps_wire_embedding_table_client_lookup_rows (client, &rows, task->table,
                                                      (TpsWireTensor *) indices, &failure, error)
         && check_rows (task, rows->data, error);
}

/* Each push is sent twice, as after a lost reply. The server must apply it once. */
static gboolean
run (const Task *task, GError **error)
{
  g_autoptr (GObject)
      socket = g_object_new (THRIFT_TYPE_SOCKET, "hostname", task->host, "port", task->port, NULL);
  g_autoptr (GObject)
      framed = g_object_new (THRIFT_TYPE_FRAMED_TRANSPORT, "transport", socket, NULL);
  g_autoptr (GObject)
      binary = g_object_new (THRIFT_TYPE_BINARY_PROTOCOL, "transport", framed, NULL);
  g_autoptr (GObject)
      protocol = g_object_new (THRIFT_TYPE_MULTIPLEXED_PROTOCOL, "transport", framed, "protocol",
                               binary, "service-name", "EmbeddingTable", NULL);
  g_autoptr (GObject) object = g_object_new (TPS_WIRE_TYPE_EMBEDDING_TABLE_CLIENT, "input_protocol",
                                             binary, "output_protocol", protocol, NULL);
  TpsWireEmbeddingTableIf *client = TPS_WIRE_EMBEDDING_TABLE_IF (object);

  if (!thrift_transport_open (THRIFT_TRANSPORT (framed), error))
    return FALSE;
  for (gint64 push = 0; push < task->n_pushes; push++)
    if (!push_rows (task, client, push, error) || !look_up (task, client, push, error)
        || !push_rows (task, client, push, error))
      return FALSE;
  return thrift_transport_close (THRIFT_TRANSPORT (framed), error);
}

int
main (int argc, char **argv)
{
  g_autoptr (GError) error = NULL;
  Task task;

  if (argc != 8)
    {
      g_printerr ("usage: c_glib_table_client HOST PORT TABLE ROWS DIM CLIENT N_PUSHES\n");
      return 2;
    }
  task = (Task) {
    .host = argv[1],
    .port = atoi (argv[2]),
    .table = argv[3],
    .rows = atoll (argv[4]),
    .dim = atoll (argv[5]),
    .client = atoll (argv[6]),
    .n_pushes = atoll (argv[7]),
  };
  if (!run (&task, &error))
    {
      g_print ("%s\n", error != NULL ? error->message : "no message");
      return 1;
    }
  g_print ("ok\n");
  return 0;
}
