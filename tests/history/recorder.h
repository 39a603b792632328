/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Writes a history (FORMAT.md) of the calls that clients of a server make.
 *
 *   tps_history_push (recorder, 0, 1, rows, 2);        before the request is sent
 *   ... send it, and wait for the reply ...
 *   tps_history_ack (recorder, 0, 1);                  after it was acknowledged,
 *   tps_history_unknown (recorder, 0, 1);              or after anything else
 *
 * The recorder does not check the rules of FORMAT.md; the checker does. Thread: any. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct TpsHistoryRecorder TpsHistoryRecorder;

/* Creates or truncates the file. Errors: INTERNAL (the file cannot be created). */
TpsHistoryRecorder *tps_history_recorder_new (const gchar *path, guint n_clients, guint n_rows,
                                              GError **error);

/* FALSE: not everything could be written. The recorder is freed in any case. */
gboolean tps_history_recorder_close (TpsHistoryRecorder *recorder);

/* Records the start of a push: number `number` of `client`, to `rows`. */
void tps_history_push (TpsHistoryRecorder *recorder, guint client, guint number, const guint *rows,
                       guint n_rows);
void tps_history_ack (TpsHistoryRecorder *recorder, guint client, guint number);
void tps_history_unknown (TpsHistoryRecorder *recorder, guint client, guint number);

/* Records the start of a lookup. */
void tps_history_read (TpsHistoryRecorder *recorder, guint client, const guint *rows, guint n_rows);
/* `values` [n_rows, dim], of which the first `n_clients` columns count. */
void tps_history_values (TpsHistoryRecorder *recorder, guint client, const gfloat *values,
                         guint n_rows, guint dim);
void tps_history_lost (TpsHistoryRecorder *recorder, guint client);

/* Records that the server was killed and serves again. No call may be open. */
void tps_history_crash (TpsHistoryRecorder *recorder);
void tps_history_restart (TpsHistoryRecorder *recorder);

G_END_DECLS
