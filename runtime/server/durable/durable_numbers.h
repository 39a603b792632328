/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Metrics of a data directory: OPERATING.md, "Metrics". Internal to this folder. */

#pragma once

#include "runtime/base/counters.h"
#include "runtime/server/durable/durable.h"

G_BEGIN_DECLS

/* A struct that is all zero counts nothing. */
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

/* Fills in `numbers`, which must be all zero, and takes a reference to `counters`; NULL = nothing
 * is counted. `snapshot` must be the newest snapshot; its name is empty if there is none. */
void tps_durable_numbers_init (TpsDurableNumbers *numbers, TpsCounters *counters,
                               const TpsSnapshotInfo *snapshot);
void tps_durable_numbers_clear (TpsDurableNumbers *numbers);

/* Adds the numbers of `status`, and those of the segments of `log`, to `reading`. */
void tps_durable_numbers_collect (TpsReading *reading, const TpsDurableStatus *status, TpsLog *log);

/* Count a snapshot that was written in `elapsed_ns`, or a snapshot that failed. */
void tps_durable_numbers_add_snapshot (TpsDurableNumbers *numbers, const TpsSnapshotInfo *snapshot,
                                       gint64 elapsed_ns);
void tps_durable_numbers_add_failure (TpsDurableNumbers *numbers);

G_END_DECLS
