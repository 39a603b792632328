/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests embedding tables inside the servers of a host. */

#include <cstring>
#include <thread>

#include "tests/integration/host/host_fixture.h"

using wire::Answer;
using wire::Peer;
using wire::Value;

namespace {

INSTANTIATE_TEST_SUITE_P (All, Host, testing::ValuesIn (kVariants),
                          [] (const auto &variant) { return std::string (variant.param.name); });

Value
tensor (int dtype, const std::vector<int64_t> &shape, const void *elements, size_t n_bytes)
{
  std::vector<Value> dims;
  for (int64_t dim : shape)
    dims.push_back (wire::i64 (dim));
  return wire::structure (
      { { 1, wire::i32 (dtype) },
        { 2, wire::list (wire::I64, dims) },
        { 3, wire::text (std::string (static_cast<const char *> (elements), n_bytes)) } });
}

Value
ids (const std::vector<int64_t> &values)
{
  return tensor (6, { static_cast<int64_t> (values.size ()) }, values.data (), values.size () * 8);
}

/* Returns the arguments of create_table: 1000 rows of 4 zeros, SGD with learning rate 1. */
Value
table (const std::string &name)
{
  Value optimizer = wire::structure ({ { 1, wire::i32 (1) }, { 2, wire::real (1) } });
  return wire::structure (
      { { 1, wire::structure ({ { 1, wire::text (name) },
                                { 2, wire::i64 (1000) },
                                { 3, wire::i32 (4) },
                                { 4, wire::i32 (1) },
                                { 5, wire::structure ({ { 1, wire::i32 (1) } }) },
                                { 6, optimizer } }) } });
}

/* Returns the arguments of apply_row_gradients with -1 in every column. */
Value
row_push (const std::string &name, const std::vector<int64_t> &rows, const std::string &client,
          int64_t sequence)
{
  int64_t n_rows = static_cast<int64_t> (rows.size ());
  std::vector<float> values (rows.size () * 4, -1);
  return wire::structure (
      { { 1, wire::text (name) },
        { 2, wire::structure (
                 { { 1, ids (rows) },
                   { 2, tensor (1, { n_rows, 4 }, values.data (), values.size () * 4) },
                   { 3, wire::list (wire::I64, { wire::i64 (1000), wire::i64 (4) }) } }) },
        { 3, wire::structure ({ { 1, wire::text (client) }, { 2, wire::i64 (sequence) } }) } });
}

/* Calls lookup_rows, and returns the elements of its result. */
std::vector<float>
look_up (Peer *peer, const std::string &name, const std::vector<int64_t> &rows)
{
  Answer answer = peer->call ("ps.EmbeddingTable:lookup_rows",
                              wire::structure ({ { 1, wire::text (name) }, { 2, ids (rows) } }));
  const Value *result = answer.message ? answer.message->body.find (0) : nullptr;
  const Value *data = result != nullptr ? result->find (3) : nullptr;
  EXPECT_NE (data, nullptr) << answer.why;
  if (data == nullptr)
    return {};
  std::vector<float> elements (data->text.size () / sizeof (float));
  memcpy (elements.data (), data->text.data (), data->text.size ());
  return elements;
}

void
expect_done (const Answer &answer)
{
  ASSERT_TRUE (answer.message) << answer.why;
  EXPECT_EQ (answer.message->kind, wire::Reply);
  EXPECT_EQ (answer.message->body.fields.size (), 0u);
}

TEST_P (Host, TablesAreTrainedByConcurrentConnections)
{
  const int n_trainers = 3;
  std::vector<std::thread> trainers;
  std::vector<int64_t> many (3000, 7);
  start ({});
  for (int i = 0; i < n_trainers; i++)
    trainers.emplace_back ([&, i] {
      auto peer = connect ();
      std::string client = "trainer." + std::to_string (i);
      expect_done (peer->call ("ps.EmbeddingTable:create_table", table ("emb")));
      for (int64_t sequence = 0; sequence < 10; sequence++)
        for (int repeat = 0; repeat < 2; repeat++)
          expect_done (
              peer->call ("ps.EmbeddingTable:apply_row_gradients",
                          row_push ("emb", sequence % 2 == 0 ? many : std::vector<int64_t> { 8 },
                                    client, sequence)));
    });
  for (auto &trainer : trainers)
    trainer.join ();
  auto peer = connect ();
  EXPECT_EQ (look_up (peer.get (), "emb", { 7 }), std::vector<float> (4, 3000 * 15));
  EXPECT_EQ (look_up (peer.get (), "emb", { 8 }), std::vector<float> (4, 15));
  EXPECT_EQ (look_up (peer.get (), "emb", many), std::vector<float> (12000, 3000 * 15));
}

TEST_P (Host, TablesAreTrainedInASimpleServer)
{
  start ({ "--simple" });
  auto peer = connect ();
  expect_done (peer->call ("ps.EmbeddingTable:create_table", table ("emb")));
  for (int repeat = 0; repeat < 2; repeat++)
    expect_done (peer->call ("ps.EmbeddingTable:apply_row_gradients",
                             row_push ("emb", { 1, 2, 1 }, "c", 1)));
  EXPECT_EQ (look_up (peer.get (), "emb", { 1 }), std::vector<float> (4, 2));
  expect_service_error (
      peer->call ("ps.EmbeddingTable:apply_row_gradients", row_push ("emb", { 1 }, "c", 1)), 5,
      "push 1 of client c");
  expect_service_error (
      peer->call ("ps.EmbeddingTable:apply_row_gradients", row_push ("emb", { 1, 1000 }, "c", 2)),
      1, "indices[1]");
  expect_done (
      peer->call ("ps.EmbeddingTable:drop_table", wire::structure ({ { 1, wire::text ("emb") } })));
  expect_service_error (
      peer->call ("ps.EmbeddingTable:drop_table", wire::structure ({ { 1, wire::text ("emb") } })),
      2, "emb");
}

} // namespace
