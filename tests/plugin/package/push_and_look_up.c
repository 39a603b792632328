#include <stdio.h>
#include <thriftps/tables.h>

int
main (int argc, char **argv)
{
  const gchar *const servers[] = { argc > 1 ? argv[1] : "127.0.0.1:9090" };
  TpsRemoteTablesOptions options = { .addresses = servers, .n_addresses = 1 };
  TpsRemoteTable emb = { .name = "emb", .rows = 10, .dim = 2 };
  gint64 id = 3, deadline = (g_get_monotonic_time () + 20 * G_USEC_PER_SEC) * 1000;
  gfloat gradient[] = { 1, 2 }, *row;
  TpsTensorView ids = { { TPS_DTYPE_INT64, 1, { 1 } }, &id };
  TpsTensorView gradients = { { TPS_DTYPE_FLOAT32, 2, { 1, 2 } }, gradient };
  g_autoptr (GError) error = NULL;
  g_autoptr (TpsRemoteTables) tables = tps_remote_tables_new (&options, &error);
  g_auto (TpsTensor) rows = { .buffer = NULL };

  emb.initializer.kind = TPS_INITIALIZER_ZEROS;
  if (tables == NULL || !tps_remote_tables_create (tables, &emb, deadline, &error)
      || !tps_remote_tables_apply_rows_sync (tables, "emb", ids, gradients, deadline, &error)
      || !tps_remote_tables_lookup_rows_sync (tables, "emb", ids, deadline, &rows, &error))
    {
      fprintf (stderr, "%s\n", error->message);
      return 1;
    }
  row = tps_tensor_data (&rows);
  printf ("%g %g\n", (double) row[0], (double) row[1]);
  return 0;
}
