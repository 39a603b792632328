/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The process of a host, with every kind of server that a host can have. */

#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/integration/host/peer.h"

/* Checks for a ServiceError as field 1 of a result. */
inline void
expect_service_error (const wire::Answer &answer, int code, const std::string &part_of_message)
{
  ASSERT_TRUE (answer.message) << answer.why;
  const wire::Value *failure = answer.message->body.find (1);
  ASSERT_NE (failure, nullptr);
  ASSERT_NE (failure->find (1), nullptr);
  EXPECT_EQ (failure->find (1)->number, code);
  ASSERT_NE (failure->find (2), nullptr);
  EXPECT_NE (failure->find (2)->text.find (part_of_message), std::string::npos)
      << failure->find (2)->text;
}

struct Variant
{
  const char *name;
  bool hardened;
  wire::Protocol protocol;
  bool framed;
  bool generated; /* the project's services are generated processors */
};

inline std::ostream &
operator<< (std::ostream &out, const Variant &variant)
{
  return out << variant.name;
}

class Host : public testing::TestWithParam<Variant>
{
protected:
  void
  start (std::vector<std::string> flags)
  {
    flags.insert (flags.begin (), "tests/integration/host/fleet_host");
    if (GetParam ().hardened)
      flags.push_back ("--hardened");
    if (GetParam ().generated)
      flags.push_back ("--generated");
    process_ = std::make_unique<wire::Process> (flags);
  }

  std::unique_ptr<wire::Peer>
  connect ()
  {
    return std::make_unique<wire::Peer> (process_->address (), GetParam ().protocol,
                                         GetParam ().framed);
  }

  void
  TearDown () override
  {
    if (process_ != nullptr)
      {
        EXPECT_EQ (process_->end (), 0);
      }
  }

  std::unique_ptr<wire::Process> process_;
};

inline const Variant kVariants[] = {
  { "Stock", false, wire::Protocol::Binary, true, false },
  { "HardenedFramedBinary", true, wire::Protocol::Binary, true, false },
  { "HardenedFramedCompact", true, wire::Protocol::Compact, true, false },
  { "HardenedUnframedBinary", true, wire::Protocol::Binary, false, false },
  { "HardenedUnframedCompact", true, wire::Protocol::Compact, false, false },
  { "GeneratedStock", false, wire::Protocol::Binary, true, true },
  { "GeneratedHardened", true, wire::Protocol::Compact, true, true },
};
