/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A server that trains a model is killed during the updates of one trainer, and then restarted. The
 * test covers every mode of --durability. The model must be one of its versions, bit by bit, and
 * must be recent enough for the mode:
 *
 *   commit       no acknowledged update is lost
 *   interval:MS  the lost acknowledged updates span at most MS milliseconds; no update is lost that
 *                preceded a flush or that the server reported as written
 *   none         the state of the last snapshot
 *
 * Lost updates can be sent again under their ids. The environment variable ROUNDS sets the number
 * of rounds of each mode (default 6), and SEED chooses another random sequence. */

#include <stdlib.h>

#include <algorithm>
#include <map>
#include <thread>

#include "plugin/wire/wire_durability.h"
#include "runtime/base/sync.h"
#include "tests/integration/durable/raw_model.h"

namespace thriftps_test {
namespace {

constexpr int kNotFound = 2;

unsigned
from_environment (const char *name, unsigned otherwise)
{
  const char *text = getenv (name);

  return text != nullptr ? static_cast<unsigned> (atoi (text)) : otherwise;
}

struct Mode
{
  const char *name;
  const char *flag;
  int64_t interval_ms; /* 0 = no interval is guaranteed */

  bool
  is (const char *other) const
  {
    return std::string (name) == other;
  }
};

const Mode kModes[] = {
  { "commit", "commit", 0 },
  { "shortInterval", "interval:2", 2 },
  { "interval", "interval:25", 25 },
  { "longInterval", "interval:60000", 60000 },
  { "none", "none", 0 },
};

/* The times when an update was sent and acknowledged; 0 = not yet. */
struct Times
{
  gint64 sent_ns = 0, acknowledged_ns = 0;
};

class ModelCrash : public testing::TestWithParam<Mode>
{
protected:
  /* Sends the updates up to `number` that the server does not have yet. Returns false if the server
   * has ended. */
  bool
  send (RawClient &connection, gint64 number)
  {
    for (; next_ <= number; next_++)
      {
        Times times { tps_clock_now_ns () };
        ModelReply reply = update_model (connection, story_, next_);

        if (reply.code == -1)
          {
            times_[next_] = times;
            return false;
          }
        EXPECT_EQ (reply.code, 0);
        EXPECT_EQ (reply.version, next_ + 1);
        EXPECT_EQ (reply.values, story_.version (next_ + 1));
        times.acknowledged_ns = tps_clock_now_ns ();
        times_[next_] = times;
      }
    return true;
  }

  /* Records that the server has this version on its disk, or guarantees so. */
  void
  expect_kept (gint64 version)
  {
    kept_ = std::max (kept_, version);
  }

  /* Makes the updates so far durable by a snapshot or a flush, or waits until they are. */
  void
  make_durable (RawClient &connection)
  {
    const gint64 version = next_; /* updates up to next_ - 1 were acknowledged */

    switch (random_ () % 3)
      {
      case 0:
        EXPECT_EQ (ErrorCode (take_snapshot (connection)), 0);
        break;
      case 1:
        if (GetParam ().is ("none"))
          return;
        EXPECT_EQ (ErrorCode (connection.Call ("Durability:flush")), 0);
        break;
      default:
        if (GetParam ().is ("none") || GetParam ().is ("longInterval"))
          return;
        wait_until_written ();
      }
    expect_kept (version);
  }

  void
  wait_until_written ()
  {
    gint64 wanted = 0;

    for (;;)
      {
        g_auto (TpsNodeInfo) info = server_->describe ();

        if (wanted == 0)
          wanted = info.durability.end_lsn;
        if (info.durability.lsn >= wanted)
          return;
        std::this_thread::yield ();
      }
  }

  void
  work_and_kill ()
  {
    RawClient connection (server_->address ());
    const unsigned n_updates = 1 + random_ () % 60;
    std::thread killer;

    for (unsigned i = 0; i < n_updates; i++)
      {
        ASSERT_TRUE (send (connection, story_.next ()));
        if (random_ () % 20 == 0)
          make_durable (connection);
      }
    if (random_ () % 4 == 0)
      {
        gboolean is_incremental = TRUE;
        RawClient (server_->address ())
            .Send ("Durability:snapshot", 1, fields_of<tps_snapshot_rpc> (&is_incremental));
      }
    killer = std::thread ([this] { server_->kill (); });
    while (send (connection, story_.next ()))
      ;
    killer.join ();
  }

  /* Checks the version of the restarted server. */
  void
  check_version (gint64 version)
  {
    gint64 first_lost_ns = 0, last_lost_ns = 0;

    EXPECT_LE (version, story_.last () + 1);
    EXPECT_GE (version, kept_);
    for (gint64 update = version; update <= story_.last (); update++)
      {
        const Times &times = times_[update];

        if (times.acknowledged_ns == 0)
          continue;
        n_lost_++;
        first_lost_ns = first_lost_ns == 0 ? times.acknowledged_ns : first_lost_ns;
        last_lost_ns = times.sent_ns;
      }
    if (GetParam ().is ("commit"))
      {
        EXPECT_EQ (first_lost_ns, 0) << "an acknowledged update is lost";
      }
    if (GetParam ().interval_ms > 0)
      {
        EXPECT_LE (last_lost_ns - first_lost_ns, GetParam ().interval_ms * 1000000);
      }
  }

  void
  start ()
  {
    ASSERT_TRUE (server_->serve ());
  }

  /* Reads the recovered version, and sends the lost updates again. */
  void
  recover ()
  {
    RawClient connection (server_->address ());
    ModelReply reply = get_model (connection);

    ASSERT_TRUE (reply.code == 0 || reply.code == kNotFound) << reply.code;
    check_version (reply.version);
    if (reply.code == kNotFound)
      {
        init_model (connection, story_);
        reply = get_model (connection);
      }
    ASSERT_EQ (reply.values, story_.version (reply.version)) << "a middle is lost";
    next_ = reply.version;
    if (next_ > 1 && !GetParam ().is ("none"))
      {
        ModelReply again = update_model (connection, story_, next_ - 1);

        EXPECT_EQ (again.code, 0) << "the newest update that was kept";
        EXPECT_EQ (again.version, next_);
        EXPECT_EQ (again.values, story_.version (next_));
      }
    EXPECT_TRUE (send (connection, story_.last ()));
  }

  const unsigned seed_ = from_environment ("SEED", 1);
  std::mt19937 random_ { seed_ };
  ModelStory story_ { seed_ };
  gint64 next_ = 1; /* the first update that the server does not have */
  gint64 kept_ = 0; /* the newest version that the server must keep */
  std::map<gint64, Times> times_;
  int n_lost_ = 0; /* lost acknowledged updates */
  std::unique_ptr<DataServer> server_;
};

TEST_P (ModelCrash, KeepsTheUpdatesThatItsModeGuarantees)
{
  server_ = std::make_unique<DataServer> (
      new_folder (), std::vector<std::string> { "--ntrainer=1",
                                                std::string ("--durability=") + GetParam ().flag });
  start ();
  {
    RawClient connection (server_->address ());
    init_model (connection, story_);
    if (GetParam ().is ("commit"))
      expect_kept (1);
  }
  for (unsigned round = 0; round < from_environment ("ROUNDS", 6); round++)
    {
      work_and_kill ();
      start ();
      recover ();
      ASSERT_FALSE (HasFailure ()) << "round " << round << " of SEED=" << seed_;
    }
  if (GetParam ().is ("longInterval") || GetParam ().is ("none"))
    {
      EXPECT_GT (n_lost_, 0) << "these updates were never promised";
    }
}

/* A crash may undo updates of the last interval, but neither init_model nor reset_state. */
TEST (ModelWithAnInterval, KeepsItsBeginningAndItsEnd)
{
  DataServer server (new_folder (), { "--ntrainer=1", "--durability=interval:60000" });
  ModelStory story (1);
  auto restart = [&server] {
    server.kill ();
    ASSERT_TRUE (server.serve ());
  };

  ASSERT_TRUE (server.serve ());
  {
    RawClient connection (server.address ());
    init_model (connection, story);
  }
  restart ();
  {
    RawClient connection (server.address ());
    EXPECT_EQ (get_model (connection).version, 1);
    EXPECT_EQ (ErrorCode (connection.Call ("ParameterServer:reset_state")), 0);
  }
  restart ();
  RawClient connection (server.address ());
  EXPECT_EQ (get_model (connection).code, kNotFound);
}

/* With --durability=none, the log contains neither updates nor resets. */
TEST (ModelWithoutDurability, IsRestoredFromTheLastSnapshot)
{
  DataServer server (new_folder (), { "--ntrainer=1", "--durability=none" });
  ModelStory story (1);
  auto restart = [&server] {
    server.kill ();
    ASSERT_TRUE (server.serve ());
  };
  auto update_until = [&] (gint64 last) {
    RawClient connection (server.address ());
    gint64 version = get_model (connection).version;

    for (gint64 number = version; number <= last; number++)
      EXPECT_EQ (update_model (connection, story, number).version, number + 1);
  };
  for (int i = 0; i < 6; i++)
    story.next ();
  ASSERT_TRUE (server.serve ());
  {
    RawClient connection (server.address ());
    init_model (connection, story);
    update_until (2);
  }
  restart ();
  {
    RawClient connection (server.address ());

    EXPECT_EQ (get_model (connection).code, kNotFound) << "there was no snapshot";
    init_model (connection, story);
    update_until (3);
    EXPECT_EQ (ErrorCode (take_snapshot (connection)), 0);
    update_until (6);
  }
  for (bool resets : { false, true })
    {
      if (resets)
        {
          EXPECT_EQ (ErrorCode (RawClient (server.address ()).Call ("ParameterServer:reset_state")),
                     0);
        }
      restart ();
      RawClient connection (server.address ());
      ModelReply model = get_model (connection);
      EXPECT_EQ (model.version, 4) << "a reset after the snapshot: " << resets;
      EXPECT_EQ (model.values, story.version (4));
      ModelReply again = update_model (connection, story, 3);
      EXPECT_EQ (again.code, 0) << "the snapshot has the push id";
      EXPECT_EQ (again.version, 4) << "it is not applied again";
    }
}

/* A record lists the trainers of its update, and a server may be restarted with fewer trainers. */
TEST (ModelWithFewerTrainers, IsReplayed)
{
  for (gint32 n_trainers : { 64, 8 })
    for (bool is_killed : { true, false })
      {
        const std::string folder = new_folder ();
        DataServer many (folder, { "--ntrainer=" + std::to_string (n_trainers) });
        DataServer one (folder, { "--ntrainer=1" });
        ModelStory story (1);
        std::vector<std::unique_ptr<RawClient>> trainers;
        Values newest;

        ASSERT_TRUE (many.serve ());
        for (gint32 trainer = 0; trainer < n_trainers; trainer++)
          trainers.push_back (std::make_unique<RawClient> (many.address ()));
        init_model (*trainers[0], story);
        for (int update = 0; update < 20; update++)
          {
            gint64 number = story.next ();

            for (gint32 trainer = 0; trainer < n_trainers; trainer++)
              send_update (*trainers[static_cast<size_t> (trainer)], story, number, trainer);
            for (auto &trainer : trainers)
              ASSERT_EQ (read_model (trainer->Receive ()).version, number + 1);
          }
        newest = get_model (*trainers[0]).values;
        is_killed ? many.kill () : static_cast<void> (many.stop ());
        for (int i = 0; i < 3; i++) /* from the records, and from a snapshot */
          {
            ASSERT_TRUE (one.serve ());
            RawClient connection (one.address ());
            EXPECT_EQ (get_model (connection).values, newest) << n_trainers;
            EXPECT_EQ (update_model (connection, story, story.last ()).values, newest)
                << "the update is known";
            story.next ();
            newest = update_model (connection, story, story.last ()).values;
            ASSERT_EQ (one.stop (), 0) << one.process ().ReadErrors ();
          }
      }
}

INSTANTIATE_TEST_SUITE_P (Modes, ModelCrash, testing::ValuesIn (kModes),
                          [] (const auto &tested) { return std::string (tested.param.name); });

} // namespace
} // namespace thriftps_test
