/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* For every behaviour of the disk, the log after a crash must be a prefix of the appended commands
 * that includes every acknowledged command. Otherwise, opening or reading it must fail with an
 * error that names the damage. SEEDS=100000 runs more histories. */

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>

#include "runtime/base/error.h"
#include "runtime/server/log/log_writer.h"
#include "tests/runtime/server/log/commands.h"
#include "tests/runtime/server/log/simulated_disk.h"

namespace thriftps {
namespace {

constexpr gint64 kSegmentBytes = 64 << 10;
constexpr gsize kStagedBytes = 32 << 10;

uint32_t
get_env (const char *name, uint32_t otherwise)
{
  const char *text = g_getenv (name);

  return text != nullptr ? static_cast<uint32_t> (strtoul (text, nullptr, 10)) : otherwise;
}

/* Counts the events of all runs. Every kind must occur. */
std::map<std::string, int> seen;

class History
{
public:
  explicit History (uint32_t seed) : seed_ (seed), random_ (seed), disk_ (seed)
  {
    g_random_set_seed (seed);
  }

  void
  run ()
  {
    int n_lives = static_cast<int> (1 + random_ () % 4);

    for (int life = 0; life < n_lives && !testing::Test::HasFailure (); life++)
      if (!live (life))
        return;
  }

private:
  struct Waiting
  {
    History *run;
    std::unique_ptr<RandomCommand> command;
    TpsDurability durability;
  };

  static void
  done (gpointer user_data, gint64 lsn, const GError *error)
  {
    auto *waiting = static_cast<Waiting *> (user_data);
    History *run = waiting->run;
    TpsDurability durability = waiting->durability;

    EXPECT_TRUE (durability == 0 || lsn == waiting->command->record.lsn);
    if (durability != 0 && error == nullptr)
      {
        EXPECT_GT (lsn, run->last_done_[durability]) << "in the order of the LSNs";
        run->last_done_[durability] = lsn;
      }
    if (error == nullptr && (durability == TPS_DURABILITY_COMMIT || durability == 0))
      run->acknowledged_ = std::max (run->acknowledged_, lsn);
    run->waiting_.erase (waiting);
    delete waiting;
  }

  void
  add (Waiting *waiting)
  {
    waiting_.insert (waiting);
    if (waiting->command == nullptr)
      tps_log_flush (log_, done, waiting);
    else
      tps_log_append (log_, &waiting->command->record, waiting->durability, done, waiting);
  }

  void
  append ()
  {
    static const TpsDurability kDurabilities[] = { TPS_DURABILITY_COMMIT, TPS_DURABILITY_COMMIT,
                                                   TPS_DURABILITY_INTERVAL, TPS_DURABILITY_NONE };
    TpsDurability durability = kDurabilities[random_ () % 4];
    TpsCommandKind kind = random_ () % 2 == 0 ? TPS_COMMAND_APPLY_ROWS
                                              : kAllKinds[random_ () % G_N_ELEMENTS (kAllKinds)];
    /* Some commands are longer than a stage, and some are longer than a segment. */
    size_t max_bytes = random_ () % 8 == 0 ? (random_ () % 8 == 0 ? 150000 : 40000) : 3000;
    gint64 lsn = ++last_;
    auto *waiting = new Waiting {
      this, std::make_unique<RandomCommand> (random_ (), lsn, kind, max_bytes), durability
    };

    appended_[lsn] = durability == TPS_DURABILITY_NONE ? std::string ()
                                                       : encode (&waiting->command->record);
    add (waiting);
  }

  void
  take_steps (int n)
  {
    gint64 wake_ns;

    for (int i = 0; i < n; i++)
      if (!tps_log_writer_step (tps_log_get_writer (log_), now_ns_, &wake_ns))
        {
          if (wake_ns == G_MAXINT64)
            return;
          now_ns_ = std::max (now_ns_, wake_ns);
        }
  }

  void
  arm_fault ()
  {
    switch (random_ () % 6)
      {
      case 0:
        disk_.fail_sync (1 + random_ () % 10);
        break;
      case 1:
        disk_.fail_write (1 + random_ () % 10);
        break;
      case 2:
        disk_.set_capacity (3 * kSegmentBytes);
        has_capacity_ = true;
        break;
      default:
        disk_.cut_after (1 + random_ () % 50);
      }
  }

  /* Runs one life of the server. Returns FALSE if the log is damaged and the error names the
   * damage. */
  bool
  live (int life)
  {
    TpsLogOptions options { .segment_bytes = kSegmentBytes,
                            .max_staged_bytes = kStagedBytes,
                            .first_lsn = kept_ };
    TpsLogFound found {};
    g_autoptr (GError) error = nullptr;
    /* The power may also be cut during the first start and during a recovery. */
    bool is_cut_early = random_ () % 4 == 0;

    if (is_cut_early)
      disk_.cut_after (1 + random_ () % 8);
    log_ = tps_log_open_stepped (disk_.get (), "log", &options, &found, &error);
    if (log_ == nullptr && disk_.is_off ())
      {
        seen["cut while it opens"]++;
        disk_.restart ();
        g_clear_error (&error);
        log_ = tps_log_open_stepped (disk_.get (), "log", &options, &found, &error);
      }
    if (log_ == nullptr)
      return refuse (error);
    bool is_fine = check_found (&found) && check_contents ();
    tps_log_found_clear (&found);
    if (is_fine)
      work ();
    tps_log_free (log_);
    EXPECT_TRUE (waiting_.empty ()) << "seed " << seed_ << ": done() was not called for all";
    seen[disk_.is_off () ? "cut" : "closed"]++;
    disk_.restart ();
    disk_.set_capacity (UINT64_MAX);
    if (is_fine && random_ () % 4 == 0)
      {
        flipped_ = disk_.flip_bit (random_ () % 8 == 0 ? "LOG" : ".log");
        seen["flipped"] += flipped_.empty () ? 0 : 1;
      }
    return is_fine;
  }

  bool
  refuse (const GError *error)
  {
    EXPECT_FALSE (flipped_.empty ()) << "seed " << seed_ << ": " << error->message;
    EXPECT_TRUE (error->code == TPS_ERROR_ABORTED || error->code == TPS_ERROR_INVALID_ARGUMENT)
        << "seed " << seed_ << ": " << error->message;
    seen["refused"]++;
    return false;
  }

  bool
  check_found (const TpsLogFound *found)
  {
    EXPECT_GE (found->last_lsn, acknowledged_)
        << "seed " << seed_ << ": an acknowledged command is lost; flipped: " << flipped_;
    EXPECT_LE (found->last_lsn, last_) << "seed " << seed_;
    if (found->n_torn_bytes > 0)
      seen["torn"]++;
    if (found->last_lsn > acknowledged_)
      seen["more than was acknowledged"]++;
    last_ = found->last_lsn;
    acknowledged_ = last_;
    for (gint64 &lsn : last_done_)
      lsn = last_;
    return !testing::Test::HasFailure ();
  }

  bool
  check_contents ()
  {
    g_autoptr (GError) error = nullptr;
    g_autoptr (TpsLogCursor) cursor = tps_log_cursor_new (log_, kept_, &error);
    TpsLogRecord record;

    if (cursor == nullptr)
      {
        ADD_FAILURE () << "seed " << seed_ << ": " << error->message;
        return false;
      }
    for (gint64 lsn = kept_; tps_log_cursor_next (cursor, &record, &error); lsn++)
      {
        if (record.lsn == 0)
          {
            EXPECT_EQ (lsn, last_ + 1) << "seed " << seed_;
            return !testing::Test::HasFailure ();
          }
        EXPECT_EQ (record.lsn, lsn) << "seed " << seed_;
        std::string bytes = record.command != nullptr ? encode (record.command) : std::string ();
        EXPECT_EQ (bytes == appended_[lsn], true) << "seed " << seed_ << " LSN " << lsn;
        if (testing::Test::HasFailure ())
          return false;
      }
    return refuse (error);
  }

  /* Deletes records that are no longer needed. The segment with the last record stays. */
  void
  delete_some ()
  {
    kept_ += static_cast<gint64> (random_ () % static_cast<uint64_t> (acknowledged_ + 2 - kept_));
    tps_log_delete_before (log_, kept_, nullptr);
    seen["segments were deleted"] += tps_log_get_first_lsn (log_) > 1 ? 1 : 0;
  }

  void
  work ()
  {
    g_autoptr (GError) error = nullptr;
    int n_rounds = static_cast<int> (1 + random_ () % 40);

    if (random_ () % 5 != 0)
      arm_fault ();
    for (int round = 0; round < n_rounds; round++)
      {
        for (size_t n = random_ () % 6; n > 0; n--)
          if (tps_log_may_append (log_, 1000, nullptr))
            append ();
          else
            seen["refused before admission"]++;
        if (random_ () % 10 == 0)
          add (new Waiting { this, nullptr, static_cast<TpsDurability> (0) });
        take_steps (static_cast<int> (random_ () % 12));
        if (random_ () % 8 == 0)
          delete_some ();
        if (has_capacity_ && random_ () % 20 == 0)
          {
            disk_.set_capacity (UINT64_MAX);
            has_capacity_ = false;
            seen["room again"]++;
          }
      }
    seen["failed"] += tps_log_get_writer (log_)->failure != nullptr ? 1 : 0;
    seen["more than one segment"] += tps_log_get_writer (log_)->infos->len > 1 ? 1 : 0;
  }

  uint32_t seed_;
  std::mt19937 random_;
  SimulatedDisk disk_;
  TpsLog *log_ = nullptr;
  gint64 now_ns_ = 1;
  gint64 last_ = 0, acknowledged_ = 0;
  gint64 kept_ = 1; /* the first LSN that is still needed */
  gint64 last_done_[4] = { 0, 0, 0, 0 };
  std::map<gint64, std::string> appended_;
  std::set<Waiting *> waiting_;
  std::string flipped_;
  bool has_capacity_ = false;
};

TEST (LogRecovery, EveryCrashLeavesAPrefixWithAllThatWasAcknowledged)
{
  uint32_t first = get_env ("FIRST_SEED", 0), n = get_env ("SEEDS", 300);

  seen.clear ();
  for (uint32_t seed = first; seed < first + n && !HasFailure (); seed++)
    History (seed).run ();
  for (const char *event : { "cut", "closed", "cut while it opens", "flipped", "refused", "torn",
                             "more than was acknowledged", "failed", "more than one segment",
                             "room again", "refused before admission", "segments were deleted" })
    if (n >= 300)
      {
        EXPECT_GT (seen[event], 0) << event;
      }
  for (auto &[event, count] : seen)
    RecordProperty (event, count);
  if (n > 300)
    for (auto &[event, count] : seen)
      printf ("%8d %s\n", count, event.c_str ());
}

} // namespace
} // namespace thriftps
