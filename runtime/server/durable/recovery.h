/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Applies a log again. Internal to this folder. */

#pragma once

#include <stdatomic.h>

#include "runtime/server/durable/durable.h"

G_BEGIN_DECLS

typedef struct
{
  TpsLog *log;
  const TpsDurableTargets *targets;
  gint64 first_lsn;   /* of the first record to apply; earlier ones have taken effect */
  gint64 last_lsn;    /* of the last one */
  gint64 n_bytes;     /* of the log, approximately */
  atomic_bool *stops; /* set by other threads to end the recovery */

  /* Progress, which other threads read. */
  atomic_llong lsn, n_bytes_done;
  gint64 started_ns;
} TpsRecovery;

/* Blocks. Errors: those of the log's cursor; ABORTED (stopped; a record whose effect differs from
 * the first time); of tables and model, naming the LSN. */
gboolean tps_recovery_run (TpsRecovery *recovery, GError **error);

/* An estimate of the remaining milliseconds at the present rate; -1 = not known yet. Thread:
 * any. */
gint64 tps_recovery_estimate_ms (TpsRecovery *recovery, gint64 now_ns);

G_END_DECLS
