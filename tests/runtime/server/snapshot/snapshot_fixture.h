/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Helpers for snapshot tests: writing, restoring, and comparing servers. */

#pragma once

#include <gmock/gmock.h>

#include <string>

#include "runtime/server/snapshot/snapshot.h"
#include "tests/runtime/server/log/simulated_disk.h"
#include "tests/runtime/server/tables/histories.h"

namespace snapshot_test {

using namespace embedding_test;
using thriftps::SimulatedDisk;

inline TpsSnapshotOptions
options_of (TpsDisk *disk, Server &server)
{
  TpsSnapshotOptions options {};

  options.disk = disk;
  options.folder = "snapshots";
  options.sequencer = server.sequencer;
  options.tables = server.store;
  return options;
}

inline std::string
write (const TpsSnapshotOptions &options, TpsSnapshotInfo *info)
{
  GError *error = nullptr;

  return tps_snapshot_write (&options, info, &error) ? "" : describe (error);
}

inline std::string
restore (const TpsSnapshotOptions &options, TpsSnapshotInfo *info)
{
  GError *error = nullptr;
  bool ok = tps_snapshot_find (&options, info, &error)
            && (info->name[0] == '\0' || tps_snapshot_restore (&options, info, &error));

  return ok ? "" : describe (error);
}

/* Applies the records after the snapshot of `lsn`. */
inline void
replay_rest (const Server &from, Server &to, gint64 lsn)
{
  for (const auto &record : from.records)
    {
      GError *error = nullptr;

      if (record->command.lsn <= lsn)
        continue;
      ASSERT_TRUE (tps_table_store_replay (to.store, &record->command, &error))
          << "lsn " << record->command.lsn << ": " << describe (error);
      ASSERT_EQ (tps_sequencer_get_lsn (to.sequencer), record->command.lsn);
    }
}

/* Returns the verdict of a window on a push that it may know. Does not change the window. */
inline TpsPushVerdict
ask (TpsPushWindow *window, const TpsCommandId &id, gint64 incarnation = 0)
{
  TpsPushRequest request {};
  gint64 unused;
  TpsPushVerdict verdict;

  request.client = id.client;
  request.sequence = id.sequence;
  request.digest = &id.digest;
  request.incarnation = incarnation;
  verdict = tps_push_window_begin (window, &request, &unused, nullptr);
  if (verdict == TPS_PUSH_NEW)
    tps_push_window_fail (window, id.client, id.sequence, nullptr);
  return verdict;
}

/* Expects the same verdict from both servers for every id that was ever used. */
inline void
compare_ids (const Server &one, const Server &other)
{
  for (const auto &record : one.records)
    {
      if (record->command.id.client == nullptr)
        continue;
      ASSERT_EQ (ask (tps_test_get_pushes (one.store), record->command.id),
                 ask (tps_test_get_pushes (other.store), record->command.id))
          << record->command.lsn;
    }
}

/* An optimizer and the dtype of the rows. */
struct RoundTrip
{
  TpsOptimizerKind kind;
  TpsDType dtype;
};

} // namespace snapshot_test
