/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/world/peer.h"

#include <json-glib/json-glib.h>

#include "bench/process/runfiles.h"
#include "runtime/base/error.h"

static gchar **
make_argv (const TpsPeerKind *kind, const gchar *script, const GPtrArray *described,
           gchar **arguments)
{
  g_autoptr (GStrvBuilder) argv = g_strv_builder_new ();
  g_auto (GStrv) names = g_strsplit (kind->flags, " ", -1);

  /* The scripts use calls of old versions of PyTorch, too, for which new ones warn. */
  g_strv_builder_add_many (argv, tps_bench_find_python (), "-W", "ignore", script, NULL);
  for (guint i = 0; i < described->len; i++)
    {
      g_auto (GStrv) parts = g_strsplit (described->pdata[i], "=", 2);
      g_autofree gchar *flag = g_strconcat ("--", described->pdata[i], NULL);

      if (g_strv_contains ((const gchar *const *) names, parts[0]))
        g_strv_builder_add (argv, flag);
    }
  if (arguments != NULL)
    g_strv_builder_addv (argv, (const char **) (gsize) arguments);
  if (kind->more != NULL)
    g_strv_builder_add (argv, kind->more);
  return g_strv_builder_end (argv);
}

/* Receives the next line as a JSON object. */
static JsonParser *
receive_object (TpsPeer *peer, GError **error)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_autofree gchar *line = tps_child_receive_from_script (peer->child, error);

  if (line == NULL)
    return NULL;
  if (!json_parser_load_from_data (parser, line, -1, NULL)
      || !JSON_NODE_HOLDS_OBJECT (json_parser_get_root (parser)))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL,
                   "the peer did not print a JSON object: %.200s", line);
      return NULL;
    }
  return g_steal_pointer (&parser);
}

TpsPeer *
tps_peer_start (TpsSupervisor *supervisor, const TpsPeerKind *kind, const GPtrArray *described,
                gchar **arguments, GError **error)
{
  g_autofree gchar *path = tps_bench_find_file (kind->script, error);
  g_autofree gchar *label = g_strconcat ("peer ", kind->name, NULL);
  g_autoptr (TpsPeer) peer = NULL;
  g_autoptr (JsonParser) ready = NULL;
  g_auto (GStrv) argv = NULL;

  if (path == NULL)
    return NULL;
  peer = g_new0 (TpsPeer, 1);
  peer->kind = kind;
  peer->results = tps_bench_results_new ();
  argv = make_argv (kind, path, described, arguments);
  peer->child = tps_child_start (supervisor, label, argv, error);
  if (peer->child == NULL)
    return NULL;
  ready = receive_object (peer, error);
  if (ready == NULL)
    return NULL;
  peer->version = g_strdup (json_object_get_string_member_with_default (
      json_node_get_object (json_parser_get_root (ready)), "torch", "unknown"));
  return g_steal_pointer (&peer);
}

void
tps_peer_free (TpsPeer *peer)
{
  g_clear_pointer (&peer->child, tps_child_free); /* the peer exits when its input is closed */
  tps_bench_results_free (peer->results);
  g_free (peer->version);
  g_free (peer);
}

static void
take_series (TpsBenchResults *results, const gchar *kind, gint rank, const gchar *name,
             JsonArray *values)
{
  guint n = json_array_get_length (values);
  g_autofree gdouble *samples = g_new (gdouble, n);

  for (guint i = 0; i < n; i++)
    samples[i] = json_array_get_double_element (values, i);
  tps_bench_results_add (results, kind, rank, name, samples, n);
}

static void
take_role (TpsBenchResults *results, const gchar *kind, gint rank, JsonObject *metrics)
{
  JsonObjectIter at;
  const gchar *name;
  JsonNode *values;

  tps_bench_results_add_role (results, kind, rank);
  json_object_iter_init (&at, metrics);
  while (json_object_iter_next (&at, &name, &values))
    take_series (results, kind, rank, name, json_node_get_array (values));
}

static void
take_kind (TpsBenchResults *results, const gchar *kind, JsonObject *answer)
{
  JsonObjectIter at;
  const gchar *rank;
  JsonNode *metrics;

  if (!json_object_has_member (answer, kind))
    return;
  json_object_iter_init (&at, json_object_get_object_member (answer, kind));
  while (json_object_iter_next (&at, &rank, &metrics))
    take_role (results, kind, (gint) g_ascii_strtoll (rank, NULL, 10),
               json_node_get_object (metrics));
}

/* Reads the member "samples", {rank: number, …}, if it exists. */
static void
take_samples (TpsBenchResults *results, JsonObject *answer)
{
  JsonObjectIter at;
  const gchar *rank;
  JsonNode *samples;

  if (!json_object_has_member (answer, "samples"))
    return;
  json_object_iter_init (&at, json_object_get_object_member (answer, "samples"));
  while (json_object_iter_next (&at, &rank, &samples))
    tps_bench_results_count_samples (results, (gint) g_ascii_strtoll (rank, NULL, 10),
                                     json_node_get_int (samples));
}

gboolean
tps_peer_run_pass (TpsPeer *peer, gboolean is_warm_up, GError **error)
{
  g_autoptr (JsonParser) parser = NULL;
  JsonObject *answer;

  if (!tps_child_send (peer->child, "pass", error))
    return FALSE;
  parser = receive_object (peer, error);
  if (parser == NULL)
    return FALSE;
  if (is_warm_up)
    return TRUE;
  answer = json_node_get_object (json_parser_get_root (parser));
  take_kind (peer->results, "trainer", answer);
  take_kind (peer->results, "server", answer);
  take_samples (peer->results, answer);
  tps_bench_results_end_pass (peer->results);
  return TRUE;
}
