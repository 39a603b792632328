/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests ThriftPS inside the servers of a host, with the transports and protocols of the library and
 * of the project. */

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <thread>

#include "tests/integration/host/host_fixture.h"

using wire::Answer;
using wire::Message;
using wire::Peer;
using wire::Process;
using wire::Protocol;
using wire::Value;

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
const bool kSanitized = true;
#else
const bool kSanitized = false;
#endif

/* Returns a Gradient with a dense FLOAT32 tensor of one dimension. */
Value
gradient (const std::vector<float> &elements)
{
  std::string data (elements.size () * sizeof (float), '\0');
  memcpy (&data[0], elements.data (), data.size ());
  Value tensor = wire::structure (
      { { 1, wire::i32 (1) },
        { 2, wire::list (wire::I64, { wire::i64 (static_cast<int64_t> (elements.size ())) }) },
        { 3, wire::text (data) } });
  return wire::structure ({ { 1, tensor } });
}

Value
push (int trainer, int64_t batch, const std::vector<float> &elements)
{
  return wire::structure ({ { 1, wire::i32 (trainer) },
                            { 2, wire::i64 (batch) },
                            { 3, wire::i32 (0) },
                            { 4, gradient (elements) } });
}

/* Returns the elements of the gradient in a reply. Any other reply fails the test. */
std::vector<float>
elements_of (const Answer &answer)
{
  const Value *result = answer.message ? answer.message->body.find (0) : nullptr;
  const Value *dense = result != nullptr ? result->find (1) : nullptr;
  const Value *data = dense != nullptr ? dense->find (3) : nullptr;
  EXPECT_NE (data, nullptr) << answer.why;
  if (data == nullptr)
    return {};
  std::vector<float> elements (data->text.size () / sizeof (float));
  memcpy (elements.data (), data->text.data (), data->text.size ());
  return elements;
}

INSTANTIATE_TEST_SUITE_P (All, Host, testing::ValuesIn (kVariants),
                          [] (const auto &variant) { return std::string (variant.param.name); });

/* ---- services of the project ---------------------------------------------------------------- */

TEST_P (Host, AveragesAmongConcurrentConnections)
{
  const int n_trainers = 3;
  std::vector<std::thread> trainers;
  std::vector<std::vector<float>> averages (n_trainers);
  start ({ "--ntrainer=3" });
  for (int i = 0; i < n_trainers; i++)
    trainers.emplace_back ([&, i] {
      auto peer = connect ();
      for (int batch = 0; batch < 10; batch++)
        {
          /* The tensor is large enough for its own buffer. */
          std::vector<float> mine (5000, static_cast<float> (i + batch));
          averages[i] = elements_of (
              peer->call ("ps.ParameterServer:average_gradient", push (i, batch, mine)));
        }
    });
  for (auto &trainer : trainers)
    trainer.join ();
  for (const auto &average : averages)
    EXPECT_EQ (average, std::vector<float> (5000, 10.0f));
}

TEST_P (Host, LoneTrainerIsAnsweredByASimpleServer)
{
  start ({ "--simple", "--ntrainer=1" });
  auto peer = connect ();
  std::vector<float> mine = { 1, 2, 3 };
  EXPECT_EQ (elements_of (peer->call ("ps.ParameterServer:average_gradient", push (0, 0, mine))),
             mine);
}

TEST_P (Host, CallThatWouldWaitIsUnavailableInASimpleServer)
{
  start ({ "--simple", "--ntrainer=2" });
  auto peer = connect ();
  expect_service_error (peer->call ("ps.ParameterServer:average_gradient", push (0, 0, { 1 })), 8,
                        "wait");
  expect_service_error (
      peer->call ("ps.Rendezvous:get",
                  wire::structure ({ { 1, wire::text ("key") }, { 2, wire::i32 (1000) } })),
      8, "wait");
}

TEST_P (Host, ErrorsOfOurServicesAreTyped)
{
  start ({ "--ntrainer=1" });
  auto peer = connect ();
  expect_service_error (peer->call ("ps.ParameterServer:average_gradient", push (7, 0, { 1 })), 1,
                        "trainer");
  Answer answer = peer->call ("ps.ParameterServer:fly", wire::structure ({}));
  ASSERT_TRUE (answer.message) << answer.why;
  EXPECT_EQ (answer.message->kind, wire::Exception);
  EXPECT_EQ (answer.message->name, "fly");
  ASSERT_NE (answer.message->body.find (2), nullptr);
  EXPECT_EQ (answer.message->body.find (2)->number, 1); /* UNKNOWN_METHOD */
}

/* The transports of a host cannot pass descriptors. */
TEST_P (Host, SharedMemoryIsUnavailable)
{
  start ({});
  auto peer = connect ();
  expect_service_error (
      peer->call ("ps.Memory:open_segment",
                  wire::structure (
                      { { 1, wire::i32 (1) }, { 2, wire::i32 (1) }, { 3, wire::i64 (4096) } })),
      8, "shared memory");
  Answer answer = peer->call ("ps.Node:describe", wire::structure ({}));
  ASSERT_TRUE (answer.message) << answer.why;
  ASSERT_NE (answer.message->body.find (0), nullptr);
  EXPECT_EQ (answer.message->body.find (0)->find (8), nullptr);
}

TEST_P (Host, SequenceIdComesBack)
{
  start ({});
  auto peer = connect ();
  for (int32_t seqid : { 0, 1, -1, 0x7fffffff })
    {
      Answer answer = peer->call ("ps.Node:describe", wire::structure ({}), seqid);
      ASSERT_TRUE (answer.message) << answer.why;
      EXPECT_EQ (answer.message->seqid, seqid);
    }
}

TEST_P (Host, LargeTensorsTravelBothWays)
{
  start ({ "--ntrainer=1" });
  auto peer = connect ();
  std::vector<float> mine (2 << 20);
  for (size_t i = 0; i < mine.size (); i++)
    mine[i] = static_cast<float> (i);
  EXPECT_EQ (elements_of (peer->call ("ps.ParameterServer:average_gradient", push (0, 0, mine))),
             mine);
}

/* ---- the host's own service ----------------------------------------------------------------- */

Value
entry (const std::string &name)
{
  return wire::structure ({ { 1, wire::text (name) },
                            { 2, wire::text (std::string ("\0\1\2", 3)) },
                            { 3, wire::list (wire::Double, { wire::real (0.5), wire::real (-1) }) },
                            { 4, wire::i32 (2) } });
}

TEST_P (Host, OwnServiceWorksBesideOurs)
{
  start ({});
  auto peer = connect ();
  for (const char *prefix : { "", "Journal:" })
    {
      Answer answer = peer->call (std::string (prefix) + "echo",
                                  wire::structure ({ { 1, entry ("a") } }));
      ASSERT_TRUE (answer.message) << answer.why;
      EXPECT_EQ (wire::encode_value (Protocol::Binary, *answer.message->body.find (0)),
                 wire::encode_value (Protocol::Binary, entry ("a")));
      answer = peer->call (std::string (prefix) + "ping",
                           wire::structure ({ { 1, wire::text ("hi") } }));
      ASSERT_TRUE (answer.message) << answer.why;
      EXPECT_EQ (answer.message->body.find (0)->text, "hi");
    }
  Answer answer = peer->call ("Journal:echo", wire::structure ({ { 1, entry ("reject") } }));
  ASSERT_TRUE (answer.message) << answer.why;
  ASSERT_NE (answer.message->body.find (1), nullptr);
  EXPECT_EQ (answer.message->body.find (1)->find (2)->text, "asked for");
  answer = peer->call (
      "Journal:count",
      wire::structure (
          { { 1, wire::list (wire::Struct, { entry ("a"), entry ("b") }) },
            { 2, wire::map (wire::String, wire::Struct, { wire::text ("k"), entry ("c") }) } }));
  ASSERT_TRUE (answer.message) << answer.why;
  EXPECT_EQ (answer.message->body.find (0)->number, 3);
}

TEST_P (Host, FailingOnewayCallDoesNotHarmTheNextReply)
{
  if (!GetParam ().hardened)
    GTEST_SKIP () << "the library's own way";
  start ({});
  auto peer = connect ();
  Message note;
  note.name = "Journal:note";
  note.kind = wire::Oneway;
  note.body = wire::structure ({ { 1, wire::text ("fail") } });
  ASSERT_TRUE (peer->send_message (note));
  note.name = "Journal:no_such_method";
  ASSERT_TRUE (peer->send_message (note));
  note.name = "NoSuchService:method";
  ASSERT_TRUE (peer->send_message (note));
  Answer answer = peer->call ("Journal:ping",
                              wire::structure ({ { 1, wire::text ("still here") } }));
  ASSERT_TRUE (answer.message) << answer.why;
  EXPECT_EQ (answer.message->name, "ping");
  EXPECT_EQ (answer.message->body.find (0)->text, "still here");
}

TEST_P (Host, UnknownNamesAreAnswered)
{
  if (!GetParam ().hardened)
    GTEST_SKIP () << "Debian's library and generated code recurse or crash";
  start ({});
  auto peer = connect ();
  for (const char *name :
       { "no_such_method", "Journal:no_such_method", "Journal", "NoSuchService:ping", ":",
         "Journal:", ":ping", "Journal:ping:", "a:b:c:d", "ps.Node:x" })
    {
      Answer answer = peer->call (name, wire::structure ({ { 1, wire::text ("x") } }));
      ASSERT_TRUE (answer.message) << name << ": " << answer.why;
      EXPECT_EQ (answer.message->kind, wire::Exception) << name;
      EXPECT_EQ (answer.message->body.find (2)->number, 1) << name;
    }
}

/* ---- leaks ---------------------------------------------------------------------------------- */

void
expect_flat (Process *process, Peer *peer, const std::string &name, const Value &arguments)
{
  const int n_warm = kSanitized ? 100 : 5000;
  const int n_calls = kSanitized ? 1000 : 30000;
  size_t before = 0, after = SIZE_MAX;
  int seqid = 0;
  /* A leak of 16 bytes per call would be visible in every round. Other growth, such as that of
   * threads' heaps, comes to an end. */
  const size_t limit = 480u << 10;
  for (int round = 0; round < 5 && after >= before + limit; round++)
    {
      for (int i = round == 0 ? -n_warm : 0; i < n_calls; i++)
        {
          if (i == 0)
            before = process->resident_bytes ();
          Answer answer = peer->call (name, arguments, seqid++);
          ASSERT_TRUE (answer.message && answer.message->kind == wire::Reply) << answer.why;
        }
      after = kSanitized ? before : process->resident_bytes ();
    }
  EXPECT_LT (after, before + limit);
}

TEST_P (Host, LeaksNothingInManyCallsOfOurs)
{
  start ({ "--ntrainer=1" });
  auto peer = connect ();
  expect_flat (process_.get (), peer.get (), "ps.Rendezvous:add",
               wire::structure ({ { 1, wire::text ("key") }, { 2, wire::i64 (1) } }));
}

TEST_P (Host, LeaksNothingInManyCallsOfItsOwn)
{
  if (GetParam ().generated)
    GTEST_SKIP () << "the host's own service is the same";
  start ({});
  auto peer = connect ();
  expect_flat (process_.get (), peer.get (), "Journal:echo",
               wire::structure ({ { 1, entry ("a") } }));
}

} // namespace
