/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests many concurrent clients of one server, replies that clients keep, and deadlines that
 * expire. */

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <numeric>
#include <thread>

#include "tests/integration/server/server_process.h"
#include "tests/integration/shared_memory/process_memory.h"
#include "tests/integration/shared_memory/sharing_client.h"

namespace tps_test {
namespace {

using thriftps_test::ServerProcess;

class ManyClients : public testing::Test
{
protected:
  ~ManyClients () override
  {
    server_.reset ();
    unlink (path_.c_str ());
    EXPECT_EQ (count_segments (getpid ()), 0);
  }

  void
  start (int n_trainers, const std::string &flag = "--max-shared-mib=64")
  {
    server_ = std::make_unique<ServerProcess> (
        std::vector<std::string> { "--listen=unix:" + path_, "--log-level=error", flag,
                                   "--ntrainer=" + std::to_string (n_trainers) });
    address_ = server_->ReadAddress ();
  }

  std::string path_ = "many_" + std::to_string (getpid ()) + ".sock";
  std::unique_ptr<ServerProcess> server_;
  std::string address_;
};

TEST_F (ManyClients, AverageAtOnce)
{
  constexpr int N = 8;
  constexpr int N_BATCHES = 15;
  std::vector<std::thread> threads;

  start (N);
  int n_descriptors = count_descriptors (server_->pid ());
  for (int t = 0; t < N; t++)
    threads.emplace_back ([&, t] {
      SharingClient client (address_);

      for (int batch = 0; batch < N_BATCHES; batch++)
        {
          Values gradient (150000 + static_cast<gsize> (batch) * 1000,
                           static_cast<float> (t + batch));
          Values mean (gradient.size (),
                       static_cast<float> (N - 1) / 2 + static_cast<float> (batch));
          std::string bits = client.average (t, batch, gradient);

          ASSERT_EQ (bits.size (), mean.size () * sizeof (float)) << client.error ();
          EXPECT_EQ (memcmp (bits.data (), mean.data (), bits.size ()), 0);
        }
    });
  for (std::thread &thread : threads)
    thread.join ();
  EXPECT_TRUE (becomes ([&] {
    return count_segments (server_->pid ()) == 0
           && count_descriptors (server_->pid ()) == n_descriptors;
  }));
}

TEST_F (ManyClients, KeptModelsNeitherBlockNorChange)
{
  start (1, "--max-shared-mib=8");
  SharingClient client (address_);
  Values values = make_values (300000, 3);
  std::vector<TpsModelVersion *> models;

  ASSERT_TRUE (client.init_model ({ values }));
  ASSERT_TRUE (client.warm_up ());
  for (int i = 0; i < 40; i++)
    {
      models.push_back (client.get_model ());
      ASSERT_NE (models.back (), nullptr) << client.error ();
    }
  EXPECT_GT (client.stats ().received_inline.n_tensors, 0u);
  /* In the meantime the server writes other replies. */
  ASSERT_FALSE (client.update (0, 1, { Values (300000, 1) }).empty ()) << client.error ();
  for (TpsModelVersion *model : models)
    {
      EXPECT_EQ (memcmp (tps_tensor_data (&model->parameters[0].tensor), values.data (),
                         values.size () * sizeof (float)),
                 0);
      tps_model_version_unref (model);
    }
  /* The kept replies have been released, so models must use shared memory again. */
  guint64 n_shared = client.stats ().received_shared.n_tensors;
  EXPECT_TRUE (becomes ([&] {
    TpsModelVersion *model = client.get_model ();

    EXPECT_NE (model, nullptr);
    g_clear_pointer (&model, tps_model_version_unref);
    return client.stats ().received_shared.n_tensors > n_shared;
  }));
}

TEST_F (ManyClients, DeadlinesCostASegmentAndNothingElse)
{
  start (2);
  SharingClient first (address_), second (address_);
  ASSERT_TRUE (first.warm_up ()) << first.error ();
  ASSERT_TRUE (second.warm_up ()) << second.error ();
  for (int batch = 0; batch < 6; batch++)
    {
      gint64 soon = std::chrono::duration_cast<std::chrono::nanoseconds> (
                        std::chrono::steady_clock::now ().time_since_epoch ())
                        .count ()
                    + 30000000;
      Values gradient = make_values (100000, static_cast<unsigned> (batch));

      /* The other trainer has not pushed yet. The call ends at its deadline, and is sent again
       * later. */
      EXPECT_EQ (first.average (0, batch, gradient, soon), "");
      std::string mean;
      std::thread other ([&] { mean = second.average (1, batch, gradient); });
      std::string bits = first.average (0, batch, gradient);
      other.join ();
      ASSERT_EQ (bits.size (), gradient.size () * sizeof (float)) << first.error ();
      EXPECT_EQ (memcmp (bits.data (), gradient.data (), bits.size ()), 0);
      EXPECT_EQ (bits, mean);
    }
  EXPECT_LE (count_segments (getpid ()), 20);
}

} // namespace
} // namespace tps_test
