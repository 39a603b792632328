/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/embedding/sharding.h"

#include <fstream>
#include <random>
#include <set>
#include <sstream>

#include "tests/runtime/server/tables/tables.h"

using namespace embedding_test;

TEST (Sharding, PermutesAsTheVectorsSay)
{
  std::ifstream file ("tests/runtime/server/tables/sharding_vectors.txt");
  std::string line;
  int n_lines = 0;

  while (std::getline (file, line))
    {
      std::istringstream fields (line);
      int64_t rows, row, number;

      if (line[0] == '#')
        continue;
      ASSERT_TRUE (fields >> rows >> row >> number) << line;
      EXPECT_EQ (tps_shard_permute (row, rows), number) << line;
      EXPECT_EQ (tps_shard_unpermute (number, rows), row) << line;
      n_lines++;
    }
  EXPECT_GE (n_lines, 40);
}

TEST (Sharding, PermutesEveryNumberOfRowsOntoItself)
{
  for (int64_t rows = 1; rows <= 700; rows++)
    {
      std::set<int64_t> numbers;

      for (int64_t row = 0; row < rows; row++)
        {
          int64_t number = tps_shard_permute (row, rows);

          ASSERT_GE (number, 0);
          ASSERT_LT (number, rows);
          ASSERT_EQ (tps_shard_unpermute (number, rows), row);
          numbers.insert (number);
        }
      ASSERT_EQ (static_cast<int64_t> (numbers.size ()), rows);
    }
}

TEST (Sharding, UndoesItselfForAnyNumberOfRows)
{
  std::mt19937_64 random (1);

  for (int i = 0; i < 20000; i++)
    {
      int64_t rows = static_cast<int64_t> (random () >> (1 + random () % 62)) + 1;
      int64_t row = static_cast<int64_t> (random () % static_cast<uint64_t> (rows));
      int64_t number = tps_shard_permute (row, rows);

      ASSERT_LT (number, rows);
      ASSERT_EQ (tps_shard_unpermute (number, rows), row) << row << " of " << rows;
    }
}

TEST (Sharding, EachRowLiesInOneShardInASlotOfItsOwn)
{
  for (int64_t rows : { 1, 2, 7, 300, 1001 })
    for (int32_t count : { 1, 2, 3, 8, 11 })
      for (bool by_hash : { false, true })
        {
          std::set<int64_t> seen;
          int64_t least = rows, most = 0;

          for (int32_t index = 0; index < count; index++)
            {
              TpsShard shard = by_hash ? hash_shard (rows, index, count)
                                       : range_shard (rows, index, count);

              least = std::min (least, shard.n_rows);
              most = std::max (most, shard.n_rows);
              for (int64_t slot = 0; slot < shard.n_rows; slot++)
                {
                  int64_t row = tps_shard_get_row (&shard, slot);

                  ASSERT_EQ (tps_shard_get_slot (&shard, row), slot);
                  ASSERT_TRUE (seen.insert (row).second) << "row " << row << " twice";
                }
            }
          ASSERT_EQ (static_cast<int64_t> (seen.size ()), rows);
          ASSERT_EQ (*seen.rbegin (), rows - 1);
          ASSERT_LE (most - least, 1);
        }
}

/* Adjacent ids, and ids of one residue class, must not accumulate in one shard. */
TEST (Sharding, HashSpreadsRegularIds)
{
  constexpr int64_t rows = 1 << 20;
  constexpr int32_t count = 8;

  for (int64_t stride : { 1, 8, 64, 1000, 4096 })
    {
      std::vector<int> n_in (count);
      int n_ids = 0;

      for (int64_t row = 0; row < rows && n_ids < 4096; row += stride, n_ids++)
        n_in[static_cast<size_t> (tps_shard_permute (row, rows) % count)]++;
      for (int n : n_in)
        EXPECT_LT (n, n_ids / count * 2) << "stride " << stride;
    }
}

TEST (Sharding, RangesOfHugeTablesDoNotOverflow)
{
  int64_t rows = G_MAXINT64;

  EXPECT_EQ (tps_shard_range_begin (rows, 0, G_MAXINT32), 0);
  EXPECT_EQ (tps_shard_range_begin (rows, G_MAXINT32, G_MAXINT32), rows);
}
