/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The C client as flat functions, for Python's ctypes: the library inside the wheel.
 *
 * Each function that talks to a server starts a call and returns it, never NULL. Memory that
 * arguments point to is borrowed until the call has ended, unless stated otherwise. The caller must
 * wait for the end, read the reply, and free the call. Structs are passed as in C.
 * thriftps/_native.py declares the structs again, and compares their sizes with
 * tps_python_get_sizes(). This is not a public interface: every version may change it.
 *
 * Thread: any. No function calls back into Python, so no I/O thread needs Python's interpreter
 * lock.
 */

#pragma once

#include <thriftps/client.h>

G_BEGIN_DECLS

/* Returns the sizes of the structs that are passed, in the order of _native.py; 0 ends the array.
 * Static. Thread: any. */
const gsize *tps_python_get_sizes (void);

/* -- calls -- */

typedef struct TpsPythonCall TpsPythonCall;
typedef struct TpsPythonQueue TpsPythonQueue;

/* The outcome of a call. Its contents live as long as the call. */
typedef struct
{
  gint32 code;           /* TpsErrorCode; 0 = success */
  gint32 retry_after_ms; /* -1 = unknown */
  const gchar *message;  /* NULL on success */
  gint64 number;         /* a version, a sum, an LSN or a number of rows, by function */
  const gchar *text;     /* JSON, or levels of the log; NULL = none */
  gconstpointer bytes;   /* a value, or records of the log; NULL = none */
  gsize n_bytes;
  TpsTensorView *tensors; /* the memory of their elements may be read-only */
  gchar **names;          /* of the tensors; NULL = none */
  guint n_tensors;
} TpsPythonReply;

/* Waits up to `timeout_ns` nanoseconds for the end of the call; 0 = does not wait. Returns the
 * reply, borrowed until the call is freed; NULL: the call has not ended. */
const TpsPythonReply *tps_python_call_wait (TpsPythonCall *call, gint64 timeout_ns);
/* Frees a call, which must have ended. */
void tps_python_call_free (TpsPythonCall *call);

/* Puts `token` into `queue` when the call ends, or at once if it has ended. If the function is
 * called again before the call ends, only the last queue gets its token. */
void tps_python_call_notify (TpsPythonCall *call, TpsPythonQueue *queue, guint64 token);

/* A queue of tokens of ended calls, with a file descriptor (an eventfd) that is readable while
 * there may be tokens. The caller owns the queue. NULL: the process has no free descriptor. The
 * descriptor is borrowed. */
TpsPythonQueue *tps_python_queue_new (void);
gint tps_python_queue_get_fd (const TpsPythonQueue *queue);

/* Takes up to `n_max` tokens and returns their number. Does not wait. */
guint tps_python_queue_take (TpsPythonQueue *queue, guint64 *tokens, guint n_max);
/* Releases the queue. Calls that have yet to notify it keep it until they end. `owner` is the
 * process that created the object. Like the other functions with an owner, this one does nothing in
 * a child of this process, where threads that do not exist may hold locks. */
void tps_python_queue_free (TpsPythonQueue *queue, gint32 owner);

/* Encryption of TCP connections: names of PEM files and options, as in TpsTlsOptions. */
typedef struct
{
  const gchar *certificate;
  const gchar *key;
  const gchar *authorities;
  gint32 allow_tls_1_2;
} TpsPythonTls;

/* -- tables on any number of servers: thriftps/tables.h -- */

/* Creates the tables of a client; the caller owns the result. On failure returns NULL and sets
 * `*failed` to a call with the error, which the caller owns. `tls` NULL = plain connections. */
TpsRemoteTables *tps_python_tables_new (const gchar *const *addresses, guint n_addresses,
                                        const gchar *client, gboolean exact,
                                        const TpsPythonTls *tls, TpsPythonCall **failed);
void tps_python_tables_cancel (TpsRemoteTables *tables);
void tps_python_tables_free (TpsRemoteTables *tables, gint32 owner);

/* Create a table, drop a table, discover the tables of the servers, and list them. These four
 * functions wait: the call has ended when they return. tables_list: `text` is a list of objects. */
TpsPythonCall *tps_python_tables_create (TpsRemoteTables *tables, const TpsRemoteTable *table,
                                         gint64 timeout_ns);
TpsPythonCall *tps_python_tables_drop (TpsRemoteTables *tables, const gchar *name,
                                       gint64 timeout_ns);
TpsPythonCall *tps_python_tables_discover (TpsRemoteTables *tables, gint64 timeout_ns);
TpsPythonCall *tps_python_tables_list (TpsRemoteTables *tables, gint64 timeout_ns);

/* Look up bags, and apply gradients of bags. The reply to a lookup has one tensor per query,
 * FLOAT32 [bags, dim], and then as many tensors with maxima, as in
 * tps_remote_tables_lookup_bags(). */
TpsPythonCall *tps_python_tables_lookup_bags (TpsRemoteTables *tables, const TpsBagQuery *queries,
                                              guint n_queries, gint64 timeout_ns);
TpsPythonCall *tps_python_tables_apply_bags (TpsRemoteTables *tables,
                                             const TpsBagGradient *gradients, guint n_gradients,
                                             gint64 timeout_ns);
/* Look up rows, and apply gradients of rows. The reply to a lookup has one tensor, [n, dim] of the
 * table's dtype. */
TpsPythonCall *tps_python_tables_lookup_rows (TpsRemoteTables *tables, const gchar *name,
                                              const TpsTensorView *indices, gint64 timeout_ns);
TpsPythonCall *tps_python_tables_apply_rows (TpsRemoteTables *tables, const gchar *name,
                                             const TpsTensorView *indices,
                                             const TpsTensorView *values, gint64 timeout_ns);

/* -- one server -- */

/* Creates a client of one server; result and errors are as in tps_python_tables_new(). */
TpsClient *tps_python_client_new (const gchar *address, gboolean no_shared_memory,
                                  const TpsPythonTls *tls, TpsPythonCall **failed);
void tps_python_client_cancel (TpsClient *client);
void tps_python_client_free (TpsClient *client, gint32 owner);

/* flat_functions.h has the methods of one server. */

/* A gradient for an average. */
typedef struct
{
  gint32 kind; /* TpsGradientKind */
  gdouble weight;
  TpsTensorView dense;
  TpsTensorView indices; /* SPARSE */
  TpsTensorView values;
  gint64 rows;
} TpsPythonGradient;

G_END_DECLS
