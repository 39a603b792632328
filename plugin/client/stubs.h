/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The methods of the contract as functions that wait for their reply.
 *
 * Arguments are borrowed for the call; `deadline_ns` is monotonic. The caller owns the outputs,
 * which are written on success only. Functions that return a pointer return NULL on error. Errors:
 * those of tps_client_call(), and INTERNAL if the reply cannot be decoded. Thread: any except the
 * client's own I/O thread; several calls may run at the same time.
 *
 * After a lost connection, or if the server is recovering or busy, the following calls are retried
 * until the deadline (retry.h): init_model, get_model, lookup_rows_with_lsns, flush, read_log,
 * update_and_fetch_model with a push id, and assign_rows with a push id or an LSN.
 */

#pragma once

#include "plugin/client/client.h"
#include "plugin/wire/wire_durability.h"
#include "plugin/wire/wire_embedding_table.h"
#include "plugin/wire/wire_node.h"
#include "plugin/wire/wire_parameter_server.h"
#include "runtime/tensor/train_plan.h"
#include "runtime/embedding/table_spec.h"

G_BEGIN_DECLS

/* The service Node: describe the server, read or clear its metrics, and read its certificates
 * again. tps_remote_get_metrics() returns an array of TpsMetricSummary that frees its elements. */
gboolean tps_remote_describe (TpsClient *client, gint64 deadline_ns, TpsNodeInfo *info,
                              GError **error);
GPtrArray *tps_remote_get_metrics (TpsClient *client, gboolean with_samples, gint64 deadline_ns,
                                   GError **error);
gboolean tps_remote_clear_metrics (TpsClient *client, gint64 deadline_ns, GError **error);
gboolean tps_remote_reload_certificates (TpsClient *client, gint64 deadline_ns, GError **error);

/* Sets the levels of the server's log. Returns the previous levels, which the caller must free with
 * g_free(). */
gchar *tps_remote_set_log_level (TpsClient *client, const gchar *levels, gint64 deadline_ns,
                                 GError **error);

/* The service Durability: writes a snapshot of whole tables, without increments, and waits for it.
 * The caller must clear `info`. */
gboolean tps_remote_snapshot (TpsClient *client, gint64 deadline_ns, TpsWireSnapshotInfo *info,
                              GError **error);

/* The service ParameterServer. tps_remote_reset_state() discards all rounds, the model and the
 * metrics. */
gboolean tps_remote_reset_state (TpsClient *client, gint64 deadline_ns, GError **error);

/* Create, fetch and update the model. */
gboolean tps_remote_init_model (TpsClient *client, TpsNamedTensor *parameters, guint n_parameters,
                                const TpsOptimizerSpec *optimizer, gint64 deadline_ns,
                                GError **error);
TpsModelVersion *tps_remote_get_model (TpsClient *client, gint64 deadline_ns, GError **error);
TpsModelVersion *tps_remote_update_and_fetch_model (TpsClient *client,
                                                    const TpsUpdateModelArguments *arguments,
                                                    gint64 deadline_ns, GError **error);

/* The service EmbeddingTable: create and drop tables of one server. remote_tables.h handles several
 * servers. */
gboolean tps_remote_create_table (TpsClient *client, const TpsTableSpec *spec, gint64 deadline_ns,
                                  GError **error);
gboolean tps_remote_drop_table (TpsClient *client, const gchar *table, gint64 deadline_ns,
                                GError **error);

/* Look up rows with their LSNs, and set rows. */
gboolean tps_remote_lookup_rows_with_lsns (TpsClient *client,
                                           const TpsLookupRowsArguments *arguments,
                                           gint64 deadline_ns, TpsRowsWithLsns *rows,
                                           GError **error);
gboolean tps_remote_assign_rows (TpsClient *client, const TpsAssignRowsArguments *arguments,
                                 gint64 deadline_ns, GError **error);

/* The service Durability, for servers with a data directory: write the log to the disk, and read a
 * batch of its records. runtime/server/log/log_records.h decodes the records. The deadline of
 * tps_remote_read_log() must be later than the end of its `wait_ms`. */
gboolean tps_remote_flush (TpsClient *client, gint64 deadline_ns, gint64 *lsn, GError **error);
gboolean tps_remote_read_log (TpsClient *client, const TpsReadLogArguments *arguments,
                              gint64 deadline_ns, TpsWireLogBatch *batch, GError **error);

/* The service Trainer: start a training, read its status, and cancel it. */
gboolean tps_remote_train (TpsClient *client, const TpsTrainPlan *plan, gint64 deadline_ns,
                           GError **error);
gboolean tps_remote_get_train_status (TpsClient *client, gint64 deadline_ns, TpsTrainStatus *status,
                                      GError **error);
gboolean tps_remote_cancel_train (TpsClient *client, gint64 deadline_ns, GError **error);

/* The service Rendezvous: put, get and remove keys. `timeout_ms` is the time for which the server
 * waits for the key, before it replies with DEADLINE_EXCEEDED; with 0, a missing key is NOT_FOUND
 * at once. tps_remote_remove() removes all keys that begin with `prefix`. */
gboolean tps_remote_put (TpsClient *client, const gchar *key, GBytes *value, gint64 deadline_ns,
                         GError **error);
GBytes *tps_remote_get (TpsClient *client, const gchar *key, gint32 timeout_ms, gint64 deadline_ns,
                        GError **error);
gboolean tps_remote_remove (TpsClient *client, const gchar *prefix, gint64 deadline_ns,
                            GError **error);

G_END_DECLS
