/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Reports that are lists, which are sent in pages. */

#include <string.h>

#include "plugin/http/readings.h"
#include "plugin/http/reports.h"

#define DEFAULT_LIMIT 1000
#define MAX_LIMIT 10000

/* ---- /connections --------------------------------------------------------------------------- */

static void
add_connection (TpsJsonWriter *json, const TpsConnectionInfo *info)
{
  tps_json_open (json, NULL, '{');
  tps_json_add_uint (json, "id", info->id);
  tps_json_add_text (json, "peer", info->peer);
  tps_json_add_text (json, "transport", info->is_unix ? "unix" : "tcp");
  tps_json_add_bool (json, "is_encrypted", info->is_encrypted);
  tps_json_add_text (json, "protocol", info->protocol);
  tps_json_add_bool (json, "is_framed", info->is_framed);
  tps_json_add_text (json, "principal", tps_principal_get_name (info->principal));
  tps_json_add_text (json, "principal_kind",
                     tps_principal_kind_to_string (tps_principal_get_kind (info->principal)));
  tps_json_add_text (json, "tenant", tps_principal_get_tenant (info->principal));
  tps_json_add_seconds (json, "age_s", info->age_ns);
  tps_json_add_uint (json, "calls", info->n_calls);
  tps_json_add_uint (json, "in_flight", info->n_in_flight);
  tps_json_add_uint (json, "received_bytes", info->n_received_bytes);
  tps_json_add_uint (json, "sent_bytes", info->n_sent_bytes);
  tps_json_add_uint (json, "queued_bytes", info->n_queued_bytes);
  tps_json_add_uint (json, "shared_bytes", info->n_shared_bytes);
  tps_json_add_bool (json, "is_half_closed", info->is_half_closed);
  tps_json_close (json, '}');
}

/* The cursor for the next page is the last id of this page. */
static void
add_next_id (TpsJsonWriter *json, const GArray *infos, guint64 limit)
{
  if (infos->len > 0 && infos->len == limit)
    tps_json_add_uint (json, "next", g_array_index (infos, TpsConnectionInfo, infos->len - 1).id);
  else
    tps_json_add_null (json, "next");
}

void
tps_report_connections (TpsHttpRequest *request, gpointer data)
{
  TpsServer *server = ((TpsReports *) data)->server;
  g_autoptr (GArray) infos = NULL;
  guint64 limit, after;
  TpsJsonWriter json;

  if (!tps_http_request_get_number (request, "limit", 1, MAX_LIMIT, DEFAULT_LIMIT, &limit)
      || !tps_http_request_get_number (request, "after", 0, G_MAXUINT64, 0, &after))
    return;
  infos = server != NULL ? tps_server_list_connections (server, after, (guint) limit)
                         : g_array_new (FALSE, FALSE, sizeof (TpsConnectionInfo));
  tps_json_writer_init (&json);
  tps_json_open (&json, NULL, '{');
  tps_json_add_time (&json, "time_s", g_get_real_time ());
  tps_json_add_uint (&json, "total", server != NULL ? tps_server_get_n_connections (server) : 0);
  add_next_id (&json, infos, limit);
  tps_json_open (&json, "connections", '[');
  for (guint i = 0; i < infos->len; i++)
    add_connection (&json, &g_array_index (infos, TpsConnectionInfo, i));
  tps_json_close (&json, ']');
  tps_json_close (&json, '}');
  tps_http_request_reply_json (request, 200, &json);
}

/* ---- /tables -------------------------------------------------------------------------------- */

static void
add_shard (TpsJsonWriter *json, const TpsShard *shard)
{
  static const gchar *const kinds[] = {
    [TPS_SHARD_WHOLE] = "whole", [TPS_SHARD_RANGE] = "range", [TPS_SHARD_HASH] = "hash"
  };

  tps_json_open (json, "shard", '{');
  tps_json_add_text (json, "kind", kinds[shard->kind]);
  if (shard->kind == TPS_SHARD_RANGE)
    tps_json_add_int (json, "first_row", shard->first_row);
  else
    tps_json_add_null (json, "first_row");
  if (shard->kind == TPS_SHARD_HASH)
    {
      tps_json_add_int (json, "index", shard->index);
      tps_json_add_int (json, "count", shard->count);
    }
  else
    {
      tps_json_add_null (json, "index");
      tps_json_add_null (json, "count");
    }
  tps_json_close (json, '}');
}

/* The traffic of tables. */
typedef struct
{
  TpsReading *reading;
  GHashTable *by_name[TPS_N_TABLE_COUNTS]; /* by table; NULL = not counted */
} Traffic;

static void
traffic_init (Traffic *traffic, TpsPlugin *plugin)
{
  traffic->reading = tps_counters_read (tps_metrics_get_counters (tps_plugin_get_metrics (plugin)));
  for (guint i = 0; i < TPS_N_TABLE_COUNTS; i++)
    traffic->by_name[i] = tps_readings_index (traffic->reading, tps_table_counts[i].family);
}

static void
traffic_clear (Traffic *traffic)
{
  for (guint i = 0; i < TPS_N_TABLE_COUNTS; i++)
    g_clear_pointer (&traffic->by_name[i], g_hash_table_unref);
  tps_reading_free (traffic->reading);
}

static void
add_traffic (TpsJsonWriter *json, const Traffic *traffic, const gchar *table)
{
  for (guint i = 0; i < TPS_N_TABLE_COUNTS; i++)
    {
      GHashTable *by_name = traffic->by_name[i];
      const TpsSample *sample = by_name != NULL ? g_hash_table_lookup (by_name, table) : NULL;

      if (sample != NULL)
        tps_json_add_int (json, tps_table_counts[i].member, sample->number);
      else
        tps_json_add_null (json, tps_table_counts[i].member);
    }
}

static void
add_table (TpsJsonWriter *json, const TpsTableSpec *spec, const Traffic *traffic)
{
  g_autofree gchar *place = tps_table_place_to_string (&spec->place);

  tps_json_open (json, NULL, '{');
  tps_json_add_text (json, "name", spec->name);
  tps_json_add_int (json, "rows", spec->shard.rows);
  tps_json_add_int (json, "local_rows", spec->shard.n_rows);
  tps_json_add_int (json, "dim", spec->dim);
  tps_json_add_text (json, "dtype", tps_dtype_name (spec->dtype));
  tps_json_add_text (json, "optimizer", tps_optimizer_kind_name (spec->optimizer.kind));
  add_shard (json, &spec->shard);
  tps_json_add_text (json, "place", place);
  tps_json_add_text (json, "durability",
                     spec->durability != 0 ? tps_durability_name (spec->durability) : NULL);
  tps_json_add_int (json, "bytes", spec->bytes);
  add_traffic (json, traffic, spec->name);
  tps_json_close (json, '}');
}

/* Returns the index of the first table after the cursor. The tables are sorted by name. */
static guint
find_table_after (const TpsTableSpecs *specs, const gchar *after)
{
  guint i = 0;

  while (after != NULL && i < specs->n_specs && strcmp (specs->specs[i].name, after) <= 0)
    i++;
  return i;
}

static void
add_tables (const TpsReports *reports, TpsJsonWriter *json, const TpsTableSpecs *specs, guint begin,
            guint limit)
{
  guint end = specs->n_specs - begin > limit ? begin + limit : specs->n_specs;
  Traffic traffic;

  tps_json_add_uint (json, "total", specs->n_specs);
  tps_json_add_text (json, "next", end < specs->n_specs ? specs->specs[end - 1].name : NULL);
  tps_json_open (json, "tables", '[');
  traffic_init (&traffic, reports->plugin);
  for (guint i = begin; i < end; i++)
    add_table (json, &specs->specs[i], &traffic);
  traffic_clear (&traffic);
  tps_json_close (json, ']');
}

void
tps_report_tables (TpsHttpRequest *request, gpointer data)
{
  TpsTableStore *store = tps_plugin_get_tables (((TpsReports *) data)->plugin);
  g_auto (TpsTableSpecs) specs = { 0 };
  g_autoptr (GError) error = NULL;
  guint64 limit;
  TpsJsonWriter json;

  if (!tps_http_request_get_number (request, "limit", 1, MAX_LIMIT, DEFAULT_LIMIT, &limit))
    return;
  if (store != NULL && !tps_table_store_list (store, &specs, &error))
    {
      tps_http_request_fail (request, 503, "%s", error->message);
      return;
    }
  tps_json_writer_init (&json);
  tps_json_open (&json, NULL, '{');
  tps_json_add_time (&json, "time_s", g_get_real_time ());
  tps_json_add_uint (&json, "bytes", store != NULL ? tps_table_store_get_bytes (store) : 0);
  tps_json_add_uint (&json, "device_bytes",
                     store != NULL ? tps_table_store_get_device_bytes (store) : 0);
  tps_json_add_uint (&json, "max_bytes", store != NULL ? tps_table_store_get_max_bytes (store) : 0);
  add_tables (data, &json, &specs,
              find_table_after (&specs, tps_http_request_get_parameter (request, "after")),
              (guint) limit);
  tps_json_close (&json, '}');
  tps_http_request_reply_json (request, 200, &json);
}
