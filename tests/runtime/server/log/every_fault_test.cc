/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A few histories of a log. Each history runs once for each possible fault. In each run, the power
 * is cut in the middle of one operation that changes the disk, one write or one sync fails, or the
 * disk is full for a while. After each cut, the recovery is also cut at each of its own operations.
 * Finally, bits of the medium change: each of them is harmless, or an error names the damage. */

#include <gtest/gtest.h>

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
constexpr size_t kEvents = 40;
constexpr size_t kFullEvents = 12; /* the time during which a disk is full */

enum class Do
{
  append,
  flush,
  step,   /* the writer takes up to `n` steps */
  remove, /* deletes segments whose records all precede the newest durable one */
  reopen, /* the process exits and starts again */
};

struct Event
{
  Do what;
  TpsDurability durability;
  TpsCommandKind kind;
  size_t max_bytes;
  int n;
};

using Script = std::vector<Event>;

/* Returns the events of a history. They do not depend on the behaviour of the disk, so they are the
 * same for every run. */
Script
write_script (uint32_t seed)
{
  static const TpsDurability kDurabilities[] = { TPS_DURABILITY_COMMIT, TPS_DURABILITY_COMMIT,
                                                 TPS_DURABILITY_INTERVAL, TPS_DURABILITY_NONE };
  std::mt19937 random (seed);
  Script script;

  for (size_t i = 0; i < kEvents; i++)
    {
      Event event = {};
      const unsigned chosen = random () % 16;

      event.what = chosen < 8    ? Do::append
                   : chosen < 9  ? Do::flush
                   : chosen < 14 ? Do::step
                   : chosen < 15 ? Do::remove
                                 : Do::reopen;
      event.durability = kDurabilities[random () % 4];
      event.kind = kAllKinds[random () % G_N_ELEMENTS (kAllKinds)];
      /* Some commands are longer than a stage, and some are longer than a segment. */
      event.max_bytes = random () % 6 == 0 ? (random () % 3 == 0 ? 100000 : 40000) : 3000;
      event.n = static_cast<int> (1 + random () % 8);
      script.push_back (event);
    }
  return script;
}

/* The place of a fault. The numbers count from 1 at the beginning of the history; 0 = no such
 * fault. */
struct Fault
{
  uint64_t cut = 0;          /* the operation during which the power is cut */
  uint64_t recovery_cut = 0; /* the same, in the recovery after that cut */
  uint64_t failed_sync = 0;
  uint64_t failed_write = 0;
  uint64_t full = 0;    /* the event from which the disk is full */
  uint64_t flipped = 0; /* the number of a bit that changes before the recovery */
};

std::ostream &
operator<< (std::ostream &out, const Fault &fault)
{
  return out << "cut at " << fault.cut << ", then at " << fault.recovery_cut << ", sync "
             << fault.failed_sync << " or write " << fault.failed_write << " failed, full at "
             << fault.full << ", flip " << fault.flipped;
}

/* One run of a history. */
class FaultRun
{
public:
  FaultRun (uint32_t seed, const Script &script, const Fault &fault)
      : script_ (script), fault_ (fault),
        disk_ (seed + 1000 * static_cast<uint32_t> (fault.flipped))
  {
    g_random_set_seed (seed);
  }

  /* Runs the history up to the fault, and then checks the log. */
  void
  run ()
  {
    if (fault_.cut > 0)
      disk_.cut_after (fault_.cut);
    if (fault_.failed_sync > 0)
      disk_.fail_sync (fault_.failed_sync);
    if (fault_.failed_write > 0)
      disk_.fail_write (fault_.failed_write);
    if (open ())
      for (size_t i = 0; i < script_.size () && log_ != nullptr && !disk_.is_off (); i++)
        {
          if (fault_.full > 0)
            disk_.set_capacity (
                i + 1 >= fault_.full && i + 1 < fault_.full + kFullEvents ? 1 : UINT64_MAX);
          act (script_[i], static_cast<uint32_t> (i));
        }
    close ();
    was_cut = disk_.is_off ();
    n_operations = disk_.get_operations ();
    n_syncs = disk_.get_syncs ();
    n_writes = disk_.get_writes ();
    disk_.restart ();
    disk_.set_capacity (UINT64_MAX);
    if (fault_.flipped > 0)
      disk_.flip_bit (fault_.flipped % 8 == 0 ? "LOG" : ".log");
    recover ();
    continue_and_check ();
  }

  /* Of the history, not counting the recovery. */
  uint64_t n_operations = 0, n_syncs = 0, n_writes = 0;
  bool was_cut = false;
  bool was_recovery_cut = false;
  bool was_refused = false; /* an error has named the damage of a flipped bit */

private:
  struct Waiting
  {
    FaultRun *run;
    std::unique_ptr<RandomCommand> command; /* NULL: a flush */
    TpsDurability durability;
  };

  static void
  done (gpointer user_data, gint64 lsn, const GError *error)
  {
    auto *waiting = static_cast<Waiting *> (user_data);
    FaultRun *run = waiting->run;

    if (error == nullptr && waiting->command != nullptr)
      {
        EXPECT_GT (lsn, run->last_done_[waiting->durability]) << "in the order of the LSNs";
        run->last_done_[waiting->durability] = lsn;
      }
    if (error == nullptr && waiting->durability == TPS_DURABILITY_COMMIT)
      run->acknowledged_ = std::max (run->acknowledged_, lsn);
    run->waiting_.erase (waiting);
    delete waiting;
  }

  bool
  open ()
  {
    TpsLogOptions options { .segment_bytes = kSegmentBytes,
                            .max_staged_bytes = kStagedBytes,
                            .first_lsn = first_ };
    g_autoptr (GError) error = nullptr;

    tps_log_found_clear (&found_);
    log_ = tps_log_open_stepped (disk_.get (), "log", &options, &found_, &error);
    if (log_ == nullptr)
      note (error);
    return log_ != nullptr;
  }

  void
  note (const GError *error)
  {
    message_ = error->message;
    was_refused = fault_.flipped > 0
                  && (error->code == TPS_ERROR_ABORTED
                      || error->code == TPS_ERROR_INVALID_ARGUMENT);
  }

  void
  close ()
  {
    g_clear_pointer (&log_, tps_log_free);
    EXPECT_TRUE (waiting_.empty ()) << "done() was not called for all";
  }

  void
  append (const Event &event, uint32_t seed)
  {
    auto *waiting = new Waiting {
      this, std::make_unique<RandomCommand> (seed, ++last_, event.kind, event.max_bytes),
      event.durability
    };

    appended_[last_] = event.durability == TPS_DURABILITY_NONE ? std::string ()
                                                               : encode (&waiting->command->record);
    waiting_.insert (waiting);
    tps_log_append (log_, &waiting->command->record, event.durability, done, waiting);
  }

  void
  flush ()
  {
    auto *waiting = new Waiting { this, nullptr, TPS_DURABILITY_COMMIT };

    waiting_.insert (waiting);
    tps_log_flush (log_, done, waiting);
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

  bool
  has_failed () const
  {
    return (fault_.failed_sync > 0 && disk_.get_syncs () >= fault_.failed_sync)
           || (fault_.failed_write > 0 && disk_.get_writes () >= fault_.failed_write);
  }

  /* Ends the process and starts another one. After a fault, it only terminates the process:
   * recover() must follow, because it reads the medium. An open() here would read unsynced bytes
   * from the simulated cache, although the log's direct files bypass the cache of a real system. */
  void
  reopen ()
  {
    close ();
    if (!has_failed () && !disk_.is_off () && open ())
      check ();
  }

  void
  act (const Event &event, uint32_t seed)
  {
    switch (event.what)
      {
      case Do::append:
        append (event, seed);
        break;
      case Do::flush:
        flush ();
        break;
      case Do::step:
        take_steps (event.n);
        break;
      case Do::remove:
        first_ = std::max (first_, tps_log_get_durable_lsn (log_));
        tps_log_delete_before (log_, first_, nullptr);
        break;
      case Do::reopen:
        reopen ();
        break;
      }
  }

  /* If the power is cut during the recovery, another recovery follows, which is not cut. */
  void
  recover ()
  {
    if (fault_.recovery_cut > 0)
      disk_.cut_after (fault_.recovery_cut);
    bool is_open = open ();
    was_recovery_cut = disk_.is_off ();
    if (was_recovery_cut)
      {
        close ();
        disk_.restart ();
        is_open = open ();
      }
    disk_.cut_after (UINT32_MAX);
    ASSERT_TRUE (is_open || was_refused) << message_;
    if (is_open)
      check ();
  }

  /* The log must be a prefix of the commands, and must include every acknowledged command that was
   * not deleted. */
  void
  check ()
  {
    g_autoptr (GError) error = nullptr;

    ASSERT_GE (found_.last_lsn, acknowledged_) << "an acknowledged command is lost";
    ASSERT_LE (found_.last_lsn, last_);
    ASSERT_LE (found_.first_lsn, first_) << "a command was deleted too early";
    g_autoptr (TpsLogCursor) cursor = tps_log_cursor_new (log_, found_.first_lsn, &error);
    TpsLogRecord record;
    ASSERT_NE (cursor, nullptr) << error->message;
    for (gint64 lsn = found_.first_lsn; lsn <= found_.last_lsn; lsn++)
      {
        if (!tps_log_cursor_next (cursor, &record, &error))
          {
            note (error);
            ASSERT_TRUE (was_refused) << message_;
            return;
          }
        ASSERT_EQ (record.lsn, lsn);
        ASSERT_TRUE ((record.command != nullptr ? encode (record.command) : std::string ())
                     == appended_[lsn])
            << "LSN " << lsn;
      }
    last_ = found_.last_lsn; /* the later commands are lost */
    acknowledged_ = std::max (acknowledged_, last_);
    for (gint64 &lsn : last_done_)
      lsn = last_;
  }

  /* The log must accept further commands and keep them. */
  void
  continue_and_check ()
  {
    const Event event = { Do::append, TPS_DURABILITY_COMMIT, TPS_COMMAND_APPLY_ROWS, 3000, 0 };

    if (log_ == nullptr || was_refused || testing::Test::HasFatalFailure ())
      {
        close ();
        return;
      }
    for (uint32_t i = 0; i < 3; i++)
      append (event, 1000 + i);
    take_steps (100);
    EXPECT_EQ (acknowledged_, last_);
    close ();
    disk_.restart ();
    ASSERT_TRUE (open ()) << message_;
    check ();
    close ();
  }

  const Script &script_;
  const Fault fault_;
  SimulatedDisk disk_;
  TpsLog *log_ = nullptr;
  TpsLogFound found_ {};
  std::string message_;
  gint64 now_ns_ = 1;
  gint64 first_ = 1, last_ = 0, acknowledged_ = 0;
  gint64 last_done_[4] = { 0, 0, 0, 0 }; /* by durability */
  std::map<gint64, std::string> appended_;
  std::set<Waiting *> waiting_;
};

class EveryFault : public testing::TestWithParam<uint32_t>
{
protected:
  EveryFault () : script_ (write_script (GetParam ()))
  {
    FaultRun whole (GetParam (), script_, {});

    whole.run ();
    n_operations_ = whole.n_operations;
    n_syncs_ = whole.n_syncs;
    n_writes_ = whole.n_writes;
  }

  /* Runs a history with a fault. Returns TRUE if all checks have passed. */
  bool
  run (const Fault &fault, const std::function<void (const FaultRun &)> &look = nullptr)
  {
    FaultRun run (GetParam (), script_, fault);

    run.run ();
    if (look)
      look (run);
    if (HasFailure ())
      ADD_FAILURE () << "history " << GetParam () << ", " << fault;
    return !HasFailure ();
  }

  const Script script_;
  uint64_t n_operations_, n_syncs_, n_writes_;
};

TEST_P (EveryFault, ACutAnywhereLeavesAPrefixWithAllThatWasAcknowledged)
{
  uint64_t n_recovery_cuts = 0;

  ASSERT_GT (n_operations_, 20u);
  for (uint64_t cut = 1; cut <= n_operations_; cut++)
    {
      bool is_cut_again = false;
      uint64_t recovery_cut = 0;

      do
        {
          ASSERT_TRUE (run ({ cut, recovery_cut }, [&] (const FaultRun &run) {
            EXPECT_TRUE (run.was_cut) << "the history is the same every time";
            is_cut_again = run.was_recovery_cut;
          }));
          n_recovery_cuts += is_cut_again;
          recovery_cut++;
        }
      while (is_cut_again || recovery_cut == 1);
    }
  EXPECT_GT (n_recovery_cuts, n_operations_) << "recoveries change the disk, too";
  RecordProperty ("cuts", static_cast<int> (n_operations_));
  RecordProperty ("recovery_cuts", static_cast<int> (n_recovery_cuts));
}

/* After a failure, the disk may or may not have the bytes, so the log may contain commands that
 * were not acknowledged. */
TEST_P (EveryFault, AFailedSyncOrWriteLosesNothingThatWasAcknowledged)
{
  ASSERT_GT (n_syncs_, 5u);
  ASSERT_GT (n_writes_, 5u);
  for (uint64_t i = 1; i <= n_syncs_; i++)
    ASSERT_TRUE (run ({ 0, 0, i, 0 }));
  for (uint64_t i = 1; i <= n_writes_; i++)
    ASSERT_TRUE (run ({ 0, 0, 0, i }));
}

/* Commands that have an LSN wait for room. */
TEST_P (EveryFault, ADiskThatIsFullForAWhileLosesNothingThatWasAcknowledged)
{
  for (uint64_t event = 1; event <= kEvents; event++)
    ASSERT_TRUE (run ({ .full = event }));
}

TEST_P (EveryFault, AFlippedBitIsHarmlessOrNamed)
{
  int n_refused = 0;

  for (uint64_t flip = 1; flip <= 60; flip++)
    ASSERT_TRUE (
        run ({ .flipped = flip }, [&] (const FaultRun &run) { n_refused += run.was_refused; }));
  EXPECT_GT (n_refused, 10);
}

INSTANTIATE_TEST_SUITE_P (Histories, EveryFault, testing::Range (1u, 6u));

} // namespace
} // namespace thriftps
