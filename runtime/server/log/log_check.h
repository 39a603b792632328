/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Functions for tools that check, show or cut a log while no server uses it. The folder is locked
 * meanwhile. Threads: any. */

#pragma once

#include "runtime/server/log/log.h"

G_BEGIN_DECLS

/* The result of a check, so far or in all. */
typedef struct
{
  gint64 first_lsn, last_lsn; /* of the intact records without a gap; both 0: there is none */
  gint64 n_bytes;             /* of these */
  TpsMoment moment;           /* of the last one */
  /* The torn bytes at the end of the log, and their position; NULL: nothing was torn. Both are set
   * only when the check has succeeded. */
  gint64 n_torn_bytes;
  gchar *torn_position;
} TpsLogReport;

void tps_log_report_clear (TpsLogReport *report);

/* Called for every record. `report` covers the records up to this one. Returns FALSE to stop after
 * this record. */
typedef gboolean (*TpsLogVisit) (gpointer user_data, const TpsLogRecord *record,
                                 const TpsLogReport *report);

/* Reads, checks and decodes all records, and changes nothing. `visit` may be NULL. Errors: those of
 * tps_log_open() and tps_log_cursor_next(); `report` then covers the intact records before the
 * error. */
gboolean tps_log_check (TpsDisk *disk, const gchar *path, TpsLogVisit visit, gpointer user_data,
                        TpsLogReport *report, GError **error);

/* Makes `last_lsn` the last record; 0 removes all records. Later bytes are not read, and may be
 * damaged. Errors: those of tps_log_check() for the records up to `last_lsn`; NOT_FOUND, or ABORTED
 * if an empty segment follows, if the log does not have this record. */
gboolean tps_log_truncate (TpsDisk *disk, const gchar *path, gint64 last_lsn, GError **error);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsLogReport, tps_log_report_clear)

G_END_DECLS
