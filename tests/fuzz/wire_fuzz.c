/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Uses any bytes as a message. Every decoder reads it as arguments and as a result. The encoder
 * must be able to send each value that its decoder accepts, because a peer would also accept it. */

#include "tests/fuzz/wire_fuzz.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "plugin/memory/segment_registry.h"
#include "plugin/wire/contract.h"
#include "plugin/wire/wire_embedding_table.h"
#include "plugin/wire/wire_failure.h"
#include "plugin/wire/wire_parameter_server.h"
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

/* The checks of the arguments of methods. */
static const struct
{
  const TpsRpc *rpc;
  void (*check) (gpointer arguments);
} checks[] = {
  { &tps_apply_bag_gradients_rpc, check_bag_push },
  { &tps_apply_row_gradients_rpc, check_row_push },
  { &tps_average_gradient_rpc, check_average },
  { &tps_create_table_rpc, check_spec },
  { &tps_lookup_bags_rpc, check_queries },
  { &tps_lookup_rows_rpc, check_rows },
};

static void
check_arguments (const TpsRpc *rpc, gpointer arguments)
{
  for (guint i = 0; i < G_N_ELEMENTS (checks); i++)
    if (checks[i].rpc == rpc)
      checks[i].check (arguments);
}

static void
free_value (GDestroyNotify clear, gpointer value)
{
  if (clear != NULL)
    clear (value);
  g_free (value);
}

static gboolean
read_arguments (const TpsRpc *rpc, const TpsMessage *message, gboolean resend)
{
  gpointer data = g_malloc0 (rpc->n_argument_bytes);
  GError *error = NULL;
  TpsReader in;
  gboolean ok;

  tps_reader_init (&in, message);
  ok = tps_rpc_read_arguments (rpc, &in, data, &error);
  if (tps_fuzz_judge (ok, error) && resend)
    {
      g_autoptr (TpsMessage) binary = tps_fuzz_send (rpc, data, TPS_PROTOCOL_BINARY);
      g_autoptr (TpsMessage) compact = tps_fuzz_send (rpc, data, TPS_PROTOCOL_COMPACT);

      tps_fuzz_check (read_arguments (rpc, binary, FALSE));
      tps_fuzz_check (read_arguments (rpc, compact, FALSE));
      check_arguments (rpc, data);
    }
  free_value (rpc->clear_arguments, data);
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
read_result (const TpsRpc *rpc, const TpsMessage *message)
{
  gpointer data = g_malloc0 (rpc->n_result_bytes);
  GError *error = NULL;
  TpsReader in;
  TpsWireType type = tps_fuzz_begin_result (&in, message);
  gboolean ok = tps_rpc_read_result (rpc, &in, type, data, &error);

  tps_fuzz_judge (ok, error);
  free_value (rpc->clear_result, data);
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
  for (const TpsRpc *const *rpc = tps_contract; *rpc != NULL; rpc++)
    {
      if (*rpc != &tps_train_rpc) /* its arguments must not start as zeros */
        read_arguments (*rpc, message, TRUE);
      if ((*rpc)->result != NULL)
        read_result (*rpc, message);
    }
  read_train (message, TRUE);
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
  memcpy (client->data, data, MIN (size, SEGMENT_BYTES));
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
