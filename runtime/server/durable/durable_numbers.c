/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/durable/durable_numbers.h"

/* The names that tps_durable_phase_name() returns. */
static const gchar *const phase_names[] = {
  [TPS_DURABLE_RECOVERING] = "recovering",
  [TPS_DURABLE_LIVE] = "live",
  [TPS_DURABLE_FULL] = "full",
  [TPS_DURABLE_READ_ONLY] = "read-only",
  [TPS_DURABLE_FAILED] = "failed",
};

static const TpsFamily phase = {
  .name = "durability_phase",
  .help = "1 for the phase that the data directory is in, 0 for the others.",
  .kind = TPS_FAMILY_GAUGE,
  .labels = { "phase" },
};

static const TpsFamily admitted_lsn = {
  .name = "log_admitted_lsn",
  .help = "LSN of the last admitted command; during recovery, of the last command that recovery "
          "will apply.",
  .kind = TPS_FAMILY_GAUGE,
};

static const TpsFamily durable_lsn = {
  .name = "log_durable_lsn",
  .help =
      "LSN of the last command that is on the disk; during recovery, of the last command that has "
      "been applied.",
  .kind = TPS_FAMILY_GAUGE,
};

static const TpsFamily written_bytes = {
  .name = "log_written_bytes_total",
  .help = "Bytes of the log that were written since the start.",
};

static const TpsFamily log_segments = {
  .name = "log_segments",
  .help = "Segments of the log that hold records.",
  .kind = TPS_FAMILY_GAUGE,
};

static const TpsFamily log_segment_bytes = {
  .name = "log_segment_bytes",
  .help = "Bytes of the segments that hold records, not counting reserved room.",
  .kind = TPS_FAMILY_GAUGE,
};

static const TpsFamily recovery_bytes = {
  .name = "recovery_remaining_bytes",
  .help = "Bytes of the snapshot and the log that recovery has yet to read.",
  .kind = TPS_FAMILY_GAUGE,
};

static const TpsFamily written_snapshots = {
  .name = "snapshots_written_total",
  .help = "Snapshots that were completed.",
};

static const TpsFamily failed_snapshots = {
  .name = "snapshots_failed_total",
  .help = "Snapshots that could not be completed.",
};

static const TpsFamily snapshot_lsn = {
  .name = "snapshot_lsn",
  .help = "LSN after which the log is applied to the newest snapshot; 0 if there is none.",
  .kind = TPS_FAMILY_GAUGE,
};

static const TpsFamily snapshot_bytes = {
  .name = "snapshot_bytes",
  .help = "Bytes of the files of the newest snapshot.",
  .kind = TPS_FAMILY_GAUGE,
};

static const TpsFamily snapshot_time = {
  .name = "snapshot_timestamp_seconds",
  .help = "Time at which this process last completed a snapshot, in seconds since 1970; 0 if none.",
  .kind = TPS_FAMILY_GAUGE,
  .n_decimals = 6,
};

static const TpsFamily snapshot_duration = {
  .name = "snapshot_duration_seconds",
  .help = "Duration of the newest snapshot that this process completed.",
  .kind = TPS_FAMILY_GAUGE,
  .n_decimals = 9,
};

static void
collect_segments (TpsReading *reading, TpsLog *log)
{
  guint n_segments;
  gint64 n_bytes;

  tps_log_get_size (log, &n_segments, &n_bytes);
  tps_reading_add (reading, &log_segments, NULL, NULL, n_segments);
  tps_reading_add (reading, &log_segment_bytes, NULL, NULL, n_bytes);
}

void
tps_durable_numbers_collect (TpsReading *reading, const TpsDurableStatus *status, TpsLog *log)
{
  gboolean recovers = status->phase == TPS_DURABLE_RECOVERING
                      || status->phase == TPS_DURABLE_FAILED;

  collect_segments (reading, log);
  for (gint i = TPS_DURABLE_RECOVERING; i <= TPS_DURABLE_FAILED; i++)
    tps_reading_add (reading, &phase, phase_names[i], NULL, (gint) status->phase == i);
  tps_reading_add (reading, &admitted_lsn, NULL, NULL, status->end_lsn);
  tps_reading_add (reading, &durable_lsn, NULL, NULL, status->lsn);
  tps_reading_add (reading, &written_bytes, NULL, NULL, recovers ? 0 : status->n_bytes_done);
  tps_reading_add (reading, &recovery_bytes, NULL, NULL,
                   recovers ? status->n_bytes - status->n_bytes_done : 0);
}

void
tps_durable_numbers_init (TpsDurableNumbers *numbers, TpsCounters *counters,
                          const TpsSnapshotInfo *snapshot)
{
  if (counters == NULL)
    return;
  *numbers = (TpsDurableNumbers) {
    .counters = tps_counters_ref (counters),
    .written_snapshots = tps_counters_use_counter (counters, &written_snapshots, NULL, NULL),
    .failed_snapshots = tps_counters_use_counter (counters, &failed_snapshots, NULL, NULL),
    .snapshot_lsn = tps_counters_use_gauge (counters, &snapshot_lsn, NULL, NULL),
    .snapshot_bytes = tps_counters_use_gauge (counters, &snapshot_bytes, NULL, NULL),
    .snapshot_time = tps_counters_use_gauge (counters, &snapshot_time, NULL, NULL),
    .snapshot_duration = tps_counters_use_gauge (counters, &snapshot_duration, NULL, NULL),
  };
  if (snapshot->name[0] != '\0')
    {
      tps_gauge_set (numbers->snapshot_lsn, snapshot->lsn);
      tps_gauge_set (numbers->snapshot_bytes, (gint64) snapshot->n_bytes);
    }
}

void
tps_durable_numbers_clear (TpsDurableNumbers *numbers)
{
  if (numbers->counters == NULL)
    return;
  tps_counters_unref (numbers->counters);
  *numbers = (TpsDurableNumbers) { 0 };
}

void
tps_durable_numbers_add_snapshot (TpsDurableNumbers *numbers, const TpsSnapshotInfo *snapshot,
                                  gint64 elapsed_ns)
{
  tps_counter_add (numbers->written_snapshots, 1);
  tps_gauge_set (numbers->snapshot_lsn, snapshot->lsn);
  tps_gauge_set (numbers->snapshot_bytes, (gint64) snapshot->n_bytes);
  tps_gauge_set (numbers->snapshot_time, g_get_real_time ());
  tps_gauge_set (numbers->snapshot_duration, elapsed_ns);
}

void
tps_durable_numbers_add_failure (TpsDurableNumbers *numbers)
{
  tps_counter_add (numbers->failed_snapshots, 1);
}
