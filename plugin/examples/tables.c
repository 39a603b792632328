/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* An embedding table over any number of servers: pushes the gradient of a bag of words, and looks
 * the bag up.
 *
 *   thriftps_server --listen=127.0.0.1:9090 & thriftps_server --listen=127.0.0.1:9091 &
 *   tables 127.0.0.1:9090 127.0.0.1:9091 */

#include <stdio.h>
#include <thriftps/tables.h>

static gboolean
run (TpsRemoteTables *tables, GError **error)
{
  gint64 deadline_ns = (g_get_monotonic_time () + 20 * G_USEC_PER_SEC) * 1000;
  static const gint64 words[] = { 3, 141, 59 }, offsets[] = { 0 };
  static const gfloat ones[] = { 1, 1, 1, 1 };
  TpsRemoteTable table = TPS_INIT (TpsRemoteTable);
  TpsTensorView indices = { { TPS_DTYPE_INT64, 1, { 3 } }, words };
  TpsTensorView bags = { { TPS_DTYPE_INT64, 1, { 1 } }, offsets };
  TpsTensorView gradient = { { TPS_DTYPE_FLOAT32, 2, { 1, 4 } }, ones };
  static TpsBagGradient step; /* static, and therefore all zero */
  static TpsTensor pooled;
  gfloat *values;

  table.name = "words", table.rows = 10000, table.dim = 4;
  table.shard_kind = TPS_SHARD_HASH;
  table.initializer.kind = TPS_INITIALIZER_ZEROS;
  table.optimizer = tps_optimizer_spec (TPS_OPTIMIZER_SGD, 0.5);
  step.query.table = "words", step.query.pooling = TPS_POOLING_SUM;
  step.query.indices = indices, step.query.offsets = bags;
  step.gradient = gradient;
  if (!tps_remote_tables_create (tables, &table, deadline_ns, error)
      || !tps_remote_tables_apply_bags_sync (tables, &step, 1, deadline_ns, error)
      || !tps_remote_tables_lookup_bags_sync (tables, &step.query, 1, deadline_ns, &pooled, error))
    return FALSE;
  values = (gfloat *) tps_tensor_data (&pooled);
  printf ("%g %g %g %g\n", values[0], values[1], values[2], values[3]);
  tps_tensor_clear (&pooled);
  return tps_remote_tables_drop (tables, "words", deadline_ns, error);
}

int
main (int argc, char **argv)
{
  TpsRemoteTablesOptions options = TPS_INIT (TpsRemoteTablesOptions);
  TpsRemoteTables *tables;
  GError *error = NULL;
  gboolean ok;

  options.addresses = (const gchar *const *) argv + 1;
  options.n_addresses = (guint) argc - 1;
  tables = tps_remote_tables_new (&options, &error);
  ok = tables != NULL && run (tables, &error);
  if (!ok)
    fprintf (stderr, "%s\n", error->message);
  tps_remote_tables_free (tables);
  return ok ? 0 : 1;
}
