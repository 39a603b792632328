/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The same work must return the same bits over TCP, over a Unix socket, and through shared
 * memory. */

#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <thread>

#include "tests/integration/server/server_process.h"
#include "tests/integration/shared_memory/sharing_client.h"

namespace tps_test {
namespace {

using thriftps_test::ServerProcess;

constexpr int N_TRAINERS = 3;

enum class Way
{
  TCP,
  INLINE,
  SHARED,
};

/* A server with trainers that all use the same kind of connection. */
class Fleet
{
public:
  explicit Fleet (Way way, const std::vector<std::string> &flags = {}) : way_ (way)
  {
    std::vector<std::string> all = { "--ntrainer=" + std::to_string (N_TRAINERS),
                                     "--log-level=error" };

    path_ = "same_bits_" + std::to_string (getpid ()) + ".sock";
    all.push_back (way == Way::TCP ? "--listen=127.0.0.1:0" : "--listen=unix:" + path_);
    all.insert (all.end (), flags.begin (), flags.end ());
    server_ = std::make_unique<ServerProcess> (all);
    std::string address = server_->ReadAddress ();
    for (int i = 0; i < N_TRAINERS; i++)
      clients_.push_back (std::make_unique<SharingClient> (address, way == Way::INLINE));
  }

  ~Fleet ()
  {
    clients_.clear ();
    server_.reset ();
    unlink (path_.c_str ());
  }

  SharingClient &
  operator[] (int trainer)
  {
    return *clients_[static_cast<gsize> (trainer)];
  }

  void
  warm_up ()
  {
    for (auto &client : clients_)
      ASSERT_TRUE (way_ != Way::SHARED || client->warm_up ()) << client->error ();
  }

  /* Runs `train` for every trainer, and returns the concatenated results. */
  std::string
  run (const std::function<std::string (int trainer)> &train)
  {
    std::vector<std::string> seen (N_TRAINERS);
    std::vector<std::thread> threads;

    for (int t = 0; t < N_TRAINERS; t++)
      threads.emplace_back ([&, t] { seen[static_cast<gsize> (t)] = train (t); });
    for (std::thread &thread : threads)
      thread.join ();
    return seen[0] + seen[1] + seen[2];
  }

  /* Checks that tensors used shared memory if, and only if, they may. */
  void
  check_way (bool may_share)
  {
    for (auto &client : clients_)
      {
        TpsSharingStats stats = client->stats ();

        EXPECT_EQ (stats.sent_shared.n_tensors > 0, may_share);
        EXPECT_EQ (stats.received_shared.n_tensors > 0, may_share);
        EXPECT_EQ (stats.sent_inline.n_tensors > 0, way_ == Way::SHARED);
      }
  }

private:
  Way way_;
  std::string path_;
  std::unique_ptr<ServerProcess> server_;
  std::vector<std::unique_ptr<SharingClient>> clients_;
};

/* a single element, sizes around the threshold, and sizes that need more than one segment */
const std::vector<gsize> SIZES = { 1, 1000, 16383, 16384, 16385, 100000, 300000, 262144, 700001 };

std::string
average (Fleet &fleet)
{
  return fleet.run ([&] (int t) {
    std::string seen;

    for (gint64 batch = 0; batch < 2 * static_cast<gint64> (SIZES.size ()); batch++)
      {
        gsize n_elems = SIZES[static_cast<gsize> (batch) % SIZES.size ()];
        std::string bits = fleet[t].average (
            t, batch, make_values (n_elems, static_cast<unsigned> (100 * batch + t)));

        EXPECT_EQ (bits.size (), n_elems * sizeof (float)) << fleet[t].error ();
        seen += bits;
      }
    return seen;
  });
}

std::string
update (Fleet &fleet)
{
  const std::vector<gsize> sizes = { 300000, 10, 16384, 100000 };
  std::vector<Values> parameters;

  for (gsize size : sizes)
    parameters.push_back (make_values (size, static_cast<unsigned> (size)));
  EXPECT_TRUE (fleet[0].init_model (parameters)) << fleet[0].error ();
  return fleet.run ([&] (int t) {
    std::string seen;

    for (gint64 step = 1; step <= 10; step++)
      {
        std::vector<Values> gradients;

        for (gsize size : sizes)
          gradients.push_back (make_values (size, static_cast<unsigned> (step * 10 + t)));
        std::string bits = fleet[t].update (t, step, gradients);
        EXPECT_FALSE (bits.empty ()) << fleet[t].error ();
        seen += bits;
      }
    return seen;
  });
}

/* The trainers run one after another, so the order of additions does not depend on timing. */
std::string
train_tables (Fleet &fleet)
{
  constexpr gint64 ROWS = 20000;
  constexpr gint64 DIM = 24;
  std::vector<gint64> ids (ROWS);
  std::string seen;

  for (gint64 i = 0; i < ROWS; i++)
    ids[static_cast<gsize> (i)] = i * 7919 % ROWS;
  EXPECT_TRUE (fleet[0].create_table ("table", ROWS, DIM)) << fleet[0].error ();
  for (int step = 0; step < 4; step++)
    for (int t = 0; t < N_TRAINERS; t++)
      {
        std::string rows = fleet[t].look_up ("table", ids);

        EXPECT_EQ (rows.size (), ROWS * DIM * sizeof (float)) << fleet[t].error ();
        EXPECT_TRUE (fleet[t].apply ("table", ids, DIM,
                                     make_values (ROWS * DIM, static_cast<unsigned> (step + t))))
            << fleet[t].error ();
        seen += rows;
      }
  return seen;
}

std::string
run (Way way, const std::function<std::string (Fleet &)> &work,
     const std::vector<std::string> &flags = {}, bool shares = true)
{
  Fleet fleet (way, flags);

  if (shares)
    fleet.warm_up ();
  std::string seen = work (fleet);
  fleet.check_way (way == Way::SHARED && shares);
  return seen;
}

/* Compares without printing the values, which are long. */
void
expect_same (const std::string &expected, const std::string &bits)
{
  EXPECT_FALSE (expected.empty ());
  EXPECT_TRUE (bits == expected);
}

TEST (SameBits, Averages)
{
  std::string expected = run (Way::TCP, average);

  expect_same (expected, run (Way::INLINE, average));
  expect_same (expected, run (Way::SHARED, average));
}

TEST (SameBits, ModelUpdates)
{
  std::string expected = run (Way::TCP, update);

  expect_same (expected, run (Way::INLINE, update));
  expect_same (expected, run (Way::SHARED, update));
}

TEST (SameBits, Tables)
{
  std::string expected = run (Way::TCP, train_tables);

  expect_same (expected, run (Way::INLINE, train_tables));
  expect_same (expected, run (Way::SHARED, train_tables));
}

TEST (SameBits, WithRoomForAPartOnly)
{
  std::string expected = run (Way::TCP, average);

  expect_same (expected, run (Way::SHARED, average, { "--max-shared-mib=3" }));
}

TEST (SameBits, WhereTheServerOffersNothing)
{
  std::string expected = run (Way::TCP, average);

  expect_same (expected, run (Way::SHARED, average, { "--max-shared-mib=0" }, false));
}

} // namespace
} // namespace tps_test
