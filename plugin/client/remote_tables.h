/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Embedding tables over any number of servers, as if each table were in one place.
 *
 * A table lies whole on one server, or is dealt over all of them by range or by hash
 * (runtime/embedding/sharding.h). Row values, updates and lookup_rows are the same to the bit
 * whatever the number of shards. So are pooled results where the rows of a bag lie in one shard, or
 * with `exact` (rows are fetched and pooled here, in the order of the indices); else shards pool
 * their part of a bag, and the parts are added in the order of the shards: the result differs by
 * rounding only, at most 2 * (n - 1) * 2^-24 * the sum of the absolute values of the n terms. A
 * mean is such a sum, divided once. The maximum is exact always, but for the sign of a zero.
 * Gradients of MAX over several shards go to the row that is the maximum when they are pushed: the
 * rows of such bags are fetched first, so such a push takes two requests a server.
 *
 * Each call sends one request to every server that has a part in it, all in flight together. What
 * is tried again until the deadline: CONNECTION_LOST, RESOURCE_EXHAUSTED and UNAVAILABLE with
 * retry_after_ms (retry.h). Each request of a push has an id of its own, so that this applies it
 * once, also by a server with a data directory that is started again meanwhile.
 *
 * A call that fails on a server fails with that error, when all its requests have ended, and names
 * the server: "server 1 (unix:/run/ps1): …". Servers do not know of each other: a push that one of
 * them refuses is applied on the others. Its error then ends with "applied on 1 of 2 servers",
 * counting those that said so; one that did not answer in time may have applied it too. A server
 * that fails and comes back comes without its tables, unless it has a data directory.
 *
 * Answers are put together on the I/O thread that brings the last one. Callbacks run on the
 * clients' I/O threads, never inside the call, and must not block. Thread: any.
 */

#pragma once

#include "plugin/client/client.h"
#include "runtime/trainer/ports/table_client.h"
#include "runtime/embedding/table_spec.h"

G_BEGIN_DECLS

typedef struct TpsRemoteTables TpsRemoteTables;

typedef struct
{
  const gchar *const *addresses; /* of the servers, in their order */
  guint n_addresses;
  /* Who pushes: [A-Za-z0-9_.:/-]{1,255}, unique among all clients and all times, because the
   * sequences of its push ids begin at 1; NULL = a random name. */
  const gchar *client;
  gsize max_message_bytes; /* of an answer; 0 = 1 GiB */
  TpsTls *tls;             /* see TpsClientOptions */
  const gchar *token;      /* the same */
  gboolean exact;
} TpsRemoteTablesOptions;

/* Where a table lies. */
typedef struct
{
  TpsShardKind kind;
  guint server; /* WHOLE: its number */
} TpsTablePlacement;

/* Does not connect yet; copies the options. Errors: INVALID_ARGUMENT (no address, one that cannot
 * be understood, the client's name). */
TpsRemoteTables *tps_remote_tables_new (const TpsRemoteTablesOptions *options, GError **error);
/* Ends outstanding calls with ABORTED. Not from a callback. */
void tps_remote_tables_free (TpsRemoteTables *tables);
void tps_remote_tables_cancel (TpsRemoteTables *tables);

/* Makes the table on all its servers, at most as many as it has rows, and knows it from then on;
 * `spec->shard` counts for its rows only. Waits. What is there already and identical stays as it
 * is. A failure on one server names it, and drops the parts that this call had made or may have
 * made, which may take 2 s beyond the deadline; a part on a server that cannot be reached any more
 * may stay. Errors: INVALID_ARGUMENT; ALREADY_EXISTS where a server has another table of the name,
 * or a part that does not belong to this placement; those of the servers. */
gboolean tps_remote_tables_create (TpsRemoteTables *tables, const TpsTableSpec *spec,
                                   const TpsTablePlacement *placement, gint64 deadline_ns,
                                   GError **error);
/* On all servers of the table; servers that have it no more count as done. Waits. After a failure
 * it is known still, and may be dropped again. */
gboolean tps_remote_tables_drop (TpsRemoteTables *tables, const gchar *name, gint64 deadline_ns,
                                 GError **error);

/* Asks all servers what they hold and knows those tables too from then on. Waits. Errors:
 * INVALID_ARGUMENT naming a table whose parts do not make a whole, or that is whole on several
 * servers; then nothing has changed. */
gboolean tps_remote_tables_discover (TpsRemoteTables *tables, gint64 deadline_ns, GError **error);

/* Specifications of whole tables, `bytes` over all shards: an array of TpsTableSpec that clears its
 * elements. NULL on error. Waits. */
GArray *tps_remote_tables_list (TpsRemoteTables *tables, gint64 deadline_ns, GError **error);

/* Those of runtime/trainer/ports/table_client.h. A table that is not known is NOT_FOUND; bad
 * indices, offsets and shapes are INVALID_ARGUMENT, "queries[1].indices[17]: …", before anything is
 * sent. */
void tps_remote_tables_lookup_bags (TpsRemoteTables *tables, const TpsBagQuery *queries,
                                    guint n_queries, gint64 deadline_ns, TpsTablesLookedUp done,
                                    gpointer user_data);
void tps_remote_tables_apply_bags (TpsRemoteTables *tables, const TpsBagGradient *gradients,
                                   guint n_gradients, gint64 deadline_ns, TpsTablesApplied done,
                                   gpointer user_data);

/* `done` gets one tensor, [n, dim] of the table's dtype. */
void tps_remote_tables_lookup_rows (TpsRemoteTables *tables, const gchar *name,
                                    TpsTensorView indices, gint64 deadline_ns,
                                    TpsTablesLookedUp done, gpointer user_data);
void tps_remote_tables_apply_rows (TpsRemoteTables *tables, const gchar *name,
                                   TpsTensorView indices, TpsTensorView values, gint64 deadline_ns,
                                   TpsTablesApplied done, gpointer user_data);

/* The same, waiting; not from a callback. `outputs` [n_queries], zero before. */
gboolean tps_remote_tables_lookup_bags_sync (TpsRemoteTables *tables, const TpsBagQuery *queries,
                                             guint n_queries, gint64 deadline_ns,
                                             TpsTensor *outputs, GError **error);
gboolean tps_remote_tables_apply_bags_sync (TpsRemoteTables *tables,
                                            const TpsBagGradient *gradients, guint n_gradients,
                                            gint64 deadline_ns, GError **error);
gboolean tps_remote_tables_lookup_rows_sync (TpsRemoteTables *tables, const gchar *name,
                                             TpsTensorView indices, gint64 deadline_ns,
                                             TpsTensor *rows, GError **error);
gboolean tps_remote_tables_apply_rows_sync (TpsRemoteTables *tables, const gchar *name,
                                            TpsTensorView indices, TpsTensorView values,
                                            gint64 deadline_ns, GError **error);

/* As a TpsTableClient, which owns `tables` from then on. */
TpsTableClient *tps_remote_tables_as_client (TpsRemoteTables *tables);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsRemoteTables, tps_remote_tables_free)

G_END_DECLS
