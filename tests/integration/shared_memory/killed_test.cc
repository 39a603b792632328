/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Kills clients and servers at arbitrary moments. The survivor must release all memory of the other
 * process. */

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <numeric>
#include <random>
#include <thread>

#include "runtime/base/sync.h"
#include "tests/integration/server/server_process.h"
#include "tests/integration/shared_memory/process_memory.h"
#include "tests/integration/shared_memory/sharing_client.h"

namespace tps_test {
namespace {

using thriftps_test::ServerProcess;

constexpr char CLIENT[] = "tests/integration/shared_memory/pushing_client";

class ClientProcess
{
public:
  explicit ClientProcess (const std::string &address, const char *mode = "push")
  {
    int out[2];

    if (pipe2 (out, O_CLOEXEC) != 0)
      return;
    pid_ = fork ();
    if (pid_ == 0)
      {
        prctl (PR_SET_PDEATHSIG, SIGKILL);
        dup2 (out[1], STDOUT_FILENO);
        execl (CLIENT, CLIENT, address.c_str (), mode, nullptr);
        _exit (127);
      }
    close (out[1]);
    stdout_ = out[0];
  }

  ~ClientProcess ()
  {
    kill ();
    close (stdout_);
  }

  /* Reads the next line of the process. Returns true if it is "ready". */
  bool
  is_ready ()
  {
    char line[6];

    return read (stdout_, line, sizeof line) == sizeof line;
  }

  void
  kill ()
  {
    if (pid_ <= 0)
      return;
    ::kill (pid_, SIGKILL);
    waitpid (pid_, nullptr, 0);
    pid_ = -1;
  }

private:
  pid_t pid_ = -1;
  int stdout_ = -1;
};

class Killed : public testing::Test
{
protected:
  ~Killed () override
  {
    server_.reset ();
    unlink (path_.c_str ());
    EXPECT_TRUE (becomes ([] { return count_segments (getpid ()) == 0; }));
  }

  void
  start (int n_trainers = 1)
  {
    server_.reset ();
    server_ = std::make_unique<ServerProcess> (
        std::vector<std::string> { "--listen=unix:" + path_, "--log-level=error",
                                   "--ntrainer=" + std::to_string (n_trainers) });
    address_ = server_->ReadAddress ();
    ASSERT_FALSE (address_.empty ());
  }

  bool
  server_has_nothing (int n_descriptors)
  {
    return becomes ([&] {
      return count_segments (server_->pid ()) == 0
             && count_descriptors (server_->pid ()) == n_descriptors;
    });
  }

  std::string path_ = "killed_" + std::to_string (getpid ()) + ".sock";
  std::unique_ptr<ServerProcess> server_;
  std::string address_;
};

TEST_F (Killed, ClientLeavesNothingInTheServer)
{
  std::mt19937 random (1);

  start ();
  int n_descriptors = count_descriptors (server_->pid ());
  for (int round = 0; round < 8; round++)
    {
      ClientProcess client (address_);
      int n_lines = 1 + static_cast<int> (random () % 20);

      for (int i = 0; i < n_lines; i++)
        ASSERT_TRUE (client.is_ready ());
      EXPECT_GT (count_segments (server_->pid ()), 0);
      client.kill ();
      EXPECT_TRUE (server_has_nothing (n_descriptors)) << "round " << round;
    }
}

TEST_F (Killed, ClientsAreForgottenWhileOthersGoOn)
{
  start ();
  SharingClient survivor (address_);
  ASSERT_TRUE (survivor.warm_up ());
  {
    ClientProcess clients[] = { ClientProcess (address_), ClientProcess (address_) };

    for (ClientProcess &client : clients)
      ASSERT_TRUE (client.is_ready ());
  }
  EXPECT_TRUE (
      becomes ([&] { return count_segments (server_->pid ()) <= count_segments (getpid ()); }));
  std::string average = survivor.average (0, 0, Values (200000, 2));
  EXPECT_EQ (average.size (), 200000 * sizeof (float)) << survivor.error ();
}

TEST_F (Killed, PushOfAKilledClientStillCounts)
{
  start (2);
  SharingClient other (address_);
  ASSERT_TRUE (other.warm_up ());
  {
    ClientProcess client (address_, "wait");

    ASSERT_TRUE (client.is_ready ());
  }
  Values first = make_values (200000, 0), second = make_values (200000, 1), mean (200000);
  std::string bits = other.average (1, 0, second);
  for (gsize i = 0; i < mean.size (); i++)
    mean[i] = (first[i] + second[i]) / 2;
  ASSERT_EQ (bits.size (), mean.size () * sizeof (float)) << other.error ();
  EXPECT_EQ (memcmp (bits.data (), mean.data (), bits.size ()), 0);
}

TEST_F (Killed, ServerLeavesNothingInTheClient)
{
  std::mt19937 random (2);

  start ();
  for (int round = 0; round < 6; round++)
    {
      int n_descriptors = count_descriptors (getpid ());
      auto client = std::make_unique<SharingClient> (address_);
      int n_calls = static_cast<int> (random () % 30);

      ASSERT_TRUE (client->warm_up ());
      EXPECT_GT (count_segments (getpid ()), 0);
      std::thread pushes ([&] {
        for (int i = 0; client->error ().empty (); i++)
          {
            client->average (0, i, Values (100000, 1));
            if (i == n_calls)
              server_->Signal (SIGKILL);
          }
      });
      pushes.join ();
      EXPECT_TRUE (becomes ([&] { return count_segments (getpid ()) == 0; })) << "round " << round;
      start ();
      /* Sharing must also work with the next server. */
      EXPECT_TRUE (client->warm_up ()) << client->error ();
      client.reset ();
      EXPECT_EQ (count_descriptors (getpid ()), n_descriptors);
      EXPECT_EQ (count_segments (getpid ()), 0);
    }
}

TEST_F (Killed, ModelOfAKilledServerCanStillBeRead)
{
  start ();
  auto client = std::make_unique<SharingClient> (address_);
  Values values = make_values (300000, 3);
  std::vector<TpsModelVersion *> models;

  ASSERT_TRUE (client->init_model ({ values }));
  ASSERT_TRUE (client->warm_up ());
  for (guint64 n = client->stats ().received_shared.n_tensors;
       client->stats ().received_shared.n_tensors == n && models.size () < 1000;)
    models.push_back (client->get_model ());
  server_->Signal (SIGKILL);
  EXPECT_EQ (client->get_model (tps_clock_now_ns () + G_GINT64_CONSTANT (1000000000)), nullptr);
  client.reset ();
  for (TpsModelVersion *model : models)
    {
      ASSERT_NE (model, nullptr);
      EXPECT_EQ (memcmp (tps_tensor_data (&model->parameters[0].tensor), values.data (),
                         values.size () * sizeof (float)),
                 0);
      tps_model_version_unref (model);
    }
}

} // namespace
} // namespace tps_test
