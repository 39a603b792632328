/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests the C client of a model while its server is killed and restarted. To init_model, get_model
 * and update_and_fetch, a restart must look like a slow call. This also holds while the server
 * reads its snapshot and refuses them with UNAVAILABLE, and for the functions of stubs.h. Each
 * update must be applied once. */

#include <gmock/gmock.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <thriftps/client.h>

#include "plugin/client/stubs.h"
#include "plugin/wire/wire_durability.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "tests/integration/durable/raw_model.h"

namespace thriftps_test {
namespace {

using testing::HasSubstr;

constexpr int kUnavailable = 8;
constexpr gint64 kSecondNs = 1000000000;

/* The result of one call. */
class Result
{
public:
  static void
  done (gpointer user_data, TpsModelVersion *model, const GError *error)
  {
    auto *self = static_cast<Result *> (user_data);
    std::lock_guard<std::mutex> guard (self->lock_);

    self->message = error != nullptr ? error->message : "";
    if (model != nullptr)
      {
        self->version = model->version;
        self->values = updating_test::to_values (model);
      }
    self->has_ended_ = true;
    self->changed_.notify_all ();
  }

  Result &
  wait ()
  {
    std::unique_lock<std::mutex> guard (lock_);

    changed_.wait (guard, [this] { return has_ended_; });
    return *this;
  }

  std::string message; /* "" = success */
  gint64 version = 0;
  Values values;

private:
  std::mutex lock_;
  std::condition_variable changed_;
  bool has_ended_ = false;
};

class ModelRestart : public testing::Test
{
protected:
  ModelRestart ()
  {
    /* The socket's name must be short, but the path of the test's folder is long. */
    EXPECT_NE (mkdtemp (place_), nullptr);
    address_ = std::string ("unix:") + place_ + "/sock";
  }
  ~ModelRestart () override
  {
    stop ();
    for (TpsModelClient *client : clients_)
      client->ops->free (client);
    g_clear_pointer (&stub_, tps_client_free);
    unlink ((std::string (place_) + "/sock").c_str ());
    rmdir (place_);
  }

  std::unique_ptr<DataServer>
  make_server (const std::vector<std::string> &more = {})
  {
    std::vector<std::string> flags = { "--listen=" + address_, "--ntrainer=1", "--log-level=info" };

    flags.insert (flags.end (), more.begin (), more.end ());
    return std::make_unique<DataServer> (folder_, flags);
  }

  TpsModelClient *
  connect ()
  {
    TpsRemoteModelOptions options = {};

    options.address = address_.c_str ();
    clients_.push_back (tps_remote_model_new (&options, nullptr));
    return clients_.back ();
  }

  std::string
  init (TpsModelClient *client)
  {
    auto parameters = updating_test::to_parameters (kModelShapes, first_version_);
    TpsOptimizerSpec optimizer = ModelStory::optimizer ();
    Result result;

    client->ops->init_model (client, parameters.data (), static_cast<guint> (parameters.size ()),
                             &optimizer, deadline_ns_, Result::done, &result);
    result.wait ();
    for (TpsNamedTensor &parameter : parameters)
      tps_named_tensor_clear (&parameter);
    return result.message;
  }

  /* Makes the next update, alternately with the client and with the blocking stub. */
  std::string
  update (TpsModelClient *client)
  {
    std::vector<TpsTensor> tensors;
    Values expected;
    gint64 number;
    Result result;
    {
      std::lock_guard<std::mutex> guard (lock_);

      number = story_.next ();
      tensors = updating_test::to_tensors (kModelShapes, story_.gradients (number));
      expected = story_.version (number + 1);
    }
    if (number % 2 == 0)
      client->ops->update_and_fetch (client, tensors.data (), static_cast<guint> (tensors.size ()),
                                     number, deadline_ns_, Result::done, &result);
    else
      update_by_stub (&tensors, number, &result);
    result.wait ();
    for (TpsTensor &tensor : tensors)
      tps_tensor_clear (&tensor);
    if (result.message.empty ())
      {
        EXPECT_EQ (result.version, number + 1);
        EXPECT_EQ (result.values, expected);
        n_acknowledged_ = number;
      }
    return result.message;
  }

  void
  update_by_stub (std::vector<TpsTensor> *tensors, gint64 number, Result *result)
  {
    g_autoptr (GError) error = nullptr;
    TpsUpdateModelArguments arguments = {};

    arguments.gradients = { static_cast<guint> (tensors->size ()), tensors->data () };
    arguments.push = { const_cast<gchar *> ("stub"), number };
    g_autoptr (TpsModelVersion)
        model = tps_remote_update_and_fetch_model (stub_, &arguments, deadline_ns_, &error);
    Result::done (result, model, error);
  }

  std::string
  init_by_stub ()
  {
    auto parameters = updating_test::to_parameters (kModelShapes, first_version_);
    TpsOptimizerSpec optimizer = ModelStory::optimizer ();
    g_autoptr (GError) error = nullptr;

    TpsInitModelArguments arguments = { static_cast<guint> (parameters.size ()), parameters.data (),
                                        optimizer };
    tps_remote_init_model (stub_, &arguments, deadline_ns_, &error);
    for (TpsNamedTensor &parameter : parameters)
      tps_named_tensor_clear (&parameter);
    return error != nullptr ? error->message : "";
  }

  /* Reads the model. It must be one of the versions that the updates made, and not older than the
   * last acknowledged one. */
  std::string
  get (TpsModelClient *client)
  {
    const gint64 oldest = n_acknowledged_ + 1;
    Result result;

    client->ops->get_model (client, deadline_ns_, Result::done, &result);
    result.wait ();
    if (result.message.empty ())
      {
        std::lock_guard<std::mutex> guard (lock_);

        EXPECT_GE (result.version, oldest);
        EXPECT_EQ (result.values, story_.version (result.version));
      }
    return result.message;
  }

  /* Does the same with the blocking stub. */
  std::string
  get_by_stub ()
  {
    g_autoptr (GError) error = nullptr;
    g_autoptr (TpsModelVersion) model = tps_remote_get_model (stub_, deadline_ns_, &error);

    if (model == nullptr)
      return error->message;
    std::lock_guard<std::mutex> guard (lock_);
    EXPECT_EQ (updating_test::to_values (model), story_.version (model->version));
    return "";
  }

  /* Repeats a call in another thread until stop(). */
  void
  repeat (std::function<std::string ()> call)
  {
    const size_t number = n_threads_++;

    threads_.emplace_back ([this, call, number] {
      while (!is_over_)
        {
          const std::string message = call ();

          if (!message.empty ())
            {
              ADD_FAILURE () << "thread " << number << ": " << message;
              is_over_ = true;
            }
          n_calls_[number]++;
        }
    });
  }

  /* Waits until every thread has made `n` more calls. */
  void
  wait_for_calls (int n)
  {
    for (size_t i = 0; i < n_threads_; i++)
      for (int begin = n_calls_[i]; n_calls_[i] < begin + n && !is_over_;)
        std::this_thread::yield ();
  }

  void
  stop ()
  {
    is_over_ = true;
    for (std::thread &thread : threads_)
      thread.join ();
    threads_.clear ();
  }

  char place_[40] = "/tmp/thriftps-model-XXXXXX";
  const std::string folder_ = new_folder ();
  std::string address_;
  const gint64 deadline_ns_ = tps_clock_now_ns () + 120 * kSecondNs;
  std::mutex lock_; /* guards the story while threads run */
  ModelStory story_ { 3 };
  const Values first_version_ = story_.version (1);
  std::atomic<gint64> n_acknowledged_ { 0 };
  std::atomic<bool> is_over_ { false };
  std::atomic<int> n_calls_[8] = {};
  std::vector<TpsModelClient *> clients_;
  TpsClient *stub_ = nullptr;
  size_t n_threads_ = 0;
  std::vector<std::thread> threads_;
};

TEST_F (ModelRestart, TheClientGoesOn)
{
  std::unique_ptr<DataServer> server = make_server ();
  /* This server needs three seconds to read the model of its snapshot. */
  std::unique_ptr<DataServer> slow = make_server (
      { "--enable-faults", "--fault=read:delay=3000,count=1,on=.safetensors" });
  TpsModelClient *initializer = connect (), *reader = connect (), *trainer = connect ();
  TpsClientOptions options = {};

  options.address = address_.c_str ();
  stub_ = tps_client_new (&options, nullptr);
  /* The first calls also have to wait for the server. */
  std::thread first ([&] { EXPECT_EQ (init (initializer), ""); });
  ASSERT_TRUE (server->start ());
  first.join ();
  repeat ([this, initializer] { return init (initializer); });
  repeat ([this, reader] { return get (reader); });
  repeat ([this, trainer] { return update (trainer); });
  repeat ([this] { return get_by_stub (); });
  repeat ([this] { return init_by_stub (); });
  for (int i = 0; i < 4; i++)
    {
      wait_for_calls (10);
      if (i % 2 == 0)
        server->kill ();
      else
        server->stop ();
      ASSERT_TRUE (server->start ()) << server->process ().ReadErrors ();
    }
  wait_for_calls (1);

  RawClient operator_of (server->address ());
  EXPECT_EQ (ErrorCode (take_snapshot (operator_of)), 0);
  server->kill ();
  ASSERT_TRUE (slow->start ()) << slow->process ().ReadErrors ();
  Message refused = RawClient (slow->address ()).Call ("ParameterServer:get_model");
  EXPECT_EQ (ErrorCode (refused), kUnavailable);
  EXPECT_GT (RetryAfterMs (refused), 0);
  wait_for_calls (10);
  stop ();

  RawClient connection (slow->address ());
  ModelReply last = get_model (connection);
  EXPECT_EQ (last.version, n_acknowledged_ + 1) << "each update was applied once";
  EXPECT_EQ (last.version, story_.last () + 1);
  EXPECT_EQ (last.values, story_.version (last.version));
  slow->kill ();
  const std::string log = slow->process ().ReadErrors ();
  for (const char *method : { "init_model", "get_model", "update_and_fetch_model" })
    EXPECT_THAT (log, testing::ContainsRegex (std::string (method) + "[^\n]*UNAVAILABLE"))
        << "the client's calls were refused during the recovery";
}

/* Without a server, a call must end at its deadline. */
TEST_F (ModelRestart, ACallEndsAtItsDeadlineIfTheServerDoesNotReturn)
{
  std::unique_ptr<DataServer> server = make_server ();
  TpsModelClient *client = connect ();
  Result lost;

  ASSERT_TRUE (server->start ());
  EXPECT_EQ (init (client), "");
  server->kill ();
  const gint64 deadline_ns = tps_clock_now_ns () + kSecondNs / 2;
  client->ops->get_model (client, deadline_ns, Result::done, &lost);
  EXPECT_NE (lost.wait ().message, "");
  EXPECT_LT (tps_clock_now_ns (), deadline_ns + 60 * kSecondNs);
  ASSERT_TRUE (server->start ());
  EXPECT_EQ (get (client), "") << "the client is still usable";
}

} // namespace
} // namespace thriftps_test
