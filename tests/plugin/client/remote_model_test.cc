/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests a model on a real parameter server: trainers that continue together, repeated requests,
 * errors and cancellation. */

#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include <gmock/gmock.h>
#include <thriftps/client.h>

#include "plugin/client/stubs.h"
#include "plugin/server/server.h"
#include "plugin/service/parameter_server_service.h"
#include "tests/plugin/client/client_fixture.h"
#include "tests/runtime/server/model/models.h"

namespace tps_test {
namespace {

using testing::HasSubstr;
using updating_test::NaiveModel;
using updating_test::Shapes;
using updating_test::Values;

constexpr guint N_TRAINERS = 3;
constexpr gint64 WAIT_NS = (gint64) 60 * 1000000000;

/* The result of one call. */
class Fetched
{
public:
  static void
  done (gpointer user_data, TpsModelVersion *model, const GError *error)
  {
    auto self = static_cast<Fetched *> (user_data);
    std::lock_guard<std::mutex> guard (self->lock_);

    if (error != nullptr)
      {
        self->code = error->code;
        self->message = error->message;
      }
    if (model != nullptr)
      {
        self->version = model->version;
        self->values = updating_test::to_values (model);
      }
    self->is_done_ = true;
    self->changed_.notify_all ();
  }

  Fetched &
  wait ()
  {
    std::unique_lock<std::mutex> guard (lock_);

    changed_.wait (guard, [this] { return is_done_; });
    return *this;
  }

  int code = 0;
  std::string message;
  gint64 version = 0;
  Values values;

private:
  std::mutex lock_;
  std::condition_variable changed_;
  bool is_done_ = false;
};

class RemoteModel : public testing::TestWithParam<const char *>
{
protected:
  RemoteModel ()
  {
    TpsParameterServerOptions averaging = {};
    TpsModelServerOptions updating = {};
    TpsServerOptions options = {};
    std::string listen = GetParam ();
    g_autoptr (GError) error = nullptr;

    if (listen == "unix")
      listen = "unix:remote_model_" + std::to_string (getpid ()) + ".sock";
    server_ = tps_server_new (&options);
    averaging.n_trainers = updating.n_trainers = N_TRAINERS;
    averaging.workers = updating.workers = tps_server_get_workers (server_);
    servers_.averaging = tps_parameter_server_new (&averaging, nullptr);
    servers_.updating = tps_model_server_new (&updating, nullptr);
    TpsService service = tps_parameter_server_service (&servers_);
    tps_server_add_service (server_, &service);
    EXPECT_TRUE (tps_server_listen (server_, listen.c_str (), &error)) << error->message;
    EXPECT_TRUE (tps_server_start (server_, nullptr));
    address_ = tps_server_get_addresses (server_)[0];
    for (guint i = 0; i < N_TRAINERS; i++)
      models_[i] = connect (static_cast<gint32> (i));
  }

  ~RemoteModel () override
  {
    for (TpsModelClient *model : models_)
      model->ops->free (model);
    tps_server_stop (server_);
    tps_parameter_server_free (servers_.averaging);
    tps_model_server_free (servers_.updating);
    g_object_unref (server_);
  }

  TpsModelClient *
  connect (gint32 trainer)
  {
    TpsRemoteModelOptions options = {};

    options.address = address_.c_str ();
    options.trainer = trainer;
    return tps_remote_model_new (&options, nullptr);
  }

  int
  init (guint trainer, const Shapes &shapes, const Values &values)
  {
    auto parameters = updating_test::to_parameters (shapes, values);
    TpsOptimizerSpec spec = tps_optimizer_spec (TPS_OPTIMIZER_SGD, 0.1);
    Fetched fetched;

    spec.momentum = 0.9;
    models_[trainer]->ops->init_model (models_[trainer], parameters.data (),
                                       static_cast<guint> (parameters.size ()), &spec,
                                       tps_clock_now () + WAIT_NS, Fetched::done, &fetched);
    fetched.wait ();
    for (auto &parameter : parameters)
      tps_named_tensor_clear (&parameter);
    EXPECT_EQ (fetched.version, 0); /* the reply has no model */
    return fetched.code;
  }

  static gint64
  tps_clock_now ()
  {
    return g_get_monotonic_time () * 1000;
  }

  void
  update (guint trainer, const Shapes &shapes, const Values &gradient, gint64 version,
          Fetched *fetched)
  {
    auto tensors = updating_test::to_tensors (shapes, gradient);

    models_[trainer]->ops->update_and_fetch (models_[trainer], tensors.data (),
                                             static_cast<guint> (tensors.size ()), version,
                                             tps_clock_now () + WAIT_NS, Fetched::done, fetched);
    fetched->wait ();
    for (auto &tensor : tensors)
      tps_tensor_clear (&tensor);
  }

  TpsServer *server_;
  TpsParameterServers servers_ = {};
  std::string address_;
  TpsModelClient *models_[N_TRAINERS];
  std::mt19937 random_ { 5 };
};

TEST_P (RemoteModel, trainersGoOnTogetherWithTheBitsOfTheDefinition)
{
  for (const Shapes &shapes : { Shapes { { 30, 100 }, { 30 } }, Shapes { { 1024, 700 } } })
    {
      Values first = updating_test::draw_values (shapes, &random_);
      NaiveModel naive (first, 0.1f, 0.9f);
      Fetched fetched[N_TRAINERS];
      std::vector<std::vector<Values>> gradients (4);
      std::vector<std::thread> trainers;

      tps_model_server_reset_state (servers_.updating, nullptr);
      for (auto &round : gradients)
        {
          for (guint i = 0; i < N_TRAINERS; i++)
            round.push_back (updating_test::draw_values (shapes, &random_));
          naive.update (round);
        }
      for (guint i = 0; i < N_TRAINERS; i++)
        trainers.emplace_back ([&, i] {
          EXPECT_EQ (init (i, shapes, first), 0);
          for (size_t step = 0; step < 4; step++)
            {
              Fetched round;

              update (i, shapes, gradients[step][i], static_cast<gint64> (step) + 1, &round);
              EXPECT_EQ (round.code, 0) << round.message;
              EXPECT_EQ (round.version, static_cast<gint64> (step) + 2);
              fetched[i].values = round.values;
            }
        });
      for (auto &trainer : trainers)
        trainer.join ();
      for (auto &last : fetched)
        EXPECT_EQ (last.values, naive.values ());
    }
}

TEST_P (RemoteModel, errorsAreThoseOfTheServer)
{
  Fetched nothing, shape, stale;

  models_[0]->ops->get_model (models_[0], tps_clock_now () + WAIT_NS, Fetched::done, &nothing);
  EXPECT_EQ (nothing.wait ().code, TPS_ERROR_NOT_FOUND);
  EXPECT_EQ (init (0, { { 2 } }, { { 1, 2 } }), 0);
  EXPECT_EQ (init (1, { { 2 } }, { { 1, 3 } }), TPS_ERROR_ALREADY_EXISTS);
  update (0, { { 3 } }, { { 1, 2, 3 } }, 1, &shape);
  EXPECT_EQ (shape.code, TPS_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT (shape.message, HasSubstr ("gradients[0] is FLOAT32 [3], parameter p0"));
}

TEST_P (RemoteModel, cancellingEndsACallThatWaits)
{
  auto tensors = updating_test::to_tensors ({ { 2 } }, { { 1, 2 } });
  Fetched waiting, later;

  EXPECT_EQ (init (0, { { 2 } }, { { 1, 2 } }), 0);
  models_[0]->ops->update_and_fetch (models_[0], tensors.data (), 1, 1, tps_clock_now () + WAIT_NS,
                                     Fetched::done, &waiting);
  models_[0]->ops->cancel (models_[0]);
  EXPECT_EQ (waiting.wait ().code, TPS_ERROR_ABORTED);
  models_[0]->ops->get_model (models_[0], tps_clock_now () + WAIT_NS, Fetched::done, &later);
  EXPECT_EQ (later.wait ().code, TPS_ERROR_ABORTED);
  tps_tensor_clear (&tensors[0]);
}

TEST_P (RemoteModel, thePushIdOfAStubIsAppliedOnce)
{
  TpsClientOptions options = {};
  g_autoptr (GError) error = nullptr;

  options.address = address_.c_str ();
  g_autoptr (TpsClient) client = tps_client_new (&options, nullptr);
  auto parameters = updating_test::to_parameters ({ { 2 } }, { { 1, 2 } });
  TpsOptimizerSpec spec = tps_optimizer_spec (TPS_OPTIMIZER_SGD, 1);
  gint64 deadline_ns = tps_clock_now () + WAIT_NS;
  Fetched others[2];
  std::vector<std::thread> threads;

  TpsInitModelArguments init = { 1, parameters.data (), spec };
  EXPECT_TRUE (tps_remote_init_model (client, &init, deadline_ns, &error));
  for (guint i = 1; i < N_TRAINERS; i++)
    threads.emplace_back ([&, i] { update (i, { { 2 } }, { { 1, 1 } }, 1, &others[i - 1]); });
  g_auto (TpsUpdateModelArguments) arguments = {};
  arguments.gradients.n_tensors = 1;
  arguments.gradients.tensors = g_new0 (TpsTensor, 1);
  arguments.gradients.tensors[0] = updating_test::to_tensor ({ 2 }, { 1, 1 });
  arguments.push.client = g_strdup ("stub");
  arguments.push.sequence = 3;
  for (int attempt = 0; attempt < 3; attempt++)
    {
      g_autoptr (TpsModelVersion)
          model = tps_remote_update_and_fetch_model (client, &arguments, deadline_ns, &error);

      ASSERT_NE (model, nullptr) << error->message;
      EXPECT_EQ (model->version, 2);
      EXPECT_EQ (updating_test::to_values (model), (Values { { 0, 1 } }));
    }
  for (auto &thread : threads)
    thread.join ();
  g_autoptr (TpsModelVersion) model = tps_remote_get_model (client, deadline_ns, nullptr);
  EXPECT_EQ (model->version, 2);
  tps_named_tensor_clear (&parameters[0]);
}

INSTANTIATE_TEST_SUITE_P (Sockets, RemoteModel, testing::Values ("127.0.0.1:0", "unix"));

} // namespace
} // namespace tps_test
