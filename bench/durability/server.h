/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A thriftps_server process that is killed and restarted, and its tables. */

#pragma once

#include "bench/process/child.h"
#include "plugin/client/remote_tables.h"
#include "plugin/client/stubs.h"

G_BEGIN_DECLS

/* An upper bound for any call. */
#define TPS_DURABILITY_CALL_NS G_GINT64_CONSTANT (300000000000)

/* A durability of the server's tables. Static. */
typedef struct
{
  const gchar *name;       /* in figures: "commit" */
  const gchar *durability; /* the value of --durability; NULL = no data directory */
} TpsDurabilityMode;

typedef struct
{
  const gchar *program;    /* NULL = ours */
  const gchar *socket_dir; /* of its Unix socket */
  gchar *data_dir; /* owned by the caller; created if missing; not used without a durability */
  const TpsDurabilityMode *mode;
  /* automatically; the server is started with the flag that disables it */
  gboolean writes_snapshots;
} TpsDurabilityServerOptions;

/* Runs the program with --help to find out if its servers write snapshots automatically. */
gboolean tps_durability_server_probe (TpsSupervisor *supervisor, const gchar *program,
                                      gboolean *writes_snapshots, GError **error);

typedef struct TpsDurabilityServer TpsDurabilityServer;

/* Starts a server and waits until it serves, including its recovery. `seconds`, an output that may
 * be NULL, is the time of that. Owned by the caller. Errors (NULL): TPS_ERROR_UNAVAILABLE,
 * TPS_ERROR_ABORTED. */
TpsDurabilityServer *tps_durability_server_start (TpsSupervisor *supervisor,
                                                  const TpsDurabilityServerOptions *options,
                                                  gdouble *seconds, GError **error);

/* Sends SIGKILL, waits for the end of the process and frees the server. */
void tps_durability_server_kill (TpsDurabilityServer *server);

/* Returns the client of the server, borrowed. */
TpsClient *tps_durability_server_get_client (const TpsDurabilityServer *server);
TpsChild *tps_durability_server_get_child (const TpsDurabilityServer *server);
const gchar *tps_durability_server_get_address (const TpsDurabilityServer *server);

/* Returns the bytes of its log since its start; 0 without a log. */
gboolean tps_durability_server_count_log (const TpsDurabilityServer *server, gint64 *n_bytes,
                                          GError **error);

/* -- tables -- */

typedef struct
{
  const gchar *name;
  gsize n_rows, dim;
  gboolean is_random; /* uniform initial values in [0, 1); otherwise 0 */
} TpsDurabilityTable;

/* Creates a table whose optimizer is SGD with learning rate 1. */
gboolean tps_durability_server_make_table (const TpsDurabilityServer *server,
                                           const TpsDurabilityTable *table, GError **error);

/* Creates clients with access to the server's tables; owned by the caller. They survive a restart
 * of the server. */
TpsRemoteTables *tps_durability_server_connect (const gchar *address, GError **error);

/* Pushes 1 to each element of every `step`th row. */
gboolean tps_durability_server_push_all (const TpsDurabilityServer *server,
                                         const TpsDurabilityTable *table, gsize step,
                                         GError **error);

/* Sums and hashes the elements of every `step`th row. Either result may be NULL. */
gboolean tps_durability_server_read (const TpsDurabilityServer *server,
                                     const TpsDurabilityTable *table, gsize step, gdouble *sum,
                                     guint *hash, GError **error);

/* Views of ids [n] and of values [n, dim], as arguments of calls. */
TpsTensorView tps_durability_view_ids (const gint64 *ids, gsize n);
TpsTensorView tps_durability_view_rows (const gfloat *rows, gsize n, gsize dim);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsDurabilityServer, tps_durability_server_kill)

G_END_DECLS
