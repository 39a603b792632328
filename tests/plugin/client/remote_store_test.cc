/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests the store with a scripted Rendezvous server: waits, deadlines, and a lost connection. */

#include <functional>
#include <thread>
#include <thriftps/client.h>

#include "tests/plugin/client/client_fixture.h"

namespace tps_test {

class RemoteStore : public testing::Test
{
protected:
  RemoteStore ()
  {
    std::string address = listener_.address ();
    TpsRemoteStoreOptions options = { .address = address.c_str () };

    store_ = tps_remote_store_new (&options, nullptr);
  }

  ~RemoteStore () override
  {
    store_->ops->free (store_);
    if (peer_.joinable ())
      peer_.join ();
  }

  void
  play (std::function<void ()> script)
  {
    peer_ = std::thread (script);
  }

  std::string
  get (gint64 deadline_ns, GError **error)
  {
    g_autoptr (GBytes) value = store_->ops->get (store_, "pass1/rank0", deadline_ns, error);
    gsize n_bytes = 0;
    gconstpointer data = value != nullptr ? g_bytes_get_data (value, &n_bytes) : nullptr;

    return n_bytes > 0 ? std::string (static_cast<const char *> (data), n_bytes) : "";
  }

  Listener listener_;
  TpsStore *store_;
  std::thread peer_;
};

TEST_F (RemoteStore, GetAsksAgainWhileThereIsTime)
{
  g_autoptr (GError) error = nullptr;

  play ([&] {
    Connection connection = listener_.accept ();
    for (int i = 0; i < 3; i++)
      connection.send (service_error ("get", connection.read_call ().seqid, 6, "not yet"));
    connection.send (reply ("get", connection.read_call ().seqid, field (11, 0, binary ("v"))));
  });
  EXPECT_EQ (get (later (), &error), "v");
  EXPECT_EQ (error, nullptr);
}

TEST_F (RemoteStore, GetEndsAtItsDeadlineAndNamesTheKey)
{
  gint64 deadline_ns = in_ms (30);
  g_autoptr (GError) error = nullptr;

  play ([&] {
    Connection connection = listener_.accept ();
    connection.drain (); /* never replies */
  });
  EXPECT_EQ (get (deadline_ns, &error), "");
  EXPECT_GE (now_ns (), deadline_ns);
  ASSERT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED));
  EXPECT_NE (std::string (error->message).find ("pass1/rank0"), std::string::npos);
}

TEST_F (RemoteStore, GetWaitsOnTheServerWithinItsDeadline)
{
  ReceivedCall call;
  g_autoptr (GError) error = nullptr;

  play ([&] {
    Connection connection = listener_.accept ();
    call = connection.read_call ();
    connection.send (reply ("get", call.seqid, field (11, 0, binary ("v"))));
  });
  EXPECT_EQ (get (in_ms (60000), &error), "v");
  peer_.join ();
  gint32 timeout_ms = 0;
  for (unsigned char byte : call.inside.substr (call.inside.size () - 4))
    timeout_ms = timeout_ms * 256 + byte;
  EXPECT_GT (timeout_ms, 0);
  EXPECT_LE (timeout_ms, 60000);
}

TEST_F (RemoteStore, OneLostConnectionIsRetried)
{
  g_autoptr (GBytes) value = g_bytes_new_static ("here", 4);
  g_autoptr (GError) error = nullptr;

  play ([&] {
    listener_.accept ().read_call ();
    {
      Connection connection = listener_.accept ();
      connection.send (reply ("put", connection.read_call ().seqid, ""));
      connection.read_call ();
    }
    listener_.accept ().read_call ();
  });
  EXPECT_TRUE (store_->ops->put (store_, "key", value, &error));
  EXPECT_EQ (error, nullptr);
  EXPECT_FALSE (store_->ops->remove (store_, "key", &error));
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_CONNECTION_LOST));
}

}
