/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Reads the public Criteo format. A line has 40 fields, separated by tabs: a label (0 or 1), 13
 * decimal integers, and 26 hexadecimal numbers of up to 8 digits. Integers and hexadecimal numbers
 * may be missing (empty). A dense feature is ln (1 + max (integer, 0)), as in DLRM; it is 0 for a
 * missing integer. An id is the hexadecimal number modulo the rows of its table; it is 0 for a
 * missing number. */

#pragma once

#include "bench/dlrm/click_batch.h"

G_BEGIN_DECLS

/* bytes with the newline; lines of the public data are below 400 */
#define TPS_CRITEO_MAX_LINE 1024

typedef struct TpsCriteoLog TpsCriteoLog;

/* Opens a file. The caller owns the result. Errors: NOT_FOUND (the file cannot be opened),
 * INVALID_ARGUMENT (a shape whose bags have several ids). */
TpsCriteoLog *tps_criteo_log_open (const gchar *path, const TpsClickShape *shape, GError **error);
void tps_criteo_log_free (TpsCriteoLog *log);

/* Fills `batch` with the next lines. After the last line, continues with the first line. Errors:
 * INVALID_ARGUMENT, for a bad value with its file, line and field, as in "clicks.tsv:17: field 3:
 * …"; for an empty file; for a file that cannot be read. */
gboolean tps_criteo_log_read (TpsCriteoLog *log, TpsClickBatch *batch, GError **error);

/* Skips `n_samples` lines without parsing them. Errors: as above, but fields are not checked. */
gboolean tps_criteo_log_skip (TpsCriteoLog *log, guint64 n_samples, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsCriteoLog, tps_criteo_log_free)

G_END_DECLS
