/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* No mode of durability may lose an acknowledged creation or deletion of a table. */

#include "tests/integration/durable/countable.h"

namespace thriftps_test {

/* The modes of the server and of the table; 0 = the table has no mode. */
class Catalogue : public testing::TestWithParam<std::tuple<const char *, int>>
{
protected:
  /* Sends SIGKILL and restarts the server. Returns the number of its tables. */
  guint
  count_tables_after_crash ()
  {
    g_auto (TpsTableSpecs) tables = {};

    server_.kill ();
    EXPECT_TRUE (server_.serve ());
    EXPECT_TRUE (read_result<tps_list_tables_rpc> (
        RawClient (server_.address ()).Call ("EmbeddingTable:list_tables"), &tables));
    return tables.n_specs;
  }

  DataServer server_ { new_folder (),
                       { std::string ("--durability=") + std::get<0> (GetParam ()) } };
};

TEST_P (Catalogue, SurvivesACrash)
{
  embedding_test::Spec spec ("t", 8, 4);

  spec.value.durability = static_cast<TpsDurability> (std::get<1> (GetParam ()));
  ASSERT_TRUE (server_.serve ());
  RawClient creator (server_.address ());
  ASSERT_EQ (ErrorCode (create_table (creator, spec.value)), 0);
  EXPECT_EQ (count_tables_after_crash (), 1u) << "an acknowledged creation";
  RawClient dropper (server_.address ());
  ASSERT_EQ (ErrorCode (drop_table (dropper, spec.value.name)), 0);
  EXPECT_EQ (count_tables_after_crash (), 0u) << "an acknowledged deletion";
}

INSTANTIATE_TEST_SUITE_P (
    Modes, Catalogue,
    testing::Combine (testing::Values ("none", "interval", "interval:60000", "commit"),
                      testing::Values (0, TPS_DURABILITY_NONE, TPS_DURABILITY_INTERVAL,
                                       TPS_DURABILITY_COMMIT)));

} // namespace thriftps_test
