/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/dlrm/cluster.h"

#include <string.h>

#include "bench/dlrm/table_names.h"
#include "bench/process/child.h"
#include "bench/process/runfiles.h"
#include "plugin/client/remote_tables.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

#define PROGRAM "plugin/app/thriftps_server"
#define DIVIDED_ROWS 1000 /* tables with fewer rows are on one server */
#define FILL_NS (G_GINT64_CONSTANT (600) * 1000000000)

struct TpsDlrmCluster
{
  GPtrArray *servers; /* of TpsChild */
  gchar *addresses;
};

static void
free_child (gpointer child)
{
  tps_child_free (child);
}

/* Returns the address of a server that has just been started; NULL with an error. The caller owns
 * the result. */
static gchar *
receive_address (TpsChild *server, GError **error)
{
  static const gchar listening[] = "listening on ";
  g_autofree gchar *line = tps_child_receive (server, error);

  if (line == NULL)
    return NULL;
  if (g_str_has_prefix (line, listening))
    return g_strdup (line + strlen (listening));
  g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE, "a server did not start: %s", line);
  return NULL;
}

static gchar *
start_server (TpsDlrmCluster *cluster, const TpsDlrmOptions *options, TpsSupervisor *supervisor,
              const gchar *folder, guint number, GError **error)
{
  g_autofree gchar *path = tps_bench_find_file (PROGRAM, error);
  g_autofree gchar *name = g_strdup_printf ("server %u", number);
  g_autofree gchar *listen = g_str_equal (options->transport, "tcp")
                                 ? g_strdup ("--listen=127.0.0.1:0")
                                 : g_strdup_printf ("--listen=unix:%s/server%u.sock", folder,
                                                    number);
  gchar log_flag[] = "--log-level=error";
  gchar *argv[] = { path, listen, log_flag, NULL };
  TpsChild *server = path != NULL ? tps_child_start (supervisor, name, argv, error) : NULL;

  if (server == NULL)
    return NULL;
  g_ptr_array_add (cluster->servers, server);
  return receive_address (server, error);
}

static gboolean
start_servers (TpsDlrmCluster *cluster, const TpsDlrmOptions *options, TpsSupervisor *supervisor,
               const gchar *folder, GError **error)
{
  g_autoptr (GPtrArray) addresses = g_ptr_array_new_with_free_func (g_free);

  for (guint i = 0; i < (guint) options->n_servers; i++)
    {
      gchar *address = start_server (cluster, options, supervisor, folder, i, error);

      if (address == NULL)
        return FALSE;
      g_ptr_array_add (addresses, address);
    }
  g_ptr_array_add (addresses, NULL);
  cluster->addresses = g_strjoinv (",", (gchar **) addresses->pdata);
  return TRUE;
}

static gboolean
create_tables (const TpsDlrmCluster *cluster, const TpsDlrmOptions *options, GError **error)
{
  g_auto (GStrv) addresses = g_strsplit (cluster->addresses, ",", -1);
  guint n_servers = g_strv_length (addresses);
  TpsRemoteTablesOptions remote = { .addresses = (const gchar *const *) addresses,
                                    .n_addresses = n_servers };
  g_autoptr (TpsRemoteTables) tables = tps_remote_tables_new (&remote, error);

  for (guint t = 0; tables != NULL && t < TPS_CLICK_TABLES; t++)
    {
      gboolean is_divided = n_servers > 1 && options->shape.rows[t] >= DIVIDED_ROWS;
      TpsTablePlacement placement = { .kind = is_divided ? TPS_SHARD_HASH : TPS_SHARD_WHOLE,
                                      .server = is_divided ? 0 : t % n_servers };
      g_auto (TpsTableSpec) spec = { 0 };

      tps_dlrm_table_spec_init (&spec, options, t);
      if (!tps_remote_tables_create (tables, &spec, &placement, tps_clock_now_ns () + FILL_NS,
                                     error))
        return FALSE;
    }
  return tables != NULL;
}

TpsDlrmCluster *
tps_dlrm_cluster_start (const TpsDlrmOptions *options, TpsSupervisor *supervisor,
                        const gchar *folder, GError **error)
{
  TpsDlrmCluster *cluster = g_new0 (TpsDlrmCluster, 1);

  cluster->servers = g_ptr_array_new_with_free_func (free_child);
  if (start_servers (cluster, options, supervisor, folder, error)
      && create_tables (cluster, options, error))
    return cluster;
  tps_dlrm_cluster_free (cluster);
  return NULL;
}

void
tps_dlrm_cluster_free (TpsDlrmCluster *cluster)
{
  g_ptr_array_unref (cluster->servers);
  g_free (cluster->addresses);
  g_free (cluster);
}

const gchar *
tps_dlrm_cluster_get_addresses (const TpsDlrmCluster *cluster)
{
  return cluster->addresses;
}
