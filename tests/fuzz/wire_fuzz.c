/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Uses any bytes as a message. Every decoder reads it as arguments and as a result. The encoder
 * must be able to send each value that its decoder accepts, because a peer would also accept it. */

#include "tests/fuzz/wire_fuzz.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "plugin/memory/segment_registry.h"
#include "plugin/wire/wire_chunks.h"
#include "plugin/wire/wire_embedding_table.h"
#include "plugin/wire/wire_failure.h"
#include "plugin/wire/wire_memory.h"
#include "plugin/wire/wire_node.h"
#include "plugin/wire/wire_parameter_server.h"
#include "plugin/wire/wire_rendezvous.h"
#include "plugin/wire/wire_session.h"
#include "plugin/wire/wire_trainer.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

/* ---- arguments ------------------------------------------------------------------------------ */

/* The following checks use arguments as the runtime does first. */
static void
check_average (gpointer data)
{
  tps_gradient_check (&((TpsAverageGradientArguments *) data)->gradient, NULL);
}

static void
check_spec (gpointer spec)
{
  tps_table_spec_resolve (spec, NULL);
}

static void
check_queries (gpointer data)
{
  TpsLookupBagsArguments *arguments = data;

  for (guint i = 0; i < arguments->n_queries; i++)
    tps_bag_query_check (&arguments->queries[i], "queries[0]", NULL);
}

static void
check_rows (gpointer data)
{
  tps_fuzz_check (((TpsLookupRowsArguments *) data)->indices.shape.dtype == TPS_DTYPE_INT64);
}

static void
check_row_push (gpointer data)
{
  tps_gradient_check (&((TpsApplyRowGradientsArguments *) data)->gradient, NULL);
}

static void
check_bag_push (gpointer data)
{
  TpsApplyBagGradientsArguments *arguments = data;

  for (guint i = 0; i < arguments->n_gradients; i++)
    tps_bag_query_check (&arguments->gradients[i].query, "gradients[0].query", NULL);
}

/* Defines clear_NAME, a GDestroyNotify that calls a typed function. */
#define CLEAR(name, Type, clear)           \
  static void clear_##name (gpointer data) \
  {                                        \
    clear ((Type *) data);                 \
  }

static void
clear_string (gpointer string)
{
  g_free (*(gchar **) string);
}

static void
clear_ids (gpointer ids)
{
  tps_segment_ids_clear (ids);
}

static void
clear_specs (gpointer specs)
{
  tps_table_specs_clear (specs);
}

static void
clear_summaries (gpointer summaries)
{
  g_clear_pointer ((GPtrArray **) summaries, g_ptr_array_unref);
}

static void
clear_bytes (gpointer value)
{
  g_clear_pointer ((GBytes **) value, g_bytes_unref);
}

static void
clear_context (gpointer context)
{
  g_clear_pointer ((GHashTable **) context, g_hash_table_unref);
}

static void
clear_model (gpointer model)
{
  g_clear_pointer ((TpsModelVersion **) model, tps_model_version_unref);
}

CLEAR (average, TpsAverageGradientArguments, tps_average_gradient_arguments_clear)
CLEAR (init_model, TpsInitModelArguments, tps_init_model_arguments_clear)
CLEAR (update_model, TpsUpdateModelArguments, tps_update_model_arguments_clear)
CLEAR (rendezvous, TpsRendezvousArguments, tps_rendezvous_arguments_clear)
CLEAR (spec, TpsTableSpec, tps_table_spec_clear)
CLEAR (lookup_bags, TpsLookupBagsArguments, tps_lookup_bags_arguments_clear)
CLEAR (lookup_rows, TpsLookupRowsArguments, tps_lookup_rows_arguments_clear)
CLEAR (row_push, TpsApplyRowGradientsArguments, tps_apply_row_gradients_arguments_clear)
CLEAR (bag_push, TpsApplyBagGradientsArguments, tps_apply_bag_gradients_arguments_clear)
CLEAR (transfer, TpsTransferArguments, tps_transfer_arguments_clear)
CLEAR (chunk, TpsChunk, tps_chunk_clear)
CLEAR (answer, TpsLargeAnswer, tps_large_answer_clear)
CLEAR (gradient, TpsGradient, tps_gradient_clear)
CLEAR (tensors, TpsTensorList, tps_tensor_list_clear)
CLEAR (tensor, TpsTensor, tps_tensor_clear)
CLEAR (info, TpsNodeInfo, tps_node_info_clear)
CLEAR (status, TpsTrainStatus, tps_train_status_clear)

/* The arguments or the result of a method in C. */
typedef struct
{
  const TpsRpc *rpc;
  gsize n_bytes;
  GDestroyNotify clear;            /* NULL = no memory to release */
  void (*check) (gpointer values); /* may be NULL */
} Values;

#define TRANSFER sizeof (TpsTransferArguments), clear_transfer
#define RENDEZVOUS sizeof (TpsRendezvousArguments), clear_rendezvous

/* Trainer.train is missing, because its arguments must not start as zeros. */
static const Values arguments_of[] = {
  { &tps_begin_transfer_rpc, TRANSFER },
  { &tps_run_transfer_rpc, TRANSFER },
  { &tps_get_chunk_rpc, TRANSFER },
  { &tps_end_transfer_rpc, TRANSFER },
  { &tps_put_chunk_rpc, sizeof (TpsChunk), clear_chunk },
  { &tps_create_table_rpc, sizeof (TpsTableSpec), clear_spec, check_spec },
  { &tps_drop_table_rpc, sizeof (gchar *), clear_string },
  { &tps_lookup_bags_rpc, sizeof (TpsLookupBagsArguments), clear_lookup_bags, check_queries },
  { &tps_lookup_rows_rpc, sizeof (TpsLookupRowsArguments), clear_lookup_rows, check_rows },
  { &tps_apply_row_gradients_rpc, sizeof (TpsApplyRowGradientsArguments), clear_row_push,
    check_row_push },
  { &tps_apply_bag_gradients_rpc, sizeof (TpsApplyBagGradientsArguments), clear_bag_push,
    check_bag_push },
  { &tps_open_segment_rpc, sizeof (TpsOpenSegmentArguments) },
  { &tps_release_segments_rpc, sizeof (TpsSegmentIds), clear_ids },
  { &tps_close_segments_rpc, sizeof (TpsSegmentIds), clear_ids },
  { &tps_open_lookup_segment_rpc, sizeof (gint64) },
  { &tps_get_metrics_rpc, sizeof (gboolean) },
  { &tps_average_gradient_rpc, sizeof (TpsAverageGradientArguments), clear_average, check_average },
  { &tps_init_model_rpc, sizeof (TpsInitModelArguments), clear_init_model },
  { &tps_update_and_fetch_model_rpc, sizeof (TpsUpdateModelArguments), clear_update_model },
  { &tps_rendezvous_put_rpc, RENDEZVOUS },
  { &tps_rendezvous_get_rpc, RENDEZVOUS },
  { &tps_rendezvous_add_rpc, RENDEZVOUS },
  { &tps_rendezvous_remove_rpc, RENDEZVOUS },
  { &tps_authenticate_rpc, sizeof (gchar *), clear_string },
  { &tps_set_context_rpc, sizeof (GHashTable *), clear_context },
};

static const Values results_of[] = {
  { &tps_begin_transfer_rpc, sizeof (gint32) },
  { &tps_run_transfer_rpc, sizeof (TpsLargeAnswer), clear_answer },
  { &tps_get_chunk_rpc, sizeof (TpsChunk), clear_chunk },
  { &tps_list_tables_rpc, sizeof (TpsTableSpecs), clear_specs },
  { &tps_lookup_bags_rpc, sizeof (TpsTensorList), clear_tensors },
  { &tps_lookup_rows_rpc, sizeof (TpsTensor), clear_tensor },
  { &tps_open_segment_rpc, sizeof (TpsSegmentInfo) },
  { &tps_open_lookup_segment_rpc, sizeof (TpsSegmentInfo) },
  { &tps_describe_rpc, sizeof (TpsNodeInfo), clear_info },
  { &tps_get_metrics_rpc, sizeof (GPtrArray *), clear_summaries },
  { &tps_average_gradient_rpc, sizeof (TpsGradient), clear_gradient },
  { &tps_get_model_rpc, sizeof (TpsModelVersion *), clear_model },
  { &tps_rendezvous_get_rpc, sizeof (GBytes *), clear_bytes },
  { &tps_rendezvous_add_rpc, sizeof (gint64) },
  { &tps_train_status_rpc, sizeof (TpsTrainStatus), clear_status },
};

static void
free_values (const Values *values, gpointer data)
{
  if (values->clear != NULL)
    values->clear (data);
  g_free (data);
}

static gboolean
read_arguments (const Values *values, const TpsMessage *message, gboolean resend)
{
  gpointer data = g_malloc0 (values->n_bytes);
  GError *error = NULL;
  TpsReader in;
  gboolean ok;

  tps_reader_init (&in, message);
  ok = tps_rpc_read_arguments (values->rpc, &in, data, &error);
  if (tps_fuzz_judge (ok, error) && resend)
    {
      g_autoptr (TpsMessage) binary = tps_fuzz_send (values->rpc, data, TPS_PROTOCOL_BINARY);
      g_autoptr (TpsMessage) compact = tps_fuzz_send (values->rpc, data, TPS_PROTOCOL_COMPACT);

      tps_fuzz_check (read_arguments (values, binary, FALSE));
      tps_fuzz_check (read_arguments (values, compact, FALSE));
      if (values->check != NULL)
        values->check (data);
    }
  free_values (values, data);
  return ok;
}

static gboolean
read_train (const TpsMessage *message, gboolean resend)
{
  g_autoptr (TpsTrainPlan) plan = tps_train_plan_new ();
  GError *error = NULL;
  TpsReader in;
  gboolean ok;

  tps_reader_init (&in, message);
  ok = tps_rpc_read_arguments (&tps_train_rpc, &in, plan, &error);
  if (tps_fuzz_judge (ok, error) && resend)
    {
      g_autoptr (TpsMessage) again = tps_fuzz_send (&tps_train_rpc, plan, TPS_PROTOCOL_COMPACT);

      tps_fuzz_check (read_train (again, FALSE));
    }
  return ok;
}

/* ---- results -------------------------------------------------------------------------------- */

static void
read_result (const Values *values, const TpsMessage *message)
{
  gpointer data = g_malloc0 (values->n_bytes);
  GError *error = NULL;
  TpsReader in;
  TpsWireType type = tps_fuzz_begin_result (&in, message);
  gboolean ok = tps_rpc_read_result (values->rpc, &in, type, data, &error);

  tps_fuzz_judge (ok, error);
  free_values (values, data);
}

static void
read_failures (const TpsMessage *message)
{
  g_auto (TpsServiceError) failure = { 0 };
  g_auto (TpsApplicationException) exception = { 0 };
  TpsReader in;

  tps_reader_init (&in, message);
  tps_service_error_read (&in, &failure);
  tps_fuzz_check (failure.message == NULL || g_utf8_validate (failure.message, -1, NULL));
  tps_reader_init (&in, message);
  tps_application_exception_read (&in, &exception);
  tps_fuzz_check (exception.message == NULL || g_utf8_validate (exception.message, -1, NULL));
}

static void
read_all (const TpsMessage *message)
{
  for (guint i = 0; i < G_N_ELEMENTS (arguments_of); i++)
    read_arguments (&arguments_of[i], message, TRUE);
  read_train (message, TRUE);
  for (guint i = 0; i < G_N_ELEMENTS (results_of); i++)
    read_result (&results_of[i], message);
  read_failures (message);
}

/* ---- shared memory -------------------------------------------------------------------------- */

#define SEGMENT_BYTES 4096

static TpsSegmentRegistry *registry;
static TpsSegment *client; /* the mapping of segment 1 by the other side */

/* The ids of a process start at 1. Segment 1 is for requests, and segment 2 is for replies. */
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

/* Lets slices of the message name segment 1, which contains the input. */
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
  read_all (message);
  tps_message_free (message);
  tps_fuzz_check (is_released);
  return 0;
}
