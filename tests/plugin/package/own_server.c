/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A program with its own kind of averaging server. It overrides every method that a subclass of the
 * original ParameterServerBase overrides: it checks each gradient, clips each average, records
 * stragglers and batches, and takes part in reset_state. Two trainers use it over a socket.
 *
 * usage: own_server ADDRESS */

#include <math.h>
#include <stdio.h>
#include <thriftps/client.h>
#include <thriftps/plugin.h>

#define N_TRAINERS 2
#define N_ELEMENTS 2

/* ---- the kind -------------------------------------------------------------------------------- */

typedef struct
{
  gint n_gradients; /* atomic */
  gint n_clipped;   /* atomic */
  guint n_records[TPS_RECORD_BATCH_END + 1];
} CarefulServer;

static CarefulServer *careful; /* the only server of this program */

static gpointer
create (guint n_trainers)
{
  printf ("a server for %u trainers\n", n_trainers);
  careful = g_new0 (CarefulServer, 1);
  return careful;
}

static void
destroy (gpointer state)
{
  g_free (state);
}

/* The average may always be computed as gradients arrive. */
static gboolean
may_fold (guint n_arrived, guint n_trainers)
{
  (void) n_arrived;
  (void) n_trainers;
  return TRUE;
}

/* Called for each gradient. Refuses a gradient that is not finite, because it would spoil the
 * average for all trainers. */
static gboolean
check_gradient (gpointer state, gint32 trainer, const TpsRoundId *round, TpsGradient *gradient,
                GError **error)
{
  CarefulServer *server = state;
  const gfloat *elements = tps_tensor_data (&gradient->dense);

  g_atomic_int_inc (&server->n_gradients);
  for (gint64 i = 0; i < tps_shape_n_elems (&gradient->dense.shape); i++)
    if (!isfinite (elements[i]))
      {
        g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                     "batch %" G_GINT64_FORMAT ": the gradient of trainer %d is not finite",
                     round->batch, trainer);
        return FALSE;
      }
  return TRUE;
}

/* Called for each batch and bucket. Clips the elements of the average to [-1, 1]. */
static gboolean
clip_average (gpointer state, const TpsRoundId *round, TpsGradient *average, GError **error)
{
  CarefulServer *server = state;
  gfloat *elements = tps_tensor_data (&average->dense);

  (void) round;
  (void) error;
  for (gint64 i = 0; i < tps_shape_n_elems (&average->dense.shape); i++)
    {
      if (fabsf (elements[i]) > 1)
        g_atomic_int_inc (&server->n_clipped);
      elements[i] = CLAMP (elements[i], -1, 1);
    }
  return TRUE;
}

/* Called for stragglers and batches. Counts the records, and keeps the library's spans. */
static void
count_record (gpointer state, TpsMetrics *metrics, TpsServerRecord record, const TpsRoundId *round)
{
  ((CarefulServer *) state)->n_records[record]++;
  tps_server_kind_record (metrics, record, round);
}

static void
forget (gpointer state)
{
  CarefulServer *server = state;

  g_atomic_int_set (&server->n_gradients, 0);
  g_atomic_int_set (&server->n_clipped, 0);
}

static const TpsServerKind careful_server = {
  .name = "CarefulServer",
  .summary = "refuses gradients that are not finite, and clips averages",
  .may_fold = may_fold,
  .create = create,
  .destroy = destroy,
  .process_gradient = check_gradient,
  .process_average = clip_average,
  .reset_state = forget,
  .record = count_record,
};

/* ---- two trainers ---------------------------------------------------------------------------- */

static GMutex lock;
static GCond changed;
static guint n_pending;

/* Prints only the first reply, because all replies of a round are equal. */
static void
show (gpointer is_shown, TpsGradient *average, const GError *error)
{
  const gfloat *elements = average != NULL ? tps_tensor_data (&average->dense) : NULL;

  g_mutex_lock (&lock);
  if (is_shown != NULL && error != NULL)
    printf ("%s\n", error->message);
  else if (is_shown != NULL)
    printf ("average %g %g\n", (double) elements[0], (double) elements[1]);
  n_pending--;
  g_cond_signal (&changed);
  g_mutex_unlock (&lock);
}

static gint64
get_deadline (void)
{
  return (g_get_monotonic_time () + 20 * G_USEC_PER_SEC) * 1000;
}

/* Sends the gradients [first, 0.5] of `n` trainers, and waits for the replies. */
static void
run_round (TpsExchange **trainers, guint n, gint64 batch, const gfloat *first)
{
  TpsGradient gradients[N_TRAINERS] = { { .weight = 1 }, { .weight = 1 } };

  n_pending = n;
  for (guint i = 0; i < n; i++)
    {
      TpsGradient *gradient = &gradients[i];

      gradient->kind = TPS_GRADIENT_DENSE;
      tps_tensor_init_1d (&gradient->dense, TPS_DTYPE_FLOAT32, N_ELEMENTS);
      ((gfloat *) tps_tensor_data (&gradient->dense))[0] = first[i];
      ((gfloat *) tps_tensor_data (&gradient->dense))[1] = 0.5f;
      trainers[i]->ops->average_gradient (trainers[i], 0, batch, 0, gradient, get_deadline (), show,
                                          i == 0 ? trainers : NULL);
    }
  g_mutex_lock (&lock);
  while (n_pending > 0)
    g_cond_wait (&changed, &lock);
  g_mutex_unlock (&lock);
  for (guint i = 0; i < n; i++)
    tps_gradient_clear (&gradients[i]);
}

static gboolean
connect_trainers (const gchar *address, TpsExchange **trainers, GError **error)
{
  TpsRemoteExchangeOptions options = { .addresses = &address, .n_addresses = 1 };

  for (gint i = 0; i < N_TRAINERS; i++)
    {
      options.trainer = i;
      trainers[i] = tps_remote_exchange_new (&options, error);
      if (trainers[i] == NULL)
        return FALSE;
    }
  return TRUE;
}

static void
free_trainers (TpsExchange **trainers)
{
  for (guint i = 0; i < N_TRAINERS; i++)
    if (trainers[i] != NULL)
      trainers[i]->ops->free (trainers[i]);
}

static gboolean
reset (const gchar *address, GError **error)
{
  static const TpsRpc reset_state = TPS_RPC ("ParameterServer", "reset_state", NULL, NULL);
  TpsClientOptions options = { .address = address };
  g_autoptr (TpsClient) client = tps_client_new (&options, error);

  return client != NULL
         && tps_rpc_call_sync (client, &reset_state, NULL, TPS_RETRY_NEVER, get_deadline (), NULL,
                               error);
}

static void
print_state (void)
{
  printf ("%d gradients, %d clipped, records", g_atomic_int_get (&careful->n_gradients),
          g_atomic_int_get (&careful->n_clipped));
  for (guint i = TPS_RECORD_STRAGGLER_START; i <= TPS_RECORD_BATCH_END; i++)
    printf (" %u", careful->n_records[i]);
  printf ("\n");
}

static gboolean
train (const gchar *address, GError **error)
{
  const gfloat large[] = { 3, 5 }, small[] = { 0.25, 0.5 }, wrong[] = { NAN };
  TpsExchange *trainers[N_TRAINERS] = { NULL };
  gboolean ok = connect_trainers (address, trainers, error);

  if (ok)
    {
      run_round (trainers, 2, 0, large);
      run_round (trainers, 2, 1, small);
      run_round (trainers, 1, 2, wrong);
      print_state ();
      ok = reset (address, error);
    }
  if (ok)
    print_state ();
  free_trainers (trainers);
  return ok;
}

/* ---- the server ------------------------------------------------------------------------------ */

static gboolean
serve (const gchar *address, GError **error)
{
  TpsPluginOptions options = { .server_kind = careful_server.name, .n_trainers = N_TRAINERS };
  TpsPlugin *plugin = tps_plugin_new (&options, error);
  TpsServer *server;
  gboolean ok;

  if (plugin == NULL)
    return FALSE;
  server = tps_plugin_new_server (plugin, NULL);
  ok = tps_server_listen (server, address, error) && tps_server_start (server, error)
       && train (tps_server_get_addresses (server)[0], error);
  g_object_unref (server);
  tps_plugin_free (plugin);
  return ok;
}

int
main (int argc, char **argv)
{
  g_autoptr (GError) error = NULL;

  if (argc == 2 && tps_server_kind_register (&careful_server, &error) && serve (argv[1], &error))
    return 0;
  fprintf (stderr, "%s\n", error != NULL ? error->message : "usage: own_server ADDRESS");
  return 1;
}
