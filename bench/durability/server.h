/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A thriftps_server as a process of its own, which is killed and started again, and its tables. */

#pragma once

#include "bench/process/child.h"
#include "plugin/client/remote_tables.h"
#include "plugin/client/stubs.h"

G_BEGIN_DECLS

/* No call takes that long. */
#define TPS_DURABILITY_CALL_NS G_GINT64_CONSTANT (300000000000)

/* How a server keeps its tables. Static. */
typedef struct
{
  const gchar *name;       /* of the figures: "commit" */
  const gchar *durability; /* of --durability; NULL = there is no data directory */
} TpsDurabilityMode;

typedef struct
{
  const gchar *program;    /* NULL = ours */
  const gchar *socket_dir; /* of its Unix socket */
  gchar *data_dir; /* owned by the caller; made if it is missing; not used without a durability */
  const TpsDurabilityMode *mode;
  gboolean writes_snapshots; /* without being asked; it is told not to */
} TpsDurabilityServerOptions;

/* Whether servers of that program write snapshots without being asked. Runs it with --help. */
gboolean tps_durability_server_ask (TpsSupervisor *supervisor, const gchar *program,
                                    gboolean *writes_snapshots, GError **error);

typedef struct TpsDurabilityServer TpsDurabilityServer;

/* Starts it and waits until it serves, so a recovery has ended. `seconds`, which may be NULL: from
 * before the start until then. Errors:
 * TPS_ERROR_UNAVAILABLE, TPS_ERROR_ABORTED. */
TpsDurabilityServer *tps_durability_server_start (TpsSupervisor *supervisor,
                                                  const TpsDurabilityServerOptions *options,
                                                  gdouble *seconds, GError **error);

/* Sends SIGKILL, waits for the end, and frees. */
void tps_durability_server_kill (TpsDurabilityServer *server);

/* Borrowed. */
TpsClient *tps_durability_server_get_client (const TpsDurabilityServer *server);
TpsChild *tps_durability_server_get_child (const TpsDurabilityServer *server);
const gchar *tps_durability_server_get_address (const TpsDurabilityServer *server);

/* Bytes of its log since its start; 0 without one. */
gboolean tps_durability_server_count_log (const TpsDurabilityServer *server, gint64 *n_bytes,
                                          GError **error);

/* -- tables -- */

typedef struct
{
  const gchar *name;
  gsize n_rows, dim;
  gboolean is_random; /* uniform values of [0, 1) at first; 0 otherwise */
} TpsDurabilityTable;

/* Its optimizer is SGD with learning rate 1. */
gboolean tps_durability_server_make_table (const TpsDurabilityServer *server,
                                           const TpsDurabilityTable *table, GError **error);

/* Clients that know the server's tables; owned by the caller. They go on after a restart of the
 * server. */
TpsRemoteTables *tps_durability_server_connect (const gchar *address, GError **error);

/* Pushes 1 to each element of every `step`th row. */
gboolean tps_durability_server_push_all (const TpsDurabilityServer *server,
                                         const TpsDurabilityTable *table, gsize step,
                                         GError **error);

/* Sums up the elements of every `step`th row, and hashes them. Either result may be NULL. */
gboolean tps_durability_server_read (const TpsDurabilityServer *server,
                                     const TpsDurabilityTable *table, gsize step, gdouble *sum,
                                     guint *hash, GError **error);

/* Ids [n], and values [n, dim], as calls take them. */
TpsTensorView tps_durability_view_ids (const gint64 *ids, gsize n);
TpsTensorView tps_durability_view_rows (const gfloat *rows, gsize n, gsize dim);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsDurabilityServer, tps_durability_server_kill)

G_END_DECLS
