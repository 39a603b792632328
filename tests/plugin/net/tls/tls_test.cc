// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Tests encrypted connections over real sockets: the C client, the server, and their files.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <vector>

#include "tests/plugin/net/tls/tls_fixture.h"

namespace thriftps_test {
namespace {

using testing::HasSubstr;

// ---- calls --------------------------------------------------------------------------------------

TEST_F (TlsTest, CallsAndLargeAnswersAreEncrypted)
{
  Tls tls = MakeTls ("");
  Client client (tcp_, tls.get ());
  EXPECT_EQ (client.Ask ("echo", 5).number, 5);
  EXPECT_GT (tps_budget_get_held (budgets_->channels), 0u);
  for (gint32 n_bytes : { 1, 4095, 16384, 100000, 20 << 20 })
    EXPECT_EQ (client.Ask ("make", n_bytes).bytes, std::string ((size_t) n_bytes, 'm')) << n_bytes;
  EXPECT_EQ (Count ("tls_handshakes_total", "done"), 1u);
}

// Bodies of requests are received record by record into their final memory. Replies wait until the
// peer reads.
TEST_F (TlsTest, LargeRequestsOfAPeerThatDoesNotRead)
{
  TlsPeer peer (tcp_);
  ASSERT_TRUE (peer.ShakeHands ());
  std::thread reader ([&] {
    service_.WaitForHeld (1);
    service_.Release (0);
  });
  EXPECT_TRUE (peer.Send (MessageBytes (Wire (), "Test:take", 1, BinaryField (9 << 20))));
  reader.join ();
  for (int i = 0; i < 8; i++)
    EXPECT_TRUE (peer.Send (MessageBytes (Wire (), "Test:make", 2 + i, IntField (3 << 20))));
  EXPECT_THAT (peer.ReceiveFrame (), HasSubstr ("take"));
  for (int i = 0; i < 8; i++)
    EXPECT_THAT (peer.ReceiveFrame (), HasSubstr (std::string (3 << 20, 'm')));
}

TEST_F (TlsTest, PlainClientsAndUnixSocketsAreServedBesides)
{
  EXPECT_EQ (IntResult (RawClient (tcp_).Call ("Test:echo", IntField (3))), 3);
  EXPECT_EQ (IntResult (RawClient (unix_).Call ("Test:echo", IntField (4))), 4);
  Tls tls = MakeTls ("");
  EXPECT_EQ (Client (unix_, tls.get ()).Ask ("echo", 5).number, 5);
  EXPECT_EQ (Count ("tls_handshakes_total", "done"), 0u);
}

// ---- the identity of the server -----------------------------------------------------------------

TEST_F (TlsTest, ServersOfAnotherAuthorityAreRefused)
{
  other_.Write (File ("more"));
  Tls tls = MakeTls ("", "more");
  Call call = Client (tcp_, tls.get ()).Ask ("echo", 1);
  EXPECT_EQ (call.code, TPS_ERROR_UNAUTHENTICATED);
  EXPECT_THAT (call.text, HasSubstr ("issuer"));
  ExpectServes ();
}

TEST_F (TlsTest, ServersOfAnotherNameAreRefused)
{
  Tls tls = MakeTls ("");
  EXPECT_EQ (Client (tcp_, tls.get (), "spiffe://test/server").Ask ("echo", 1).number, 1);
  for (const char *name :
       { "localhost", "10.0.0.1", "spiffe://test/serve", "spiffe://test/server2" })
    {
      Call call = Client (tcp_, tls.get (), name).Ask ("echo", 1);
      EXPECT_EQ (call.code, TPS_ERROR_UNAUTHENTICATED) << name << ": " << call.text;
    }
}

// ---- certificates and their files ---------------------------------------------------------------

TEST_F (TlsTest, ReloadedCertificatesAreForNewConnections)
{
  Tls tls = MakeTls ("");
  Client before (tcp_, tls.get (), "spiffe://test/server");
  EXPECT_EQ (before.Ask ("echo", 1).number, 1);
  gint64 expiry_s = Gauge ("tls_certificate_expiry_timestamp_seconds");
  EXPECT_NEAR (expiry_s, (gint64) time (nullptr) + 3600, 600);
  authority_.Issue (File ("server"), { "URI:spiffe://test/second", 7200 });
  ASSERT_TRUE (tps_tls_reload (server_tls_.get (), nullptr));
  EXPECT_GT (Gauge ("tls_certificate_expiry_timestamp_seconds"), expiry_s + 3000);
  EXPECT_EQ (before.Ask ("echo", 2).number, 2);
  EXPECT_EQ (Client (tcp_, tls.get (), "spiffe://test/second").Ask ("echo", 3).number, 3);
  EXPECT_EQ (Client (tcp_, tls.get (), "spiffe://test/server").Ask ("echo", 3).code,
             TPS_ERROR_UNAUTHENTICATED);
}

TEST_F (TlsTest, BadFilesLeaveEverythingAsItWas)
{
  g_autoptr (GError) error = nullptr;
  for (const char *content : { "", "-----BEGIN CERTIFICATE-----\nAAAA\n" })
    {
      std::ofstream (File ("server")) << content;
      g_clear_error (&error);
      EXPECT_FALSE (tps_tls_reload (server_tls_.get (), &error));
      EXPECT_EQ (error->code, TPS_ERROR_INVALID_ARGUMENT);
      EXPECT_THAT (error->message, HasSubstr (File ("server")));
    }
  g_clear_error (&error);
  authority_.Issue (File ("server"), { "IP:127.0.0.1", -60 });
  EXPECT_FALSE (tps_tls_reload (server_tls_.get (), &error));
  EXPECT_THAT (error->message, HasSubstr ("expired"));
  g_clear_error (&error);
  unlink (File ("server").c_str ());
  EXPECT_FALSE (tps_tls_reload (server_tls_.get (), &error));
  EXPECT_THAT (error->message, HasSubstr ("No such file"));
  g_clear_error (&error);
  ASSERT_EQ (symlink ("/dev/zero", File ("server").c_str ()), 0);
  EXPECT_FALSE (tps_tls_reload (server_tls_.get (), &error));
  EXPECT_THAT (error->message, HasSubstr ("it is not a regular file"));
  ExpectServes ();
}

// Loads the files without a server. Returns the error message, or "" if they are valid.
std::string
Refusal (const std::string &certificate, const std::string &authorities)
{
  g_autoptr (GError) error = nullptr;
  TpsTlsOptions options = {};
  options.certificate = certificate.c_str ();
  options.authorities = authorities.c_str ();
  Tls tls (tps_tls_new (&options, &error));
  return error != nullptr ? error->message : "";
}

// The files are made longer than their texts, up to the limit and beyond.
TEST_F (TlsTest, FilesAreLimited)
{
  std::string certificate = File ("server"), authorities = File ("ca");
  ASSERT_EQ (truncate (certificate.c_str (), (off_t) 1 << 20), 0);
  ASSERT_EQ (truncate (authorities.c_str (), (off_t) 16 << 20), 0);
  EXPECT_EQ (Refusal (certificate, authorities), "");
  ASSERT_EQ (truncate (authorities.c_str (), ((off_t) 16 << 20) + 1), 0);
  EXPECT_THAT (Refusal (certificate, authorities),
               AllOf (HasSubstr (authorities), HasSubstr ("it is larger than 16 MiB")));
  ASSERT_EQ (truncate (certificate.c_str (), ((off_t) 1 << 20) + 1), 0);
  EXPECT_THAT (Refusal (certificate, authorities),
               AllOf (HasSubstr (certificate), HasSubstr ("it is larger than 1 MiB")));
}

TEST_F (TlsTest, FilesOfAuthoritiesNeedACertificate)
{
  std::ofstream (File ("more")) << "";
  EXPECT_THAT (Refusal (File ("server"), File ("more")),
               AllOf (HasSubstr (File ("more")), HasSubstr ("no certificate")));
}

TEST_F (TlsTest, KeysMustBelongToTheirCertificates)
{
  std::string server = File ("server"), client = File ("client");
  g_autoptr (GError) error = nullptr;
  TpsTlsOptions options = {};
  options.certificate = server.c_str ();
  options.key = client.c_str ();
  EXPECT_EQ (tps_tls_new (&options, &error), nullptr);
  EXPECT_THAT (error->message, HasSubstr (client));
}

TEST_F (TlsTest, ChainsComeFromTheFile)
{
  std::ifstream authority (File ("ca")), server (File ("server"));
  std::ofstream (File ("more")) << server.rdbuf () << authority.rdbuf ();
  Tls tls = MakeTls ("more", "");
  std::rename (File ("more").c_str (), File ("server").c_str ());
  ASSERT_TRUE (tps_tls_reload (server_tls_.get (), nullptr));
  TlsPeer peer (tcp_);
  ASSERT_TRUE (peer.ShakeHands ());
  EXPECT_EQ (sk_X509_num (SSL_get_peer_cert_chain (peer.ssl ())), 2);
}

// ---- clients that must have certificates --------------------------------------------------------

class ClientCertificates : public TlsTest
{
protected:
  Tls
  MakeServerTls () override
  {
    return MakeTls ("server", "ca");
  }
};

TEST_F (ClientCertificates, OnlyClientsOfTheAuthorityAreServed)
{
  other_.Issue (File ("more"));
  Tls good = MakeTls ("client"), none = MakeTls (""), foreign = MakeTls ("more");
  EXPECT_EQ (Client (tcp_, good.get ()).Ask ("echo", 1).number, 1);
  Call call = Client (tcp_, none.get ()).Ask ("echo", 1);
  EXPECT_EQ (call.code, TPS_ERROR_CONNECTION_LOST);
  call = Client (tcp_, foreign.get ()).Ask ("echo", 1);
  EXPECT_EQ (call.code, TPS_ERROR_CONNECTION_LOST) << call.text;
  WaitForFailures (2);
  ExpectServes ();
}

// The server must send only the certificates of its file, although it knows the authority.
TEST_F (ClientCertificates, AuthoritiesAreNoPartOfTheChain)
{
  TlsPeer peer (tcp_, File ("client"));
  ASSERT_TRUE (peer.ShakeHands ());
  EXPECT_EQ (sk_X509_num (SSL_get_peer_cert_chain (peer.ssl ())), 1);
}

// OpenSSL keeps the chain, even if no certificate of it is needed.
TEST_F (ClientCertificates, LongChainsAreCharged)
{
  std::string names = "DNS:a";
  for (int i = 0; i < 4000; i++)
    names += ",DNS:abcd";
  other_.Issue (File ("more"), { names });
  std::string chain = File ("more") + ".chain";
  std::ifstream client (File ("client")), other (File ("more"));
  std::ofstream (chain) << client.rdbuf () << other.rdbuf ();
  {
    TlsPeer peer (tcp_, chain);
    ASSERT_TRUE (peer.ShakeHands ());
    EXPECT_TRUE (peer.Send (EchoBytes (1)));
    EXPECT_NE (peer.ReceiveFrame (), "");
    EXPECT_GT (tps_budget_get_held (budgets_->channels), gsize { 24 * 4000 * 6 });
  }
  while (tps_budget_get_held (budgets_->channels) > 0)
    std::this_thread::yield ();
  unlink (chain.c_str ());
}

// The peer is plain OpenSSL, because the library's client would not load an expired certificate.
TEST_F (ClientCertificates, ExpiredCertificatesAreRefused)
{
  authority_.Issue (File ("more"), { "IP:127.0.0.1", -60 });
  TlsPeer peer (tcp_, File ("more"));
  peer.ShakeHands (); // the client's part ends before the server checks the certificate
  EXPECT_EQ (peer.Receive (1), "");
  WaitForFailures (1);
  ExpectServes ();
}

TEST_F (ClientCertificates, RevocationListsCountAfterAReload)
{
  authority_.Issue (File ("more"));
  TlsPeer before (tcp_, File ("more"));
  ASSERT_TRUE (before.ShakeHands ());
  EXPECT_TRUE (before.Send (EchoBytes (1)));
  EXPECT_NE (before.ReceiveFrame (), "");
  authority_.Write (File ("ca"), File ("more"));
  ASSERT_TRUE (tps_tls_reload (server_tls_.get (), nullptr));
  TlsPeer after (tcp_, File ("more"));
  after.ShakeHands ();
  EXPECT_EQ (after.Receive (1), "");
  EXPECT_TRUE (before.Send (EchoBytes (2))) << "open connections go on";
  EXPECT_NE (before.ReceiveFrame (), "");
  TlsPeer other (tcp_, File ("client"));
  ASSERT_TRUE (other.ShakeHands ());
  EXPECT_TRUE (other.Send (EchoBytes (3)));
  EXPECT_NE (other.ReceiveFrame (), "");
}

// ---- bounds -------------------------------------------------------------------------------------

class NoMemory : public TlsTest
{
protected:
  void
  Configure (TpsServerOptions *) override
  {
    TpsBudgetLimits limits = {};
    limits.max_memory_bytes = 64 << 10;
    tps_budgets_free (budgets_);
    budgets_ = tps_budgets_new (&limits);
    parts_.budgets = budgets_;
  }
};

TEST_F (NoMemory, EncryptedConnectionsAreRefused)
{
  Tls tls = MakeTls ("");
  EXPECT_EQ (Client (tcp_, tls.get ()).Ask ("echo", 1).code, TPS_ERROR_CONNECTION_LOST);
  EXPECT_EQ (tps_budget_get_held (budgets_->channels), 0u);
}

// The server never answers the handshake.
TEST_F (TlsTest, ClientsGiveUpAHandshake)
{
  int listener = socket (AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in name = {};
  socklen_t n = sizeof name;
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl (INADDR_LOOPBACK);
  ASSERT_EQ (bind (listener, (struct sockaddr *) &name, sizeof name), 0);
  ASSERT_EQ (listen (listener, 8), 0);
  getsockname (listener, (struct sockaddr *) &name, &n);
  std::string address = "127.0.0.1:" + std::to_string (ntohs (name.sin_port));
  Tls tls = MakeTls ("");
  TpsClientOptions options = {};
  options.address = address.c_str ();
  options.tls = tls.get ();
  options.connect_timeout_ns = kSecond;
  g_autoptr (TpsClient) client = tps_client_new (&options, nullptr);
  g_autoptr (GError) error = nullptr;
  gint32 argument = 1;
  EXPECT_FALSE (tps_client_call_sync (client, "Test", "echo", WriteNumber, &argument,
                                      tps_clock_now_ns () + 60 * kSecond, nullptr, nullptr,
                                      &error));
  EXPECT_EQ (error->code, TPS_ERROR_CONNECTION_LOST);
  EXPECT_THAT (error->message, HasSubstr ("was not complete after"));
  close (listener);
}

} // namespace
} // namespace thriftps_test
