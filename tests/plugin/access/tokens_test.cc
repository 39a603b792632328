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

std::string
refusal (const std::string &text)
{
  g_autoptr (GError) error = nullptr;
  g_autoptr (TpsTokens) tokens = tps_tokens_parse ("tokens", text.c_str (), &error);

  EXPECT_EQ (tokens, nullptr);
  return error != nullptr ? error->message : "";
}

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

TEST (Tokens, aBrokenLineIsNamedWithoutItsText)
{
  std::string good = std::string ("a ") + ABC + "\n";

  EXPECT_EQ (refusal (good + "tps_secret\n"), "tokens:2: expected NAME sha256:HASH [TENANT]");
  EXPECT_EQ (refusal (good + "b sha256:12\n"),
             "tokens:2: the hash must be sha256: and 64 hexadecimal digits");
  EXPECT_EQ (refusal (good + "b" + std::string (ABC).substr (7)),
             "tokens:2: expected NAME sha256:HASH [TENANT]");
  EXPECT_EQ (refusal (good + "b " + ABC), "tokens:2: this hash occurs twice");
  EXPECT_EQ (refusal (good + "b\x01 " + ABC),
             "tokens:2: the name must match [A-Za-z0-9_.:/@-]{1,128}");
  EXPECT_EQ (refusal (std::string ("a ") + ABC + " b c"),
             "tokens:1: expected NAME sha256:HASH [TENANT]");
}

TEST (Tokens, onlyRegularFilesAreRead)
{
  g_autoptr (GError) error = nullptr;

  EXPECT_EQ (tps_tokens_read ("/dev/zero", &error), nullptr);
  ASSERT_NE (error, nullptr);
  EXPECT_STREQ (error->message, "/dev/zero: it is not a regular file");
}

TEST (Tokens, aNewTokenFitsItsLine)
{
  g_autofree gchar *line = nullptr;
  g_autofree gchar *token = tps_token_make ("trainer-7", "ads", &line, nullptr);
  g_autofree gchar *other_line = nullptr;
  g_autofree gchar *other = tps_token_make ("trainer-7", nullptr, &other_line, nullptr);
  g_autofree gchar *both = g_strjoin ("\n", line, other_line, nullptr);
  g_autoptr (TpsTokens) tokens = tps_tokens_parse ("tokens", both, nullptr);

  ASSERT_NE (tokens, nullptr);
  EXPECT_STRNE (token, other);
  EXPECT_EQ (strlen (token), strlen ("tps_") + 43);
  EXPECT_EQ (strstr (line, token), nullptr);
  EXPECT_STREQ (find (tokens, token)->tenant, "ads");
  EXPECT_EQ (find (tokens, other)->tenant, nullptr);
}

TEST (Tokens, namesAreChecked)
{
  g_autofree gchar *line = nullptr;
  g_autoptr (GError) error = nullptr;

  EXPECT_EQ (tps_token_make ("two words", nullptr, &line, &error), nullptr);
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT));
}

} // namespace
} // namespace thriftps
