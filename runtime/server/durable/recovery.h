/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Applies a log again, after a snapshot has been read. Internal to this folder. */

#pragma once

#include <stdatomic.h>

#include "runtime/server/durable/durable.h"

typedef struct
{
  TpsLog *log;
  const TpsDurableTargets *targets;
  gint64 first_lsn;        /* of the first record to apply; earlier ones have taken effect */
  gint64 last_lsn;         /* of the last one */
  guint32 epoch;           /* of the directory; no record may have a higher one */
  gint64 time_ms;          /* of the last applied record; 0 = unknown */
  gint64 n_bytes;          /* of the log, approximately */
  gint64 n_snapshot_bytes; /* of the snapshot, which is read before the log; 0 = there is none */
  atomic_bool *stops;      /* set by other threads to end the recovery */

  /* Progress, which other threads read. */
  atomic_llong lsn, n_bytes_done; /* of the log */
  atomic_llong n_restored;        /* bytes of the snapshot */
  gint64 started_ns;
  gint64 traced_ns; /* for the thread of the recovery */
} TpsRecovery;

/* Traces the start of the recovery. Must be called before the snapshot is read. */
void tps_recovery_begin (TpsRecovery *recovery);

/* Sets the number of bytes of the snapshot that have been read. */
void tps_recovery_note_restored (TpsRecovery *recovery, guint64 n_done);

/* Return the number of bytes of the snapshot and of the log, in all and read so far. Thread:
 * any. */
gint64 tps_recovery_get_all_bytes (const TpsRecovery *recovery);
gint64 tps_recovery_get_bytes_done (const TpsRecovery *recovery);

/* Applies the records from `first_lsn` to `last_lsn` again. Blocks. Errors: those of
 * tps_log_cursor_next(); ABORTED (stopped, or a record had a different effect than before);
 * INVALID_ARGUMENT (there are no tables, or no model, for a record); those of tables and model,
 * naming the LSN. */
gboolean tps_recovery_run (TpsRecovery *recovery, GError **error);

/* Returns an estimate of the remaining milliseconds at the present rate; -1 = not known yet.
 * Thread: any. */
gint64 tps_recovery_estimate_ms (TpsRecovery *recovery, gint64 now_ns);
