/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Writes a history (FORMAT.md) of the calls that clients of a server make.
 *
 *   tps_history_push (recorder, 0, 1, rows, 2);        before the request is sent
 *   ... send it, and wait for the reply ...
 *   tps_history_ack (recorder, 0, 1);                  after the acknowledgement
 *   tps_history_unknown (recorder, 0, 1);              or after any other end
 *
 * The recorder does not check the rules of FORMAT.md, but the checker does. Thread: any. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct TpsHistoryRecorder TpsHistoryRecorder;

/* Creates or truncates the file. Errors: INTERNAL (the file cannot be created). */
TpsHistoryRecorder *tps_history_recorder_new (const gchar *path, guint n_clients, guint n_rows,
                                              GError **error);
/* Closes the file and frees the recorder in any case. Returns FALSE if not everything could be
 * written. */
gboolean tps_history_recorder_close (TpsHistoryRecorder *recorder);

/* Records the start of a push: number `number` of `client`, to `rows`. */
void tps_history_push (TpsHistoryRecorder *recorder, guint client, guint number, const guint *rows,
                       guint n_rows);
/* Record the end of a push: with its acknowledgement, or with an unknown result. */
void tps_history_ack (TpsHistoryRecorder *recorder, guint client, guint number);
void tps_history_unknown (TpsHistoryRecorder *recorder, guint client, guint number);

/* Records the start of a lookup. */
void tps_history_read (TpsHistoryRecorder *recorder, guint client, const guint *rows, guint n_rows);
/* Records the values that a lookup returned: `values` [n_rows, dim], of which the first `n_clients`
 * columns count pushes. */
void tps_history_values (TpsHistoryRecorder *recorder, guint client, const gfloat *values,
                         guint n_rows, guint dim);
/* Records that a lookup ended without a reply. */
void tps_history_lost (TpsHistoryRecorder *recorder, guint client);

/* Record that the server was killed, and that it serves again. No call may be open. */
void tps_history_crash (TpsHistoryRecorder *recorder);
void tps_history_restart (TpsHistoryRecorder *recorder);

G_END_DECLS
