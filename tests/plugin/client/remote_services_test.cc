/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests the client, the exchange, the store and the stubs with a TpsServer in the same process,
 * over TCP and Unix sockets. */

#include <sys/resource.h>
#include <unistd.h>

#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <thriftps/client.h>
#include <vector>

#include "plugin/client/stubs.h"
#include "plugin/server/server.h"
#include "plugin/service/node_service.h"
#include "plugin/service/parameter_server_service.h"
#include "plugin/service/rendezvous_service.h"
#include "tests/plugin/client/client_fixture.h"

namespace tps_test {

constexpr guint N_TRAINERS = 2;

#ifdef __SANITIZE_THREAD__
constexpr int N_MANY_CALLS = 20000; /* fewer with the thread sanitizer, which finds no leaks */
#else
constexpr int N_MANY_CALLS = 100000;
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool SANITIZED = true;
#else
constexpr bool SANITIZED = false;
#endif

/* All services of a parameter-server process. */
class RemoteServices : public testing::TestWithParam<const char *>
{
protected:
  RemoteServices ()
  {
    TpsParameterServerOptions averaging = {};
    TpsModelServerOptions updating = {};
    TpsServerOptions options = {};
    std::string listen = GetParam ();
    g_autoptr (GError) error = nullptr;

    if (listen == "unix")
      listen = "unix:remote_services_" + std::to_string (getpid ()) + ".sock";
    options.max_in_flight = 2048;
    server_ = tps_server_new (&options);
    metrics_ = tps_metrics_new (nullptr, nullptr);
    averaging.n_trainers = N_TRAINERS;
    averaging.workers = tps_server_get_workers (server_);
    averaging.metrics = metrics_;
    servers_.averaging = tps_parameter_server_new (&averaging, &error);
    updating.n_trainers = N_TRAINERS;
    updating.workers = tps_server_get_workers (server_);
    updating.metrics = metrics_;
    servers_.updating = tps_model_server_new (&updating, &error);
    rendezvous_ = tps_rendezvous_new (tps_server_get_workers (server_), nullptr);
    node_.name = "server2";
    node_.max_frame_bytes = 1 << 28;
    node_.services = names_;
    node_.metrics = metrics_;
    add (tps_parameter_server_service (&servers_));
    add (tps_rendezvous_service (rendezvous_));
    add (tps_node_service (&node_));
    EXPECT_TRUE (tps_server_listen (server_, listen.c_str (), &error)) << error->message;
    EXPECT_TRUE (tps_server_start (server_, &error)) << error->message;
    address_ = tps_server_get_addresses (server_)[0];
    client_ = new_client ();
  }

  ~RemoteServices () override
  {
    tps_client_free (client_);
    tps_server_stop (server_);
    tps_parameter_server_free (servers_.averaging);
    tps_model_server_free (servers_.updating);
    tps_rendezvous_free (rendezvous_);
    g_object_unref (server_);
    tps_metrics_unref (metrics_);
  }

  void
  add (TpsService service)
  {
    tps_server_add_service (server_, &service);
  }

  TpsClient *
  new_client ()
  {
    TpsClientOptions options = {};

    options.address = address_.c_str ();
    options.max_in_flight = 4096;
    return tps_client_new (&options, nullptr);
  }

  TpsExchange *
  new_exchange (gint32 trainer)
  {
    const gchar *addresses[] = { address_.c_str () };
    TpsRemoteExchangeOptions options = {};

    options.trainer = trainer;
    options.addresses = addresses;
    options.n_addresses = 1;
    return tps_remote_exchange_new (&options, nullptr);
  }

  static constexpr const gchar *names_[] = { "ParameterServer", "Rendezvous", "Node", nullptr };
  TpsServer *server_;
  TpsMetrics *metrics_;
  TpsParameterServers servers_ = {};
  TpsRendezvous *rendezvous_;
  TpsNode node_ = {};
  std::string address_;
  TpsClient *client_;
};

constexpr const gchar *RemoteServices::names_[];

static void
init_gradient (TpsGradient *gradient, gint64 n_elems, float first)
{
  *gradient = TpsGradient {};
  gradient->kind = TPS_GRADIENT_DENSE;
  gradient->weight = 1;
  tps_tensor_init_1d (&gradient->dense, TPS_DTYPE_FLOAT32, n_elems);
  float *data = static_cast<float *> (tps_tensor_data (&gradient->dense));
  for (gint64 i = 0; i < n_elems; i++)
    data[i] = first + static_cast<float> (i % 1000);
}

/* The pushes of one trainer. `done` of each push starts the next, as a chain of hooks does. */
struct Trainer
{
  TpsExchange *exchange;
  TpsGradient gradient;
  gint64 n_elems;
  int batch = 0, n_batches = 0, n_wrong = 0;
  bool done = false;
  std::mutex mutex;
  std::condition_variable changed;

  void
  push ()
  {
    exchange->ops->average_gradient (exchange, 0, batch, 0, &gradient, later (), on_done, this);
  }

  static void
  on_done (gpointer user_data, TpsGradient *average, const GError *error)
  {
    Trainer *self = static_cast<Trainer *> (user_data);
    bool right = error == nullptr && average->kind == TPS_GRADIENT_DENSE
                 && tps_shape_n_elems (&average->dense.shape) == self->n_elems;

    if (right)
      {
        const float *data = static_cast<const float *> (tps_tensor_data (&average->dense));

        /* Each element is the mean of the elements of trainers 0 and 1, whose gradients start at 0
         * and 1. */
        right = data[0] == 0.5f && data[self->n_elems - 1] == 0.5f + (self->n_elems - 1) % 1000;
      }
    self->n_wrong += !right;
    if (++self->batch < self->n_batches && error == nullptr)
      {
        self->push ();
        return;
      }
    std::lock_guard<std::mutex> lock (self->mutex);
    self->done = true;
    self->changed.notify_all ();
  }

  void
  wait ()
  {
    std::unique_lock<std::mutex> lock (mutex);
    EXPECT_TRUE (changed.wait_for (lock, std::chrono::seconds (60), [this] { return done; }));
  }
};

class RemoteAveraging : public RemoteServices
{
protected:
  void
  average (gint64 n_elems, int n_batches)
  {
    Trainer trainers[N_TRAINERS];

    for (guint t = 0; t < N_TRAINERS; t++)
      {
        trainers[t].exchange = new_exchange (static_cast<gint32> (t));
        trainers[t].n_elems = n_elems;
        trainers[t].n_batches = n_batches;
        init_gradient (&trainers[t].gradient, n_elems, static_cast<float> (t));
        trainers[t].push ();
      }
    for (Trainer &trainer : trainers)
      {
        trainer.wait ();
        EXPECT_EQ (trainer.batch, n_batches);
        EXPECT_EQ (trainer.n_wrong, 0);
      }
    for (Trainer &trainer : trainers)
      {
        trainer.exchange->ops->free (trainer.exchange);
        tps_gradient_clear (&trainer.gradient);
      }
  }
};

TEST_P (RemoteAveraging, SmallGradients)
{
  average (10, 200);
}

TEST_P (RemoteAveraging, DefaultBucket)
{
  average (7347200, 2); /* 29,388,800 bytes */
}

TEST_P (RemoteAveraging, WaitsForAllTrainers)
{
  std::thread trainers[N_TRAINERS];

  for (gint32 t = 0; t < static_cast<gint32> (N_TRAINERS); t++)
    trainers[t] = std::thread ([this, t] {
      TpsExchange *exchange = new_exchange (t);
      g_auto (TpsGradient) gradient = {}, average = {};
      g_autoptr (GError) error = nullptr;

      init_gradient (&gradient, 10, static_cast<float> (t));
      ASSERT_TRUE (
          tps_exchange_average_sync (exchange, 0, 0, 0, &gradient, later (), &average, &error))
          << error->message;
      exchange->ops->free (exchange);
      EXPECT_EQ (static_cast<const float *> (tps_tensor_data (&average.dense))[9], 9.5f);
    });
  for (std::thread &trainer : trainers)
    trainer.join ();
}

TEST_P (RemoteServices, DescribeAndMetrics)
{
  g_auto (TpsNodeInfo) info = {};
  g_autoptr (GError) error = nullptr;

  ASSERT_TRUE (tps_remote_describe (client_, later (), &info, &error)) << error->message;
  EXPECT_STREQ (info.name, "server2");
  EXPECT_EQ (info.max_frame_bytes, 1 << 28);
  ASSERT_NE (info.services, nullptr);
  EXPECT_STREQ (info.services[0], "ParameterServer");

  tps_metrics_record (metrics_, "group", "name", 2.5);
  tps_metrics_record (metrics_, "group", "name", 3.5);
  g_autoptr (GPtrArray) metrics = tps_remote_get_metrics (client_, TRUE, later (), &error);
  ASSERT_NE (metrics, nullptr) << error->message;
  ASSERT_EQ (metrics->len, 1u);
  const TpsMetricSummary *summary = static_cast<TpsMetricSummary *> (metrics->pdata[0]);
  EXPECT_STREQ (summary->type, "group");
  EXPECT_STREQ (summary->name, "name");
  EXPECT_EQ (summary->mean_ms, 3.0);
  ASSERT_EQ (summary->n_samples, 2u);
  EXPECT_EQ (summary->samples_ms[1], 3.5);

  ASSERT_TRUE (tps_remote_clear_metrics (client_, later (), &error)) << error->message;
  g_autoptr (GPtrArray) none = tps_remote_get_metrics (client_, FALSE, later (), &error);
  ASSERT_NE (none, nullptr) << error->message;
  EXPECT_EQ (none->len, 0u);
}

TEST_P (RemoteServices, ResetEndsPendingCalls)
{
  TpsExchange *exchange = new_exchange (0);
  TpsGradient gradient;
  Trainer trainer;
  g_autoptr (GError) error = nullptr;

  init_gradient (&gradient, 10, 0);
  trainer.exchange = exchange;
  trainer.gradient = gradient;
  trainer.n_elems = 10;
  trainer.n_batches = 1;
  trainer.push ();
  while (tps_server_get_n_calls (server_) == 0)
    std::this_thread::yield ();
  /* reset_state() may overtake the push inside the server, so it is repeated until the push has
   * ended. */
  bool ended = false;
  while (!ended)
    {
      ASSERT_TRUE (tps_remote_reset_state (client_, later (), &error)) << error->message;
      std::lock_guard<std::mutex> lock (trainer.mutex);
      ended = trainer.done;
    }
  EXPECT_EQ (trainer.n_wrong, 1);
  exchange->ops->free (exchange);
  tps_gradient_clear (&gradient);
}

TEST_P (RemoteServices, TrainerServiceThatIsNotServedIsNotFound)
{
  g_auto (TpsTrainStatus) status = {};
  g_autoptr (GError) error = nullptr;

  EXPECT_FALSE (tps_remote_get_train_status (client_, later (), &status, &error));
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_NOT_FOUND));
  g_clear_error (&error);
  EXPECT_FALSE (tps_remote_cancel_train (client_, later (), &error));
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_NOT_FOUND));
}

TEST_P (RemoteServices, StorePutsGetsWaitsAndRemoves)
{
  TpsRemoteStoreOptions options = { .address = address_.c_str () };
  TpsStore *store = tps_remote_store_new (&options, nullptr);
  g_autoptr (GBytes) value = g_bytes_new_static ("here", 4);
  g_autoptr (GError) error = nullptr;

  ASSERT_TRUE (store->ops->put (store, "a/1", value, &error)) << error->message;
  g_autoptr (GBytes) got = store->ops->get (store, "a/1", later (), &error);
  ASSERT_NE (got, nullptr) << error->message;
  EXPECT_TRUE (g_bytes_equal (got, value));

  std::thread putter ([&] {
    g_autoptr (GError) put_error = nullptr;
    EXPECT_TRUE (tps_remote_put (client_, "a/2", value, later (), &put_error));
  });
  g_autoptr (GBytes) waited = store->ops->get (store, "a/2", later (), &error);
  putter.join ();
  ASSERT_NE (waited, nullptr) << error->message;

  ASSERT_TRUE (store->ops->remove (store, "a/", &error)) << error->message;
  EXPECT_EQ (store->ops->get (store, "a/1", in_ms (20), &error), nullptr);
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED));
  store->ops->free (store);
}

/* Writes the arguments of a get that waits on the server. */
static void
write_get (TpsWriter *out, gconstpointer key)
{
  tps_writer_field (out, 1, TPS_WIRE_BINARY);
  tps_writer_string (out, static_cast<const gchar *> (key));
  tps_writer_field (out, 2, TPS_WIRE_I32);
  tps_writer_i32 (out, 20000);
}

TEST_P (RemoteServices, AThousandCallsWaitOnOneConnection)
{
  constexpr int N_CALLS = 1000;
  std::unique_ptr<Outcome[]> outcomes (new Outcome[N_CALLS]);
  g_autoptr (GBytes) value = g_bytes_new_static ("here", 4);
  g_autoptr (GError) error = nullptr;

  for (int i = 0; i < N_CALLS; i++)
    {
      std::string key = "key" + std::to_string (i);

      tps_client_call (client_, "Rendezvous", "get", write_get, key.c_str (), later (),
                       Outcome::done, &outcomes[i]);
    }
  for (int i = N_CALLS - 1; i >= 0; i--)
    {
      std::string key = "key" + std::to_string (i);

      ASSERT_TRUE (tps_remote_put (client_, key.c_str (), value, later (), &error))
          << error->message;
    }
  for (int i = 0; i < N_CALLS; i++)
    {
      outcomes[i].wait ();
      ASSERT_EQ (outcomes[i].value (), 4) << outcomes[i].text ();
    }
}

TEST_P (RemoteServices, FreeWhileCallsWaitOnTheServer)
{
  constexpr int N_CALLS = 100;
  std::unique_ptr<Outcome[]> outcomes (new Outcome[N_CALLS]);
  TpsClient *client = new_client ();

  for (int i = 0; i < N_CALLS; i++)
    tps_client_call (client, "Rendezvous", "get", write_get, "never", later (), Outcome::done,
                     &outcomes[i]);
  tps_client_free (client);
  for (int i = 0; i < N_CALLS; i++)
    {
      ASSERT_EQ (outcomes[i].n_done (), 1);
      ASSERT_EQ (outcomes[i].code (), TPS_ERROR_ABORTED);
    }
}

TEST_P (RemoteServices, ServerThatStopsAnswersUnavailable)
{
  Outcome waiting;

  tps_client_call (client_, "Rendezvous", "get", write_get, "never", later (), Outcome::done,
                   &waiting);
  while (tps_server_get_n_calls (server_) == 0)
    std::this_thread::yield ();
  EXPECT_TRUE (tps_server_stop (server_));
  waiting.wait ();
  EXPECT_EQ (waiting.code (), TPS_ERROR_UNAVAILABLE) << waiting.text ();
}

static glong
peak_kib ()
{
  struct rusage usage;

  getrusage (RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

TEST_P (RemoteServices, NothingIsLeftOverAfterAHundredThousandCalls)
{
  constexpr int N_CALLS = N_MANY_CALLS, N_AT_ONCE = 1000;
  gsize n_bytes_before = tps_buffer_pool_get_n_bytes_out (tps_buffer_pool_get_default ());
  glong peak_after_some = 0;

  for (int i = 0; i < N_CALLS; i += N_AT_ONCE)
    {
      std::unique_ptr<Outcome[]> outcomes (new Outcome[N_AT_ONCE]);

      for (int j = 0; j < N_AT_ONCE; j++)
        tps_client_call (client_, "Node", "describe", nullptr, nullptr, later (), Outcome::done,
                         &outcomes[j]);
      for (int j = 0; j < N_AT_ONCE; j++)
        {
          outcomes[j].wait ();
          ASSERT_EQ (outcomes[j].code (), 0) << outcomes[j].text ();
        }
      if (i == N_CALLS / 10)
        peak_after_some = peak_kib ();
    }
  EXPECT_EQ (tps_buffer_pool_get_n_bytes_out (tps_buffer_pool_get_default ()), n_bytes_before);
  EXPECT_EQ (tps_buffer_pool_get_n_bytes_out (tps_server_get_bodies (server_)), 0u);
  /* A leak of 10 bytes per call would be visible. Sanitizers are excluded, because their own memory
   * grows. */
  EXPECT_TRUE (SANITIZED || peak_kib () < peak_after_some + 900);
}

static std::string
name_of (const testing::TestParamInfo<const char *> &info)
{
  return strcmp (info.param, "unix") == 0 ? "Unix" : "Tcp";
}

INSTANTIATE_TEST_SUITE_P (Over, RemoteServices, testing::Values ("127.0.0.1:0", "unix"), name_of);
INSTANTIATE_TEST_SUITE_P (Over, RemoteAveraging, testing::Values ("127.0.0.1:0", "unix"), name_of);

}
