/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A table and a model over a data directory. The power is cut in the middle of every disk operation
 * in turn: operations of the log, of whole and incremental snapshots, of the deletion of old files
 * after them, and of the recovery. The table has durability commit. The model has the durability of
 * the server, and the test runs with each mode in turn:
 *
 *   commit    no acknowledged update is lost
 *   interval  no update is lost that the server reported as written, or that preceded a flush
 *   none      no update is lost that preceded a snapshot
 *
 * In every mode, the recovered model must be one of its versions, and lost updates may be sent
 * again under their ids. */

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>

#include "tests/runtime/server/durable/model_calls.h"
#include "tests/runtime/server/log/simulated_disk.h"

namespace thriftps {
namespace {

constexpr gint64 kUpdates = 12;
constexpr int kPushes = 4; /* for each update; all of them need two segments of the log */
constexpr gint64 kHourNs = G_GINT64_CONSTANT (3600) * 1000000000;

struct Mode
{
  const char *name;
  TpsDurability durability;
  gint64 interval_ns;
};

const Mode kModes[] = {
  { "commit", TPS_DURABILITY_COMMIT, 0 },
  { "shortInterval", TPS_DURABILITY_INTERVAL, 1000 },
  { "longInterval", TPS_DURABILITY_INTERVAL, kHourNs },
  { "none", TPS_DURABILITY_NONE, 0 },
};

/* The expected history: the values of each version of the model. Update s makes version s + 1. */
class Story
{
public:
  Story ()
  {
    updating_test::NaiveModel naive ({ { 1, 2, 3, 4 } }, 0.5f, 0.25f);

    for (gint64 update = 0; update <= kUpdates; update++)
      {
        if (update > 0)
          naive.update ({ { gradient (update) } });
        versions_.push_back (naive.values ());
      }
  }

  static std::vector<float>
  gradient (gint64 update)
  {
    auto value = static_cast<float> (update);

    return { value, -value, 0.5f * value, 1 };
  }

  static TpsOptimizerSpec
  optimizer ()
  {
    TpsOptimizerSpec spec = tps_optimizer_spec (TPS_OPTIMIZER_SGD, 0.5);

    spec.momentum = 0.25;
    return spec;
  }

  const updating_test::Values &
  version (gint64 version) const
  {
    return versions_.at (static_cast<size_t> (version) - 1);
  }

private:
  std::vector<updating_test::Values> versions_;
};

class CutServer
{
public:
  CutServer (const Mode &mode, uint32_t seed)
      : mode_ (mode), keep_snapshots_ (1 + seed % 2), disk_ (seed)
  {
    g_random_set_seed (seed);
  }

  /* Works until the power is cut in the n-th operation. Returns FALSE if there are fewer
   * operations. */
  bool
  work (uint64_t n)
  {
    disk_.cut_after (n);
    if (start () && create ())
      for (gint64 update = 1; update <= kUpdates && !disk_.is_off (); update++)
        {
          push ();
          send (update);
          if (update % 4 == 0)
            snapshot (update % 8 == 0);
          else if (update % 4 == 2)
            flush ();
          note_written ();
        }
    const bool was_cut = disk_.is_off ();
    disk_.cut (); /* an orderly end of the server would flush its log */
    server_.reset ();
    disk_.restart ();
    return was_cut;
  }

  /* Restarts, and cuts the power in the n-th operation of the recovery. Returns FALSE if there are
   * fewer operations. */
  bool
  recover_with_cut (uint64_t n)
  {
    disk_.cut_after (n);
    start ();
    const bool was_cut = disk_.is_off ();
    disk_.cut ();
    server_.reset ();
    disk_.restart ();
    return was_cut;
  }

  /* Restarts, checks the recovered state, sends the lost updates again, and checks that a second
   * restart preserves the state. */
  void
  recover ()
  {
    ASSERT_TRUE (start ()) << why_;
    check_table ();
    check_model ();
    if (testing::Test::HasFailure ())
      return;
    EXPECT_TRUE (create ());
    for (gint64 update = version_; update <= kUpdates; update++)
      send (update);
    EXPECT_EQ (version_, kUpdates + 1);
    push ();
    EXPECT_EQ (snapshot (false), "");
    disk_.cut ();
    server_.reset ();
    disk_.restart ();
    ASSERT_TRUE (start ()) << why_;
    check_table ();
    check_model ();
    EXPECT_EQ (version_, kUpdates + 1);
  }

private:
  bool
  start ()
  {
    TpsDurableOptions options = {};

    options.interval_ns = mode_.interval_ns;
    options.snapshot_log_bytes = TPS_DURABLE_NEVER;
    options.snapshot_increments = 3;
    options.keep_snapshots = keep_snapshots_;
    server_ = std::make_unique<Server> (disk_.get (), "data", mode_.durability, options);
    why_ = server_->recover ();
    return why_.empty ();
  }

  /* Creates the table and the model if the server does not have them. */
  bool
  create ()
  {
    if (server_->create ("emb", TPS_DURABILITY_COMMIT) != 0
        || init_model (*server_, { 1, 2, 3, 4 }, Story::optimizer ()) != 0)
      return false;
    has_table_ = true;
    version_ = std::max<gint64> (version_, 1);
    if (mode_.durability != TPS_DURABILITY_NONE)
      kept_ = std::max<gint64> (kept_, 1);
    return true;
  }

  void
  push ()
  {
    Pushes pushes ("emb");

    for (int i = 0; i < kPushes; i++)
      pushes.send (*server_);
    pushes.wait ();
    n_acknowledged_ = n_pushed_ + pushes.n_applied ();
    n_pushed_ += kPushes;
  }

  void
  send (gint64 update)
  {
    Update answer (*server_, update, Story::gradient (update));

    n_sent_ = std::max (n_sent_, update);
    if (answer.code != 0)
      return;
    EXPECT_EQ (answer.version, update + 1);
    EXPECT_EQ (answer.values, story_.version (answer.version));
    version_ = answer.version;
    if (mode_.durability == TPS_DURABILITY_COMMIT)
      kept_ = version_;
    written_[tps_sequencer_get_lsn (server_->sequencer)] = version_;
  }

  std::string
  snapshot (bool is_incremental)
  {
    const gint64 version = version_;
    const Snapshot snapshot (*server_, is_incremental);

    if (snapshot.code == 0)
      kept_ = std::max (kept_, version);
    return snapshot.message;
  }

  void
  flush ()
  {
    const gint64 version = version_;
    Snapshot flushed;

    tps_durable_flush (
        server_->durable,
        [] (gpointer user_data, gint64, const GError *error) {
          Snapshot::done (user_data, nullptr, error);
        },
        &flushed);
    flushed.wait ();
    if (flushed.code == 0 && mode_.durability != TPS_DURABILITY_NONE)
      kept_ = std::max (kept_, version);
  }

  /* Notes the versions whose records the server reports as written. */
  void
  note_written ()
  {
    TpsDurableStatus status;

    tps_durable_get_status (server_->durable, &status);
    if (mode_.durability == TPS_DURABILITY_NONE)
      return;
    for (auto &[lsn, version] : written_)
      if (lsn <= status.lsn)
        kept_ = std::max (kept_, version);
  }

  void
  check_table ()
  {
    if (tps_table_store_estimate_rows (server_->store, "emb", 1) == 0)
      {
        EXPECT_FALSE (has_table_) << "an acknowledged table is lost";
        n_pushed_ = n_acknowledged_ = 0;
        return;
      }
    const Floats row = server_->row ("emb");
    const int n = static_cast<int> (row[0]);
    EXPECT_EQ (row, all (n));
    EXPECT_GE (n, n_acknowledged_) << "an acknowledged push is lost";
    EXPECT_LE (n, n_pushed_);
    n_pushed_ = n_acknowledged_ = n;
  }

  void
  check_model ()
  {
    TpsModelVersion *model = tps_model_server_get_model (server_->model, nullptr);

    version_ = model != nullptr ? model->version : 0;
    EXPECT_GE (version_, kept_) << "an update is lost that was promised";
    EXPECT_LE (version_, n_sent_ + 1);
    if (model != nullptr)
      {
        EXPECT_EQ (updating_test::to_values (model), story_.version (version_));
      }
    g_clear_pointer (&model, tps_model_version_unref);
    written_.clear ();
  }

  const Mode mode_;
  const guint keep_snapshots_;
  const Story story_;
  thriftps::SimulatedDisk disk_;
  std::unique_ptr<Server> server_;
  std::string why_;
  bool has_table_ = false;
  int n_pushed_ = 0, n_acknowledged_ = 0;
  gint64 version_ = 0;               /* the newest acknowledged version, 0 = no model */
  gint64 n_sent_ = 0;                /* the newest update that was sent */
  gint64 kept_ = 0;                  /* the newest version that must survive */
  std::map<gint64, gint64> written_; /* versions by the LSNs of their updates */
};

class EveryCut : public testing::TestWithParam<Mode>
{
};

/* The threads of the log make each run of the history a little different, so the number of its
 * operations varies by a few. The loop ends with the first run that is not cut. */
TEST_P (EveryCut, LeavesTheStateThatTheModeGuarantees)
{
  bool was_cut = true;
  uint64_t n_cuts = 0;

  for (uint64_t cut = 1; was_cut; cut++)
    {
      CutServer run (GetParam (), static_cast<uint32_t> (cut));

      was_cut = run.work (cut);
      n_cuts += was_cut;
      run.recover ();
      ASSERT_FALSE (HasFailure ()) << "cut at operation " << cut;
    }
  EXPECT_GT (n_cuts, 40u);
  RecordProperty ("cuts", static_cast<int> (n_cuts));
}

TEST_P (EveryCut, OfARecoveryLosesNothingMore)
{
  bool was_cut = true;
  uint64_t n_cuts = 0;

  for (uint64_t cut = 1; was_cut; cut++)
    {
      CutServer run (GetParam (), static_cast<uint32_t> (cut));

      run.work (60); /* after the first snapshot */
      was_cut = run.recover_with_cut (cut);
      n_cuts += was_cut;
      run.recover ();
      ASSERT_FALSE (HasFailure ()) << "cut at operation " << cut << " of the recovery";
    }
  EXPECT_GT (n_cuts, 3u);
}

INSTANTIATE_TEST_SUITE_P (Modes, EveryCut, testing::ValuesIn (kModes),
                          [] (const auto &tested) { return std::string (tested.param.name); });

} // namespace
} // namespace thriftps
