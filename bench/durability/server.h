/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A process of thriftps_server that can be killed and restarted, and its tables. */

#pragma once

#include "bench/served/served.h"
#include "plugin/client/stubs.h"

/* A durability of the tables of a server. Strings are static. */
typedef struct
{
  const gchar *name;       /* the name in figures, such as "commit" */
  const gchar *durability; /* the value of --durability; NULL = no data directory */
} TpsDurabilityMode;

/* The options of a server; strings are borrowed. */
typedef struct
{
  const gchar *program;    /* the executable; NULL = ours */
  const gchar *socket_dir; /* the folder of its Unix socket */
  gchar *data_dir;         /* created if missing; not used without a durability */
  const TpsDurabilityMode *mode;
  /* The program can write snapshots by itself, so it gets the flag that disables them. */
  gboolean writes_snapshots;
} TpsDurabilityServerOptions;

/* Finds out from the output of --help whether servers of `program` (NULL = ours) write snapshots
 * automatically. Blocks. Errors: those of tps_child_receive_all(). */
gboolean tps_durability_server_probe (TpsSupervisor *supervisor, const gchar *program,
                                      gboolean *writes_snapshots, GError **error);

/* A server; read-only for its users. */
typedef struct
{
  TpsSupervisor *supervisor;
  TpsServed *served;
  TpsClient *client;
} TpsDurabilityServer;

/* Starts a server and waits until it has recovered. `*seconds` receives the time; NULL = not
 * needed. The caller owns the result. Blocks. Errors (NULL): UNAVAILABLE, ABORTED. */
TpsDurabilityServer *tps_durability_server_start (TpsSupervisor *supervisor,
                                                  const TpsDurabilityServerOptions *options,
                                                  gdouble *seconds, GError **error);

/* Sends SIGKILL, waits for the end of the process, and frees the server. */
void tps_durability_server_kill (TpsDurabilityServer *server);

/* Sets `*n_bytes` to the number of bytes that the server has written to the log since its start; 0
 * without a log. Errors: those of the call. */
gboolean tps_durability_server_count_log (const TpsDurabilityServer *server, gint64 *n_bytes,
                                          GError **error);

/* -- tables -- */

/* A table of a server; borrowed. */
typedef struct
{
  const gchar *name;
  gsize n_rows, dim;
  gboolean is_random; /* uniform initial values in [0, 1); otherwise 0 */
} TpsDurabilityTable;

/* Creates a table whose optimizer is SGD with the learning rate 1. Errors: those of the call. */
gboolean tps_durability_server_make_table (const TpsDurabilityServer *server,
                                           const TpsDurabilityTable *table, GError **error);

/* Pushes 1 to each element of the rows 0, step, 2 * step, … Errors: those of the calls. */
gboolean tps_durability_server_push_all (const TpsDurabilityServer *server,
                                         const TpsDurabilityTable *table, gsize step,
                                         GError **error);

/* Reads the rows 0, step, 2 * step, … `*sum` receives the sum of their elements, `*hash` their
 * CRC-32C; both may be NULL. Errors: those of the calls. */
gboolean tps_durability_server_read (const TpsDurabilityServer *server,
                                     const TpsDurabilityTable *table, gsize step, gdouble *sum,
                                     guint *hash, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsDurabilityServer, tps_durability_server_kill)
