// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "bench/dlrm/options.h"

namespace {

class DlrmOptions : public testing::Test
{
protected:
  void
  TearDown () override
  {
    tps_dlrm_options_clear (&options_);
    g_clear_error (&error_);
  }

  bool
  Parse (std::vector<std::string> arguments)
  {
    std::vector<gchar *> argv = { const_cast<gchar *> ("dlrm") };
    for (std::string &argument : arguments)
      argv.push_back (argument.data ());
    argv.push_back (nullptr);
    return tps_dlrm_options_parse (&options_, static_cast<gint> (argv.size ()) - 1, argv.data (),
                                   &error_);
  }

  void
  ExpectBad (std::vector<std::string> arguments, const std::string &part)
  {
    EXPECT_FALSE (Parse (arguments));
    ASSERT_NE (error_, nullptr);
    EXPECT_NE (std::string (error_->message).find (part), std::string::npos) << error_->message;
  }

  TpsDlrmOptions options_ = {};
  GError *error_ = nullptr;
};

TEST_F (DlrmOptions, ARunHasNoPeer)
{
  ASSERT_TRUE (Parse ({})) << error_->message;
  EXPECT_EQ (options_.run.peer, nullptr);
  EXPECT_EQ (options_.run.repeats, 5);
  EXPECT_EQ (options_.batch, 2048);
}

class Peers : public DlrmOptions, public testing::WithParamInterface<const char *>
{
};

TEST_P (Peers, APeerCanBeNamed)
{
  ASSERT_TRUE (Parse ({ std::string ("--peer=") + GetParam (), "--trainers=2" }))
      << error_->message;
  EXPECT_STREQ (options_.run.peer, GetParam ());
}

TEST_P (Peers, NoPeerHasFtrl)
{
  ExpectBad ({ std::string ("--peer=") + GetParam (), "--optimizer=ftrl" }, "--optimizer=ftrl");
}

INSTANTIATE_TEST_SUITE_P (Names, Peers,
                          testing::Values (TPS_DLRM_PYTORCH, TPS_DLRM_TORCHREC, "both"));

TEST_F (DlrmOptions, AnUnknownPeerIsRefused)
{
  ExpectBad ({ "--peer=tensorflow" }, "--peer=tensorflow");
}

TEST_F (DlrmOptions, ASmokeRunIsSmall)
{
  ASSERT_TRUE (Parse ({ "--smoke", "--peer=both" })) << error_->message;
  EXPECT_EQ (options_.run.repeats, 1);
  EXPECT_EQ (options_.batch, 64);
  EXPECT_EQ (options_.dim, 8);
}

} // namespace
