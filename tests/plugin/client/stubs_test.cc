/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests a blocking function of the contract that must not be sent twice. Retries of the others are
 * tested with servers that restart (tests/integration/durable). */

#include "plugin/client/stubs.h"

#include <functional>
#include <thread>

#include "tests/plugin/client/client_fixture.h"

namespace tps_test {
namespace {

constexpr int kUnavailable = 8; /* on the wire */

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

  TpsModelVersion *
  update ()
  {
    TpsUpdateModelArguments arguments = {};

    arguments.trainer = 1;
    arguments.version = 1;
    return tps_remote_update_and_fetch_model (client_, &arguments, later (), &error_);
  }

  Listener listener_;
  std::thread peer_;
  GError *error_ = nullptr;
};

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
  EXPECT_EQ (update (), nullptr);
  EXPECT_TRUE (g_error_matches (error_, TPS_ERROR, TPS_ERROR_UNAVAILABLE));
  EXPECT_EQ (tps_error_get_retry_after_ms (error_), 1);
  g_clear_error (&error_);
  EXPECT_EQ (update (), nullptr);
  EXPECT_TRUE (g_error_matches (error_, TPS_ERROR, TPS_ERROR_CONNECTION_LOST));
}

} // namespace
} // namespace tps_test
