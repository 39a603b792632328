/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/runtime/server/durable/recovery_driver.h"

#include "runtime/base/sync.h"
#include "runtime/server/durable/recovery.h"

void
recovery_driver_run (guint64 n_restored, gint64 age_ns)
{
  TpsRecovery recovery = { .first_lsn = 8,
                           .last_lsn = 9,
                           .n_bytes = 20,
                           .n_snapshot_bytes = 80,
                           .started_ns = tps_clock_now_ns () - age_ns };

  tps_recovery_begin (&recovery);
  recovery.traced_ns -= age_ns;
  tps_recovery_note_restored (&recovery, n_restored);
}
