// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Tests peers that violate the protocol, over real sockets.

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <memory>
#include <vector>

#include "tests/plugin/net/tls/tls_fixture.h"

namespace thriftps_test {
namespace {

// Returns the first flight of a client, as OpenSSL writes it, with so many names of protocols.
std::string
FirstFlight (int n_protocols = 0)
{
  SSL_CTX *context = SSL_CTX_new (TLS_client_method ());
  std::string protocols;
  for (int i = 0; i < n_protocols; i++)
    protocols += "\3abc";
  SSL_CTX_set_alpn_protos (context, reinterpret_cast<const unsigned char *> (protocols.data ()),
                           static_cast<unsigned> (protocols.size ()));
  SSL *ssl = SSL_new (context);
  BIO *out = BIO_new (BIO_s_mem ());
  char *bytes = nullptr;
  SSL_set_bio (ssl, BIO_new (BIO_s_mem ()), out);
  SSL_connect (ssl);
  long n = BIO_get_mem_data (out, &bytes);
  std::string flight (bytes, (size_t) n);
  SSL_free (ssl);
  SSL_CTX_free (context);
  return flight;
}

// ---- plain and silent peers ---------------------------------------------------------------------

class Impatient : public Required
{
protected:
  void
  Configure (TpsServerOptions *options) override
  {
    Required::Configure (options);
    options->handshake_ns = kSecond / 4;
  }
};

TEST_F (Required, PlainConnectionsAreClosed)
{
  RawClient client (tcp_);
  EXPECT_EQ (client.Call ("Test:echo", IntField (3)), nullptr);
  EXPECT_EQ (IntResult (RawClient (unix_).Call ("Test:echo", IntField (4))), 4);
  ExpectServes ();
}

TEST_F (Impatient, SilentPeersAreClosed)
{
  RawClient silent (tcp_), slow (tcp_);
  slow.SendBytes ("\x16");
  EXPECT_TRUE (silent.IsClosedByPeer ());
  EXPECT_TRUE (slow.IsClosedByPeer ());
}

TEST_F (TlsTest, HandshakesAreCountedFromTheFirstByteToTheEnd)
{
  EXPECT_EQ (Gauge ("tls_handshakes_in_progress"), 0);
  {
    RawClient silent (tcp_), slow (tcp_);
    slow.SendBytes ("\x16");
    while (Gauge ("tls_handshakes_in_progress") != 1)
      std::this_thread::yield ();
  }
  WaitForFailures (1);
  EXPECT_EQ (Gauge ("tls_handshakes_in_progress"), 0);
  ExpectServes ();
  EXPECT_EQ (Gauge ("tls_handshakes_in_progress"), 0);
  EXPECT_EQ (Count ("tls_handshakes_total", "done"), 1u);
  EXPECT_EQ (Count ("tls_handshakes_total", "failed"), 1u);
}

// ---- hostile handshakes -------------------------------------------------------------------------

// OpenSSL allocates a whole message as soon as its length has arrived.
TEST_F (TlsTest, ALongHelloIsChargedUntilTheEndOfTheHandshake)
{
  {
    RawClient hello (tcp_);
    hello.SendBytes (std::string ("\x16\x03\x01\x40\x00\x01\x02\x00\x00", 9)
                     + std::string (0x4000 - 4, '\0'));
    while (Gauge ("tls_handshakes_in_progress") != 1)
      std::this_thread::yield ();
    EXPECT_GE (tps_budget_get_held (budgets_->channels), gsize { 160 } << 10);
  }
  WaitForFailures (1);
  TlsPeer peer (tcp_);
  ASSERT_TRUE (peer.ShakeHands ());
  EXPECT_TRUE (peer.Send (EchoBytes (1)));
  EXPECT_NE (peer.ReceiveFrame (), "");
  while (tps_budget_get_held (budgets_->channels) > gsize { 96 } << 10) // the end of `hello`
    std::this_thread::yield ();
}

// OpenSSL would keep copies of the lists as long as the connection.
TEST_F (TlsTest, AHelloWithLongListsIsRefused)
{
  constexpr char alert = 21, handshake = 22; // types of records
  for (int n_protocols : { 0, 1000, 4000, 16000 })
    {
      RawClient client (tcp_);
      struct pollfd readable = { client.fd (), POLLIN, 0 };
      char type = 0;
      client.SendBytes (FirstFlight (n_protocols));
      EXPECT_EQ (poll (&readable, 1, 60000), 1);
      EXPECT_EQ (recv (client.fd (), &type, 1, 0), 1);
      EXPECT_EQ (type, n_protocols <= 1000 ? handshake : alert) << n_protocols;
    }
  ExpectServes ();
}

TEST_F (TlsTest, TruncatedHandshakes)
{
  std::string flight = FirstFlight ();
  for (size_t n : { size_t { 1 }, size_t { 4 }, size_t { 6 }, flight.size () / 2,
                    flight.size () - 1, flight.size () })
    {
      RawClient client (tcp_);
      EXPECT_TRUE (client.SendBytes (flight.substr (0, n)));
      client.StopSending ();
      EXPECT_TRUE (client.IsClosedByPeer ()) << n;
    }
  WaitForFailures (6);
  ExpectServes ();
}

TEST_F (TlsTest, BytesThatAreNoHandshake)
{
  std::string flight = FirstFlight (), damaged = flight;
  for (size_t i = 5; i < damaged.size (); i += 7)
    damaged[i] = (char) (damaged[i] ^ 0x55);
  std::string old = flight;
  old[9] = 2; // version 2.3 in the hello
  const std::string attacks[] = {
    std::string ("\x16\x03\x01\xff\xff", 5) + std::string (70000, 'x'), // an oversize record
    std::string ("\x16\x03\x01\x00\x00", 5) + std::string (64, '\0'),   // an empty record
    std::string ("\x16\x02\x00\x00\x05", 5) + "hello",
    std::string (1000, '\x16'),
    std::string ("\x16\x03\x01\x40\x00\x01\xff\xff\xff", 9)
        + std::string (20000, 'x'), // a hello of 16 MiB
    damaged,
    old,
    flight + flight,
    flight + std::string ("\x17\x03\x03\x00\x20", 5) + std::string (32, 'e') // early data
        + std::string ("\x17\x03\x03\x40\x00", 5) + std::string (16384, 'e'),
    flight + std::string ("\x15\x03\x03\x00\x02\x02\x28", 7), // an alert
  };
  for (const std::string &attack : attacks)
    {
      RawClient client (tcp_);
      client.SendBytes (attack);
      client.StopSending ();
      EXPECT_TRUE (client.IsClosedByPeer ()) << attack.substr (0, 8).c_str ();
    }
  ExpectServes ();
}

TEST_F (TlsTest, OlderVersionsAreRefused)
{
  for (int version : { TLS1_VERSION, TLS1_1_VERSION, TLS1_2_VERSION })
    {
      TlsPeer peer (tcp_);
      SSL_set_security_level (peer.ssl (), 0);
      SSL_set_min_proto_version (peer.ssl (), TLS1_VERSION);
      SSL_set_max_proto_version (peer.ssl (), version);
      EXPECT_FALSE (peer.ShakeHands ()) << version;
    }
  ExpectServes ();
}

class OldVersion : public TlsTest
{
protected:
  Tls
  MakeServerTls () override
  {
    return MakeTls ("server", "", true);
  }
};

TEST_F (OldVersion, IsServedWithoutRenegotiation)
{
  TlsPeer peer (tcp_);
  SSL_set_max_proto_version (peer.ssl (), TLS1_2_VERSION);
  ASSERT_TRUE (peer.ShakeHands ());
  EXPECT_TRUE (peer.Send (EchoBytes (1)));
  EXPECT_NE (peer.ReceiveFrame (), "");
  SSL_renegotiate (peer.ssl ());
  EXPECT_NE (SSL_do_handshake (peer.ssl ()), 1);
  TlsPeer other (tcp_);
  SSL_set_min_proto_version (other.ssl (), TLS1_2_VERSION);
  SSL_set_max_proto_version (other.ssl (), TLS1_2_VERSION);
  SSL_set_cipher_list (other.ssl (), "AES128-SHA");
  EXPECT_FALSE (other.ShakeHands ());
  ExpectServes ();
}

// Each key update asks for a reply. This peer reads none before it has sent all key updates.
TEST_F (TlsTest, FloodsOfKeyUpdates)
{
  TlsPeer peer (tcp_);
  ASSERT_TRUE (peer.ShakeHands ());
  for (int i = 0; i < 2000; i++)
    {
      SSL_key_update (peer.ssl (), SSL_KEY_UPDATE_REQUESTED);
      ASSERT_EQ (SSL_do_handshake (peer.ssl ()), 1);
    }
  EXPECT_TRUE (peer.Send (EchoBytes (1)));
  EXPECT_NE (peer.ReceiveFrame (), "");
}

// ---- early data ---------------------------------------------------------------------------------

// A client that sends early data (0-RTT) under a key that it claims to share with the server.
class EarlyPeer : public TlsPeer
{
public:
  explicit EarlyPeer (const std::string &address) : TlsPeer (address)
  {
    SSL_set_psk_use_session_callback (ssl (), UseSession);
  }
  // Sends the first flight, followed by early data.
  bool
  SendEarly (const std::string &bytes)
  {
    size_t n = 0;
    return SSL_write_early_data (ssl (), bytes.data (), bytes.size (), &n) == 1
           && n == bytes.size ();
  }

private:
  static int
  UseSession (SSL *ssl, const EVP_MD *, const unsigned char **id, size_t *n_id_bytes,
              SSL_SESSION **session)
  {
    static const unsigned char name[] = "early";
    const unsigned char cipher[] = { 0x13, 0x01 }; // TLS_AES_128_GCM_SHA256
    *session = SSL_SESSION_new ();
    SSL_SESSION_set1_master_key (*session, std::vector<unsigned char> (32, 7).data (), 32);
    SSL_SESSION_set_cipher (*session, SSL_CIPHER_find (ssl, cipher));
    SSL_SESSION_set_protocol_version (*session, TLS1_3_VERSION);
    SSL_SESSION_set_max_early_data (*session, 1 << 20);
    *id = name;
    *n_id_bytes = sizeof name - 1;
    return 1;
  }
};

TEST_F (TlsTest, EarlyDataAreRefusedAndNotCarriedOut)
{
  EarlyPeer peer (tcp_);
  ASSERT_TRUE (peer.SendEarly (MessageBytes (Wire (), "Test:hold", 5, IntField (5))));
  ASSERT_TRUE (peer.ShakeHands ());
  EXPECT_EQ (SSL_get_early_data_status (peer.ssl ()), SSL_EARLY_DATA_REJECTED);
  EXPECT_TRUE (peer.Send (EchoBytes (1)));
  EXPECT_NE (peer.ReceiveFrame (), "");
  EXPECT_EQ (service_.NHeld (), 0u);
  EXPECT_EQ (Count ("requests_total", "Test:hold"), 0u);
  EXPECT_EQ (Count ("requests_total", "Test:echo"), 1u);
}

TEST_F (TlsTest, MuchEarlyDataEndTheConnection)
{
  EarlyPeer peer (tcp_);
  std::string call = MessageBytes (Wire (), "Test:hold", 5, IntField (5)), calls;
  while (calls.size () < 64 << 10)
    calls += call;
  for (int i = 0; i < 4 && peer.SendEarly (calls); i++)
    ;
  EXPECT_FALSE (peer.ShakeHands () && peer.Send (EchoBytes (1)) && !peer.ReceiveFrame ().empty ());
  WaitForFailures (1);
  EXPECT_EQ (service_.NHeld (), 0u);
  EXPECT_EQ (Count ("requests_total", "Test:hold"), 0u);
  ExpectServes ();
}

// ---- hostile peers of an open connection --------------------------------------------------------

TEST_F (TlsTest, DamagedRecordsEndTheirConnection)
{
  TlsPeer peer (tcp_);
  ASSERT_TRUE (peer.ShakeHands ());
  EXPECT_TRUE (peer.Send (EchoBytes (1)));
  EXPECT_NE (peer.ReceiveFrame (), "");
  peer.socket ().SendBytes (std::string ("\x17\x03\x03\x00\x20", 5) + std::string (32, 'x'));
  EXPECT_EQ (peer.Receive (1), "");
  ExpectServes ();
}

TEST_F (TlsTest, RecordsOfOneByte)
{
  TlsPeer peer (tcp_);
  ASSERT_TRUE (peer.ShakeHands ());
  for (int i = 0; i < 20; i++)
    for (char byte : EchoBytes (i))
      ASSERT_TRUE (peer.Send (std::string (1, byte)));
  for (int i = 0; i < 20; i++)
    EXPECT_NE (peer.ReceiveFrame (), "");
}

// A peer that sends close_notify, and so closes only its own direction, must still receive its
// reply.
TEST_F (TlsTest, CloseNotifyEndsAConnectionInOrder)
{
  TlsPeer peer (tcp_);
  ASSERT_TRUE (peer.ShakeHands ());
  EXPECT_TRUE (peer.Send (EchoBytes (1)));
  SSL_shutdown (peer.ssl ());
  EXPECT_NE (peer.ReceiveFrame (), "");
  EXPECT_EQ (peer.Receive (1), "");
  EXPECT_EQ (SSL_get_shutdown (peer.ssl ()) & SSL_RECEIVED_SHUTDOWN, SSL_RECEIVED_SHUTDOWN);
  ExpectServes ();
}

// Peers that begin handshakes and send nothing more would fill the memory of the process.
class SmallServer : public TlsTest
{
protected:
  void
  Configure (TpsServerOptions *) override
  {
    TpsBudgetLimits limits = {};
    limits.max_memory_bytes = (gsize) 64 << 20;
    tps_budgets_free (budgets_);
    budgets_ = tps_budgets_new (&limits);
    parts_.budgets = budgets_;
  }
};

TEST_F (SmallServer, HandshakesInProgressTakeASmallShareOfTheMemory)
{
  constexpr int n_clients = 100;
  TlsPeer peer (tcp_);
  ASSERT_TRUE (peer.ShakeHands ());
  {
    std::vector<std::unique_ptr<RawClient>> clients;
    std::vector<struct pollfd> closed;
    for (int i = 0; i < n_clients; i++)
      {
        clients.push_back (std::make_unique<RawClient> (tcp_));
        clients.back ()->SendBytes ("\x16");
        closed.push_back ({ clients.back ()->fd (), POLLIN, 0 });
      }
    while (Gauge ("tls_handshakes_in_progress") + poll (closed.data (), closed.size (), 0)
           < n_clients)
      std::this_thread::yield ();
    EXPECT_GT (Gauge ("tls_handshakes_in_progress"), 20);
    EXPECT_LE (tps_budget_get_held (budgets_->channels), (gsize) 8 << 20);
    EXPECT_TRUE (peer.Send (EchoBytes (1)));
    EXPECT_NE (peer.ReceiveFrame (), "") << "an established connection is not affected";
  }
  while (Gauge ("tls_handshakes_in_progress") > 0)
    std::this_thread::yield ();
  TlsPeer later (tcp_);
  EXPECT_TRUE (later.ShakeHands ());
}

// The server is stopped during handshakes.
TEST_F (TlsTest, StopsAmongHandshakes)
{
  std::vector<std::unique_ptr<RawClient>> clients;
  std::string flight = FirstFlight ();
  for (int i = 0; i < 40; i++)
    {
      clients.push_back (std::make_unique<RawClient> (tcp_));
      clients.back ()->SendBytes (flight);
    }
  EXPECT_TRUE (tps_server_stop (server_));
}

} // namespace
} // namespace thriftps_test
