/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Embedding tables over any number of servers. Each table appears as one table.
 *
 * Placement. A table lies on one server as a whole, or is sharded over all servers by range or by
 * hash (runtime/embedding/sharding.h). Row values, updates and the results of lookup_rows are
 * bitwise identical for any number of shards. A pooled result is identical, too, if all rows of its
 * bag lie in one shard, or if `exact` is set. With `exact`, the client fetches the rows of bags
 * that span several shards, and pools them in the order of the indices. Without `exact`, each shard
 * pools its part of such a bag, and the parts are added in the order of the shards. The result then
 * differs by rounding only, by at most 2 * (n - 1) * 2^-24 times the sum of the absolute values of
 * the n terms. A mean is computed as a sum, and divided once.
 *
 * Maxima. Servers do not pool with MAX. The client fetches the rows of such bags, one for each
 * index, and finds the maxima: the first of equal values, and a NaN before any number. A gradient
 * of these bags is pushed as gradients of the rows that hold the maxima. TpsBagGradient.maxima, a
 * result of the lookup, says which rows these are. Without it, the push fetches the rows again
 * first, takes two requests per server, and uses the maxima at this time, which differ from those
 * of the lookup if the rows have changed.
 *
 * Requests. Each call sends one request to every server that has a part in it, all at the same
 * time. After CONNECTION_LOST, and after RESOURCE_EXHAUSTED or UNAVAILABLE with retry_after_ms, a
 * request is retried until the deadline (TPS_RETRY_UNTIL_DEADLINE). Each request of a push has its own push id, so
 * that a retried push is applied only once, even if a server with a data directory restarts in the
 * meantime.
 *
 * Failures. If a request fails, the call fails with the error of this request, once all its
 * requests have ended. The message names the server: "server 1 (unix:/run/ps1): …". Servers are
 * independent: a push that one server refuses is still applied on the others. The error of the push
 * then ends with "applied on 1 of 2 servers", which counts the servers that confirmed the push. A
 * server that did not reply in time may have applied the push, too. A server without a data
 * directory loses its tables when it restarts.
 *
 * Replies are merged on the I/O thread that receives the last one. Callbacks run on the clients'
 * I/O threads, never inside the call, and must not block. All functions may be called from any
 * thread. */

#pragma once

#include "plugin/client/client.h"
#include "runtime/ports/table_client.h"
#include "runtime/embedding/table_spec.h"

G_BEGIN_DECLS

typedef struct TpsRemoteTables TpsRemoteTables;

typedef struct
{
  const gchar *const *addresses; /* of the servers, in their order */
  guint n_addresses;
  /* The name in push ids: [A-Za-z0-9_.:/-]{1,255}. No other client may ever have used it, because
   * the sequence numbers of every client begin at 1. NULL = a random name. */
  const gchar *client;
  gsize max_message_bytes; /* limit of a reply; 0 = 1 GiB */
  TpsTls *tls;             /* see TpsClientOptions */
  const gchar *token;      /* see TpsClientOptions */
  gboolean exact;          /* bags are pooled on the client: see "Placement" above */
  /* Results of lookups may lie in memory of this device (tps_buffer_get_device() of their buffer
   * returns this device); borrowed. This saves the copy to the host and back if the server is on
   * the same host, its tables and this program use the same GPU, and the address is a Unix socket.
   * A result lies in memory of the device if one server has all of its rows, its size is 64 KiB or
   * more, and the server had room. Any other result lies in host memory, as do the first results of
   * a connection. Before the caller releases a result in memory of the device, it must wait for the
   * work that reads the result: after the release, the server may write the next result to the same
   * memory. A result that is merged from several servers, and the rows of bags with pooling MAX,
   * are copied to the host first, on an I/O thread. NULL: all results lie in host memory. */
  TpsDevice *lookup_device;
} TpsRemoteTablesOptions;

/* The placement of a table. */
typedef struct
{
  TpsShardKind kind;
  guint server; /* for WHOLE: the number of the server */
} TpsTablePlacement;

/* Creates the object, and copies the options except for `lookup_device`; it does not connect yet.
 * The caller owns the result. Errors: INVALID_ARGUMENT (no address, an address that cannot be
 * parsed, or a bad client name). */
TpsRemoteTables *tps_remote_tables_new (const TpsRemoteTablesOptions *options, GError **error);
/* Ends pending calls with ABORTED, and frees the object. Must not be called from a callback. */
void tps_remote_tables_free (TpsRemoteTables *tables);
/* Ends pending calls with ABORTED. Later calls fail with ABORTED, too. */
void tps_remote_tables_cancel (TpsRemoteTables *tables);

/* Creates the table on all its servers, and waits. A sharded table has one shard per server, but at
 * most as many shards as rows. Of `spec->shard`, only the number of rows is used. Parts that
 * already exist and are identical stay unchanged. If a server fails, the error names the server,
 * and the call drops the parts that it created, or may have created. Dropping them may take up to
 * 2 s beyond the deadline; a part on an unreachable server may remain. Errors: INVALID_ARGUMENT;
 * ALREADY_EXISTS if a server has a different table of this name, or a part of a different
 * placement; those of the servers. */
gboolean tps_remote_tables_create (TpsRemoteTables *tables, const TpsTableSpec *spec,
                                   const TpsTablePlacement *placement, gint64 deadline_ns,
                                   GError **error);
/* Drops the table on all its servers, and waits. A server without the table counts as a success.
 * After a failure, the table stays known to this object, and the caller may drop it again. Errors:
 * those of the servers. */
gboolean tps_remote_tables_drop (TpsRemoteTables *tables, const gchar *name, gint64 deadline_ns,
                                 GError **error);

/* Lists the tables of all servers, makes them known to this object, and waits. Errors:
 * INVALID_ARGUMENT if the parts of a table are incomplete, or if a table is whole on several
 * servers (the message names the table); those of the servers. After an error, the known tables are
 * unchanged. */
gboolean tps_remote_tables_discover (TpsRemoteTables *tables, gint64 deadline_ns, GError **error);

/* Returns the specifications of all tables, and waits. `bytes` is the sum over all shards. The
 * result is an array of TpsTableSpec; NULL on error. The caller owns the array; freeing it also
 * clears its elements. Errors: those of tps_remote_tables_discover(). */
GArray *tps_remote_tables_list (TpsRemoteTables *tables, gint64 deadline_ns, GError **error);

/* Look up bags, and apply gradients of bags; the contracts are in
 * runtime/ports/table_client.h. After the outputs of all queries, `done` of a lookup
 * receives as many tensors with their maxima: for pooling MAX, INT64 [bags, dim], the id of the row
 * that holds the maximum of a column, and -1 in an empty bag; no elements for other poolings.
 * Errors: NOT_FOUND if the table is not known; INVALID_ARGUMENT for bad indices, offsets, maxima
 * and shapes ("queries[1].indices[17]: …"), before any request is sent; those of the servers. */
void tps_remote_tables_lookup_bags (TpsRemoteTables *tables, const TpsBagQuery *queries,
                                    guint n_queries, gint64 deadline_ns, TpsTablesLookedUp done,
                                    gpointer user_data);
void tps_remote_tables_apply_bags (TpsRemoteTables *tables, const TpsBagGradient *gradients,
                                   guint n_gradients, gint64 deadline_ns, TpsTablesApplied done,
                                   gpointer user_data);

/* As above, but for rows instead of bags. `done` of a lookup receives one tensor, [n, dim] of the
 * table's dtype. */
void tps_remote_tables_lookup_rows (TpsRemoteTables *tables, const gchar *name,
                                    TpsTensorView indices, gint64 deadline_ns,
                                    TpsTablesLookedUp done, gpointer user_data);
void tps_remote_tables_apply_rows (TpsRemoteTables *tables, const gchar *name,
                                   TpsTensorView indices, TpsTensorView values, gint64 deadline_ns,
                                   TpsTablesApplied done, gpointer user_data);

/* Sets rows to `values`, [n, dim], FLOAT32 or of the table's dtype. Optimizer state is unchanged.
 * If an index occurs more than once, its last value wins. Every row is set, even one that has
 * changed since the values were read: LSNs are numbers of one server, so they cannot be compared
 * here. To keep changed rows, use tps_remote_assign_rows() (plugin/client/stubs.h), which takes an
 * LSN. Errors: those of tps_remote_tables_apply_rows(); INVALID_ARGUMENT if the table is on a
 * device. */
void tps_remote_tables_assign_rows (TpsRemoteTables *tables, const gchar *name,
                                    TpsTensorView indices, TpsTensorView values, gint64 deadline_ns,
                                    TpsTablesApplied done, gpointer user_data);

/* As the five functions above, but these wait for the result. They must not be called from a
 * callback. The caller must zero `outputs` [n_queries] and `rows` before the call. */
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
gboolean tps_remote_tables_assign_rows_sync (TpsRemoteTables *tables, const gchar *name,
                                             TpsTensorView indices, TpsTensorView values,
                                             gint64 deadline_ns, GError **error);

/* As tps_remote_tables_lookup_bags_sync(), but also gives the maxima: `outputs` is [2 * n_queries].
 * For training with pooling MAX. */
gboolean tps_remote_tables_lookup_maxima_sync (TpsRemoteTables *tables, const TpsBagQuery *queries,
                                               guint n_queries, gint64 deadline_ns,
                                               TpsTensor *outputs, GError **error);

/* Returns a TpsTableClient, which takes ownership of `tables`. The caller owns the result. For
 * deduplication, prefetching and pushes with bounded staleness, see
 * runtime/trainer/table_steps/table_steps.h. */
TpsTableClient *tps_remote_tables_as_client (TpsRemoteTables *tables);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsRemoteTables, tps_remote_tables_free)

G_END_DECLS
