/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests the exchange with a scripted parameter server: its requests, results and retries. */

#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <thriftps/client.h>
#include <vector>

#include "runtime/tensor/gradient.h"
#include "tests/plugin/client/client_fixture.h"
#include "tests/runtime/fake_device/fake_device.h"

namespace tps_test {

static std::string
bytes_of (const std::vector<float> &values)
{
  return std::string (reinterpret_cast<const char *> (values.data ()), values.size () * 4);
}

/* Returns the fields of a Gradient with one dense FLOAT32 tensor. */
static std::string
dense_gradient (const std::vector<float> &values)
{
  std::string tensor = field (8, 1, be32 (TPS_DTYPE_FLOAT32))
                       + field (15, 2, std::string (1, 10) + be32 (1) + be64 (values.size ()))
                       + field (11, 3, binary (bytes_of (values))) + '\0';

  return field (12, 1, tensor);
}

static std::string
average (int seqid, const std::vector<float> &values)
{
  return reply ("average_gradient", seqid, field (12, 0, dense_gradient (values) + '\0'));
}

class Average : public Ending
{
public:
  ~Average ()
  {
    tps_gradient_clear (&gradient_);
  }

  static void
  done (gpointer user_data, TpsGradient *average, const GError *error)
  {
    Average *self = static_cast<Average *> (user_data);

    self->end (error, [=] {
      if (average != nullptr)
        tps_gradient_move (&self->gradient_, average);
    });
  }

  std::vector<float>
  values () const
  {
    std::vector<float> values;

    if (gradient_.kind != TPS_GRADIENT_DENSE)
      return values;
    values.resize (static_cast<size_t> (tps_shape_n_elems (&gradient_.dense.shape)));
    memcpy (values.data (), tps_tensor_data (&gradient_.dense), values.size () * 4);
    return values;
  }

private:
  TpsGradient gradient_ = {};
};

class RemoteExchange : public testing::Test
{
protected:
  RemoteExchange ()
  {
    make_exchange (nullptr);
    set_gradient ({ 1, 2, 3 });
  }

  void
  make_exchange (TpsDevice *device)
  {
    std::string first = listener_.address (), second = other_.address ();
    const gchar *addresses[] = { first.c_str (), second.c_str () };
    TpsRemoteExchangeOptions options = {};

    options.trainer = 3;
    options.addresses = addresses;
    options.n_addresses = 2;
    options.device = device;
    exchange_ = tps_remote_exchange_new (&options, nullptr);
  }

  ~RemoteExchange () override
  {
    free_exchange ();
    tps_gradient_clear (&gradient_);
  }

  void
  free_exchange ()
  {
    if (exchange_ != nullptr)
      exchange_->ops->free (exchange_);
    exchange_ = nullptr;
  }

  void
  set_gradient (const std::vector<float> &values)
  {
    tps_gradient_clear (&gradient_);
    gradient_.kind = TPS_GRADIENT_DENSE;
    gradient_.weight = 1;
    tps_tensor_init_1d (&gradient_.dense, TPS_DTYPE_FLOAT32, static_cast<gint64> (values.size ()));
    memcpy (tps_tensor_data (&gradient_.dense), values.data (), values.size () * 4);
  }

  void
  push (Average *result, gint64 deadline_ns, guint server = 0)
  {
    exchange_->ops->average_gradient (exchange_, server, 5, 2, &gradient_, deadline_ns,
                                      Average::done, result);
  }

  Listener listener_, other_;
  TpsExchange *exchange_ = nullptr;
  TpsGradient gradient_ = {};
};

TEST_F (RemoteExchange, LargeAveragesAreReceivedIntoMemoryThatTheDeviceCopiesFrom)
{
  TpsDevice *device = tps_fake_device_get (0);
  std::vector<float> large (30000, 1.5f), small (1000, 2.5f);
  guint before = tps_fake_device_get_n_allocs (device);

  free_exchange ();
  make_exchange (device);
  std::unique_ptr<Connection> connection;
  for (const std::vector<float> &values : { small, large, small, large, large })
    {
      Average result;

      push (&result, later ());
      if (connection == nullptr)
        connection = std::make_unique<Connection> (listener_.accept ());
      connection->send (average (connection->read_call ().seqid, values));
      result.wait ();
      EXPECT_EQ (result.values (), values) << result.text ();
    }
  EXPECT_EQ (tps_fake_device_get_n_allocs (device) - before, 1u) << "one, which is kept";
  free_exchange ();
  EXPECT_EQ (tps_fake_device_get_n_bytes (device), 0u);
}

TEST_F (RemoteExchange, LostConnectionIsTriedOnceMoreWithTheSameBytes)
{
  Average result;
  std::string first;

  push (&result, later ());
  {
    Connection lost = listener_.accept ();
    first = lost.read_call ().inside;
  }
  Connection connection = listener_.accept ();
  ReceivedCall call = connection.read_call ();
  EXPECT_EQ (call.inside, first);
  connection.send (average (call.seqid, { 2 }));
  result.wait ();
  EXPECT_EQ (result.values (), std::vector<float> ({ 2 })) << result.text ();
}

TEST_F (RemoteExchange, ConnectionLostTwiceIsReported)
{
  Average result;

  push (&result, later ());
  listener_.accept ().read_call ();
  listener_.accept ().read_call ();
  result.wait ();
  EXPECT_EQ (result.code (), TPS_ERROR_CONNECTION_LOST);
}

TEST_F (RemoteExchange, FullServerIsAskedAgainAfterItsTime)
{
  Average result;
  gint64 asked_ns;

  push (&result, later ());
  Connection connection = listener_.accept ();
  asked_ns = now_ns ();
  for (int i = 0; i < 3; i++)
    connection.send (
        service_error ("average_gradient", connection.read_call ().seqid, 7, "full", 10));
  connection.send (average (connection.read_call ().seqid, { 2 }));
  result.wait ();
  EXPECT_EQ (result.values (), std::vector<float> ({ 2 })) << result.text ();
  EXPECT_GE (result.done_ns () - asked_ns, 3 * 10 * 1000000);
}

TEST_F (RemoteExchange, RetryBeyondTheDeadlineIsNotWaitedFor)
{
  Average result;

  push (&result, later ());
  Connection connection = listener_.accept ();
  connection.send (
      service_error ("average_gradient", connection.read_call ().seqid, 7, "full", 1000000));
  result.wait ();
  EXPECT_EQ (result.code (), TPS_ERROR_RESOURCE_EXHAUSTED);
}

/* IN_FLIGHT is the contract's limit of gradients in flight. MANY exceeds it. */
constexpr int IN_FLIGHT = 32, MANY = 40;

TEST_F (RemoteExchange, ManyGradientsAreSentInOrderAsRepliesArrive)
{
  std::vector<Average> results (MANY);
  std::vector<int> seqids;

  for (int i = 0; i < MANY; i++)
    exchange_->ops->average_gradient (exchange_, 0, 5, i, &gradient_, later (), Average::done,
                                      &results[static_cast<size_t> (i)]);
  Connection connection = listener_.accept ();
  for (int i = 0; i < MANY; i++)
    {
      if (i >= IN_FLIGHT)
        connection.send (average (seqids[static_cast<size_t> (i - IN_FLIGHT)], { 1 }));
      ReceivedCall call = connection.read_call ();
      EXPECT_NE (call.inside.find (field (10, 2, be64 (5)) + field (8, 3, be32 (i))),
                 std::string::npos)
          << i;
      seqids.push_back (call.seqid);
    }
  for (int i = MANY - IN_FLIGHT; i < MANY; i++)
    connection.send (average (seqids[static_cast<size_t> (i)], { 1 }));
  for (Average &result : results)
    {
      result.wait ();
      EXPECT_EQ (result.values (), std::vector<float> ({ 1 })) << result.text ();
    }
}

TEST_F (RemoteExchange, CancelEndsGradientsThatWereNotSent)
{
  std::vector<Average> results (MANY);

  for (Average &result : results)
    push (&result, later ());
  Connection connection = listener_.accept ();
  for (int i = 0; i < IN_FLIGHT; i++)
    connection.read_call ();
  exchange_->ops->cancel (exchange_);
  EXPECT_TRUE (connection.is_closed_by_peer ()) << "no further gradient was sent";
  for (Average &result : results)
    {
      result.wait ();
      EXPECT_EQ (result.code (), TPS_ERROR_ABORTED);
    }
}

TEST_F (RemoteExchange, GradientsThatWaitTooLongEndAtTheirDeadline)
{
  std::vector<Average> results (MANY);
  gint64 deadline_ns = now_ns () + G_GINT64_CONSTANT (300000000);

  for (Average &result : results)
    push (&result, deadline_ns);
  Connection connection = listener_.accept ();
  for (Average &result : results)
    {
      result.wait ();
      EXPECT_EQ (result.code (), TPS_ERROR_DEADLINE_EXCEEDED);
      EXPECT_GE (result.done_ns (), deadline_ns);
    }
}

TEST_F (RemoteExchange, AnswerThatIsNoGradientIsInternal)
{
  Average result;

  push (&result, later ());
  Connection connection = listener_.accept ();
  connection.send (
      reply ("average_gradient", connection.read_call ().seqid, field (10, 0, be64 (1))));
  result.wait ();
  EXPECT_EQ (result.code (), TPS_ERROR_INTERNAL);
}

TEST_F (RemoteExchange, WeightZeroTakesPartWithoutData)
{
  Average result;

  tps_gradient_clear (&gradient_);
  push (&result, later ());
  Connection connection = listener_.accept ();
  ReceivedCall call = connection.read_call ();
  EXPECT_NE (call.inside.find (field (4, 3, be64 (0))), std::string::npos);
  connection.send (average (call.seqid, { 2 }));
  result.wait ();
  EXPECT_EQ (result.values (), std::vector<float> ({ 2 })) << result.text ();
}

TEST_F (RemoteExchange, CancelEndsCallsAndRetriesAndLaterCalls)
{
  Average waiting, retrying, later_call;

  push (&waiting, later (), 0);
  push (&retrying, in_ms (100000), 1);
  Connection full = other_.accept ();
  full.send (service_error ("average_gradient", full.read_call ().seqid, 7, "full", 50000));
  Connection silent = listener_.accept ();
  silent.read_call ();
  exchange_->ops->cancel (exchange_);
  push (&later_call, later ());
  for (Average *result : { &waiting, &retrying, &later_call })
    {
      result->wait ();
      EXPECT_EQ (result->code (), TPS_ERROR_ABORTED);
    }
}

/* If set, it runs on the pushing thread after tps_client_call_rpc() has sent the call and before it
 * returns. */
static thread_local std::function<void ()> stay;

/* The reply may arrive before the call that sends the gradient has returned on its thread. If the
 * exchange were freed then, that thread would continue with a freed lock. */
TEST_F (RemoteExchange, MayBeFreedOnceTheLastAverageIsThere)
{
  for (int i = 0; i < 3; i++)
    {
      Average result;
      std::promise<void> freed;
      std::future<void> is_freed = freed.get_future ();

      free_exchange ();
      make_exchange (nullptr);
      std::future<void> sender = std::async (std::launch::async, [&] {
        stay = [&] {
          result.wait ();
          /* free_exchange() must wait until this thread has left the exchange, so `is_freed`
           * normally times out here. */
          is_freed.wait_for (std::chrono::milliseconds (200));
        };
        push (&result, later ());
        stay = nullptr;
      }); /* the destructor of `sender` joins the thread in all cases */
      Connection connection = listener_.accept ();
      connection.send (average (connection.read_call ().seqid, { 2 }));
      result.wait ();
      EXPECT_EQ (result.code (), 0) << result.text ();
      free_exchange ();
      freed.set_value ();
    }
}

}

/* The test is linked with -Wl,--wrap, so this function replaces the client's. */
extern "C"
{
  void __real_tps_client_call_rpc (TpsClient *client, const TpsRpc *rpc, gconstpointer arguments,
                                   gint64 deadline_ns, TpsClientDone done, gpointer user_data);

  void
  __wrap_tps_client_call_rpc (TpsClient *client, const TpsRpc *rpc, gconstpointer arguments,
                              gint64 deadline_ns, TpsClientDone done, gpointer user_data)
  {
    __real_tps_client_call_rpc (client, rpc, arguments, deadline_ns, done, user_data);
    if (tps_test::stay)
      tps_test::stay ();
  }
}
