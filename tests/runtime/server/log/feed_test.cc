/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The log as a stream for followers, on the simulated disk. The test runs the steps of the log
 * itself. */

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <list>

#include "runtime/server/log/log_feed.h"
#include "tests/runtime/server/log/log_records.h"
#include "tests/runtime/server/log/log_fixture.h"
#include "tests/runtime/server/log/simulated_disk.h"

namespace thriftps {
namespace {

using testing::HasSubstr;

constexpr gint64 kLong = 3600 * G_GINT64_CONSTANT (1000000000);

std::atomic<unsigned> n_disk_reads;
gssize (*read_of_disk) (TpsDiskFile *, gpointer, gsize, gint64, GError **);

gssize
count_read (TpsDiskFile *file, gpointer data, gsize n_bytes, gint64 offset, GError **error)
{
  n_disk_reads++;
  return read_of_disk (file, data, n_bytes, offset, error);
}

/* The reply to a request. */
struct Answer
{
  std::mutex mutex;
  std::condition_variable changed;
  bool is_done = false;
  int code = 0; /* a TpsErrorCode, or 0 */
  bool may_retry = false;
  std::string message;
  std::string records;
  gint64 next_lsn = 0, durable_lsn = 0, oldest_lsn = 0;

  static void
  done (gpointer user_data, const TpsLogBatch *batch, const GError *error)
  {
    auto *self = static_cast<Answer *> (user_data);
    std::lock_guard<std::mutex> lock (self->mutex);

    EXPECT_FALSE (self->is_done);
    self->is_done = true;
    if (error != nullptr)
      {
        self->code = error->code;
        self->message = error->message;
        self->may_retry = tps_error_get_retry_after_ms (error) >= 0;
      }
    else
      {
        if (batch->buffer != nullptr)
          self->records.assign (reinterpret_cast<const char *> (tps_buffer_get_data (batch->buffer))
                                    + batch->offset,
                                batch->n_bytes);
        self->next_lsn = batch->next_lsn;
        self->durable_lsn = batch->durable_lsn;
        self->oldest_lsn = batch->oldest_lsn;
      }
    self->changed.notify_all ();
  }

  Answer &
  wait ()
  {
    std::unique_lock<std::mutex> lock (mutex);

    changed.wait (lock, [&] { return is_done; });
    return *this;
  }
};

class LogFeed : public testing::Test
{
protected:
  LogFeed ()
  {
    read_of_disk = disk_.get ()->read;
    disk_.get ()->read = count_read;
    workers_ = tps_worker_pool_new ("test", 1);
    open ("log", 64 << 10);
  }

  ~LogFeed () override
  {
    close ();
    tps_worker_pool_free (workers_);
  }

  void
  open (const char *folder, gint64 segment_bytes)
  {
    TpsLogOptions options = {};

    options.segment_bytes = segment_bytes;
    options.max_staged_bytes = 32 << 10;
    log_ = tps_log_open_stepped (disk_.get (), folder, &options, nullptr, nullptr);
    feed_ = nullptr;
    make_feed (nullptr);
  }

  void
  close ()
  {
    end_feed ();
    tps_log_free (log_);
  }

  void
  make_feed (TpsBudget *budget)
  {
    if (feed_ != nullptr)
      end_feed ();
    feed_ = tps_log_feed_new (log_, workers_, budget);
  }

  void
  end_feed ()
  {
    tps_log_feed_stop (feed_);
    tps_log_set_advanced (log_, nullptr, nullptr);
    tps_log_feed_free (feed_);
  }

  /* Appends a command. It becomes durable in take_all_steps(). */
  void
  append (size_t max_bytes = 100, TpsCommandKind kind = TPS_COMMAND_DROP_TABLE,
          TpsDurability durability = TPS_DURABILITY_COMMIT)
  {
    gint64 lsn = static_cast<gint64> (commands_.size ()) + 1;

    commands_.push_back (
        std::make_unique<RandomCommand> (static_cast<uint32_t> (lsn), lsn, kind, max_bytes));
    tps_log_append (log_, &commands_.back ()->record, durability, Ends::done, &ends_);
  }

  /* Appends a record with `n_bytes` of values. */
  void
  append_rows (gint64 n_bytes)
  {
    static const gint64 index = 1;
    static const TpsCommandTable table = { "users", 1, FALSE };

    values_.resize (std::max (values_.size (), static_cast<size_t> (n_bytes / 4)), 1);
    append ();
    /* The log encodes the record in its next step, so the command may still change here. */
    TpsCommand *command = &commands_.back ()->record;
    command->kind = TPS_COMMAND_APPLY_ROWS;
    command->n_tables = 1;
    command->tables = &table;
    command->rows.indices = { { TPS_DTYPE_INT64, 1, { 1 } }, &index };
    command->rows.values = { { TPS_DTYPE_FLOAT32, 2, { 1, n_bytes / 4 } }, values_.data () };
  }

  void
  append_durably (int n)
  {
    for (int i = 0; i < n; i++)
      append (2000, kAllKinds[i % G_N_ELEMENTS (kAllKinds)]);
    take_all_steps (log_);
  }

  Answer &
  read (gint64 lsn, gsize max_bytes = 1 << 20, gint64 wait_ns = 0, gconstpointer owner = nullptr)
  {
    TpsLogFeedRequest request = {};

    request.lsn = lsn;
    request.max_bytes = max_bytes;
    request.deadline_ns = tps_clock_now_ns () + wait_ns;
    request.owner = owner;
    request.done = Answer::done;
    answers_.emplace_back ();
    request.user_data = &answers_.back ();
    tps_log_feed_read (feed_, &request);
    return answers_.back ();
  }

  /* Expects the records of the commands from `lsn` on. */
  void
  expect_records (const Answer &answer, gint64 lsn)
  {
    g_auto (TpsLogRecords) records = {};
    g_autoptr (GError) error = nullptr;
    TpsLogRecord record;

    ASSERT_EQ (answer.code, 0) << answer.message;
    tps_log_records_init (&records, answer.records.data (), answer.records.size (), lsn);
    for (; lsn < answer.next_lsn; lsn++)
      {
        ASSERT_TRUE (tps_log_records_next (&records, &record, &error)) << error->message;
        ASSERT_EQ (record.lsn, lsn);
        if (record.command != nullptr)
          {
            ASSERT_EQ (encode (record.command), encode (&commands_[lsn - 1]->record));
          }
      }
    ASSERT_TRUE (tps_log_records_next (&records, &record, &error)) << error->message;
    EXPECT_EQ (record.lsn, 0) << "no more than that";
  }

  std::vector<float> values_;
  SimulatedDisk disk_ { 1 };
  TpsWorkerPool *workers_;
  TpsLog *log_;
  TpsLogFeed *feed_ = nullptr;
  std::vector<std::unique_ptr<RandomCommand>> commands_;
  Ends ends_;
  std::list<Answer> answers_;
};

} // namespace

TEST_F (LogFeed, givesOnlyDurableRecords)
{
  append_durably (3);
  append ();
  expect_records (read (1).wait (), 1);
  EXPECT_EQ (answers_.back ().next_lsn, 4);
  Answer &none = read (4).wait ();
  EXPECT_EQ (none.code, 0);
  EXPECT_EQ (none.next_lsn, 4);
  EXPECT_EQ (none.records, "");

  Answer &waiting = read (4, 1 << 20, kLong);
  EXPECT_FALSE (waiting.is_done);
  take_all_steps (log_);
  expect_records (waiting.wait (), 4);
  EXPECT_EQ (waiting.next_lsn, 5);
}

TEST_F (LogFeed, endsPendingReads)
{
  int owner = 0, other = 0;

  append_durably (1);
  Answer &dropped = read (2, 1, kLong, &owner), &kept = read (2, 1, kLong, &other);
  tps_log_feed_drop_owner (feed_, &owner);
  EXPECT_EQ (dropped.wait ().code, TPS_ERROR_CONNECTION_LOST);
  EXPECT_FALSE (kept.is_done);
  tps_log_feed_shut_down (feed_);
  EXPECT_EQ (kept.wait ().code, TPS_ERROR_UNAVAILABLE);
  EXPECT_EQ (read (1).wait ().code, TPS_ERROR_UNAVAILABLE);
}

TEST_F (LogFeed, chargesTheRecordsThatItReads)
{
  TpsBudget *budget = tps_budget_new (nullptr, "replies", 2 << 20);

  make_feed (budget);
  append_rows (3 << 20);
  append ();
  take_all_steps (log_);
  Answer &refused = read (1).wait ();
  EXPECT_EQ (refused.code, TPS_ERROR_RESOURCE_EXHAUSTED);
  EXPECT_THAT (refused.message, HasSubstr ("replies"));
  expect_records (read (2).wait (), 2);
  EXPECT_GT (tps_budget_get_held (budget), 0u);
  end_feed ();
  EXPECT_EQ (tps_budget_get_held (budget), 0u);
  tps_budget_unref (budget);
  feed_ = tps_log_feed_new (log_, workers_, nullptr);
}

TEST_F (LogFeed, followersShareReads)
{
  append_durably (100);
  expect_records (read (90).wait (), 90);
  append ();
  std::vector<Answer *> waiting;
  for (int i = 0; i < 100; i++)
    waiting.push_back (&read (101, 1 << 20, kLong));
  const unsigned before = n_disk_reads;
  take_all_steps (log_);
  for (Answer *answer : waiting)
    expect_records (answer->wait (), 101);
  EXPECT_LE (n_disk_reads - before, 2u) << "one follower reads, the others are given the same";
}

/* The feed must not read small groups before a record one by one, and must cache the records that
 * it has read. */
TEST_F (LogFeed, findsAPlaceWithFewReads)
{
  unsigned before;

  close ();
  open ("other", 1 << 20); /* one segment */
  for (int i = 0; i < 60; i++)
    append_durably (1);
  before = n_disk_reads;
  expect_records (read (50).wait (), 50);
  EXPECT_LE (n_disk_reads - before, 5u);
  before = n_disk_reads;
  expect_records (read (50, 0).wait (), 50);
  EXPECT_EQ (n_disk_reads, before);
}

/* Followers read at random places, with random limits, while the log grows over many segments. A
 * record that exceeds the limit comes alone. */
TEST_F (LogFeed, everyFollowerGetsEveryRecordOnce)
{
  constexpr int kFollowers = 7; /* more than the number of cached places */
  std::mt19937 random (1);
  std::vector<gint64> next (kFollowers, 1);
  bool is_over = false;

  for (int step = 0; !is_over; step++)
    {
      if (step < 60)
        append_durably (1 + static_cast<int> (random () % 5));
      is_over = step >= 60;
      for (gint64 &lsn : next)
        {
          if (step < 60 && random () % 3 != 0)
            continue;
          const gsize most = random () % 20000;
          Answer &answer = read (lsn, most).wait ();
          expect_records (answer, lsn);
          ASSERT_FALSE (HasFailure ());
          EXPECT_TRUE (answer.records.size () <= most || answer.next_lsn == lsn + 1);
          EXPECT_TRUE (answer.next_lsn > lsn || lsn > static_cast<gint64> (commands_.size ()));
          lsn = answer.next_lsn;
          is_over = is_over && lsn == static_cast<gint64> (commands_.size ()) + 1;
        }
    }
}

TEST_F (LogFeed, aBatchThatWasChangedIsRefused)
{
  append_durably (8);
  const Answer &answer = read (1).wait ();

  for (size_t at : { 9u, 70u })
    {
      std::string changed = answer.records;
      g_auto (TpsLogRecords) records = {};
      g_autoptr (GError) error = nullptr;
      TpsLogRecord record;

      changed[at] ^= 1;
      tps_log_records_init (&records, changed.data (), changed.size (), 1);
      EXPECT_FALSE (tps_log_records_next (&records, &record, &error));
      EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_ABORTED));
    }
  g_auto (TpsLogRecords) later = {};
  g_autoptr (GError) error = nullptr;
  TpsLogRecord record;
  tps_log_records_init (&later, answer.records.data (), answer.records.size (), 2);
  EXPECT_FALSE (tps_log_records_next (&later, &record, &error)) << "LSN 1 instead of 2";
}

} // namespace thriftps
