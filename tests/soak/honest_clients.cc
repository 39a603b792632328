/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Well-behaved clients of one server: honest_clients ADDRESS N_CLIENTS
 *
 * Each line "SECONDS TABLE" of stdin starts a run. In a run, each client repeats a push of 64 rows
 * and a lookup of 64 rows of a new table, on its own connection. A push adds 1 to the client's
 * column, so at the end the column's sum must be the number of pushed rows. The clients keep their
 * names and connections from run to run, because a server whose memory for push ids is used up
 * refuses new names.
 *
 * For each run it prints one line of JSON: for each kind of call n, p50, p99 and max in ms, and the
 * number of failed calls. If a call is refused with RESOURCE_EXHAUSTED or UNAVAILABLE, it is sent
 * again with its push id, and its time counts until it succeeds. */

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "plugin/client/remote_tables.h"
#include "runtime/base/error.h"

namespace {

constexpr gint64 kRows = 4096;
constexpr gint64 kRowsOfCall = 64;
constexpr gint32 kColumns = 16; /* at least as many as clients */
constexpr gint64 kCallNs = G_GINT64_CONSTANT (60000000000);

gint64
now_ns ()
{
  return g_get_monotonic_time () * 1000;
}

struct Kind
{
  std::vector<float> ms;
  unsigned n_failed = 0;
  std::string failure; /* the first failure */
};

struct Client
{
  TpsRemoteTables *tables = nullptr; /* owned */
  int number = 0;

  /* The current run. */
  std::string table;
  gint64 end_ns = 0;
  Kind push, lookup;
  guint64 n_rows_pushed = 0;
  std::string broken; /* the reason why the client stopped */
};

template <typename Call>
void
time_call (Kind *kind, Call call)
{
  gint64 begin_ns = now_ns ();
  gint64 deadline_ns = begin_ns + kCallNs;
  g_autoptr (GError) error = nullptr;

  while (!call (deadline_ns, &error))
    {
      bool is_refusal = g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED)
                        || g_error_matches (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE);

      if (!is_refusal || now_ns () > deadline_ns)
        {
          kind->n_failed++;
          if (kind->failure.empty ())
            kind->failure = error->message;
          return;
        }
      g_clear_error (&error);
      std::this_thread::yield ();
    }
  kind->ms.push_back (static_cast<float> (now_ns () - begin_ns) / 1e6F);
}

TpsTensorView
view_of (TpsDType dtype, const void *data, gint64 n, gint64 dim)
{
  TpsTensorView view = {};

  view.shape.dtype = dtype;
  view.shape.n_dims = dim > 0 ? 2 : 1;
  view.shape.dims[0] = n;
  view.shape.dims[1] = dim;
  view.data = data;
  return view;
}

TpsRemoteTables *
connect_tables (const gchar *address, GError **error)
{
  TpsRemoteTablesOptions options = {};

  options.addresses = &address;
  options.n_addresses = 1;
  return tps_remote_tables_new (&options, error);
}

gboolean
create_table (TpsRemoteTables *tables, const std::string &name, GError **error)
{
  g_auto (TpsTableSpec) spec = {};
  TpsTablePlacement placement = {};

  tps_table_spec_init (&spec, name.c_str (), kRows, kColumns);
  spec.initializer.kind = TPS_INITIALIZER_ZEROS;
  spec.optimizer.learning_rate = 1;
  placement.kind = TPS_SHARD_WHOLE;
  return tps_remote_tables_create_spec (tables, &spec, &placement, now_ns () + kCallNs, error);
}

void
run_client (Client *client)
{
  TpsRemoteTables *tables = client->tables;
  std::vector<gint64> ids (kRowsOfCall);
  std::vector<gfloat> gradient (kRowsOfCall * kColumns);
  Kind create;

  time_call (&create, [&] (gint64, GError **failure) {
    return create_table (tables, client->table, failure);
  });
  if (create.n_failed > 0)
    {
      client->broken = create.failure;
      return;
    }
  for (gint64 row = 0; row < kRowsOfCall; row++)
    gradient[static_cast<size_t> (row * kColumns + client->number)] = -1;
  for (gint64 step = 0; now_ns () < client->end_ns; step++)
    {
      for (gint64 i = 0; i < kRowsOfCall; i++)
        ids[static_cast<size_t> (i)] = (step * 131 + i * 61 + client->number * 17) % kRows;
      size_t n_before = client->push.ms.size ();

      time_call (&client->push, [&] (gint64 deadline_ns, GError **failure) {
        return tps_remote_tables_apply_rows_sync (
            tables, client->table.c_str (), view_of (TPS_DTYPE_INT64, ids.data (), kRowsOfCall, 0),
            view_of (TPS_DTYPE_FLOAT32, gradient.data (), kRowsOfCall, kColumns), deadline_ns,
            failure);
      });
      client->n_rows_pushed += (client->push.ms.size () - n_before) * kRowsOfCall;
      time_call (&client->lookup, [&] (gint64 deadline_ns, GError **failure) {
        g_auto (TpsTensor) rows = {};

        return tps_remote_tables_lookup_rows_sync (
            tables, client->table.c_str (), view_of (TPS_DTYPE_INT64, ids.data (), kRowsOfCall, 0),
            deadline_ns, &rows, failure);
      });
    }
}

/* Returns "" if the sum of each column equals the number of rows that its client pushed. */
std::string
check_counts (const std::vector<Client> &clients)
{
  TpsRemoteTables *tables = clients[0].tables;
  g_auto (TpsTensor) rows = {};
  std::vector<gint64> ids (kRows);
  std::vector<double> sums (kColumns);
  Kind lookup;

  for (gint64 i = 0; i < kRows; i++)
    ids[static_cast<size_t> (i)] = i;
  time_call (&lookup, [&] (gint64 deadline_ns, GError **failure) {
    return tps_remote_tables_lookup_rows_sync (tables, clients[0].table.c_str (),
                                               view_of (TPS_DTYPE_INT64, ids.data (), kRows, 0),
                                               deadline_ns, &rows, failure);
  });
  if (lookup.n_failed > 0)
    return lookup.failure;
  for (size_t i = 0; i < static_cast<size_t> (kRows * kColumns); i++)
    sums[i % kColumns] += static_cast<const gfloat *> (tps_tensor_data (&rows))[i];
  for (const Client &client : clients)
    if (sums[static_cast<size_t> (client.number)] != static_cast<double> (client.n_rows_pushed)
        && client.push.n_failed == 0)
      return "client " + std::to_string (client.number) + " pushed "
             + std::to_string (client.n_rows_pushed) + " rows, the table shows "
             + std::to_string (sums[static_cast<size_t> (client.number)]);
  return "";
}

void
print_kind (const char *name, const std::vector<Client> &clients, Kind Client::*kind)
{
  std::vector<float> ms;
  unsigned n_failed = 0;
  std::string failure;

  for (const Client &client : clients)
    {
      const Kind &own = client.*kind;

      ms.insert (ms.end (), own.ms.begin (), own.ms.end ());
      n_failed += own.n_failed;
      if (failure.empty ())
        failure = own.failure;
    }
  std::sort (ms.begin (), ms.end ());
  g_autofree gchar *escaped = g_strescape (failure.c_str (), nullptr);
  auto at = [&] (double q) {
    return ms.empty () ? 0.0 : ms[static_cast<size_t> (q * static_cast<double> (ms.size () - 1))];
  };

  std::printf ("\"%s\": {\"n\": %zu, \"p50_ms\": %.3f, \"p99_ms\": %.3f, \"max_ms\": %.3f, "
               "\"n_failed\": %u, \"failure\": \"%s\"}, ",
               name, ms.size (), at (0.5), at (0.99), at (1), n_failed, escaped);
}

void
run (std::vector<Client> &clients, double seconds, const std::string &table)
{
  std::vector<std::thread> threads;
  std::string wrong;

  for (Client &client : clients)
    {
      client.table = table;
      client.end_ns = now_ns () + static_cast<gint64> (seconds * 1e9);
      client.push = {};
      client.lookup = {};
      client.n_rows_pushed = 0;
      client.broken.clear ();
      threads.emplace_back (run_client, &client);
    }
  for (std::thread &thread : threads)
    thread.join ();
  for (const Client &client : clients)
    if (wrong.empty () && !client.broken.empty ())
      wrong = client.broken;
  if (wrong.empty ())
    wrong = check_counts (clients);
  g_autofree gchar *escaped = g_strescape (wrong.c_str (), nullptr);

  std::printf ("{");
  print_kind ("push", clients, &Client::push);
  print_kind ("lookup", clients, &Client::lookup);
  std::printf ("\"wrong\": \"%s\"}\n", escaped);
  std::fflush (stdout);
}

}

int
main (int argc, char **argv)
{
  if (argc != 3)
    {
      std::fprintf (stderr, "usage: honest_clients ADDRESS N_CLIENTS\n");
      return 2;
    }
  std::vector<Client> clients (static_cast<size_t> (std::atoi (argv[2])));
  double seconds;
  std::string table;

  if (clients.empty () || clients.size () > kColumns)
    {
      std::fprintf (stderr, "honest_clients: %s clients, expected 1 to %d\n", argv[2], kColumns);
      return 2;
    }
  for (size_t i = 0; i < clients.size (); i++)
    {
      g_autoptr (GError) error = nullptr;

      clients[i].number = static_cast<int> (i);
      clients[i].tables = connect_tables (argv[1], &error);
      if (clients[i].tables == nullptr)
        {
          std::fprintf (stderr, "honest_clients: %s\n", error->message);
          return 1;
        }
    }
  while (std::cin >> seconds >> table)
    run (clients, seconds, table);
  for (Client &client : clients)
    tps_remote_tables_free (client.tables);
  return 0;
}
