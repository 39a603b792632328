/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Averages the gradients of two trainers, which are threads of this program.
 *
 *   thriftps_server --listen=127.0.0.1:9090 --ntrainer=2 &
 *   client 127.0.0.1:9090 */

#include <stdio.h>
#include <thriftps/client.h>

typedef struct
{
  gint32 number;
  const gchar *server;
  TpsGradient gradient, average;
  GError *error;
} Trainer;

/* Contributes the gradient [1, 2] or [3, 6], and waits for the average. */
static gpointer
train (gpointer user_data)
{
  Trainer *trainer = (Trainer *) user_data;
  gfloat scale = trainer->number == 0 ? 1 : 3, values[] = { scale, 2 * scale };
  TpsTensorView view = { { TPS_DTYPE_FLOAT32, 1, { 2 } }, values };
  gint64 deadline_ns = (g_get_monotonic_time () + 20 * G_USEC_PER_SEC) * 1000;
  TpsRemoteExchangeOptions options = TPS_INIT (TpsRemoteExchangeOptions);
  TpsExchange *exchange;

  options.trainer = trainer->number;
  options.addresses = &trainer->server, options.n_addresses = 1;
  exchange = tps_remote_exchange_new (&options, &trainer->error);
  if (exchange == NULL)
    return NULL;
  trainer->gradient.kind = TPS_GRADIENT_DENSE, trainer->gradient.weight = 1;
  tps_tensor_init_copy (&trainer->gradient.dense, view);
  /* Batch 0 of bucket 0, at server 0. Each step of a training has a greater batch. */
  tps_exchange_average_sync (exchange, 0, 0, 0, &trainer->gradient, deadline_ns, &trainer->average,
                             &trainer->error);
  exchange->ops->free (exchange);
  return NULL;
}

int
main (int argc, char **argv)
{
  static Trainer first, second; /* all zero */
  GThread *thread;
  gfloat *average;

  first.server = second.server = argc > 1 ? argv[1] : "127.0.0.1:9090", second.number = 1;
  thread = g_thread_new ("second", train, &second);
  train (&first);
  g_thread_join (thread);
  if (first.error != NULL || second.error != NULL)
    return fprintf (stderr, "%s\n", (first.error ? first.error : second.error)->message), 1;
  average = (gfloat *) tps_tensor_data (&first.average.dense);
  printf ("%g %g\n", average[0], average[1]);
  return 0;
}
