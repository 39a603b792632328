// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Tests the names of methods in every form of the protocol, and the replies to unknown names.

#include <gmock/gmock.h>

#include "tests/plugin/server/test_service.h"

namespace thriftps_test {
namespace {

class NamesTest : public ServerTest,
                  public testing::WithParamInterface<std::tuple<TpsProtocolKind, bool>>
{
};

TEST_P (NamesTest, AnswersCarryTheNameWithoutTheService)
{
  RawClient client (tcp_, { std::get<0> (GetParam ()), std::get<1> (GetParam ()) });
  for (const char *name : { "Test:echo", "echo" })
    {
      Message answer = client.Call (name, IntField (-5), 77);
      ASSERT_NE (answer, nullptr);
      EXPECT_EQ (answer->kind, TPS_MESSAGE_REPLY);
      EXPECT_STREQ (answer->name, "echo");
      EXPECT_EQ (answer->seqid, 77);
      EXPECT_EQ (answer->protocol, std::get<0> (GetParam ()));
      EXPECT_EQ (answer->framed, std::get<1> (GetParam ()));
      EXPECT_EQ (IntResult (answer), -5);
    }
}

TEST_P (NamesTest, UnknownNamesGetAnExceptionThatNamesThem)
{
  RawClient client (unix_, { std::get<0> (GetParam ()), std::get<1> (GetParam ()) });
  for (const char *name :
       { "Test:fly", "NoSuch:echo", "fly", "Test", "Test:", ":echo", ":", "Test:echo:x" })
    {
      Message answer = client.Call (name, IntField (1), 9);
      ASSERT_NE (answer, nullptr) << name;
      EXPECT_EQ (ExceptionKind (answer), 1) << name;
      EXPECT_EQ (answer->seqid, 9) << name;
      EXPECT_THAT (ErrorText (answer), testing::HasSubstr (name));
    }
  EXPECT_EQ (IntResult (client.Call ("echo", IntField (3))), 3);
}

TEST_P (NamesTest, AnswersAndExceptionsAreNoCalls)
{
  RawClient client (tcp_, { std::get<0> (GetParam ()), std::get<1> (GetParam ()) });
  for (TpsMessageKind kind : { TPS_MESSAGE_REPLY, TPS_MESSAGE_EXCEPTION })
    {
      client.Send ("Test:echo", 4, IntField (1), kind);
      EXPECT_EQ (ExceptionKind (client.Receive ()), 2);
    }
}

TEST_P (NamesTest, UnknownOnewayNamesAreIgnored)
{
  RawClient client (tcp_, { std::get<0> (GetParam ()), std::get<1> (GetParam ()) });
  client.Send ("Test:fly", 4, IntField (1), TPS_MESSAGE_ONEWAY);
  EXPECT_EQ (IntResult (client.Call ("echo", IntField (3))), 3);
}

INSTANTIATE_TEST_SUITE_P (Wires, NamesTest,
                          testing::Combine (testing::Values (TPS_PROTOCOL_BINARY,
                                                             TPS_PROTOCOL_COMPACT),
                                            testing::Bool ()));

TEST (Names, WithoutADefaultPlainNamesAreUnknown)
{
  TestService first, second;
  TpsService services[] = { first.Get ("A"), second.Get ("B") };
  g_autoptr (TpsServer) server = tps_server_new (nullptr);
  for (auto &service : services)
    tps_server_add_service (server, &service);
  ASSERT_TRUE (tps_server_listen (server, "127.0.0.1:0", nullptr));
  ASSERT_TRUE (tps_server_start (server, nullptr));
  RawClient client (tps_server_get_addresses (server)[0]);
  EXPECT_EQ (ExceptionKind (client.Call ("echo", IntField (1))), 1);
  EXPECT_EQ (IntResult (client.Call ("A:echo", IntField (1))), 1);
  EXPECT_EQ (IntResult (client.Call ("B:echo", IntField (2))), 2);
}

TEST (Names, RefusesAServiceTwiceAndADefaultThatIsNotThere)
{
  TestService first;
  TpsService service = first.Get ("A");
  for (const char *fault : { "twice", "default" })
    {
      TpsServerOptions options = {};
      options.default_service = g_str_equal (fault, "default") ? "B" : nullptr;
      g_autoptr (TpsServer) server = tps_server_new (&options);
      g_autoptr (GError) error = nullptr;
      tps_server_add_service (server, &service);
      if (g_str_equal (fault, "twice"))
        tps_server_add_service (server, &service);
      EXPECT_FALSE (tps_server_start (server, &error));
      ASSERT_NE (error, nullptr);
      EXPECT_THAT (error->message, testing::HasSubstr (fault));
    }
}

} // namespace
} // namespace thriftps_test
