/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tables and a model over a data directory in this process. */

#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <string>

#include "runtime/base/error.h"
#include "runtime/server/durable/durable.h"
#include "tests/runtime/server/tables/tables.h"

namespace thriftps {

using embedding_test::Floats;
using embedding_test::Ids;
using embedding_test::Spec;
using embedding_test::view;

constexpr int64_t kRows = 64;
constexpr int32_t kDim = 16;
constexpr gint64 kSegmentBytes = 128 << 10;

/* A server from its start to its end. */
class Server
{
public:
  Server (TpsDisk *disk, const std::string &folder, TpsDurability durability,
          TpsDurableOptions options = {}, gsize max_row_bytes_of_call = 0)
  {
    TpsSequencerOptions ordering = {};
    TpsTableStoreOptions tables = {};
    TpsModelServerOptions updating = {};
    g_autoptr (GError) error = nullptr;

    options.folder = folder.c_str ();
    options.durability = durability;
    options.disk = disk;
    options.log.segment_bytes = kSegmentBytes;
    durable = tps_durable_new (&options, &error);
    if (durable == nullptr)
      {
        refusal_ = error->message;
        return;
      }
    workers = tps_worker_pool_new ("durable", 2);
    ordering.workers = workers;
    tps_durable_init_sequencer (durable, &ordering);
    sequencer = tps_sequencer_new (&ordering);
    tables.sequencer = sequencer;
    tables.workers = workers;
    tables.max_row_bytes_of_call = max_row_bytes_of_call;
    tables.durability = tps_durable_get_durability (durable);
    tables.keeps_row_lsns = TRUE;
    store = tps_table_store_new (&tables);
    updating.n_trainers = 1;
    updating.workers = workers;
    updating.sequencer = sequencer;
    model = tps_model_server_new (&updating, nullptr);
  }

  ~Server ()
  {
    if (durable == nullptr)
      return;
    tps_durable_stop (durable);
    tps_model_server_free (model);
    tps_durable_free (durable);
    tps_table_store_free (store);
    tps_worker_pool_free (workers);
    tps_sequencer_free (sequencer);
  }

  /* Returns the error message of the recovery, or of the attempt to open the directory. */
  std::string
  recover ()
  {
    TpsDurableTargets targets = { sequencer, store, model, nullptr, nullptr };
    g_autoptr (GError) error = nullptr;

    if (durable == nullptr)
      return refusal_;
    EXPECT_TRUE (tps_durable_start (durable, &targets, nullptr));
    return tps_durable_wait (durable, &error) ? "" : error->message;
  }

  TpsDurablePhase
  phase ()
  {
    TpsDurableStatus status;

    tps_durable_get_status (durable, &status);
    if (status.phase == TPS_DURABLE_LIVE)
      {
        EXPECT_STREQ (status.reason, "");
      }
    reason = status.reason;
    return status.phase;
  }

  std::string reason; /* of the last phase () */

  /* Returns the length of the log in bytes. */
  gint64
  n_written ()
  {
    TpsDurableStatus status;

    tps_durable_get_status (durable, &status);
    return status.n_bytes_done;
  }

  /* Returns the error's code, or 0. */
  int
  create (const std::string &name, TpsDurability durability = {})
  {
    Spec spec = Spec (name, kRows, kDim).zeros ().optimizer (TPS_OPTIMIZER_SGD, 1);
    g_autoptr (GError) error = nullptr;

    spec.value.durability = durability;
    return tps_table_store_create (store, &spec.value, &error) ? 0 : error->code;
  }

  Floats
  row (const std::string &table)
  {
    g_auto (TpsTensor) rows = {};
    Ids ids { 3 };

    EXPECT_TRUE (tps_table_store_lookup_rows (store, nullptr, table.c_str (), view (ids), &rows,
                                              nullptr, nullptr));
    auto data = static_cast<const float *> (tps_tensor_data (&rows));
    return { data, data + kDim };
  }

  TpsDurable *durable; /* if NULL, recover() returns the reason */
  TpsWorkerPool *workers;
  TpsSequencer *sequencer;
  TpsTableStore *store;
  TpsModelServer *model;

private:
  std::string refusal_;
};

/* Pushes -1 to every value of one table. SGD with rate 1 then adds 1. */
class Pushes
{
public:
  explicit Pushes (const std::string &table) : table_ (table)
  {
  }

  void
  send (Server &server)
  {
    TpsTablePush push = {};

    push.may_wait = TRUE;
    push.table = table_.c_str ();
    push.indices = view (ids_);
    push.values = view (values_, kDim);
    n_sent++;
    tps_table_store_push (server.store, &push, ended, this);
  }

  void
  wait ()
  {
    std::unique_lock<std::mutex> guard (lock_);

    changed_.wait (guard, [this] { return n_ended == n_sent; });
  }

  std::string
  message ()
  {
    std::lock_guard<std::mutex> guard (lock_);

    return message_;
  }

  int
  n_applied ()
  {
    std::lock_guard<std::mutex> guard (lock_);

    return n_ended - n_failed;
  }

  int n_sent = 0, n_ended = 0, n_failed = 0, code = 0;

private:
  static void
  ended (gpointer user_data, const GError *error)
  {
    auto *self = static_cast<Pushes *> (user_data);
    std::lock_guard<std::mutex> guard (self->lock_);

    self->n_ended++;
    if (error != nullptr)
      {
        self->n_failed++;
        self->code = error->code;
        self->message_ = error->message;
      }
    self->changed_.notify_all ();
  }

  std::string table_;
  const Ids ids_ = embedding_test::ids_of (embedding_test::whole (kRows));
  const Floats values_ = Floats (kRows * kDim, -1.0f);
  std::mutex lock_;
  std::condition_variable changed_;
  std::string message_;
};

inline Floats
all (int value)
{
  return Floats (kDim, static_cast<float> (value));
}

/* Requests a snapshot and waits for it. Default-constructed, it waits for any call that is given
 * done(). */
struct Snapshot
{
  Snapshot () = default;
  explicit Snapshot (Server &server, bool is_incremental = false)
  {
    tps_durable_snapshot (server.durable, is_incremental, done, this);
    wait ();
  }

  void
  wait ()
  {
    std::unique_lock<std::mutex> guard (lock);

    changed.wait (guard, [this] { return has_ended; });
  }

  static void
  done (gpointer user_data, const TpsSnapshotInfo *info, const GError *error)
  {
    auto *self = static_cast<Snapshot *> (user_data);
    std::lock_guard<std::mutex> guard (self->lock);

    self->has_ended = true;
    self->message = error != nullptr ? error->message : "";
    self->code = error != nullptr ? error->code : 0;
    if (info != nullptr)
      {
        self->lsn = info->lsn;
        self->n_increments = info->n_increments;
        self->oldest_lsn = info->oldest_lsn;
      }
    self->changed.notify_all ();
  }

  std::mutex lock;
  std::condition_variable changed;
  bool has_ended = false;
  std::string message;
  gint64 lsn = -1, oldest_lsn = -1;
  guint n_increments = 0;
  int code = 0;
};

} // namespace thriftps
