/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests a host's generated processor that TpsServer serves next to the project's services. */

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "plugin/client/client.h"
#include "plugin/plugin.h"
#include "runtime/base/error.h"
#include "tests/integration/host/journal.h"
#include "tests/integration/host/peer.h"

extern "C"
{
#include "fleet_log_journal.h"
#include "tests/plugin/client/call_sync.h"
}

using wire::Answer;
using wire::Message;
using wire::Peer;
using wire::Protocol;
using wire::Value;

namespace {

/* Kinds of TApplicationException. */
const int kUnknownMethod = 1;
const int kInternalError = 6;
const int kProtocolError = 7;

/* ---- a handler that the test blocks ---------------------------------------------------------- */

struct Gate
{
  std::mutex lock;
  std::condition_variable changed;
  int n_inside = 0;
  bool open = false;

  void
  Pass ()
  {
    std::unique_lock<std::mutex> guard (lock);
    n_inside++;
    changed.notify_all ();
    changed.wait (guard, [this] { return open; });
  }

  void
  WaitForOneInside ()
  {
    std::unique_lock<std::mutex> guard (lock);
    changed.wait (guard, [this] { return n_inside > 0; });
  }

  void
  Open ()
  {
    std::lock_guard<std::mutex> guard (lock);
    open = true;
    changed.notify_all ();
  }
};

Gate *gate;

typedef struct
{
  FleetLogHealthHandler parent;
} HeldHandler;

typedef struct
{
  FleetLogHealthHandlerClass parent;
} HeldHandlerClass;

GType held_handler_get_type (void);

G_DEFINE_TYPE (HeldHandler, held_handler, FLEET_LOG_TYPE_HEALTH_HANDLER)

gboolean
held_ping (FleetLogHealthIf *, gchar **reply, const gchar *text, GError **)
{
  gate->Pass ();
  *reply = g_strdup (text);
  return TRUE;
}

void
held_handler_init (HeldHandler *)
{
}

void
held_handler_class_init (HeldHandlerClass *klass)
{
  FLEET_LOG_HEALTH_HANDLER_CLASS (klass)->ping = held_ping;
}

ThriftProcessor *
NewHeldProcessor ()
{
  gpointer handler = g_object_new (held_handler_get_type (), nullptr);
  gpointer processor = g_object_new (FLEET_LOG_TYPE_HEALTH_PROCESSOR, "handler", handler, nullptr);
  g_object_unref (handler);
  return THRIFT_PROCESSOR (processor);
}

/* ---- the server ----------------------------------------------------------------------------- */

struct Form
{
  const char *name;
  Protocol protocol;
  bool framed;
};

class AddedProcessor : public testing::TestWithParam<Form>
{
protected:
  static void
  SetUpTestSuite ()
  {
    tps_register_types (journal_get_types, journal_n_get_types);
  }

  void
  Start (TpsServerOptions options = {}, const char *const *services = nullptr)
  {
    TpsPluginOptions plugin_options = {};
    g_autoptr (GError) error = nullptr;
    plugin_options.services = services;
    plugin_options.n_workers = 2;
    plugin_options.n_trainers = 1;
    plugin_ = tps_plugin_new (&plugin_options, &error);
    ASSERT_NE (plugin_, nullptr) << error->message;
    server_ = tps_plugin_new_server (plugin_, &options);
    ThriftProcessor *journal = journal_processor_new ();
    ThriftProcessor *held = NewHeldProcessor ();
    tps_server_add_processor (server_, "Journal", journal);
    tps_server_add_processor (server_, "Held", held);
    g_object_unref (journal);
    g_object_unref (held);
    ASSERT_TRUE (tps_server_listen (server_, "127.0.0.1:0", &error)) << error->message;
    ASSERT_TRUE (tps_server_start (server_, &error)) << error->message;
    port_ = strrchr (tps_server_get_addresses (server_)[0], ':') + 1;
  }

  std::unique_ptr<Peer>
  Connect ()
  {
    return std::make_unique<Peer> (port_, GetParam ().protocol, GetParam ().framed);
  }

  void
  SetUp () override
  {
    gate = &gate_;
  }

  void
  TearDown () override
  {
    gate_.Open ();
    g_clear_object (&server_);
    g_clear_pointer (&plugin_, tps_plugin_free);
  }

  Gate gate_;
  TpsPlugin *plugin_ = nullptr;
  TpsServer *server_ = nullptr;
  std::string port_;
};

Value
Entry (const std::string &name)
{
  return wire::structure ({ { 1, wire::text (name) },
                            { 2, wire::text (std::string ("\0\1\2", 3)) },
                            { 3, wire::list (wire::Double, { wire::real (0.5), wire::real (-1) }) },
                            { 4, wire::i32 (2) } });
}

Value
Text (const std::string &text)
{
  return wire::structure ({ { 1, wire::text (text) } });
}

/* Returns the text of a TApplicationException of this kind. Any other message fails the test. */
std::string
ExceptionText (const Answer &answer, int kind)
{
  if (!answer.message || answer.message->kind != wire::Exception
      || answer.message->body.find (1) == nullptr || answer.message->body.find (2) == nullptr)
    {
      ADD_FAILURE () << "no exception: " << answer.why;
      return "";
    }
  EXPECT_EQ (answer.message->body.find (2)->number, kind);
  return answer.message->body.find (1)->text;
}

std::string
ReplyText (const Answer &answer)
{
  if (!answer.message || answer.message->kind != wire::Reply
      || answer.message->body.find (0) == nullptr)
    {
      ADD_FAILURE () << "no reply: " << answer.why;
      return "";
    }
  return answer.message->body.find (0)->text;
}

INSTANTIATE_TEST_SUITE_P (Forms, AddedProcessor,
                          testing::Values (Form { "FramedBinary", Protocol::Binary, true },
                                           Form { "FramedCompact", Protocol::Compact, true },
                                           Form { "UnframedBinary", Protocol::Binary, false }),
                          [] (const auto &form) { return std::string (form.param.name); });

TEST_P (AddedProcessor, AnswersBesideOurServices)
{
  Start ();
  auto peer = Connect ();
  Answer answer = peer->call ("Journal:echo", wire::structure ({ { 1, Entry ("a") } }), 7);
  ASSERT_TRUE (answer.message) << answer.why;
  EXPECT_EQ (answer.message->name, "echo");
  EXPECT_EQ (answer.message->seqid, 7);
  EXPECT_EQ (wire::encode_value (Protocol::Binary, *answer.message->body.find (0)),
             wire::encode_value (Protocol::Binary, Entry ("a")));
  answer = peer->call ("Journal:echo", wire::structure ({ { 1, Entry ("reject") } }));
  ASSERT_TRUE (answer.message) << answer.why;
  ASSERT_NE (answer.message->body.find (1), nullptr);
  EXPECT_EQ (answer.message->body.find (1)->find (2)->text, "asked for");
  EXPECT_EQ (ReplyText (peer->call ("Journal:ping", Text ("hi"))), "hi");
  answer = peer->call ("Node:describe", wire::structure ({}));
  ASSERT_TRUE (answer.message) << answer.why;
  EXPECT_EQ (answer.message->kind, wire::Reply);
}

TEST_P (AddedProcessor, IsTheDefaultService)
{
  TpsServerOptions options = {};
  options.default_service = "Journal";
  Start (options);
  auto peer = Connect ();
  EXPECT_EQ (ReplyText (peer->call ("ping", Text ("plain"))), "plain");
  EXPECT_NE (ExceptionText (peer->call (":ping", Text ("x")), kUnknownMethod), "");
}

TEST_P (AddedProcessor, LargeBinariesTravelBothWays)
{
  Start ();
  auto peer = Connect ();
  std::string bytes (3 << 20, '\0');
  for (size_t i = 0; i < bytes.size (); i++)
    bytes[i] = static_cast<char> (i * 7);
  EXPECT_TRUE (ReplyText (peer->call ("Journal:blob", Text (bytes))) == bytes);
}

void
WriteBlob (TpsWriter *out, gconstpointer bytes)
{
  const auto *blob = static_cast<const std::string *> (bytes);
  tps_writer_field (out, 1, TPS_WIRE_BINARY);
  tps_writer_binary_borrowed (out, blob->data (), blob->size ());
}

gboolean
ReadBlob (TpsReader *result, TpsWireType type, gpointer bytes, GError **)
{
  TpsBytesView view = tps_reader_binary (result);
  static_cast<std::string *> (bytes)->assign (reinterpret_cast<const char *> (view.data),
                                              view.n_bytes);
  return type == TPS_WIRE_BINARY;
}

/* The plugin has the Chunks service, but only the server knows the processor. */
TEST_P (AddedProcessor, CallsThatAreLargerThanAFrameComeInChunks)
{
  if (std::string (GetParam ().name) != "FramedBinary")
    GTEST_SKIP () << "the client of chunks has one form";
  TpsServerOptions options = {};
  options.max_frame_bytes = 64 << 10;
  Start (options);
  TpsClientOptions client_options = {};
  client_options.address = tps_server_get_addresses (server_)[0];
  client_options.ask_bytes = 1024;
  g_autoptr (TpsClient) client = tps_client_new (&client_options, nullptr);
  g_autoptr (GError) error = nullptr;
  gint64 deadline_ns = (g_get_monotonic_time () + 20 * G_USEC_PER_SEC) * 1000;
  std::string bytes (3 << 20, '\0'), seen;
  for (size_t i = 0; i < bytes.size (); i++)
    bytes[i] = static_cast<char> (i * 7);
  ASSERT_TRUE (tps_client_call_sync (client, "Journal", "blob", WriteBlob, &bytes, deadline_ns,
                                     ReadBlob, &seen, &error))
      << error->message;
  EXPECT_TRUE (seen == bytes);
  EXPECT_FALSE (tps_client_call_sync (client, "Journal", "no_such_method", WriteBlob, &bytes,
                                      deadline_ns, ReadBlob, &seen, &error));
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_NOT_FOUND)) << error->message;
  g_clear_error (&error);
  /* A oneway method writes no reply, but here the message says that its sender waits for one. */
  EXPECT_FALSE (tps_client_call_sync (client, "Journal", "note", WriteBlob, &bytes, deadline_ns,
                                      ReadBlob, &seen, &error));
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_INTERNAL)) << error->message;
}

TEST_P (AddedProcessor, UnknownMethodsAndWrongTypesAreAnswered)
{
  Start ();
  auto peer = Connect ();
  for (const char *name : { "Journal:no_such_method", "Journal:", "Journal:ping:", "Journal:a:b" })
    ExceptionText (peer->call (name, Text ("x")), kUnknownMethod);
  Value strings = wire::list (wire::String, { wire::text ("not an entry") });
  EXPECT_NE (ExceptionText (peer->call ("Journal:count", wire::structure ({ { 1, strings } })),
                            kProtocolError)
                 .find ("expected"),
             std::string::npos);
  EXPECT_EQ (ReplyText (peer->call ("Journal:ping", Text ("still here"))), "still here");
}

TEST_P (AddedProcessor, OnewayMethodThatIsCalledForAReplyIsAnswered)
{
  Start ();
  auto peer = Connect ();
  EXPECT_NE (ExceptionText (peer->call ("Journal:note", Text ("x")), kInternalError)
                 .find ("has written no reply"),
             std::string::npos);
  EXPECT_EQ (ReplyText (peer->call ("Journal:ping", Text ("still here"))), "still here");
}

TEST_P (AddedProcessor, FailingOnewayCallDoesNotHarmTheNextReply)
{
  Start ();
  auto peer = Connect ();
  Message note;
  note.name = "Journal:note";
  note.kind = wire::Oneway;
  note.body = Text ("fail");
  ASSERT_TRUE (peer->send_message (note));
  note.name = "Journal:no_such_method";
  ASSERT_TRUE (peer->send_message (note));
  EXPECT_EQ (ReplyText (peer->call ("Journal:ping", Text ("next"))), "next");
}

/* The call has 20,000 entries of one byte each. Generated code turns each into an object of some
 * 200 bytes. */
TEST_P (AddedProcessor, ObjectsOfGeneratedCodeAreCharged)
{
  TpsServerOptions options = {};
  TpsBudgetLimits limits = {};
  limits.max_pending_bytes = 4 << 20;
  TpsBudgets *budgets = tps_budgets_new (&limits);
  TpsServerParts parts = {};
  parts.budgets = budgets;
  options.parts = &parts;
  Start (options);
  auto peer = Connect ();
  /* TpsHostProtocol charges for the elements before it reads the first. */
  Value many = wire::list (wire::Struct, std::vector<Value> (20000, Entry ("")));
  EXPECT_NE (ExceptionText (peer->call ("Journal:count", wire::structure ({ { 1, many } })),
                            kInternalError)
                 .find ("RESOURCE_EXHAUSTED"),
             std::string::npos);
  Value few = wire::list (wire::Struct, std::vector<Value> (2000, Entry ("")));
  for (int i = 0; i < 20; i++) /* later calls must find the charges released */
    {
      Answer answer = peer->call ("Journal:count", wire::structure ({ { 1, few } }));
      ASSERT_TRUE (answer.message) << answer.why;
      ASSERT_NE (answer.message->body.find (0), nullptr);
      EXPECT_EQ (answer.message->body.find (0)->number, 2000);
    }
  peer.reset ();
  g_clear_object (&server_);
  tps_budgets_free (budgets);
}

TEST_P (AddedProcessor, SlowCallsLeaveAWorkerToOthers)
{
  Start ();
  std::vector<std::unique_ptr<Peer>> peers;
  for (int i = 0; i < 3; i++)
    {
      Message ping;
      ping.name = "Held:ping";
      ping.kind = wire::Call;
      ping.body = Text (std::to_string (i));
      peers.push_back (Connect ());
      ASSERT_TRUE (peers.back ()->send_message (ping));
    }
  gate_.WaitForOneInside ();
  /* The call is large enough to run on a worker. */
  Value tensor = wire::structure ({ { 1, wire::i32 (1) },
                                    { 2, wire::list (wire::I64, { wire::i64 (50000) }) },
                                    { 3, wire::text (std::string (200000, '\0')) } });
  auto peer = Connect ();
  Answer answer = peer->call ("ParameterServer:average_gradient",
                              wire::structure ({ { 1, wire::i32 (0) },
                                                 { 2, wire::i64 (0) },
                                                 { 3, wire::i32 (0) },
                                                 { 4, wire::structure ({ { 1, tensor } }) } }));
  ASSERT_TRUE (answer.message) << answer.why;
  EXPECT_NE (answer.message->body.find (0), nullptr);
  gate_.Open ();
  for (int i = 0; i < 3; i++)
    EXPECT_EQ (ReplyText (peers[i]->receive ()), std::to_string (i));
}

/* Workers belong to the plugin, so the server may be freed before the handler returns. */
TEST_P (AddedProcessor, OutlivesTheServerInARunningCall)
{
  if (std::string (GetParam ().name) != "FramedBinary")
    GTEST_SKIP () << "takes the three seconds that running calls get";
  Start ();
  auto peer = Connect ();
  Message ping;
  ping.name = "Held:ping";
  ping.kind = wire::Call;
  ping.body = Text ("x");
  ASSERT_TRUE (peer->send_message (ping));
  gate_.WaitForOneInside ();
  EXPECT_FALSE (tps_server_stop (server_));
  g_clear_object (&server_);
  gate_.Open ();
}

} // namespace
