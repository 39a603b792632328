/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Runs the client's pool and the server's registry in random order. Calls are answered on time,
 * late or never, and some have tensors in claimed memory. Replies are read, kept or dropped, while
 * requests are in flight. Memory that one side has lent to the other must never change, and no
 * memory may remain at the end. */

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "tests/plugin/memory/pool_pair.h"

namespace thriftps {

namespace {

/* A tensor with distinct contents. */
std::vector<float>
make_tensor (std::mt19937 &random)
{
  gsize n_elems = random () % 3 == 0 ? random () % 100 : random () % (1 << 18);
  std::vector<float> values (n_elems, static_cast<float> (random () % 1000));

  if (n_elems > 0)
    values.back () = values.front () = static_cast<float> (random () % 100000);
  return values;
}

std::vector<std::vector<float>>
make_tensors (std::mt19937 &random)
{
  std::vector<std::vector<float>> tensors;

  for (unsigned i = 0; i < random () % 4; i++)
    tensors.push_back (make_tensor (random));
  return tensors;
}

/* Decoded tensors and their expected contents. */
struct Received
{
  Received (TpsMessage *message, const std::vector<std::vector<float>> &sent)
      : tensors (read_message (message, &error)), expected (sent)
  {
    EXPECT_EQ (tensors.size (), sent.size ()) << (error != nullptr ? error->message : "");
    tps_message_free (message);
  }

  ~Received ()
  {
    check ();
    for (TpsTensor &tensor : tensors)
      tps_tensor_clear (&tensor);
    g_clear_error (&error);
  }

  void
  check ()
  {
    for (gsize i = 0; i < tensors.size (); i++)
      {
        auto found = static_cast<const float *> (tps_tensor_data (&tensors[i]));

        EXPECT_EQ (std::vector<float> (found, found + expected[i].size ()), expected[i]);
      }
  }

  GError *error = nullptr;
  std::vector<TpsTensor> tensors;
  std::vector<std::vector<float>> expected;
};

/* Memory from which calls send. It may be filled again when no call uses it. */
struct Claimed
{
  explicit Claimed (TpsBuffer *claimed) : buffer (claimed)
  {
  }

  ~Claimed ()
  {
    tps_buffer_unref (buffer);
  }

  TpsBuffer *buffer;
};

struct Call
{
  TpsSharing *lease;
  TpsMessage *message; /* in flight */
  std::vector<std::vector<float>> tensors;
  bool expired = false;
  std::shared_ptr<Claimed> claimed; /* memory of the first tensor */
};

/* A call at the server, or its reply in flight. */
struct Served
{
  std::unique_ptr<Call> call;
  std::unique_ptr<Received> arguments;
  TpsMessage *answer = nullptr;
  std::vector<std::vector<float>> tensors;
};

class World
{
public:
  World (unsigned seed, gsize client_max_bytes, gsize server_max_bytes)
      : random_ (seed), pair_ (client_max_bytes, server_max_bytes)
  {
  }

  void
  step ()
  {
    switch (random_ () % 9)
      {
      case 0:
      case 1:
        make_call ();
        break;
      case 2:
        pair_.ask ();
        break;
      case 3:
        if (!pair_.asked.empty ())
          pair_.answer ();
        break;
      case 4:
        serve ();
        break;
      case 5:
        answer ();
        break;
      case 6:
        expire ();
        break;
      case 7:
        claim ();
        break;
      default:
        if (!kept_.empty ())
          kept_.erase (kept_.begin () + pick (kept_));
      }
  }

  /* Delivers all messages in flight, and releases all kept memory. */
  void
  settle ()
  {
    while (!sent_.empty ())
      serve ();
    while (!served_.empty ())
      answer ();
    kept_.clear ();
    claims_.clear ();
    pair_.settle ();
  }

  gsize
  n_bytes ()
  {
    return pair_.n_bytes ();
  }

  TpsSharingStats
  stats ()
  {
    TpsSharingStats stats = {};

    tps_segment_pool_add_stats (pair_.pool, &stats);
    return stats;
  }

private:
  template <typename Items>
  long
  pick (const Items &items)
  {
    return static_cast<long> (random_ () % items.size ());
  }

  void
  claim ()
  {
    if (claims_.size () > 2)
      {
        claims_.erase (claims_.begin () + pick (claims_)); /* calls may still use this memory */
        return;
      }
    TpsBuffer *buffer = tps_segment_pool_claim (pair_.pool, (1 + random_ () % 4) << 18);
    if (buffer != nullptr)
      claims_.push_back (std::make_shared<Claimed> (buffer));
  }

  /* Writes the first tensor of the call to claimed memory that no call uses. If there is none, the
   * tensor stays where it is. */
  void
  fill_claim (Call *call)
  {
    if (claims_.empty () || call->tensors.empty ())
      return;
    std::shared_ptr<Claimed> claimed = claims_[static_cast<gsize> (pick (claims_))];
    const std::vector<float> &values = call->tensors[0];
    if (claimed.use_count () > 2
        || tps_buffer_get_size (claimed->buffer) < values.size () * sizeof (float))
      return;
    std::copy (values.begin (), values.end (),
               reinterpret_cast<float *> (tps_buffer_get_data (claimed->buffer)));
    call->claimed = claimed;
  }

  TpsMessage *
  write (const Call &call)
  {
    std::vector<TpsTensorView> views;

    for (const std::vector<float> &values : call.tensors)
      views.push_back (view_of (values.data (), values.size ()));
    if (call.claimed != nullptr)
      views[0].data = tps_buffer_get_data (call.claimed->buffer);
    return make_message (call.lease, views);
  }

  void
  make_call ()
  {
    if (sent_.size () + served_.size () > 6)
      return;
    /* The client sends its releases before the call. */
    pair_.ask ();
    auto call = std::make_unique<Call> ();
    call->lease = tps_segment_pool_lease (pair_.pool);
    call->tensors = make_tensors (random_);
    fill_claim (call.get ());
    call->message = write (*call);
    tps_segment_lease_written (call->lease);
    while (!pair_.asked.empty ())
      pair_.answer (); /* earlier requests on the connection arrive first */
    sent_.push_back (std::move (call));
  }

  void
  serve ()
  {
    Served served;

    if (sent_.empty ())
      return;
    served.call = std::move (sent_.front ());
    sent_.pop_front ();
    served.call->message->sharing = tps_segment_registry_receive (pair_.registry, nothing, nullptr);
    served.arguments = std::make_unique<Received> (served.call->message, served.call->tensors);
    served_.push_back (std::move (served));
  }

  /* Advances a random served call: it creates its reply, or delivers the reply. */
  void
  answer ()
  {
    if (served_.empty ())
      return;
    long i = pick (served_);
    Served &served = served_[static_cast<gsize> (i)];
    if (served.answer == nullptr)
      {
        make_answer (served);
        return;
      }
    receive (served);
    served_.erase (served_.begin () + i);
  }

  void
  make_answer (Served &served)
  {
    TpsSharing *sharing = tps_segment_registry_answer (pair_.registry);

    served.arguments.reset ();
    served.tensors = make_tensors (random_);
    served.answer = make_message (sharing, served.tensors);
    if (sharing == nullptr)
      return;
    tps_segment_registry_commit (sharing);
    tps_sharing_unref (sharing);
  }

  void
  receive (Served &served)
  {
    served.answer->sharing = tps_segment_pool_receive (pair_.pool, served.answer);
    if (served.call->expired || random_ () % 4 == 0)
      tps_message_free (served.answer); /* drops the reply unread */
    else
      kept_.push_back (std::make_unique<Received> (served.answer, served.tensors));
    if (!served.call->expired)
      tps_segment_lease_end (served.call->lease, TRUE);
    tps_sharing_unref (served.call->lease);
  }

  void
  expire ()
  {
    if (served_.empty () || random_ () % 4 != 0)
      return;
    Call &call = *served_[static_cast<gsize> (pick (served_))].call;
    if (!call.expired)
      tps_segment_lease_end (call.lease, FALSE);
    call.expired = true;
  }

  static void
  nothing (gpointer)
  {
  }

  std::mt19937 random_;
  PoolPair pair_;
  std::vector<std::shared_ptr<Claimed>> claims_;
  std::deque<std::unique_ptr<Call>> sent_;
  std::deque<Served> served_;
  std::vector<std::unique_ptr<Received>> kept_;
};

}

class RandomSequences : public testing::TestWithParam<unsigned>
{
};

TEST_P (RandomSequences, BothSidesKeepTheirLimitsAndNothingIsLeft)
{
  constexpr gsize MIB = 1 << 20;
  unsigned seed = GetParam ();
  gsize client_max = (seed % 3 == 0 ? 5 : 64) * MIB;
  gsize server_max = (seed % 4 == 0 ? 7 : 64) * MIB;
  {
    World world (seed, client_max, server_max);

    for (int i = 0; i < 400; i++)
      {
        world.step ();
        ASSERT_LE (world.n_bytes (), client_max);
        ASSERT_FALSE (HasFailure ()) << "step " << i;
      }
    world.settle ();
    EXPECT_GT (world.stats ().sent_shared.n_tensors, 0u);
    if (client_max > 5 * MIB && server_max > 7 * MIB)
      {
        EXPECT_GT (world.stats ().sent_claimed.n_tensors, 0u);
      }
  }
  EXPECT_EQ (count_mappings (), 0);
}

INSTANTIATE_TEST_SUITE_P (Seeds, RandomSequences, testing::Range (1u, 13u));

}
