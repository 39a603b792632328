/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests the handlers of EmbeddingTable, in particular pushes. */

#include <gmock/gmock.h>

#include "runtime/machine/tuning.h"
#include "tests/plugin/service/tables_fixture.h"
#include "tests/plugin/wire/rpc_functions.h"

namespace thriftps {
namespace {

using testing::HasSubstr;

enum /* error codes of the contract */
{
  NOT_FOUND = 2,
  DUPLICATE = 5,
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

TEST_F (Tables, aFailedPushMayBeTriedAgain)
{
  EXPECT_EQ (push_rows ("a", { 1 }, -1, "c", 1)->code (), NOT_FOUND);
  create ("a")->code ();
  EXPECT_EQ (push_rows ("a", { 1 }, -1, "c", 1)->code (), 0);
  EXPECT_EQ (push_rows ("a", { 1 }, -1, "c", 1)->code (), 0);
  EXPECT_EQ (value_of ("a", 1), 1);
}

} // namespace
} // namespace thriftps
