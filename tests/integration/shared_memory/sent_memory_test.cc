/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests two trainers and a real server. Gradients are written to memory of the exchange, and both
 * trainers read the averages in one place. */

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thriftps/client.h>
#include <vector>

#include "runtime/base/error.h"
#include "tests/integration/server/server_process.h"
#include "tests/integration/shared_memory/process_memory.h"
#include "tests/integration/shared_memory/sharing_client.h"

namespace tps_test {
namespace {

using thriftps_test::ServerProcess;

constexpr gint64 N_ELEMS = 300000;

class Trainer
{
public:
  Trainer (const std::string &address, gint32 number)
  {
    const gchar *addresses[] = { address.c_str () };
    TpsRemoteExchangeOptions options = {};

    options.trainer = number;
    options.addresses = addresses;
    options.n_addresses = 1;
    exchange_ = tps_remote_exchange_new (&options, nullptr);
  }

  ~Trainer ()
  {
    exchange_->ops->free (exchange_);
    tps_gradient_clear (&gradient_);
    tps_tensor_clear (&own_);
  }

  /* Chooses the memory of the next gradient, as a DDP does. Returns true if it is shared with the
   * server. */
  bool
  prepare ()
  {
    TpsBuffer *memory = exchange_->ops->get_memory (exchange_, 0, 4 * N_ELEMS, memory_.get ());
    const TpsShape shape = { TPS_DTYPE_FLOAT32, 1, { N_ELEMS } };

    if (memory == nullptr && memory_ == nullptr)
      tps_tensor_init (&own_, &shape);
    if (memory == nullptr && memory_ != nullptr)
      memory = tps_buffer_ref (memory_.get ());
    else
      is_shared_ = memory != nullptr;
    tps_gradient_clear (&gradient_);
    gradient_.kind = TPS_GRADIENT_DENSE;
    gradient_.weight = 1;
    if (memory == nullptr)
      tps_tensor_init_ref (&gradient_.dense, &own_);
    else
      tps_tensor_init_take (&gradient_.dense, &shape, tps_buffer_ref (memory), 0);
    memory_.reset (memory);
    tps_tensor_clear (&own_);
    return is_shared_;
  }

  float *
  values ()
  {
    return static_cast<float *> (tps_tensor_data (&gradient_.dense));
  }

  TpsBuffer *
  memory ()
  {
    return memory_.get ();
  }

  /* The average, or the code of the error. */
  struct Result
  {
    Values average;
    bool is_shared = false;
    int code = 0;
  };

  std::future<Result>
  push (gint64 batch, gint64 deadline_ns = later ())
  {
    auto promise = new std::promise<Result>;
    std::future<Result> result = promise->get_future ();

    exchange_->ops->average_gradient (exchange_, 0, batch, 0, &gradient_, deadline_ns, on_done,
                                      promise);
    return result;
  }

private:
  static void
  on_done (gpointer user_data, TpsGradient *average, const GError *error)
  {
    std::unique_ptr<std::promise<Result>> promise (static_cast<std::promise<Result> *> (user_data));
    Result result;

    if (error != nullptr)
      result.code = error->code;
    else
      {
        auto values = static_cast<const float *> (tps_tensor_data (&average->dense));

        result.is_shared = tps_buffer_is_shared (average->dense.buffer);
        result.average.assign (values, values + tps_shape_n_elems (&average->dense.shape));
      }
    promise->set_value (std::move (result));
  }

  struct Release
  {
    void
    operator() (TpsBuffer *buffer) const
    {
      tps_buffer_unref (buffer);
    }
  };

  TpsExchange *exchange_;
  TpsTensor own_ = {};
  TpsGradient gradient_ = {};
  std::unique_ptr<TpsBuffer, Release> memory_;
  bool is_shared_ = false;
};

class SentMemory : public testing::Test
{
protected:
  void
  start (const std::vector<std::string> &flags = {})
  {
    std::vector<std::string> all { "--listen=unix:" + path_, "--log-level=error", "--ntrainer=2" };

    all.insert (all.end (), flags.begin (), flags.end ());
    server_ = std::make_unique<ServerProcess> (all);
    address_ = server_->ReadAddress ();
    ASSERT_FALSE (address_.empty ());
  }

  ~SentMemory () override
  {
    server_.reset ();
    unlink (path_.c_str ());
    EXPECT_EQ (count_segments (getpid ()), 0);
  }

  /* Runs one round, and checks the averages. Returns true if both gradients were in shared
   * memory. */
  bool
  round (Trainer *first, Trainer *second)
  {
    bool is_shared = first->prepare ();

    is_shared &= second->prepare ();
    Values a = make_values (N_ELEMS, static_cast<unsigned> (batch_)),
           b = make_values (N_ELEMS, static_cast<unsigned> (batch_) + 1000);
    std::copy (a.begin (), a.end (), first->values ());
    std::copy (b.begin (), b.end (), second->values ());
    auto one = first->push (batch_), other = second->push (batch_);
    Trainer::Result average = one.get (), same = other.get ();

    EXPECT_EQ (average.code, 0);
    EXPECT_EQ (average.average, same.average);
    are_averages_shared_ = average.is_shared && same.is_shared;
    for (size_t i = 0; i < average.average.size (); i++)
      if (average.average[i] != (a[i] + b[i]) / 2)
        {
          ADD_FAILURE () << "element " << i << " of batch " << batch_;
          break;
        }
    batch_++;
    return is_shared;
  }

  std::string path_ = "sent_memory_" + std::to_string (getpid ()) + ".sock";
  std::unique_ptr<ServerProcess> server_;
  std::string address_;
  gint64 batch_ = 0;
  bool are_averages_shared_ = false; /* those of the last round */
};

TEST_F (SentMemory, HoldsTheGradientsOfAllLaterRounds)
{
  start ();
  Trainer first (address_, 0), second (address_, 1);

  ASSERT_TRUE (becomes ([&] { return round (&first, &second); }));
  TpsBuffer *memory = first.memory ();
  for (int i = 0; i < 20; i++)
    EXPECT_TRUE (round (&first, &second));
  EXPECT_EQ (first.memory (), memory) << "the memory does not change without a reason";
}

/* The server maps each segment once. This process maps it once for each connection that has opened
 * it. The server needs another segment if it computes an average before a trainer has released the
 * one before, so their number depends on the threads. But it must reach an end, and not because
 * the averages come inline. */
TEST_F (SentMemory, AveragesLieInSegmentsOfBothTrainers)
{
  start ();
  Trainer first (address_, 0), second (address_, 1);
  int n_segments = -1;

  EXPECT_TRUE (becomes ([&] {
    int n_before = n_segments;

    for (int i = 0; i < 50; i++)
      round (&first, &second);
    n_segments = count_segments (getpid ());
    return n_segments == n_before;
  })) << "their number grows without an end";
  EXPECT_TRUE (are_averages_shared_);
  EXPECT_LT (count_segments (server_->pid ()), n_segments);
}

TEST_F (SentMemory, WithAccessRulesNoSegmentHasTwoReaders)
{
  const std::string rules = "sent_memory_" + std::to_string (getpid ()) + ".json";
  std::ofstream (rules) << R"({"rules": [{"principals": ["*"], "rights": ["read", "push"],)"
                        << R"( "tables": ["*"]}]})";

  start ({ "--access-file=" + rules });
  Trainer first (address_, 0), second (address_, 1);
  for (int i = 0; i < 50; i++)
    round (&first, &second);
  EXPECT_TRUE (
      becomes ([&] { return count_segments (server_->pid ()) == count_segments (getpid ()); }));
  unlink (rules.c_str ());
}

TEST_F (SentMemory, OfAKilledServerIsReplacedByMemoryOfTheNextServer)
{
  start ();
  Trainer first (address_, 0), second (address_, 1);

  ASSERT_TRUE (becomes ([&] { return round (&first, &second); }));
  TpsBuffer *old = tps_buffer_ref (first.memory ());
  auto pending = first.push (batch_++);
  server_->Signal (SIGKILL);
  server_->Wait ();
  EXPECT_NE (pending.get ().code, 0);
  memset (tps_buffer_get_data (old), 1, tps_buffer_get_size (old)); /* the memory is still mapped */
  unlink (path_.c_str ());
  start ();
  EXPECT_TRUE (becomes ([&] { return round (&first, &second) && first.memory () != old; }));
  tps_buffer_unref (old);
}

}
}
