/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/world/card.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/base/error.h"

namespace {

constexpr char OTHER_VERSION[] =
    "program=parameter_server\nversion=9.9.9\nname=trainer1\npid=1\nhost=h\n";

class Card : public testing::Test
{
protected:
  void
  SetUp () override
  {
    tps_world_init (&world_, "parameter_server", "server");
    world_.job = g_strdup ("blue");
  }

  void
  TearDown () override
  {
    g_free (world_.job);
    g_clear_error (&error_);
  }

  /* Returns a card as the other side receives it. */
  TpsCard *
  Receive (const gchar *name, const std::vector<std::string> &flags)
  {
    g_autoptr (GPtrArray) lines = g_ptr_array_new_with_free_func (g_free);

    for (const std::string &flag : flags)
      g_ptr_array_add (lines, g_strdup (flag.c_str ()));
    g_autoptr (TpsCard) card = tps_card_new (&world_, name, "10.0.0.1:4013", lines);
    g_autoptr (GBytes) bytes = tps_card_encode (card);

    return tps_card_decode (bytes);
  }

  /* Returns the error for a role with these flags, or "" if the flags match. */
  std::string
  Check (const std::vector<std::string> &role, const std::vector<std::string> &master)
  {
    g_autoptr (TpsCard) ours = Receive ("trainer1", role);
    g_autoptr (TpsCard) theirs = Receive ("master", master);
    g_autoptr (GError) error = nullptr;

    if (tps_card_check (ours, theirs, &error))
      return "";
    EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT));
    std::string text = error->message;
    EXPECT_EQ (text.find ("trainer1 (pid "), 0u) << text;
    EXPECT_NE (text.find ("the master (pid "), std::string::npos) << text;
    return text.substr (text.find ("): ") + 3);
  }

  TpsWorld world_;
  GError *error_ = nullptr;
};

TEST_F (Card, TwoProcessesHaveTwoNonces)
{
  g_autoptr (TpsCard) one = Receive ("trainer1", {});
  g_autoptr (TpsCard) other = Receive ("trainer1", {});

  EXPECT_STRNE (tps_card_get (one, "nonce"), tps_card_get (other, "nonce"));
}

TEST_F (Card, FlagsOfOneProcessMayDiffer)
{
  EXPECT_EQ (Check ({ "bind=10.0.0.1", "master-addr=host4" }, { "bind=", "port-range=1-2" }), "");
}

TEST_F (Card, ValuesMayHoldAnything)
{
  EXPECT_EQ (Check ({ "a=x\ny=\\n\t\"=" }, { "a=x\ny=\\n\t\"=" }), "");
  EXPECT_NE (Check ({ "a=x\njob=red" }, { "a=x" }), "");

  g_autoptr (TpsCard) card = Receive ("trainer1", { "a=x\njob=red\nname=master" });
  EXPECT_STREQ (tps_card_get (card, "name"), "trainer1");
}

TEST_F (Card, AnotherVersionIsNamedAlone)
{
  g_autoptr (TpsCard) master = Receive ("master", { "reduce=mean" });
  g_autoptr (GBytes) bytes = g_bytes_new_static (OTHER_VERSION, sizeof OTHER_VERSION - 1);
  g_autoptr (TpsCard) role = tps_card_decode (bytes);

  EXPECT_FALSE (tps_card_check (role, master, &error_));
  std::string text = error_->message;
  EXPECT_NE (text.find ("trainer1 (pid 1 on h)"), std::string::npos) << text;
  EXPECT_NE (text.find ("version 9.9.9, the master has "), std::string::npos) << text;
  EXPECT_EQ (text.find ("--reduce"), std::string::npos) << text;
}

TEST_F (Card, MalformedBytesAreACardThatDoesNotFit)
{
  for (std::string text : { "", "\n\n", "nothing", "====", "\\x00\xff\xfe=", "--=\n--\n=" })
    {
      g_autoptr (TpsCard) master = Receive ("master", {});
      g_autoptr (GBytes) bytes = g_bytes_new (text.data (), text.size ());
      g_autoptr (TpsCard) role = tps_card_decode (bytes);
      g_autoptr (GError) error = nullptr;

      EXPECT_FALSE (tps_card_check (role, master, &error)) << text;
    }
}

} /* namespace */
