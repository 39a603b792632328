/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/name_hash.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>

namespace {

/* The hash depends only on the bytes of the name, not on the bytes behind it or on its address. */
TEST (NameHash, equalNamesHaveEqualHashes)
{
  const std::string name = "EmbeddingTable:lookup_rows_with_lsns";
  for (size_t n = 0; n <= name.size (); n++)
    for (size_t offset = 0; offset < 8; offset++)
      {
        char memory[64];
        memset (memory, 0x55, sizeof memory);
        memcpy (memory + offset, name.data (), n);
        memory[offset + n] = '\0';
        EXPECT_EQ (tps_name_hash (memory + offset), tps_name_hash (name.substr (0, n).c_str ()))
            << n;
      }
}

TEST (NameHash, eachByteOfANameCounts)
{
  const std::string name = "EmbeddingTable:lookup_rows";
  for (size_t n = 1; n <= name.size (); n++)
    for (size_t i = 0; i < n; i++)
      {
        std::string other = name.substr (0, n);
        other[i] ^= 1;
        EXPECT_NE (tps_name_hash (other.c_str ()), tps_name_hash (name.substr (0, n).c_str ()))
            << n << " " << i;
      }
}

/* A random hash of 32 bits has 1.2 collisions on average among 100,000 names. */
TEST (NameHash, similarNamesDiffer)
{
  std::set<guint> hashes;
  for (int i = 0; i < 100000; i++)
    hashes.insert (tps_name_hash (("table" + std::to_string (i)).c_str ()));
  EXPECT_GT (hashes.size (), 99980u);
}

} // namespace
