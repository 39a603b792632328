/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Digests of pushes. */

#include <gtest/gtest.h>
#include <set>
#include <string>
#include <vector>

#include "runtime/server/push_digest.h"

namespace {

std::string
hash_parts (const std::vector<std::string> &parts, const std::vector<gint64> &dims, TpsDType dtype)
{
  static const char elements[64] = {};
  TpsPushHash *hash = tps_push_hash_new ();
  TpsTensorView view = {};
  TpsPushDigest digest;

  for (const std::string &part : parts)
    tps_push_hash_add_string (hash, part.c_str ());
  if (dtype != 0)
    tps_shape_init (&view.shape, dtype, static_cast<guint> (dims.size ()), dims.data (), "",
                    nullptr);
  view.data = elements;
  tps_push_hash_add_tensor (hash, view);
  digest = tps_push_hash_end (hash);
  return std::string (reinterpret_cast<char *> (digest.bytes), sizeof digest.bytes);
}

TEST (PushDigest, tellsRequestsApartThatConsistOfTheSameBytes)
{
  const TpsDType none = static_cast<TpsDType> (0);
  std::set<std::string> digests = {
    hash_parts ({ "ab", "c" }, {}, none),
    hash_parts ({ "a", "bc" }, {}, none),
    hash_parts ({ "abc" }, {}, none),
    hash_parts ({ "abc" }, { 0 }, TPS_DTYPE_FLOAT32),
    hash_parts ({ "abc" }, { 4 }, TPS_DTYPE_FLOAT32),
    hash_parts ({ "abc" }, { 2, 2 }, TPS_DTYPE_FLOAT32),
    hash_parts ({ "abc" }, { 2 }, TPS_DTYPE_INT64),
  };

  EXPECT_EQ (digests.size (), 7u);
  EXPECT_EQ (hash_parts ({ "a" }, { 3 }, TPS_DTYPE_INT64),
             hash_parts ({ "a" }, { 3 }, TPS_DTYPE_INT64));
}

} // namespace
