/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests the list of a message's bodies, whose length the peer chooses. The list is charged to a
 * budget. If there is no memory for the list, the message is refused and the next message is
 * served. The test is linked with --wrap (see BUILD), so its own function replaces
 * g_try_realloc_n(). */

#include <gtest/gtest.h>

#include "tests/plugin/frame/hostile_bytes.h"

extern "C" gpointer __real_g_try_realloc_n (gpointer block, gsize n_elems, gsize elem_size);
extern "C" gpointer __wrap_g_try_realloc_n (gpointer block, gsize n_elems, gsize elem_size);

static gsize max_bytes = G_MAXSIZE; /* limit of the size of a list of bodies */

extern "C" gpointer
__wrap_g_try_realloc_n (gpointer block, gsize n_elems, gsize elem_size)
{
  if (elem_size == sizeof (TpsBody) && n_elems * elem_size > max_bytes)
    return NULL;
  return __real_g_try_realloc_n (block, n_elems, elem_size);
}

namespace thriftps {
namespace {

constexpr gsize N_BODIES = 3000;
constexpr gsize BODY_BYTES = TPS_MESSAGE_BODY_THRESHOLD;

Bytes
many_bodies ()
{
  return header () + field (TPS_WIRE_LIST, 1) + Bytes (1, TPS_WIRE_BINARY) + be (N_BODIES, 4)
         + repeat (be (BODY_BYTES, 4) + Bytes (BODY_BYTES, 'b'), N_BODIES) + STOP;
}

class BodiesMemory : public testing::TestWithParam<bool>
{
protected:
  BodiesMemory ()
  {
    budget_ = tps_budget_new (nullptr, "bodies", 64 << 20);
    pool_ = tps_buffer_pool_new (budget_, nullptr, 0);
    options_.pool = pool_;
    options_.chunk_size = [] { return gsize { 8192 }; };
    options_.use_get_body = [] { return GetParam (); };
  }
  ~BodiesMemory () override
  {
    max_bytes = G_MAXSIZE;
    EXPECT_EQ (tps_buffer_pool_get_n_bytes_out (pool_), 0u);
    tps_buffer_pool_unref (pool_);
    EXPECT_EQ (tps_budget_get_held (budget_), 0u);
    tps_budget_unref (budget_);
  }

  TpsBudget *budget_;
  TpsBufferPool *pool_;
  ScanOptions options_;
};

TEST_P (BodiesMemory, WithoutMemoryForTheListTheMessageIsRefused)
{
  max_bytes = 1000 * sizeof (TpsBody);
  Scan scan = scan_bytes (frame (many_bodies ()) + frame (many_bodies ()), options_);

  ASSERT_EQ (scan.error, "");
  ASSERT_EQ (scan.messages.size (), 2u);
  for (const TpsMessage *message : scan.messages)
    {
      EXPECT_GT (message->n_bytes_refused, 0u);
      EXPECT_EQ (message->n_bodies, 0u);
      EXPECT_EQ (message->n_bytes_bodies, N_BODIES * BODY_BYTES);
      EXPECT_EQ (message->n_bytes_dropped, N_BODIES * tps_buffer_pool_get_cost (BODY_BYTES));
    }
  EXPECT_EQ (tps_buffer_pool_get_n_bytes_out (pool_), 0u)
      << "the first bodies are kept for nothing";
  max_bytes = G_MAXSIZE;
  Scan later = scan_bytes (frame (many_bodies ()), options_);
  ASSERT_EQ (later.messages.size (), 1u);
  EXPECT_EQ (later.messages[0]->n_bytes_refused, 0u);
  ASSERT_EQ (later.messages[0]->n_bodies, N_BODIES);
  for (guint i = 0; i < N_BODIES; i++)
    ASSERT_EQ (tps_buffer_get_data (later.messages[0]->bodies[i].buffer)[BODY_BYTES - 1], 'b');
}

TEST_P (BodiesMemory, TheListIsCharged)
{
  Scan scan = scan_bytes (frame (many_bodies ()), options_);

  ASSERT_EQ (scan.messages.size (), 1u);
  EXPECT_GE (scan.messages[0]->n_bytes_held - scan.messages[0]->n_bytes_head,
             N_BODIES * sizeof (TpsBody));
}

/* A thread reuses its messages with their lists, but must not keep a long list. */
TEST_P (BodiesMemory, ALongListIsNotKept)
{
  for (int i = 0; i < 3; i++)
    {
      Scan scan = scan_bytes (frame (many_bodies ()), options_);

      ASSERT_EQ (scan.messages.at (0)->n_bodies, N_BODIES);
    }
  g_autoptr (TpsMessage) message = tps_message_new ();
  EXPECT_LE (message->n_bodies_room, 64u);
}

INSTANTIATE_TEST_SUITE_P (Receiving, BodiesMemory, testing::Bool (), [] (const auto &tested) {
  return std::string (tested.param ? "intoTheBody" : "fed");
});

} // namespace
} // namespace thriftps
