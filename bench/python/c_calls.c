/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The calls of python_calls.py in C.
 *
 * usage: c_calls ADDRESS OPERATION FIRST N_CALLS SIZE
 *
 * OPERATION is average (SIZE = floats), lookup (SIZE = rows of the table "bench") or call. FIRST is
 * the number of the first call, which selects the batch and the ids. The program prints the
 * nanoseconds of each call, one per line, and then "check" with the sum of the last reply. The
 * WARM_UP calls before FIRST are not measured. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <thriftps/client.h>

#include "plugin/client/remote_tables.h"
#include "plugin/client/stubs.h"
#include "runtime/base/sync.h"

#define WARM_UP 3
#define N_BAGS 4096
#define N_IDS 20
#define TIMEOUT_NS (60 * G_GINT64_CONSTANT (1000000000))

/* The state of the calls; only the members of one operation are set. */
typedef struct
{
  const gchar *address;
  gint64 size;
  TpsClient *client;
  TpsRemoteTables *tables;
  TpsExchange *exchange;
  TpsTensor gradient;
  gint64 *ids;
  gint64 *offsets;
} State;

static void
fail (const gchar *what, const GError *error)
{
  fprintf (stderr, "c_calls: %s: %s\n", what, error->message);
  exit (1);
}

static gdouble
sum (const TpsTensor *tensor)
{
  const gfloat *values = tps_tensor_data (tensor);
  gint64 n = tps_shape_n_elems (&tensor->shape);
  gdouble total = 0;

  for (gint64 i = 0; i < n; i++)
    total += values[i];
  return total;
}

/* -- average -- */

typedef struct
{
  TpsMutex lock; /* guards the fields below */
  TpsCond cond;
  gboolean done;
  TpsGradient average;
} Average;

static void
on_average (gpointer user_data, TpsGradient *average, const GError *error)
{
  Average *answer = user_data;

  if (error != NULL)
    fail ("average", error);
  tps_mutex_lock (&answer->lock);
  tps_gradient_move (&answer->average, average);
  answer->done = TRUE;
  tps_cond_signal (&answer->cond);
  tps_mutex_unlock (&answer->lock);
}

static void
average_begin (State *state)
{
  TpsRemoteExchangeOptions options = { .addresses = &state->address, .n_addresses = 1 };
  GError *error = NULL;
  gfloat *values;

  state->exchange = tps_remote_exchange_new (&options, &error);
  if (state->exchange == NULL)
    fail ("address", error);
  tps_tensor_init_1d (&state->gradient, TPS_DTYPE_FLOAT32, state->size);
  values = tps_tensor_data (&state->gradient);
  for (gint64 i = 0; i < state->size; i++)
    values[i] = (gfloat) (i % 251);
}

static TpsTensor
average_run (State *state, gint64 i)
{
  TpsGradient gradient = { .kind = TPS_GRADIENT_DENSE, .weight = 1, .dense = state->gradient };
  Average answer = { 0 };
  TpsTensor average = { 0 };

  tps_mutex_init (&answer.lock);
  tps_cond_init (&answer.cond);
  state->exchange->ops->average_gradient (state->exchange, 0, i, 0, &gradient,
                                          tps_clock_now_ns () + TIMEOUT_NS, on_average, &answer);
  tps_mutex_lock (&answer.lock);
  while (!answer.done)
    tps_cond_wait (&answer.cond, &answer.lock);
  tps_mutex_unlock (&answer.lock);
  tps_tensor_move (&average, &answer.average.dense);
  tps_gradient_clear (&answer.average);
  tps_cond_clear (&answer.cond);
  tps_mutex_clear (&answer.lock);
  return average;
}

static void
average_end (State *state)
{
  state->exchange->ops->free (state->exchange);
  tps_tensor_clear (&state->gradient);
}

/* -- lookup -- */

static void
lookup_begin (State *state)
{
  TpsRemoteTablesOptions options = { .addresses = &state->address, .n_addresses = 1 };
  GError *error = NULL;

  state->tables = tps_remote_tables_new (&options, &error);
  if (state->tables == NULL
      || !tps_remote_tables_discover (state->tables, tps_clock_now_ns () + TIMEOUT_NS, &error))
    fail ("tables", error);
  state->ids = g_new (gint64, N_BAGS * N_IDS);
  state->offsets = g_new (gint64, N_BAGS);
  for (gint64 bag = 0; bag < N_BAGS; bag++)
    state->offsets[bag] = bag * N_IDS;
}

/* Computes the ids of a call outside the measured time. python_calls.py has the same formula. */
static void
lookup_prepare (State *state, gint64 i)
{
  for (gint64 k = 0; k < N_BAGS * N_IDS; k++)
    state->ids[k] = (i * N_BAGS * N_IDS + k) * 2654435761 % state->size;
}

static TpsTensor
lookup_run (State *state, G_GNUC_UNUSED gint64 i)
{
  TpsBagQuery query = { .table = "bench",
                        .indices = { { TPS_DTYPE_INT64, 1, { N_BAGS * N_IDS } }, state->ids },
                        .offsets = { { TPS_DTYPE_INT64, 1, { N_BAGS } }, state->offsets },
                        .pooling = TPS_POOLING_SUM };
  GError *error = NULL;
  TpsTensor pooled = { 0 };

  if (!tps_remote_tables_lookup_bags_sync (state->tables, &query, 1,
                                           tps_clock_now_ns () + TIMEOUT_NS, &pooled, &error))
    fail ("lookup", error);
  return pooled;
}

static void
lookup_end (State *state)
{
  tps_remote_tables_free (state->tables);
  g_free (state->ids);
  g_free (state->offsets);
}

/* -- call -- */

static void
call_begin (State *state)
{
  TpsClientOptions options = { .address = state->address };
  GError *error = NULL;

  state->client = tps_client_new (&options, &error);
  if (state->client == NULL)
    fail ("address", error);
}

static TpsTensor
call_run (State *state, G_GNUC_UNUSED gint64 i)
{
  g_auto (TpsNodeInfo) info = { 0 };
  GError *error = NULL;

  if (!tps_remote_describe (state->client, tps_clock_now_ns () + TIMEOUT_NS, &info, &error))
    fail ("describe", error);
  return (TpsTensor) { 0 };
}

static void
call_end (State *state)
{
  tps_client_free (state->client);
}

/* -- list of operations -- */

/* An operation: `run` makes call number `i` and returns its reply. */
typedef struct
{
  const gchar *name;
  void (*begin) (State *state);
  void (*prepare) (State *state, gint64 i); /* NULL = nothing to prepare */
  TpsTensor (*run) (State *state, gint64 i);
  void (*end) (State *state);
} Operation;

static const Operation operations[] = {
  { "average", average_begin, NULL, average_run, average_end },
  { "lookup", lookup_begin, lookup_prepare, lookup_run, lookup_end },
  { "call", call_begin, NULL, call_run, call_end },
};

static void
measure (const Operation *operation, State *state, gint64 first, gint64 n_calls)
{
  gdouble check = 0;

  operation->begin (state);
  for (gint64 i = first - WARM_UP; i < first + n_calls; i++)
    {
      g_auto (TpsTensor) answer = { 0 };
      gint64 began_ns;

      if (operation->prepare != NULL)
        operation->prepare (state, i);
      began_ns = tps_clock_now_ns ();
      answer = operation->run (state, i);
      if (i >= first)
        printf ("%" G_GINT64_FORMAT "\n", tps_clock_now_ns () - began_ns);
      if (i == first + n_calls - 1 && !tps_tensor_is_empty (&answer))
        check = sum (&answer);
    }
  operation->end (state);
  printf ("check %.17g\n", check);
}

int
main (int argc, char **argv)
{
  State state = { 0 };

  if (argc != 6)
    {
      fprintf (stderr, "usage: c_calls ADDRESS OPERATION FIRST N_CALLS SIZE\n");
      return 2;
    }
  state.address = argv[1];
  state.size = g_ascii_strtoll (argv[5], NULL, 10);
  for (guint i = 0; i < G_N_ELEMENTS (operations); i++)
    if (strcmp (operations[i].name, argv[2]) == 0)
      {
        measure (&operations[i], &state, g_ascii_strtoll (argv[3], NULL, 10),
                 g_ascii_strtoll (argv[4], NULL, 10));
        return 0;
      }
  fprintf (stderr, "c_calls: unknown operation \"%s\"\n", argv[2]);
  return 2;
}
