/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Any bytes as a message, read by every decoder, as arguments and as a result. What a decoder takes, its encoder must be
 * able to send: the peer takes it too. */

#include "tests/fuzz/wire_fuzz.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "plugin/memory/segment_registry.h"
#include "plugin/wire/wire_embedding_table.h"
#include "plugin/wire/wire_model.h"
#include "plugin/wire/wire_node.h"
#include "plugin/wire/wire_parameter_server.h"
#include "plugin/wire/wire_rendezvous.h"
#include "plugin/wire/wire_tensor.h"
#include "plugin/wire/wire_trainer.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

/* ---- decoders of arguments ------------------------------------------------------------------ */

static gboolean
decode_average (TpsReader *in, gboolean resend)
{
  g_auto (TpsAverageGradientArguments) arguments = { 0 };
  GError *error = NULL;
  gboolean ok = tps_average_gradient_arguments_decode (in, &arguments, &error);

  if (tps_fuzz_judge (ok, error) && resend)
    {
      g_autoptr (TpsMessage) again = tps_fuzz_send (tps_average_gradient_arguments_encode,
                                                    &arguments, TPS_PROTOCOL_COMPACT);

      tps_reader_init (in, again);
      tps_fuzz_check (decode_average (in, FALSE));
      tps_gradient_check (&arguments.gradient, NULL);
    }
  return ok;
}

typedef gboolean (*DecodeRendezvous) (TpsReader *in, TpsRendezvousArguments *arguments,
                                      GError **error);

static const struct
{
  DecodeRendezvous decode;
  TpsFuzzWrite encode;
} rendezvous_methods[] = {
  { tps_rendezvous_put_arguments_decode, tps_rendezvous_put_arguments_encode },
  { tps_rendezvous_get_arguments_decode, tps_rendezvous_get_arguments_encode },
  { tps_rendezvous_add_arguments_decode, tps_rendezvous_add_arguments_encode },
  { tps_rendezvous_remove_arguments_decode, tps_rendezvous_remove_arguments_encode },
};

static gboolean
decode_rendezvous (guint i, TpsReader *in, gboolean resend)
{
  g_auto (TpsRendezvousArguments) arguments = { 0 };
  GError *error = NULL;
  gboolean ok = rendezvous_methods[i].decode (in, &arguments, &error);

  if (tps_fuzz_judge (ok, error) && resend)
    {
      g_autoptr (TpsMessage)
          again = tps_fuzz_send (rendezvous_methods[i].encode, &arguments, TPS_PROTOCOL_BINARY);

      tps_reader_init (in, again);
      tps_fuzz_check (decode_rendezvous (i, in, FALSE));
    }
  return ok;
}

static gboolean
decode_train (TpsReader *in, gboolean resend)
{
  GError *error = NULL;
  g_autoptr (TpsTrainPlan) plan = tps_train_arguments_decode (in, &error);

  if (tps_fuzz_judge (plan != NULL, error) && resend)
    {
      g_autoptr (TpsMessage)
          again = tps_fuzz_send (tps_train_arguments_encode, plan, TPS_PROTOCOL_COMPACT);

      tps_reader_init (in, again);
      tps_fuzz_check (decode_train (in, FALSE));
    }
  return plan != NULL;
}

static gboolean
decode_init_model (TpsReader *in, gboolean resend)
{
  g_auto (TpsInitModelArguments) arguments = { 0 };
  GError *error = NULL;
  gboolean ok = tps_init_model_arguments_decode (in, &arguments, &error);

  if (tps_fuzz_judge (ok, error) && resend)
    {
      g_autoptr (TpsMessage)
          again = tps_fuzz_send (tps_init_model_arguments_encode, &arguments, TPS_PROTOCOL_COMPACT);

      tps_reader_init (in, again);
      tps_fuzz_check (decode_init_model (in, FALSE));
    }
  return ok;
}

static gboolean
decode_update_model (TpsReader *in, gboolean resend)
{
  g_auto (TpsUpdateModelArguments) arguments = { 0 };
  GError *error = NULL;
  gboolean ok = tps_update_model_arguments_decode (in, &arguments, &error);

  if (tps_fuzz_judge (ok, error) && resend)
    {
      g_autoptr (TpsMessage) again = tps_fuzz_send (tps_update_model_arguments_encode, &arguments,
                                                    TPS_PROTOCOL_BINARY);

      tps_reader_init (in, again);
      tps_fuzz_check (decode_update_model (in, FALSE));
    }
  return ok;
}

static void
check_spec (TpsTableSpec *spec)
{
  tps_table_spec_resolve (spec, NULL);
}

static void
check_queries (TpsLookupBagsArguments *arguments)
{
  for (guint i = 0; i < arguments->n_queries; i++)
    tps_bag_query_check (&arguments->queries[i], "queries[0]", NULL);
}

static void
check_rows (TpsLookupRowsArguments *arguments)
{
  tps_fuzz_check (arguments->indices.shape.dtype == TPS_DTYPE_INT64);
}

static void
check_row_push (TpsApplyRowGradientsArguments *arguments)
{
  tps_gradient_check (&arguments->gradient, NULL);
}

static void
check_bag_push (TpsApplyBagGradientsArguments *arguments)
{
  for (guint i = 0; i < arguments->n_gradients; i++)
    tps_bag_query_check (&arguments->gradients[i].query, "gradients[0].query", NULL);
}

/* decode_NAME(): what TYPE is decoded from is sent again, and then looked at as the runtime does. */
#define TABLE_DECODER(name, Type, check_values)                                                  \
  static gboolean decode_##name (TpsReader *in, gboolean resend)                                 \
  {                                                                                              \
    g_auto (Type) arguments = { 0 };                                                             \
    GError *error = NULL;                                                                        \
    gboolean ok = tps_##name##_arguments_decode (in, &arguments, &error);                        \
                                                                                                 \
    if (tps_fuzz_judge (ok, error) && resend)                                                    \
      {                                                                                          \
        g_autoptr (TpsMessage) again = tps_fuzz_send (tps_##name##_arguments_encode, &arguments, \
                                                      TPS_PROTOCOL_COMPACT);                     \
                                                                                                 \
        tps_reader_init (in, again);                                                             \
        tps_fuzz_check (decode_##name (in, FALSE));                                              \
        check_values (&arguments);                                                               \
      }                                                                                          \
    return ok;                                                                                   \
  }

TABLE_DECODER (create_table, TpsTableSpec, check_spec)
TABLE_DECODER (lookup_bags, TpsLookupBagsArguments, check_queries)
TABLE_DECODER (lookup_rows, TpsLookupRowsArguments, check_rows)
TABLE_DECODER (apply_row_gradients, TpsApplyRowGradientsArguments, check_row_push)
TABLE_DECODER (apply_bag_gradients, TpsApplyBagGradientsArguments, check_bag_push)

static void
decode_table_arguments (const TpsMessage *message)
{
  gboolean (*const decoders[]) (
      TpsReader *, gboolean) = { decode_create_table, decode_lookup_bags, decode_lookup_rows,
                                 decode_apply_row_gradients, decode_apply_bag_gradients };
  g_autofree gchar *table = NULL;
  GError *error = NULL;
  TpsReader in;
  gboolean ok;

  for (guint i = 0; i < G_N_ELEMENTS (decoders); i++)
    {
      tps_reader_init (&in, message);
      decoders[i](&in, TRUE);
    }
  tps_reader_init (&in, message);
  ok = tps_drop_table_arguments_decode (&in, &table, &error);
  tps_fuzz_judge (ok, g_steal_pointer (&error));
}

static void
decode_arguments (const TpsMessage *message)
{
  GError *error = NULL;
  gboolean with_samples, ok;
  TpsReader in;

  tps_reader_init (&in, message);
  decode_average (&in, TRUE);
  for (guint i = 0; i < G_N_ELEMENTS (rendezvous_methods); i++)
    {
      tps_reader_init (&in, message);
      decode_rendezvous (i, &in, TRUE);
    }
  tps_reader_init (&in, message);
  decode_train (&in, TRUE);
  tps_reader_init (&in, message);
  decode_init_model (&in, TRUE);
  tps_reader_init (&in, message);
  decode_update_model (&in, TRUE);
  tps_reader_init (&in, message);
  ok = tps_node_get_metrics_arguments_decode (&in, &with_samples, &error);
  tps_fuzz_judge (ok, g_steal_pointer (&error));
}

/* ---- decoders of results -------------------------------------------------------------------- */

static void
decode_values (const TpsMessage *message)
{
  g_auto (TpsGradient) gradient = { 0 };
  g_auto (TpsTrainStatus) status = { 0 };
  g_autoptr (GBytes) value = NULL;
  g_autoptr (TpsModelVersion) model = NULL;
  GError *error = NULL;
  gboolean ok;
  gint64 sum;
  TpsReader in;
  TpsWireType type = tps_fuzz_begin_result (&in, message);

  ok = tps_average_gradient_result_decode (&in, type, &gradient, &error);
  tps_fuzz_judge (ok, g_steal_pointer (&error));
  type = tps_fuzz_begin_result (&in, message);
  ok = tps_train_status_result_decode (&in, type, &status, &error);
  tps_fuzz_judge (ok, g_steal_pointer (&error));
  type = tps_fuzz_begin_result (&in, message);
  ok = tps_rendezvous_get_result_decode (&in, type, &value, &error);
  tps_fuzz_judge (ok, g_steal_pointer (&error));
  type = tps_fuzz_begin_result (&in, message);
  ok = tps_rendezvous_add_result_decode (&in, type, &sum, &error);
  tps_fuzz_judge (ok, g_steal_pointer (&error));
  type = tps_fuzz_begin_result (&in, message);
  ok = tps_model_result_decode (&in, type, &model, &error);
  tps_fuzz_judge (ok, g_steal_pointer (&error));
}

static void
decode_table_values (const TpsMessage *message)
{
  g_auto (TpsTensorList) list = { 0 };
  g_auto (TpsTensor) rows = { 0 };
  g_autoptr (GArray) specs = NULL;
  GError *error = NULL;
  gboolean ok;
  TpsReader in;
  TpsWireType type = tps_fuzz_begin_result (&in, message);

  ok = tps_list_tables_result_decode (&in, type, &specs, &error);
  tps_fuzz_judge (ok, g_steal_pointer (&error));
  type = tps_fuzz_begin_result (&in, message);
  ok = tps_lookup_bags_result_decode (&in, type, &list, &error);
  tps_fuzz_judge (ok, g_steal_pointer (&error));
  type = tps_fuzz_begin_result (&in, message);
  ok = tps_lookup_rows_result_decode (&in, type, &rows, &error);
  tps_fuzz_judge (ok, g_steal_pointer (&error));
}

static void
decode_node (const TpsMessage *message)
{
  g_auto (TpsNodeInfo) info = { 0 };
  GPtrArray *summaries = NULL;
  GError *error = NULL;
  gboolean ok;
  TpsReader in;
  TpsWireType type = tps_fuzz_begin_result (&in, message);

  ok = tps_node_describe_result_decode (&in, type, &info, &error);
  tps_fuzz_judge (ok, g_steal_pointer (&error));
  type = tps_fuzz_begin_result (&in, message);
  ok = tps_node_get_metrics_result_decode (&in, type, &summaries, &error);
  tps_fuzz_judge (ok, g_steal_pointer (&error));
  g_clear_pointer (&summaries, g_ptr_array_unref);
}

static void
decode_types (const TpsMessage *message)
{
  g_auto (TpsPushId) push = { 0 };
  TpsOptimizerSpec optimizer;
  GError *error = NULL;
  gboolean ok;
  TpsReader in;

  tps_reader_init (&in, message);
  ok = tps_push_id_decode (&in, NULL, &push, &error);
  tps_fuzz_judge (ok, g_steal_pointer (&error));
  if (tps_fuzz_begin_result (&in, message) != TPS_WIRE_STRUCT)
    return;
  ok = tps_optimizer_spec_decode (&in, NULL, &optimizer, &error);
  tps_fuzz_judge (ok, g_steal_pointer (&error));
}

/* ---- shared memory -------------------------------------------------------------------------- */

#define SEGMENT_BYTES 4096

static TpsSegmentRegistry *registry;
static TpsSegment *client; /* the other side's mapping of segment 1 */

/* The ids of a process begin with 1: segment 1 is for requests, 2 for answers. */
static void
open_segments (void)
{
  TpsSegmentLimits limits = { .max_bytes = 2 * SEGMENT_BYTES };
  gint64 id;
  gsize size;
  gint fd;

  registry = tps_segment_registry_new (&limits);
  tps_fuzz_check (tps_segment_registry_open (registry, TPS_SEGMENT_REQUESTS, SEGMENT_BYTES, &id,
                                             &size, &fd, NULL, NULL)
                  && id == 1);
  client = tps_segment_open (TPS_SEGMENT_REQUESTS, size, fd, NULL);
  tps_fuzz_check (client != NULL);
  close (fd);
  tps_fuzz_check (tps_segment_registry_open (registry, TPS_SEGMENT_ANSWERS, SEGMENT_BYTES, &id,
                                             &size, &fd, NULL, NULL)
                  && id == 2);
  close (fd);
}

static void
note_release (gpointer is_released)
{
  tps_fuzz_check (!*(gboolean *) is_released);
  *(gboolean *) is_released = TRUE;
}

/* Slices are found, and hold what the input has. */
static void
share (TpsMessage *message, const uint8_t *data, size_t size, gboolean *is_released)
{
  if (registry == NULL)
    open_segments ();
  memcpy (tps_segment_get_data (client), data, MIN (size, SEGMENT_BYTES));
  message->sharing = tps_segment_registry_receive (registry, note_release, is_released);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  TpsMessage *message = tps_fuzz_scan (data, size);
  gboolean is_released = FALSE;

  if (message == NULL)
    return 0;
  share (message, data, size, &is_released);
  decode_arguments (message);
  decode_table_arguments (message);
  decode_values (message);
  decode_table_values (message);
  decode_node (message);
  decode_types (message);
  tps_fuzz_decode_transport (message);
  tps_message_free (message);
  tps_fuzz_check (is_released);
  return 0;
}
