/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests the handlers of EmbeddingTable, in particular pushes. */

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <thread>

#include "runtime/machine/tuning.h"
#include "tests/plugin/service/tables_fixture.h"
#include "tests/plugin/wire/rpc_functions.h"

namespace thriftps {
namespace {

using testing::Each;
using testing::HasSubstr;

enum /* error codes of the contract */
{
  INVALID_ARGUMENT = 1,
  NOT_FOUND = 2,
  ALREADY_EXISTS = 3,
  STALE = 4,
  DUPLICATE = 5,
  RESOURCE_EXHAUSTED = 7,
  UNAVAILABLE = 8,
};

class Tables : public TablesFixture
{
protected:
  Reply
  drop (const char *name)
  {
    return call ("drop_table", WriteArgumentsOf<tps_drop_table_rpc>, &name);
  }

  std::vector<std::string>
  list ()
  {
    g_auto (TpsTableSpecs) specs = {};
    std::vector<std::string> names;

    EXPECT_TRUE (
        call ("list_tables", nullptr, nullptr)->read (ReadResultOf<tps_list_tables_rpc>, &specs));
    for (guint i = 0; i < specs.n_specs; i++)
      names.push_back (specs.specs[i].name);
    return names;
  }
};

TEST_F (Tables, smallCallsStayOnTheThreadThatReadThem)
{
  std::vector<gint64> few = { 1 }, many (20000, 1), zero = { 0 };
  int n_before;

  create ("a")->code ();
  n_before = n_on_workers;
  EXPECT_EQ (lookup_rows ("a", few)->code (), 0);
  EXPECT_EQ (lookup_bags ({ query_of ("a", few, zero) })->code (), 0);
  EXPECT_EQ (push_rows ("a", few, 1, "c", 1)->code (), 0);
  EXPECT_EQ (push_bags ("a", few, 1, "c", 2)->code (), 0);
  EXPECT_EQ (n_on_workers, n_before);
  EXPECT_EQ (lookup_rows ("a", many)->code (), 0);
  EXPECT_EQ (lookup_bags ({ query_of ("a", many, zero) })->code (), 0);
  EXPECT_EQ (push_rows ("a", many, 1, "c", 3)->code (), 0);
  EXPECT_EQ (push_bags ("a", many, 1, "c", 4)->code (), 0);
  EXPECT_EQ (n_on_workers, n_before + 4);
}

/* `some` stays below `wake_bytes`, and `more` reaches it. A row of `a` counts as 32 bytes, without
 * its index. */
TEST_F (Tables, longerLookupsStayOnAThreadForWhichNoOtherCallWaits)
{
  gsize wake_bytes = tps_tuning_get ()->wake_bytes;
  std::vector<gint64> some (wake_bytes / 32 - 1, 1), more (wake_bytes / 32, 1);
  std::vector<gint64> of_none (wake_bytes / 2 / sizeof (gint64), 1);
  int n_before;

  create ("a")->code ();
  n_before = n_on_workers;
  EXPECT_EQ (lookup_rows ("a", some)->code (), 0);
  EXPECT_EQ (lookup_rows ("unknown", of_none)->code (), NOT_FOUND);
  EXPECT_EQ (n_on_workers, n_before + 2);
  is_alone = true;
  EXPECT_EQ (lookup_rows ("a", some)->code (), 0);
  EXPECT_EQ (lookup_rows ("unknown", of_none)->code (), NOT_FOUND);
  EXPECT_EQ (n_on_workers, n_before + 2);
  EXPECT_EQ (lookup_rows ("a", more)->code (), 0);
  EXPECT_EQ (n_on_workers, n_before + 3);
  EXPECT_EQ (push_rows ("a", some, 1, "c", 1)->code (), 0);
  EXPECT_EQ (n_on_workers, n_before + 4);
}

/* The decoding of each of these queries allocates memory. */
TEST_F (Tables, longArgumentsAreDecodedOnWorkers)
{
  std::vector<gint64> one = { 1 }, zero = { 0 };
  std::vector<TpsBagQuery> many (2000, query_of ("a", one, zero));
  std::vector<TpsBagQuery> very_many (20000, query_of ("a", one, zero));

  create ("a")->code ();
  lanes.clear ();
  EXPECT_EQ (lookup_bags (many)->code (), 0);
  EXPECT_EQ (lanes, (std::vector<TpsLane> { TPS_LANE_SHORT, TPS_LANE_SHORT }));
  lanes.clear ();
  EXPECT_EQ (lookup_bags (very_many)->code (), 0);
  EXPECT_EQ (lanes, (std::vector<TpsLane> { TPS_LANE_LONG, TPS_LANE_SHORT }));
}

/* The table has rows of 4 MiB, and the query has 32 of them. The other calls may take long for
 * other reasons. */
TEST_F (Tables, longCallsAreInTheLongLane)
{
  std::vector<gint64> zeros (32, 0), zero = { 0 };

  create ("wide", 1, 1 << 20)->code ();
  EXPECT_EQ (lookup_bags ({ query_of ("wide", zeros, zero) })->code (), 0);
  list ();
  EXPECT_EQ (lanes, (std::vector<TpsLane> { TPS_LANE_LONG, TPS_LANE_LONG, TPS_LANE_LONG }));
}

/* If an I/O thread listed very many tables, it would delay its other connections. */
TEST_F (Tables, listsAreForWorkers)
{
  int n_before = n_on_workers;

  EXPECT_EQ (list (), std::vector<std::string> ());
  EXPECT_EQ (n_on_workers, n_before + 1);
}

TEST_F (Tables, callsThatWaitForADeviceAreForWorkers)
{
  std::vector<gint64> few = { 1 }, zero = { 0 };
  int n_before;

  EXPECT_EQ (create ("a", 10, 4, "cuda:0")->code (), 0);
  EXPECT_EQ (create ("b")->code (), 0);
  n_before = n_on_workers;
  EXPECT_EQ (lookup_rows ("a", few)->code (), 0);
  EXPECT_EQ (lookup_bags ({ query_of ("b", few, zero), query_of ("a", few, zero) })->code (), 0);
  EXPECT_EQ (push_rows ("a", few, 1, "c", 1)->code (), 0);
  EXPECT_EQ (push_bags ("a", few, 1, "c", 2)->code (), 0);
  EXPECT_EQ (n_on_workers, n_before + 4);
  EXPECT_EQ (push_bags ("a", few, 1, "c", 2)->code (), 0); /* a repeat, applied once */
  EXPECT_EQ (value_of ("a", 1), -2);
}

TEST_F (Tables, afterTheEndRefuseEverything)
{
  std::vector<gint64> good = { 1 }, zero = { 0 };

  create ("a")->code ();
  tps_dispatcher_shut_down (dispatcher);
  for (const Reply &reply : { create ("b"), drop ("a"), call ("list_tables", nullptr, nullptr),
                              lookup_rows ("a", good), lookup_bags ({ query_of ("a", good, zero) }),
                              push_rows ("a", good, 1), push_bags ("a", good, 1, "c", 1) })
    {
      EXPECT_EQ (reply->code (), UNAVAILABLE);
      EXPECT_THAT (reply->text (), HasSubstr ("shutting down"));
    }
}

/* ---- push ids ------------------------------------------------------------------------------- */

TEST_F (Tables, aPushWhoseAnswerWasLostIsAppliedOnce)
{
  create ("a")->code ();
  for (int i = 0; i < 3; i++)
    {
      EXPECT_EQ (push_rows ("a", { 1, 1 }, -1, "c", 1)->code (), 0);
      EXPECT_EQ (push_bags ("a", { 2 }, -1, "c", 2)->code (), 0);
      EXPECT_EQ (push_rows ("a", { 3 }, -1)->code (), 0); /* no push id, so each call counts */
    }
  EXPECT_EQ (value_of ("a", 1), 2);
  EXPECT_EQ (value_of ("a", 2), 1);
  EXPECT_EQ (value_of ("a", 3), 3);
}

/* A push id belongs to the table with which it was used, and not to the table's name. */
TEST_F (Tables, aPushToATableThatWasMadeAgainIsApplied)
{
  for (int i = 0; i < 3; i++)
    {
      create ("a")->code ();
      EXPECT_EQ (push_rows ("a", { 1 }, -1, "c", 1)->code (), 0);
      EXPECT_EQ (push_rows ("a", { 1 }, -1, "c", 1)->code (), 0);
      EXPECT_EQ (push_bags ("a", { 1 }, -1, "c", 2)->code (), 0);
      EXPECT_EQ (push_bags ("a", { 1 }, -1, "c", 2)->code (), 0);
      EXPECT_EQ (value_of ("a", 1), 2);
      drop ("a")->code ();
      EXPECT_EQ (push_rows ("a", { 1 }, -1, "c", 1)->code (), 0) << "it was applied";
    }
}

/* Makes more pushes than a window holds, and then uses the same ids again. */
TEST_F (Tables, aRunOnATableThatWasMadeAgainIsApplied)
{
  for (int i = 0; i < 2; i++)
    {
      create ("a")->code ();
      for (gint64 sequence = 1; sequence <= 200; sequence++)
        ASSERT_EQ (push_rows ("a", { 1 }, -1, "c", sequence)->code (), 0) << i << " " << sequence;
      EXPECT_EQ (value_of ("a", 1), 200);
      EXPECT_EQ (push_rows ("a", { 1 }, -1, "c", 1)->code (), STALE);
      drop ("a")->code ();
    }
}

TEST_F (Tables, repeatsInAnyOrderAreAppliedOnce)
{
  std::vector<gint64> sends;
  std::mt19937 random (1);

  create ("a")->code ();
  for (gint64 sequence = 0; sequence < 60; sequence++)
    sends.insert (sends.end (), 1 + random () % 4, sequence);
  std::shuffle (sends.begin (), sends.end (), random);
  for (gint64 sequence : sends)
    EXPECT_EQ (push_rows ("a", { sequence % 10 }, -1, "c", sequence)->code (), 0);
  for (gint64 row = 0; row < 10; row++)
    EXPECT_EQ (value_of ("a", row), 6);
}

TEST_F (Tables, anIdIsOfOneRequestOnly)
{
  create ("a")->code ();
  create ("b")->code ();
  EXPECT_EQ (push_rows ("a", { 1 }, -1, "c", 7)->code (), 0);
  for (const Reply &other :
       { push_rows ("a", { 2 }, -1, "c", 7), push_rows ("a", { 1 }, -2, "c", 7),
         push_rows ("b", { 1 }, -1, "c", 7), push_rows ("a", { 1, 1 }, -1, "c", 7),
         push_bags ("a", { 1 }, -1, "c", 7) })
    {
      EXPECT_EQ (other->code (), DUPLICATE);
      EXPECT_EQ (other->text (), "push 7 of client c was already used for another request");
    }
  EXPECT_EQ (push_rows ("a", { 1 }, -1, "d", 7)->code (), 0); /* another client's id */
  EXPECT_EQ (value_of ("a", 1), 2);
  EXPECT_EQ (value_of ("a", 2), 0);
  EXPECT_EQ (value_of ("b", 1), 0);
}

/* Two clients with the same name share a window, so only one of them can use each id. */
TEST_F (Tables, twoClientsOfOneNameNeverApplyOneIdTwice)
{
  int n_applied[2] = { 0, 0 };

  create ("a")->code ();
  for (gint64 sequence = 0; sequence < 50; sequence++)
    for (int i = 0; i < 2; i++)
      {
        int client = (sequence + i) % 2;
        int code = push_rows ("a", { client }, -1, "same", sequence)->code ();

        EXPECT_EQ (code, i == 0 ? 0 : DUPLICATE);
        n_applied[client] += code == 0;
      }
  EXPECT_EQ (value_of ("a", 0), n_applied[0]);
  EXPECT_EQ (value_of ("a", 1), n_applied[1]);
  EXPECT_EQ (n_applied[0] + n_applied[1], 50);
}

TEST_F (Tables, belowTheWindowPushesAreStale)
{
  create ("a")->code ();
  EXPECT_EQ (push_rows ("a", { 1 }, -1, "c", 100)->code (), 0);
  EXPECT_EQ (push_rows ("a", { 1 }, -1, "c", 37)->code (), 0);
  EXPECT_EQ (push_rows ("a", { 1 }, -1, "c", 36)->code (), STALE);
  EXPECT_EQ (value_of ("a", 1), 2);
}

TEST_F (Tables, aFailedPushMayBeTriedAgain)
{
  EXPECT_EQ (push_rows ("a", { 1 }, -1, "c", 1)->code (), NOT_FOUND);
  create ("a")->code ();
  EXPECT_EQ (push_rows ("a", { 1 }, -1, "c", 1)->code (), 0);
  EXPECT_EQ (push_rows ("a", { 1 }, -1, "c", 1)->code (), 0);
  EXPECT_EQ (value_of ("a", 1), 1);
}

TEST_F (Tables, manyThreadsThatSendTheSamePushesApplyThemOnce)
{
  std::vector<std::thread> threads;
  std::vector<gint64> indices (3000);

  for (gsize i = 0; i < indices.size (); i++)
    indices[i] = static_cast<gint64> (i % 10);
  create ("a")->code ();
  for (int t = 0; t < 4; t++)
    threads.emplace_back ([&] {
      for (gint64 sequence = 0; sequence < 50; sequence++)
        EXPECT_EQ (push_rows ("a", indices, -1, "c", sequence)->code (), 0);
    });
  for (std::thread &thread : threads)
    thread.join ();
  for (gint64 row = 0; row < 10; row++)
    EXPECT_EQ (value_of ("a", row), 50 * 300);
}

} // namespace
} // namespace thriftps
