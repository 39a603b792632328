// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// A dispatcher must refuse a service if one of its methods does not name the right that it needs.
// For rows that must not even compile, see tests/lint:method_rights_test.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "plugin/service/dispatch.h"
#include "runtime/base/error.h"

namespace thriftps_test {
namespace {

void
Handle (TpsCall *, gpointer)
{
}

// Returns the error message of the refusal, or "" if the service is accepted.
std::string
Refusal (const TpsService &service)
{
  g_autoptr (GError) error = nullptr;
  TpsDispatcher *dispatcher = tps_dispatcher_new (&service, 1, nullptr, &error);
  if (dispatcher != nullptr)
    {
      tps_dispatcher_unref (dispatcher);
      return "";
    }
  EXPECT_EQ (error->code, TPS_ERROR_INVALID_ARGUMENT);
  return error->message;
}

TEST (Rights, EveryMethodOfAServiceNeedsOne)
{
  static const TpsRpc first = { "Test", "first", nullptr, nullptr };
  static const TpsRpc second = { "Test", "second", nullptr, nullptr };
  TpsMethod methods[3] = {};
  TpsService service = {};
  service.name = "Test";
  service.methods = methods;
  methods[0].right = TPS_RIGHT_READ;
  methods[0].rpc = &first;
  methods[1].rpc = &second;
  methods[0].handle = methods[1].handle = Handle;
  EXPECT_THAT (Refusal (service), testing::HasSubstr ("method Test:second"));
  methods[1].right = TPS_RIGHT_OPEN;
  EXPECT_EQ (Refusal (service), "");
}

TEST (Rights, SoDoMethodsThatAreNotKnownByName)
{
  TpsService service = {};
  service.name = "Test";
  service.handle_other = Handle;
  EXPECT_THAT (Refusal (service), testing::HasSubstr ("service Test"));
  service.other_right = TPS_RIGHT_PUSH;
  EXPECT_EQ (Refusal (service), "");
}

} // namespace
} // namespace thriftps_test
