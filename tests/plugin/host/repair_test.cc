/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests the repair of classes from Debian's generator, and of classes that other generators leave
 * incomplete. */

#include <gtest/gtest.h>

#include <thrift/c_glib/protocol/thrift_binary_protocol.h>
#include <thrift/c_glib/transport/thrift_framed_transport.h>
#include <thrift/c_glib/transport/thrift_memory_buffer.h>

#include <string>

#include "plugin/host/harden.h"
#include "plugin/host/library.h"
#include "tests/integration/host/wire_value.h"
#include "tests/plugin/host/fixtures.h"

/* This header is generated for C only. */
extern "C"
{
#include "fleet_log_journal.h"
}

namespace {

/* A host must repair the classes before it uses them, because unrepaired classes leak. */
class Registered : public testing::Environment
{
public:
  void
  SetUp () override
  {
    const TpsGetType get_types[] = { fleet_log_health_ping_args_get_type,
                                     fleet_log_health_ping_result_get_type };
    tps_register_types (get_types, 2);
  }
};

const testing::Environment *const kRegistered = testing::AddGlobalTestEnvironment (new Registered);

/* Returns the reply of a processor to a call through the library's own protocol, or an empty
 * message if the call fails. */
wire::Message
answer_of (ThriftProcessor *processor, const wire::Message &call)
{
  std::string request = wire::encode (wire::Protocol::Binary, call);
  GByteArray *bytes = g_byte_array_new ();
  GByteArray *written = g_byte_array_new ();
  GError *error = nullptr;
  wire::Message answer;
  size_t n_bytes = 0;

  g_byte_array_append (bytes, reinterpret_cast<const guint8 *> (request.data ()),
                       static_cast<guint> (request.size ()));
  auto *in_buffer = g_object_new (THRIFT_TYPE_MEMORY_BUFFER, "buf", bytes, "owner", TRUE, nullptr);
  auto *out_buffer = g_object_new (THRIFT_TYPE_MEMORY_BUFFER, "buf", written, "owner", FALSE,
                                   nullptr);
  auto *in = g_object_new (THRIFT_TYPE_BINARY_PROTOCOL, "transport", in_buffer, nullptr);
  auto *out = g_object_new (THRIFT_TYPE_BINARY_PROTOCOL, "transport", out_buffer, nullptr);
  EXPECT_TRUE (
      thrift_processor_process (processor, THRIFT_PROTOCOL (in), THRIFT_PROTOCOL (out), &error))
      << (error != nullptr ? error->message : "no error");
  g_clear_error (&error);
  std::string reply (reinterpret_cast<const char *> (written->data), written->len);
  if (!reply.empty ())
    answer = wire::decode (wire::Protocol::Binary, reply, &n_bytes);
  EXPECT_EQ (n_bytes, reply.size ());
  g_object_unref (in);
  g_object_unref (out);
  g_object_unref (in_buffer);
  g_object_unref (out_buffer);
  g_byte_array_unref (written);
  return answer;
}

wire::Message
call_of (const std::string &name)
{
  return { name, wire::Call, 3, wire::structure ({ { 1, wire::text ("hello") } }) };
}

void
expect_unknown_method (ThriftProcessor *processor)
{
  wire::Message answer = answer_of (processor, call_of ("no_such_method"));
  EXPECT_EQ (answer.kind, wire::Exception);
  ASSERT_NE (answer.body.find (2), nullptr);
  EXPECT_EQ (answer.body.find (2)->number, 1);
}

void
expect_ping (ThriftProcessor *processor)
{
  wire::Message answer = answer_of (processor, call_of ("ping"));
  EXPECT_EQ (answer.kind, wire::Reply);
  ASSERT_NE (answer.body.find (0), nullptr);
  EXPECT_EQ (answer.body.find (0)->text, "hello");
}

TEST (DispatchRepair, EmptySlotOfABaseServiceIsFilled)
{
  break_health_processor_class ();
  ThriftProcessor *processor = health_processor_new ();
  EXPECT_EQ (answer_of (processor, call_of ("ping")).kind, wire::Exception);
  tps_repair_processor_class (processor);
  expect_ping (processor);
  expect_unknown_method (processor);
  tps_repair_processor_class (processor); /* a second repair changes nothing */
  expect_ping (processor);
  g_object_unref (processor);
}

TEST (DispatchRepair, UnknownMethodOfASubclassOfAnExtendingServiceEnds)
{
  ThriftProcessor *processor = sub_journal_processor_new ();
  tps_repair_processor_class (processor);
  expect_unknown_method (processor);
  expect_ping (processor);
  g_object_unref (processor);
}

TEST (DispatchRepair, HardenedProcessorWorksOnTheLibrarysOwnTransports)
{
  ThriftProcessor *processor = sub_journal_processor_new ();
  ThriftProcessor *hardened = tps_harden_processor (processor, nullptr);
  g_object_unref (processor);
  expect_ping (hardened);
  expect_unknown_method (hardened);
  wire::Message oneway = call_of ("no_such_method");
  oneway.kind = wire::Oneway;
  EXPECT_EQ (answer_of (hardened, oneway).name, "");
  g_object_unref (hardened);
}

void
set_flag (gpointer flag)
{
  *static_cast<bool *> (flag) = true;
}

/* Returns true if the object's finalizer reaches GObject's, which drops the object's data. */
bool
finalizes_to_the_end (gpointer object)
{
  bool dropped = false;
  g_object_set_data_full (G_OBJECT (object), "flag", &dropped, set_flag);
  g_object_unref (object);
  return dropped;
}

TEST (Finalizers, OfStructsAndTransportsReachGObject)
{
  TpsGetType get_types[] = { fleet_log_entry_get_type };
  tps_register_types (get_types, 1);
  EXPECT_TRUE (finalizes_to_the_end (g_object_new (FLEET_LOG_TYPE_ENTRY, nullptr)));
  EXPECT_TRUE (finalizes_to_the_end (g_object_new (THRIFT_TYPE_SOCKET, nullptr)));
  EXPECT_TRUE (finalizes_to_the_end (g_object_new (THRIFT_TYPE_FRAMED_TRANSPORT, nullptr)));
}

TEST (Finalizers, OfSubclassesReachGObjectOnce)
{
  tps_repair_library ();
  EXPECT_TRUE (finalizes_to_the_end (secret_socket_new (-1)));
}

TEST (Finalizers, OfTypesThatComeLaterAreRepairedThen)
{
  tps_repair_library ();
  gpointer rejected = g_object_new (FLEET_LOG_TYPE_REJECTED, nullptr);
  tps_repair_library ();
  EXPECT_TRUE (finalizes_to_the_end (rejected));
}

} // namespace
