/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests the parsing of token files and the creation of tokens. */

#include "plugin/access/tokens.h"

#include <gtest/gtest.h>

#include <string>

#include "runtime/base/error.h"

namespace thriftps {
namespace {

/* SHA-256 of "abc", from FIPS 180-2. */
const char *const ABC = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

const TpsTokenOwner *
find (const TpsTokens *tokens, const char *token)
{
  guint8 digest[TPS_TOKEN_DIGEST_BYTES];

  tps_token_hash (token, digest);
  return tps_tokens_find (tokens, digest);
}

TEST (Tokens, aTokenIsFoundByItsHash)
{
  std::string text = std::string ("# fleet\n\n  trainer \t") + ABC + " ads # until May\r\n";
  g_autoptr (TpsTokens) tokens = tps_tokens_parse ("tokens", text.c_str (), nullptr);

  ASSERT_NE (tokens, nullptr);
  const TpsTokenOwner *owner = find (tokens, "abc");
  ASSERT_NE (owner, nullptr);
  EXPECT_STREQ (owner->name, "token:trainer");
  EXPECT_STREQ (owner->tenant, "ads");
  EXPECT_EQ (find (tokens, "abd"), nullptr);
  EXPECT_EQ (find (tokens, ""), nullptr);
}

} // namespace
} // namespace thriftps
