/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Reads the public Criteo format: lines of 40 fields separated by tabs, which are a label (0 or 1),
 * 13 decimal integers and 26 hexadecimal numbers of up to 8 digits. Integers and hexadecimal
 * numbers may be missing (empty). A dense feature is ln (1 + max (integer, 0)), as in DLRM; a
 * missing integer gives 0. An id is the hexadecimal number modulo the rows of its table; a missing
 * number is 0. */

#pragma once

#include "bench/dlrm/click_batch.h"

G_BEGIN_DECLS

#define TPS_CRITEO_MAX_LINE 1024 /* bytes with the newline; lines of the public data have < 400 */

typedef struct TpsCriteoLog TpsCriteoLog;

/* Opens a file; owned by the caller. Bags must have one id. Errors: NOT_FOUND (it cannot be
 * opened), INVALID_ARGUMENT (a shape with longer bags). */
TpsCriteoLog *tps_criteo_log_open (const gchar *path, const TpsClickShape *shape, GError **error);
void tps_criteo_log_free (TpsCriteoLog *log);

/* Fills `batch` with the next lines; continues with the first line after the last one. Errors:
 * INVALID_ARGUMENT, which names the file, the line, the field and its value: "clicks.tsv:17: field
 * 3: …"; an empty file; a file that cannot be read. */
gboolean tps_criteo_log_read (TpsCriteoLog *log, TpsClickBatch *batch, GError **error);

/* Skips `n_samples` lines, which are not parsed. Errors: as above for their lengths. */
gboolean tps_criteo_log_skip (TpsCriteoLog *log, guint64 n_samples, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsCriteoLog, tps_criteo_log_free)

G_END_DECLS
