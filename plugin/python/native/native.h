/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The C client as flat functions, for Python's ctypes: the library inside the wheel.
 *
 * Each function that talks to a server starts a call and returns it; NULL is never returned.
 * Arguments that point to memory are borrowed until the call has ended, unless stated otherwise.
 * The caller waits for the end, reads the reply, and frees the call. Structs are passed as they are
 * in C; thriftps/_native.py declares them again, and tps_python_get_sizes() lets it check that both
 * agree. Not a public interface: it may change with every version.
 *
 * Thread: any. No function calls back into Python, so that Python's interpreter lock is not needed
 * by any I/O thread.
 */

#pragma once

#include "plugin/client/remote_tables.h"
#include "runtime/tensor/gradient.h"

G_BEGIN_DECLS

/* The sizes of the structs below, in the order of _native.py; 0 ends the array. Static. */
const gsize *tps_python_get_sizes (void);

/* -- calls -- */

typedef struct TpsPythonCall TpsPythonCall;
typedef struct TpsPythonQueue TpsPythonQueue;

/* The outcome of a call; everything in it lives as long as the call. */
typedef struct
{
  gint32 code;           /* TpsErrorCode; 0 = success */
  gint32 retry_after_ms; /* -1 = not said */
  const gchar *message;  /* NULL on success */
  gint64 number;         /* a version, a sum, an LSN; what the function says */
  const gchar *text;     /* JSON; NULL = none */
  gconstpointer bytes;   /* a value; NULL = none */
  gsize n_bytes;
  TpsTensorView *tensors; /* may be memory that can only be read */
  gchar **names;          /* of the tensors; NULL = they have none */
  guint n_tensors;
} TpsPythonReply;

/* FALSE: the call has not ended `timeout_ns` nanoseconds later; 0 = does not wait. */
gboolean tps_python_call_wait (TpsPythonCall *call, gint64 timeout_ns);

/* Borrowed; of a call that has ended. */
const TpsPythonReply *tps_python_call_get_reply (TpsPythonCall *call);

/* A call that has ended. */
void tps_python_call_free (TpsPythonCall *call);

/* Puts `token` into `queue` when the call ends, or now if it has ended. At most once a call. */
void tps_python_call_notify (TpsPythonCall *call, TpsPythonQueue *queue, guint64 token);

/* Tokens of calls that have ended, and a file descriptor (an eventfd) that is readable while there
 * may be any. */
TpsPythonQueue *tps_python_queue_new (void);
gint tps_python_queue_get_fd (const TpsPythonQueue *queue);

/* Takes up to `n_max` tokens and returns their number. Does not wait. */
guint tps_python_queue_take (TpsPythonQueue *queue, guint64 *tokens, guint n_max);

/* Calls that are to notify it keep it until they end. */
void tps_python_queue_unref (TpsPythonQueue *queue);

/* Encryption of TCP connections: names of PEM files and so on, as TpsTlsOptions. */
typedef struct
{
  const gchar *certificate;
  const gchar *key;
  const gchar *authorities;
  gint32 allow_tls_1_2;
} TpsPythonTls;

/* -- tables on any number of servers: plugin/client/remote_tables.h -- */

/* NULL: `*failed` is a call that says why; owned by the caller. `tls`: NULL = plain connections. */
TpsRemoteTables *tps_python_tables_new (const gchar *const *addresses, guint n_addresses,
                                        const gchar *client, gboolean exact,
                                        const TpsPythonTls *tls, TpsPythonCall **failed);
void tps_python_tables_cancel (TpsRemoteTables *tables);
void tps_python_tables_free (TpsRemoteTables *tables);

typedef struct
{
  const gchar *name;
  gint64 rows;
  gint32 dim;
  gint32 dtype; /* TpsDType */
  TpsInitializer initializer;
  TpsOptimizerSpec optimizer;
  const gchar *place; /* "cpu", "cuda:0/host"; NULL = not said */
  gint32 durability;  /* TpsDurability; 0 = not said */
  gint32 shard_kind;  /* TpsShardKind */
  guint32 server;     /* of a table that is whole */
} TpsPythonTable;

/* These four wait: the call has ended when they return. list: `text` is a list of objects. */
TpsPythonCall *tps_python_tables_create (TpsRemoteTables *tables, const TpsPythonTable *table,
                                         gint64 timeout_ns);
TpsPythonCall *tps_python_tables_drop (TpsRemoteTables *tables, const gchar *name,
                                       gint64 timeout_ns);
TpsPythonCall *tps_python_tables_discover (TpsRemoteTables *tables, gint64 timeout_ns);
TpsPythonCall *tps_python_tables_list (TpsRemoteTables *tables, gint64 timeout_ns);

/* One tensor a query, FLOAT32 [bags, dim]. */
TpsPythonCall *tps_python_tables_lookup_bags (TpsRemoteTables *tables, const TpsBagQuery *queries,
                                              guint n_queries, gint64 timeout_ns);
TpsPythonCall *tps_python_tables_apply_bags (TpsRemoteTables *tables,
                                             const TpsBagGradient *gradients, guint n_gradients,
                                             gint64 timeout_ns);
/* One tensor, [n, dim] of the table's dtype. */
TpsPythonCall *tps_python_tables_lookup_rows (TpsRemoteTables *tables, const gchar *name,
                                              const TpsTensorView *indices, gint64 timeout_ns);
TpsPythonCall *tps_python_tables_apply_rows (TpsRemoteTables *tables, const gchar *name,
                                             const TpsTensorView *indices,
                                             const TpsTensorView *values, gint64 timeout_ns);

/* -- one server -- */

/* As tps_python_tables_new(). */
TpsClient *tps_python_client_new (const gchar *address, gboolean no_shared_memory,
                                  const TpsPythonTls *tls, TpsPythonCall **failed);
void tps_python_client_cancel (TpsClient *client);
void tps_python_client_free (TpsClient *client);

/* Node. `text` is an object, or a list of objects. */
TpsPythonCall *tps_python_describe (TpsClient *client, gint64 timeout_ns);
TpsPythonCall *tps_python_get_metrics (TpsClient *client, gint64 timeout_ns);
TpsPythonCall *tps_python_clear_metrics (TpsClient *client, gint64 timeout_ns);
/* `text`: the levels that held before. */
TpsPythonCall *tps_python_set_log_level (TpsClient *client, const gchar *levels, gint64 timeout_ns);

/* ParameterServer. */
typedef struct
{
  gint32 kind; /* TpsGradientKind */
  gdouble weight;
  TpsTensorView dense;
  TpsTensorView indices; /* SPARSE */
  TpsTensorView values;
  gint64 rows;
} TpsPythonGradient;

/* A dense average is one tensor; a sparse one is indices and values, with its rows in `number`. */
TpsPythonCall *tps_python_average_gradient (TpsClient *client, gint32 trainer, gint64 batch,
                                            gint32 param_loc, const TpsPythonGradient *gradient,
                                            gint64 timeout_ns);
TpsPythonCall *tps_python_reset_state (TpsClient *client, gint64 timeout_ns);
TpsPythonCall *tps_python_init_model (TpsClient *client, const gchar *const *names,
                                      const TpsTensorView *parameters, guint n_parameters,
                                      const TpsOptimizerSpec *optimizer, gint64 timeout_ns);

/* Both: `number` is the model's version; tensors with their names. */
TpsPythonCall *tps_python_get_model (TpsClient *client, gint64 timeout_ns);
TpsPythonCall *tps_python_update_model (TpsClient *client, gint32 trainer,
                                        const TpsTensorView *gradients, guint n_gradients,
                                        gint64 version, const gchar *push_client,
                                        gint64 push_sequence, gint64 timeout_ns);

/* Rendezvous. get: `bytes`. add: `number` is the sum. */
TpsPythonCall *tps_python_put (TpsClient *client, const gchar *key, gconstpointer value,
                               gsize n_bytes, gint64 timeout_ns);
TpsPythonCall *tps_python_get (TpsClient *client, const gchar *key, gint32 wait_ms,
                               gint64 timeout_ns);
TpsPythonCall *tps_python_add (TpsClient *client, const gchar *key, gint64 amount,
                               const gchar *push_client, gint64 push_sequence, gint64 timeout_ns);
TpsPythonCall *tps_python_remove (TpsClient *client, const gchar *prefix, gint64 timeout_ns);

/* Durability. flush: `number` is the LSN. The next three: `text` is an object, of the snapshot. */
TpsPythonCall *tps_python_flush (TpsClient *client, gint64 timeout_ns);
TpsPythonCall *tps_python_snapshot (TpsClient *client, gboolean is_incremental, gint64 timeout_ns);
TpsPythonCall *tps_python_restore (TpsClient *client, const gchar *const *snapshots,
                                   const TpsPythonTable *tables, guint n_tables, gint64 timeout_ns);
TpsPythonCall *tps_python_import_table (TpsClient *client, const TpsPythonTable *table,
                                        const gchar *const *files, const gchar *tensor,
                                        gint64 timeout_ns);
/* `text` is an object, `bytes` the records. */
TpsPythonCall *tps_python_read_log (TpsClient *client, gint64 cursor, gint32 max_bytes,
                                    gint32 wait_ms, gint64 timeout_ns);

/* EmbeddingTable, of tables that are whole on this server: rows and their LSNs; rows are set. */
TpsPythonCall *tps_python_lookup_rows_with_lsns (TpsClient *client, const gchar *table,
                                                 const TpsTensorView *indices, gint64 timeout_ns);
TpsPythonCall *tps_python_assign_rows (TpsClient *client, const gchar *table,
                                       const TpsTensorView *indices, const TpsTensorView *values,
                                       gint64 lsn, const gchar *push_client, gint64 push_sequence,
                                       gint64 timeout_ns);

G_END_DECLS
