/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Metrics of a data directory: OPERATING.md, "Metrics". Internal to this folder. */

#pragma once

#include "runtime/base/counters.h"
#include "runtime/server/durable/durable.h"

G_BEGIN_DECLS

/* All zero counts nothing. */
typedef struct
{
  TpsCounters *counters; /* a reference */
  TpsCounter *written_snapshots;
  TpsCounter *failed_snapshots;
  TpsGauge *snapshot_lsn;
  TpsGauge *snapshot_bytes;
  TpsGauge *snapshot_time;
  TpsGauge *snapshot_duration;
} TpsDurableNumbers;

/* NULL `counters`: nothing is counted. `snapshot` is the newest one; its name is empty if there is
 * none. */
void tps_durable_numbers_init (TpsDurableNumbers *numbers, TpsCounters *counters,
                               const TpsSnapshotInfo *snapshot);
void tps_durable_numbers_clear (TpsDurableNumbers *numbers);

/* Adds the numbers of a status, and those of the log's segments. */
void tps_durable_numbers_collect (TpsReading *reading, const TpsDurableStatus *status, TpsLog *log);

/* Count a snapshot that was written in `elapsed_ns`, and one that failed. */
void tps_durable_numbers_add_snapshot (TpsDurableNumbers *numbers, const TpsSnapshotInfo *snapshot,
                                       gint64 elapsed_ns);
void tps_durable_numbers_add_failure (TpsDurableNumbers *numbers);

G_END_DECLS
