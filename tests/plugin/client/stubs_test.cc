/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests the blocking functions of the contract with a scripted server. It refuses a call, loses a
 * connection, and then replies. A call that may be sent twice is retried with the same bytes. Any
 * other call fails. */

#include "plugin/client/stubs.h"

#include <cstring>
#include <functional>
#include <thread>

#include "tests/plugin/client/client_fixture.h"

namespace tps_test {
namespace {

constexpr int kStruct = 12, kList = 15, kI64 = 10;
constexpr int kUnavailable = 8; /* on the wire */

/* A model of version 2 without parameters. */
const std::string kModel = field (kStruct, 0,
                                  field (kI64, 1, be64 (2)) + field (kList, 2, "\x0c" + be32 (0))
                                      + std::string (1, 0));

class Stubs : public ClientTest
{
protected:
  Stubs ()
  {
    connect_to (listener_.address ());
  }
  ~Stubs () override
  {
    g_clear_pointer (&client_, tps_client_free);
    if (peer_.joinable ())
      peer_.join ();
    g_clear_error (&error_);
  }

  void
  play (std::function<void ()> script)
  {
    peer_ = std::thread (script);
  }

  /* Refuses the first attempt, closes the connection on the second, and replies to the third. All
   * three must have the same bytes. */
  void
  play_three_attempts (const std::string &method, const std::string &result)
  {
    play ([this, method, result] {
      ReceivedCall first, second, third;
      {
        Connection connection = listener_.accept ();
        first = connection.read_call ();
        connection.send (service_error (method, first.seqid, kUnavailable, "recovering", 1));
        second = connection.read_call ();
      }
      Connection connection = listener_.accept ();
      third = connection.read_call ();
      connection.send (reply (method, third.seqid, result));
      EXPECT_EQ (first.name, "ParameterServer:" + method);
      EXPECT_EQ (second.name, first.name);
      EXPECT_EQ (third.name, first.name);
      EXPECT_EQ (second.inside, first.inside);
      EXPECT_EQ (third.inside, first.inside);
    });
  }

  TpsModelVersion *
  update (const char *push_client)
  {
    TpsUpdateModelArguments arguments = {};

    arguments.trainer = 1;
    arguments.version = 1;
    arguments.push = { const_cast<gchar *> (push_client), push_client != nullptr ? 7 : 0 };
    return tps_remote_update_and_fetch_model (client_, &arguments, later (), &error_);
  }

  Listener listener_;
  std::thread peer_;
  GError *error_ = nullptr;
};

/* A repeated init_model succeeds if the parameters are the same. */
TEST_F (Stubs, InitModelIsRetried)
{
  TpsOptimizerSpec optimizer = tps_optimizer_spec (TPS_OPTIMIZER_SGD, 0.5);
  TpsNamedTensor parameter = {};

  parameter.name = const_cast<gchar *> ("p");
  tps_tensor_init_1d (&parameter.tensor, TPS_DTYPE_FLOAT32, 2);
  memset (tps_tensor_data (&parameter.tensor), 1, 2 * sizeof (gfloat));
  play_three_attempts ("init_model", "");
  TpsInitModelArguments arguments = { 1, &parameter, optimizer };
  EXPECT_TRUE (tps_remote_init_model (client_, &arguments, later (), &error_)) << error_->message;
  tps_tensor_clear (&parameter.tensor);
}

/* The server applies a push id only once, so a retry is safe. */
TEST_F (Stubs, AnUpdateWithAPushIdIsRetried)
{
  play_three_attempts ("update_and_fetch_model", kModel);
  g_autoptr (TpsModelVersion) model = update ("trainer");
  ASSERT_NE (model, nullptr) << error_->message;
  EXPECT_EQ (model->version, 2);
}

TEST_F (Stubs, AnUpdateWithoutAPushIdIsSentOnce)
{
  play ([this] {
    {
      Connection connection = listener_.accept ();
      const ReceivedCall call = connection.read_call ();
      connection.send (service_error (call.name, call.seqid, kUnavailable, "recovering", 1));
      connection.read_call (); /* the second update */
    }
  });
  EXPECT_EQ (update (nullptr), nullptr);
  EXPECT_TRUE (g_error_matches (error_, TPS_ERROR, TPS_ERROR_UNAVAILABLE));
  EXPECT_EQ (tps_error_get_retry_after_ms (error_), 1);
  g_clear_error (&error_);
  EXPECT_EQ (update (nullptr), nullptr);
  EXPECT_TRUE (g_error_matches (error_, TPS_ERROR, TPS_ERROR_CONNECTION_LOST));
}

} // namespace
} // namespace tps_test
