/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Embedding tables over any number of servers. Each table appears as one table.
 *
 *   const gchar *servers[] = { "10.0.0.1:9090", "10.0.0.2:9090" };
 *   TpsRemoteTablesOptions options = TPS_INIT (TpsRemoteTablesOptions);
 *   options.addresses = servers, options.n_addresses = 2;
 *   tables = tps_remote_tables_new (&options, &error);
 *
 *   TpsRemoteTable words = TPS_INIT (TpsRemoteTable);
 *   words.name = "words", words.rows = 1000000, words.dim = 64;
 *   words.shard_kind = TPS_SHARD_HASH;
 *   words.optimizer = tps_optimizer_spec (TPS_OPTIMIZER_ADAM, 0.001);
 *   tps_remote_tables_create (tables, &words, deadline_ns, &error);
 *
 *   tps_remote_tables_lookup_bags_sync (tables, &query, 1, deadline_ns, &pooled, &error);
 *   tps_remote_tables_apply_bags_sync (tables, &gradient, 1, deadline_ns, &error);
 *
 * Deadlines are monotonic: g_get_monotonic_time () * 1000 plus the timeout, in nanoseconds. All
 * functions may be called from any thread.
 *
 * Placement. A table lies on one server as a whole, or is sharded over all servers by range or by
 * hash. Row values, updates and the results of lookup_rows are bitwise identical for any number of
 * shards. A pooled result is identical, too, if all rows of its bag lie in one shard, or if `exact`
 * is set. With `exact`, the client fetches the rows of bags that span several shards, and pools
 * them in the order of the indices. Without `exact`, each shard pools its part of such a bag, and
 * the parts are added in the order of the shards. The result then differs by rounding only, by at
 * most 2 * (n - 1) * 2^-24 times the sum of the absolute values of the n terms. A mean is computed
 * as a sum, and divided once.
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
 * request is retried until the deadline (TPS_RETRY_UNTIL_DEADLINE in client.h). Each request of a
 * push has its own push id, so that a retried push is applied only once, even if a server with a
 * data directory restarts in the meantime.
 *
 * Failures. If a request fails, the call fails with the error of this request, once all its
 * requests have ended. The message names the server: "server 1 (unix:/run/ps1): …". Servers are
 * independent: a push that one server refuses is still applied on the others. The error of the push
 * then ends with "applied on 1 of 2 servers", which counts the servers that confirmed the push. A
 * server that did not reply in time may have applied the push, too. A server without a data
 * directory loses its tables when it restarts.
 */

#pragma once

#include <thriftps/error.h>
#include <thriftps/tensor.h>

G_BEGIN_DECLS

/* ---- tables ---------------------------------------------------------------------------------- */

/* The numeric values of all enums are part of the wire format. */

/* X (NAME, name, number): the optimizers, TPS_OPTIMIZER_NAME. Numbers begin at 1 and have no
 * gaps. */
#define TPS_OPTIMIZERS(X)                 \
  X (SGD, sgd, 1)                         \
  X (ADAGRAD, adagrad, 2)                 \
  X (ROWWISE_ADAGRAD, rowwise_adagrad, 3) \
  X (ADAM, adam, 4)                       \
  X (FTRL, ftrl, 5)                       \
  X (ADAMW, adamw, 6)                     \
  X (NESTEROV, nesterov, 7)

#define TPS_OPTIMIZER_KIND(NAME, name, number) TPS_OPTIMIZER_##NAME = number,
typedef enum
{
  TPS_OPTIMIZERS (TPS_OPTIMIZER_KIND)
} TpsOptimizerKind;
#undef TPS_OPTIMIZER_KIND

/* An optimizer of rows. NAN means that a value is unset and that the optimizer's default applies.
 * The learning rate has no default. A number that the kind does not use must be unset or 0. */
typedef struct
{
  TpsOptimizerKind kind;
  gdouble learning_rate;
  gdouble momentum;
  gdouble weight_decay;
  gdouble epsilon;
  gdouble beta1;
  gdouble beta2;
  gdouble l1;
  gdouble l2;
  gdouble beta;
} TpsOptimizerSpec;

/* Returns a specification with this kind and learning rate. All other values are unset. */
TpsOptimizerSpec tps_optimizer_spec (TpsOptimizerKind kind, gdouble learning_rate);

typedef enum
{
  TPS_INITIALIZER_ZEROS = 1,
  TPS_INITIALIZER_UNIFORM = 2,
  TPS_INITIALIZER_NORMAL = 3,
} TpsInitializerKind;

/* The initial values of rows, which depend only on the initializer and the row. NAN means that a
 * value was not given. */
typedef struct
{
  TpsInitializerKind kind;
  gdouble low, high;   /* UNIFORM: default 0, 1. NORMAL: bounds, default none */
  gdouble mean, stdev; /* NORMAL: default 0, 1 */
  gint64 seed;
} TpsInitializer;

/* How updated rows are rounded to FLOAT16 or BFLOAT16. */
typedef enum
{
  TPS_ROUNDING_NEAREST = 1,    /* ties to even */
  TPS_ROUNDING_STOCHASTIC = 2, /* with random bits that depend on the seed of the initializer */
} TpsRounding;

/* What a restart of a server with a data directory keeps of the changes that it has acknowledged. A
 * larger number promises more. */
typedef enum
{
  TPS_DURABILITY_NONE = 1, /* a restart may lose a change although it keeps later ones */
  /* A crash loses at most the changes of the last `interval`, and no change that precedes a kept
   * one. */
  TPS_DURABILITY_INTERVAL = 2,
  TPS_DURABILITY_COMMIT = 3, /* the change is on the disk before it is acknowledged */
} TpsDurability;

typedef enum
{
  TPS_SHARD_WHOLE = 0, /* the table lies on one server */
  TPS_SHARD_RANGE = 1, /* each server has a range of rows */
  TPS_SHARD_HASH = 2,  /* rows are dealt out by a hash; shards differ by at most one row */
} TpsShardKind;

/* A table: the arguments of its creation, and an element of the list of tables. */
typedef struct
{
  gsize size;               /* see TPS_INIT() */
  const gchar *name;        /* [A-Za-z0-9_.:/-]{1,255} */
  gint64 rows;              /* at least 1 */
  gint32 dim;               /* at least 1 */
  TpsDType dtype;           /* of the rows; 0 = FLOAT32 */
  TpsRounding rounding;     /* 0 = NEAREST */
  TpsDurability durability; /* 0 = the server's default */
  /* The device that looks up and updates rows, and the memory of the rows: "cpu", "cuda:0", or
   * "cuda:0/host" for page-locked host memory. NULL = the server's default. */
  const gchar *place;
  TpsShardKind shard_kind;
  guint server;               /* for WHOLE: the number of the server */
  TpsInitializer initializer; /* kind 0 = normal (0, 1) with seed 0 */
  TpsOptimizerSpec optimizer; /* kind 0 = SGD with learning rate 0.01 */
  gint64 bytes; /* in lists: memory of all shards, with optimizer state and overhead */
} TpsRemoteTable;

/* ---- queries --------------------------------------------------------------------------------- */

typedef enum
{
  TPS_POOLING_SUM = 1,
  TPS_POOLING_MEAN = 2,
  TPS_POOLING_MAX = 3,
} TpsPooling;

/* Bags of rows of a table. Bag b has indices [offsets[b], offsets[b + 1]), and the last bag ends at
 * nnz. The result of an empty bag is 0. All members are borrowed. */
typedef struct
{
  const gchar *table;
  TpsTensorView indices; /* INT64 [nnz], rows of the table */
  TpsTensorView offsets; /* INT64 [bags], ascending, the first 0 */
  TpsPooling pooling;
  TpsTensorView weights; /* FLOAT32 [nnz], SUM only; shape.dtype 0 = no weights */
} TpsBagQuery;

typedef struct
{
  TpsBagQuery query;
  TpsTensorView gradient; /* of the pooled output, FLOAT32 [bags, dim] */
  /* MAX only: INT64 [bags, dim], the rows that receive the gradient, from the lookup; shape.dtype
   * 0 = the push finds the maxima. */
  TpsTensorView maxima;
} TpsBagGradient;

/* Receive the result of a call. Called exactly once, on an I/O thread, never inside the call; must
 * not block. The callee may keep any of `outputs` by moving it out and leaving an all-zero tensor;
 * the others are released after the call. `outputs` is NULL on error. */
typedef void (*TpsTablesLookedUp) (gpointer user_data, TpsTensor *outputs, const GError *error);
typedef void (*TpsTablesApplied) (gpointer user_data, const GError *error);

/* ---- tables of servers ----------------------------------------------------------------------- */

typedef struct TpsRemoteTables TpsRemoteTables;
typedef struct TpsTls TpsTls; /* access.h */

typedef struct
{
  gsize size;                    /* see TPS_INIT() */
  const gchar *const *addresses; /* of the servers, in their order; as in TpsClientOptions */
  guint n_addresses;
  /* The name in push ids: [A-Za-z0-9_.:/-]{1,255}. No other client may ever have used it, because
   * the sequence numbers of every client begin at 1. NULL = a random name. */
  const gchar *client;
  gsize max_message_bytes; /* limit of a reply; 0 = the maximum */
  TpsTls *tls;             /* see TpsClientOptions */
  const gchar *token;      /* see TpsClientOptions */
  gboolean exact;          /* bags are pooled on the client: see "Placement" above */
  /* Results of lookups may lie in memory of this device, which is then the device of their buffers;
   * borrowed. This saves the copy to the host and back if the server is on the same host, its
   * tables and this program use the same GPU, and the address is a Unix socket. A result lies in
   * memory of the device if one server has all of its rows, its size is 64 KiB or more, and the
   * server had room. Any other result lies in host memory, as do the first results of a connection.
   * Before the caller releases a result in memory of the device, it must wait for the work that
   * reads the result: after the release, the server may write the next result to the same memory. A
   * result that is merged from several servers, and the rows of bags with pooling MAX, are copied
   * to the host first, on an I/O thread. NULL: all results lie in host memory. */
  TpsDevice *lookup_device;
} TpsRemoteTablesOptions;

/* Creates the object, and copies the options except for `lookup_device`; it does not connect yet.
 * The caller owns the result. Errors: INVALID_ARGUMENT (no address, an address that cannot be
 * parsed, or a bad client name). */
TpsRemoteTables *tps_remote_tables_new (const TpsRemoteTablesOptions *options, GError **error);
/* Ends pending calls with ABORTED, and frees the object. Must not be called from a callback. */
void tps_remote_tables_free (TpsRemoteTables *tables);
/* Ends pending calls with ABORTED. Later calls fail with ABORTED, too. */
void tps_remote_tables_cancel (TpsRemoteTables *tables);

/* Creates the table on all its servers, and waits. A sharded table has one shard per server, but at
 * most as many shards as rows. Parts that already exist and are identical stay unchanged. If a
 * server fails, the error names the server, and the call drops the parts that it created, or may
 * have created. Dropping them may take up to 2 s beyond the deadline; a part on an unreachable
 * server may remain. Errors: INVALID_ARGUMENT; ALREADY_EXISTS if a server has a different table of
 * this name, or a part of a different placement; those of the servers. */
gboolean tps_remote_tables_create (TpsRemoteTables *tables, const TpsRemoteTable *table,
                                   gint64 deadline_ns, GError **error);
/* Drops the table on all its servers, and waits. A server without the table counts as a success.
 * After a failure, the table stays known to this object, and the caller may drop it again. Errors:
 * those of the servers. */
gboolean tps_remote_tables_drop (TpsRemoteTables *tables, const gchar *name, gint64 deadline_ns,
                                 GError **error);

/* Lists the tables of all servers, makes them known to this object, and waits. Calls for a table
 * that was created by another object need this first. Errors: INVALID_ARGUMENT if the parts of a
 * table are incomplete, or if a table is whole on several servers (the message names the table);
 * those of the servers. After an error, the known tables are unchanged. */
gboolean tps_remote_tables_discover (TpsRemoteTables *tables, gint64 deadline_ns, GError **error);

/* Returns all tables in the order of their names, an array of TpsRemoteTable *, and waits. The
 * caller owns the array, and the array owns its elements. NULL on error: those of
 * tps_remote_tables_discover(). */
GPtrArray *tps_remote_tables_list (TpsRemoteTables *tables, gint64 deadline_ns, GError **error);

/* ---- lookups and pushes ---------------------------------------------------------------------- */

/* These functions wait, and must not be called from a callback. Outputs must be zero before the
 * call; the caller owns them. Elements of arguments are borrowed for the call. Errors: NOT_FOUND if
 * the table was neither created nor discovered by this object; INVALID_ARGUMENT for bad indices,
 * offsets, maxima and shapes ("queries[1].indices[17]: …"), before any request is sent; those of
 * the servers. */

/* Pools bags: outputs [n_queries], FLOAT32 [bags, dim] each. */
gboolean tps_remote_tables_lookup_bags_sync (TpsRemoteTables *tables, const TpsBagQuery *queries,
                                             guint n_queries, gint64 deadline_ns,
                                             TpsTensor *outputs, GError **error);
/* As tps_remote_tables_lookup_bags_sync(), but also gives the maxima, for training with pooling
 * MAX: outputs [2 * n_queries]. After the outputs of all queries come as many tensors with their
 * maxima: for pooling MAX, INT64 [bags, dim], the row that holds the maximum of a column, and -1 in
 * an empty bag; no elements for other poolings. */
gboolean tps_remote_tables_lookup_maxima_sync (TpsRemoteTables *tables, const TpsBagQuery *queries,
                                               guint n_queries, gint64 deadline_ns,
                                               TpsTensor *outputs, GError **error);
/* Applies one step of the optimizer to each named table. The step is applied once, even if a reply
 * is lost and the request is sent again. */
gboolean tps_remote_tables_apply_bags_sync (TpsRemoteTables *tables,
                                            const TpsBagGradient *gradients, guint n_gradients,
                                            gint64 deadline_ns, GError **error);

/* Looks up rows `indices`, INT64 [n]: `rows` becomes [n, dim] of the table's dtype. */
gboolean tps_remote_tables_lookup_rows_sync (TpsRemoteTables *tables, const gchar *name,
                                             TpsTensorView indices, gint64 deadline_ns,
                                             TpsTensor *rows, GError **error);
/* Applies one step with gradients of rows, [n, dim], FLOAT32 or of the table's dtype. Gradients of
 * the same row are added first. */
gboolean tps_remote_tables_apply_rows_sync (TpsRemoteTables *tables, const gchar *name,
                                            TpsTensorView indices, TpsTensorView values,
                                            gint64 deadline_ns, GError **error);
/* Sets rows to `values`, [n, dim], FLOAT32 or of the table's dtype. Optimizer state is unchanged.
 * If an index occurs more than once, its last value wins. Every row is set, even one that has
 * changed since the values were read: LSNs are numbers of one server, so they cannot be compared
 * here. To keep changed rows, call EmbeddingTable.assign_rows, which takes an LSN. Errors:
 * INVALID_ARGUMENT, too, if the table is on a device. */
gboolean tps_remote_tables_assign_rows_sync (TpsRemoteTables *tables, const gchar *name,
                                             TpsTensorView indices, TpsTensorView values,
                                             gint64 deadline_ns, GError **error);

/* As the functions above, but these never block. All results go to `done`, before `deadline_ns`
 * plus a scheduling delay. The memory behind the arguments stays borrowed until `done`; arrays of
 * queries and gradients are copied. `done` of lookup_bags receives 2 * n_queries outputs, as from
 * lookup_maxima_sync; `done` of lookup_rows receives one. */
void tps_remote_tables_lookup_bags (TpsRemoteTables *tables, const TpsBagQuery *queries,
                                    guint n_queries, gint64 deadline_ns, TpsTablesLookedUp done,
                                    gpointer user_data);
void tps_remote_tables_apply_bags (TpsRemoteTables *tables, const TpsBagGradient *gradients,
                                   guint n_gradients, gint64 deadline_ns, TpsTablesApplied done,
                                   gpointer user_data);
void tps_remote_tables_lookup_rows (TpsRemoteTables *tables, const gchar *name,
                                    TpsTensorView indices, gint64 deadline_ns,
                                    TpsTablesLookedUp done, gpointer user_data);
void tps_remote_tables_apply_rows (TpsRemoteTables *tables, const gchar *name,
                                   TpsTensorView indices, TpsTensorView values, gint64 deadline_ns,
                                   TpsTablesApplied done, gpointer user_data);
void tps_remote_tables_assign_rows (TpsRemoteTables *tables, const gchar *name,
                                    TpsTensorView indices, TpsTensorView values, gint64 deadline_ns,
                                    TpsTablesApplied done, gpointer user_data);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsRemoteTables, tps_remote_tables_free)

/* The interface of a trainer of this library to tables; opaque. */
typedef struct TpsTableClient TpsTableClient;

/* Returns a TpsTableClient, which takes ownership of `tables`. The caller owns the result. */
TpsTableClient *tps_remote_tables_as_client (TpsRemoteTables *tables);

G_END_DECLS
