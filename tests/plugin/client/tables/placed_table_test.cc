/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests the places of rows, and tables that are assembled from the lists of several servers. */

#include <gtest/gtest.h>

#include "plugin/client/tables/placed_table.h"
#include "runtime/base/error.h"
#include "tests/plugin/client/tables/bags.h"

namespace tps_test {

static TpsPlacedTable *
deal (TpsShardKind kind, gint64 rows, guint n_servers)
{
  g_auto (TpsTableSpec) spec = {};

  tps_table_spec_init (&spec, "emb", rows, 4);
  EXPECT_TRUE (tps_table_spec_resolve (&spec, nullptr));
  return kind == TPS_SHARD_WHOLE ? tps_placed_table_new_whole (&spec, n_servers - 1)
                                 : tps_placed_table_new_dealt (&spec, kind, n_servers);
}

class Placement : public testing::TestWithParam<TpsShardKind>
{
};

TEST_P (Placement, EachRowIsFoundInItsShard)
{
  for (gint64 rows : { 1, 2, 5, 64, 1000 })
    for (guint n_servers = 1; n_servers <= 6; n_servers++)
      {
        g_autoptr (TpsPlacedTable) table = deal (GetParam (), rows, n_servers);
        std::vector<gint64> ids (static_cast<size_t> (rows));
        std::vector<guint> shards (ids.size ());
        gint64 n_held = 0;

        for (size_t i = 0; i < ids.size (); i++)
          ids[i] = static_cast<gint64> (i);
        tps_placed_table_find_shards (table, ids.data (), ids.size (), shards.data ());
        for (guint shard = 0; shard < table->n_shards; shard++)
          {
            g_auto (TpsTableSpec) part = {};

            tps_placed_table_init_part (table, shard, &part);
            EXPECT_GT (part.shard.n_rows, 0);
            n_held += part.shard.n_rows;
            for (size_t i = 0; i < ids.size (); i++)
              EXPECT_EQ (tps_shard_get_slot (&part.shard, ids[i]) >= 0, shards[i] == shard);
          }
        EXPECT_EQ (n_held, rows);
      }
}

INSTANTIATE_TEST_SUITE_P (Kinds, Placement,
                          testing::Values (TPS_SHARD_WHOLE, TPS_SHARD_RANGE, TPS_SHARD_HASH));

/* Assembles tables from the lists of servers. */
class Assembly : public testing::Test
{
protected:
  explicit Assembly (guint n_servers = 3) : lists_ (n_servers)
  {
  }

  ~Assembly () override
  {
    for (TpsTableSpecs &list : lists_)
      tps_table_specs_clear (&list);
    g_clear_pointer (&tables_, g_ptr_array_unref);
    g_clear_error (&error_);
  }

  TpsTableSpec *
  add (guint server, const char *name, gint64 rows)
  {
    g_auto (TpsTableSpec) spec = {};

    tps_table_spec_init (&spec, name, rows, 4);
    EXPECT_TRUE (tps_table_spec_resolve (&spec, nullptr));
    spec.bytes = 100;
    EXPECT_TRUE (tps_table_specs_add (&lists_[server], &spec, nullptr));
    return &lists_[server].specs[lists_[server].n_specs - 1];
  }

  void
  add_range (guint server, gint64 first, gint64 n)
  {
    EXPECT_TRUE (tps_shard_init_range (&add (server, "emb", 100)->shard, 100, first, n, nullptr));
  }

  void
  add_hash (guint server, gint32 index, gint32 count)
  {
    EXPECT_TRUE (
        tps_shard_init_hash (&add (server, "emb", 100)->shard, 100, index, count, nullptr));
  }

  bool
  assemble ()
  {
    static const gchar *const servers[] = { "a:1", "b:2", "c:3" };

    tables_ = tps_placed_tables_assemble (lists_.data (), servers,
                                          static_cast<guint> (lists_.size ()), &error_);
    EXPECT_EQ (tables_ == nullptr, error_ != nullptr);
    EXPECT_TRUE (tables_ != nullptr
                 || g_error_matches (error_, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT));
    return tables_ != nullptr;
  }

  const TpsPlacedTable *
  table (guint i)
  {
    return static_cast<const TpsPlacedTable *> (tables_->pdata[i]);
  }

  /* Returns the server that has the row. */
  guint
  server_of (gint64 row)
  {
    guint shard;

    tps_placed_table_find_shards (table (0), &row, 1, &shard);
    return table (0)->servers[shard];
  }

  std::vector<TpsTableSpecs> lists_;
  GPtrArray *tables_ = nullptr;
  GError *error_ = nullptr;
};

TEST_F (Assembly, WholeTablesInTheOrderOfTheirNames)
{
  add (2, "b", 10);
  add (2, "a", 20);
  add (0, "c", 30);
  ASSERT_TRUE (assemble ());
  ASSERT_EQ (tables_->len, 3u);
  EXPECT_STREQ (table (0)->spec.name, "a");
  EXPECT_EQ (table (0)->servers[0], 2u);
  EXPECT_EQ (table (2)->servers[0], 0u);
  EXPECT_EQ (table (2)->spec.bytes, 100);
}

TEST_F (Assembly, RangesOfAnyLengthOnAnyServers)
{
  add_range (1, 0, 90);
  add_range (2, 90, 3);
  add_range (0, 93, 7);
  ASSERT_TRUE (assemble ()) << error_->message;
  ASSERT_EQ (tables_->len, 1u);
  EXPECT_EQ (table (0)->spec.bytes, 300);
  EXPECT_EQ (table (0)->spec.shard.kind, TPS_SHARD_WHOLE);
  for (gint64 row = 0; row < 100; row++)
    EXPECT_EQ (server_of (row), row < 90 ? 1u : row < 93 ? 2u : 0u);
}

TEST_F (Assembly, PartsWithoutRowsArePartsToo)
{
  add_range (0, 0, 0);
  add_range (1, 0, 100);
  add_range (2, 0, 0);
  ASSERT_TRUE (assemble ()) << error_->message;
  EXPECT_EQ (table (0)->n_shards, 3u);
  for (gint64 row = 0; row < 100; row++)
    EXPECT_EQ (server_of (row), 1u);
}

TEST_F (Assembly, HashesOnAnyServers)
{
  add_hash (0, 2, 3);
  add_hash (1, 0, 3);
  add_hash (2, 1, 3);
  ASSERT_TRUE (assemble ()) << error_->message;
  for (gint64 row = 0; row < 100; row++)
    EXPECT_EQ (server_of (row), (tps_shard_permute (row, 100) % 3 + 1) % 3);
}

/* Parts of table emb: a range of `n` rows from `first` on, a shard by hash (`n` is 0), or the whole
 * table (`count` is 0, too). */
struct Part
{
  guint server;
  gint64 first, n;
  gint32 index, count;
};

struct BadParts
{
  std::vector<Part> parts;
  const char *message;
};

class BadAssembly : public Assembly, public testing::WithParamInterface<BadParts>
{
};

TEST_P (BadAssembly, IsNamed)
{
  for (const Part &part : GetParam ().parts)
    if (part.n > 0)
      add_range (part.server, part.first, part.n);
    else if (part.count > 0)
      add_hash (part.server, part.index, part.count);
    else
      add (part.server, "emb", 100);
  ASSERT_FALSE (assemble ());
  EXPECT_STREQ (error_->message, GetParam ().message);
}

INSTANTIATE_TEST_SUITE_P (
    Parts, BadAssembly,
    testing::Values (
        BadParts { { { 0 }, { 2 } },
                   "table emb: it is whole on server 0 (a:1) and on server 2 (c:3)" },
        BadParts { { { 0, 0, 30 }, { 2, 60, 40 } }, "table emb: no server has rows 30 to 59" },
        BadParts { { { 0, 0, 30 } }, "table emb: no server has rows 30 to 99" },
        BadParts { { { 0, 0, 60 }, { 1, 50, 50 } }, "table emb: several servers have row 50" },
        BadParts { { { 0, 0, 0, 0, 3 }, { 1, 0, 0, 2, 3 } },
                   "table emb: no server has shard 1 of 3" },
        BadParts { { { 0, 0, 0, 0, 2 }, { 1, 0, 0, 1, 2 }, { 2, 0, 0, 1, 2 } },
                   "table emb: several servers have shard 1 of 2" },
        BadParts { { { 0, 0, 50 }, { 1, 0, 0, 0, 2 } },
                   "table emb: server 0 (a:1) and server 1 (b:2) hold parts of different tables: "
                   "shard: 50 rows from 0 on, not shard 0 of 2" }));

/* Each server may have its own device. */
TEST_F (Assembly, PartsOnDifferentDevicesAreOneTable)
{
  add_hash (0, 0, 2);
  add_hash (1, 1, 2);
  ASSERT_TRUE (tps_table_place_parse ("cuda:0", &lists_[0].specs[0].place));
  ASSERT_TRUE (tps_table_place_parse ("cpu", &lists_[1].specs[0].place));
  EXPECT_TRUE (assemble ());
}

TEST_F (Assembly, PartsWithDifferentDimensionsAreRefused)
{
  add_hash (0, 0, 2);
  add_hash (1, 1, 2);
  lists_[1].specs[0].dim = 5;
  ASSERT_FALSE (assemble ());
  EXPECT_STREQ (error_->message, "table emb: server 0 (a:1) and server 1 (b:2) hold parts of "
                                 "different tables: dim: 4, not 5");
}

}
