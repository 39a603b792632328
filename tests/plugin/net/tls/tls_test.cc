// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Encrypted connections over real sockets: the C client, the server, and peers that do not keep to
// the protocol.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "plugin/client/client.h"
#include "runtime/base/sync.h"
#include "tests/plugin/net/tls/certificates.h"
#include "tests/plugin/net/tls/tls_peer.h"
#include "tests/plugin/server/test_service.h"
#include "tests/runtime/base/readings.h"

namespace thriftps_test {
namespace {

using testing::HasSubstr;

constexpr gint64 kSecond = 1000000000;

struct Call
{
  int code = 0;
  std::string text;
  gint32 number = 0;
  std::string bytes;
};

gboolean
ReadResult (TpsReader *result, TpsWireType type, gpointer data, GError **)
{
  auto *call = static_cast<Call *> (data);
  if (type == TPS_WIRE_I32)
    call->number = tps_reader_i32 (result);
  else if (type == TPS_WIRE_BINARY)
    {
      TpsBytesView view = tps_reader_binary (result);
      call->bytes.assign ((const char *) view.data, view.n_bytes);
    }
  return TRUE;
}

void
WriteNumber (TpsWriter *out, gconstpointer data)
{
  tps_writer_field (out, 1, TPS_WIRE_I32);
  tps_writer_i32 (out, *static_cast<const gint32 *> (data));
}

// A client of ours.
class Client
{
public:
  Client (const std::string &address, TpsTls *tls, const char *peer = nullptr)
  {
    TpsClientOptions options = {};
    options.address = address.c_str ();
    options.tls = tls;
    options.tls_peer = peer;
    client_ = tps_client_new (&options, nullptr);
  }
  ~Client ()
  {
    tps_client_free (client_);
  }
  Call
  Ask (const char *method, gint32 argument)
  {
    Call call;
    g_autoptr (GError) error = nullptr;
    tps_client_call_sync (client_, "Test", method, WriteNumber, &argument,
                          tps_clock_now_ns () + 60 * kSecond, ReadResult, &call, &error);
    call.code = error != nullptr ? error->code : 0;
    call.text = error != nullptr ? error->message : "";
    return call;
  }

private:
  TpsClient *client_;
};

struct FreeTls
{
  void
  operator() (TpsTls *tls) const
  {
    tps_tls_unref (tls);
  }
};
using Tls = std::unique_ptr<TpsTls, FreeTls>;

std::string
EchoBytes (gint32 number)
{
  return MessageBytes (Wire (), "Test:echo", number, IntField (number));
}

class TlsTest : public ServerTest
{
protected:
  TlsTest () : authority_ ("authority"), other_ ("other authority")
  {
    g_autofree gchar *folder = g_dir_make_tmp ("tps-tls-XXXXXX", nullptr);
    files_ = folder;
    authority_.Write (File ("ca"));
    authority_.Issue (File ("server"), ServerSubject ());
    authority_.Issue (File ("client"));
    metrics_ = tps_metrics_new (nullptr, nullptr);
    budgets_ = tps_budgets_new (nullptr);
  }
  ~TlsTest () override
  {
    tps_metrics_unref (metrics_);
    tps_budgets_free (budgets_);
    for (const char *name : { "ca", "server", "client", "more" })
      unlink (File (name).c_str ());
    rmdir (files_.c_str ());
  }

  static Subject
  ServerSubject ()
  {
    return { "IP:127.0.0.1,URI:spiffe://test/server" };
  }
  std::string
  File (const std::string &name) const
  {
    return files_ + "/" + name;
  }
  // Names of files; "" = none.
  Tls
  MakeTls (const std::string &certificate, const std::string &authorities = "ca",
           bool allow_tls_1_2 = false)
  {
    std::string paths[] = { File (certificate), File (authorities) };
    g_autoptr (GError) error = nullptr;
    TpsTlsOptions options = {};
    options.certificate = certificate.empty () ? nullptr : paths[0].c_str ();
    options.authorities = authorities.empty () ? nullptr : paths[1].c_str ();
    options.allow_tls_1_2 = allow_tls_1_2;
    Tls tls (tps_tls_new (&options, &error));
    EXPECT_NE (tls, nullptr) << error->message;
    return tls;
  }
  virtual Tls
  MakeServerTls ()
  {
    return MakeTls ("server", "");
  }
  TpsServerOptions
  Options () override
  {
    TpsServerOptions options = {};
    server_tls_ = MakeServerTls ();
    options.tls = server_tls_.get ();
    options.metrics = metrics_;
    options.budgets = budgets_;
    options.n_io_threads = 1;
    Configure (&options);
    return options;
  }
  virtual void
  Configure (TpsServerOptions *)
  {
  }
  guint64
  Count (const char *name, const char *value)
  {
    return static_cast<guint64> (ReadNumber (tps_metrics_get_counters (metrics_), name, value));
  }
  gint64
  Gauge (const char *name)
  {
    return ReadNumber (tps_metrics_get_counters (metrics_), name);
  }
  void
  WaitForFailures (guint64 n)
  {
    while (Count ("tls_handshakes_total", "failed") < n)
      std::this_thread::yield ();
  }
  // Every other connection is served as before, and the lost ones have given everything back.
  void
  ExpectServes ()
  {
    {
      Tls tls = MakeTls ("client");
      EXPECT_EQ (Client (tcp_, tls.get ()).Ask ("echo", 77).number, 77);
    }
    while (tps_server_get_n_connections (server_) > 0
           || tps_budget_get_held (budgets_->channels) > 0)
      std::this_thread::yield ();
  }

  Authority authority_;
  Authority other_;
  std::string files_;
  Tls server_tls_;
  TpsMetrics *metrics_;
  TpsBudgets *budgets_;
};

// ---- what works ---------------------------------------------------------------------------------

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

// Requests with bodies are received into their memory record by record; answers wait until their
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

TEST_F (TlsTest, ManySmallCallsInFewRecords)
{
  TlsPeer peer (tcp_);
  std::string bytes;
  ASSERT_TRUE (peer.ShakeHands ());
  for (int i = 0; i < 3000; i++)
    bytes += EchoBytes (i);
  std::thread sender ([&] { EXPECT_TRUE (peer.Send (bytes)); });
  sender.join ();
  for (int i = 0; i < 3000; i++)
    ASSERT_NE (peer.ReceiveFrame (), "") << i;
}

TEST_F (TlsTest, PlainClientsAndUnixSocketsAreServedBesides)
{
  EXPECT_EQ (IntResult (RawClient (tcp_).Call ("Test:echo", IntField (3))), 3);
  EXPECT_EQ (IntResult (RawClient (unix_).Call ("Test:echo", IntField (4))), 4);
  Tls tls = MakeTls ("");
  EXPECT_EQ (Client (unix_, tls.get ()).Ask ("echo", 5).number, 5);
  EXPECT_EQ (Count ("tls_handshakes_total", "done"), 0u);
}

// ---- who the server is --------------------------------------------------------------------------

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

// The files of a process are read without a server. "" = they can be used.
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

// More bytes follow after the end of each text.
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

// The server sends the certificates of its file only, although it knows the authority.
TEST_F (ClientCertificates, AuthoritiesAreNoPartOfTheChain)
{
  TlsPeer peer (tcp_, File ("client"));
  ASSERT_TRUE (peer.ShakeHands ());
  EXPECT_EQ (sk_X509_num (SSL_get_peer_cert_chain (peer.ssl ())), 1);
}

// A peer of OpenSSL's, as this client would not load the certificate.
TEST_F (ClientCertificates, ExpiredCertificatesAreRefused)
{
  authority_.Issue (File ("more"), { "IP:127.0.0.1", -60 });
  TlsPeer peer (tcp_, File ("more"));
  peer.ShakeHands (); // the client's part is done before the server looks
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

// ---- required -----------------------------------------------------------------------------------

class Required : public TlsTest
{
protected:
  void
  Configure (TpsServerOptions *options) override
  {
    options->tls_required = TRUE;
  }
};

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

// ---- hostile handshakes -------------------------------------------------------------------------

// The first flight of a client, as OpenSSL writes it.
std::string
FirstFlight ()
{
  SSL_CTX *context = SSL_CTX_new (TLS_client_method ());
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
    std::string ("\x16\x03\x01\x00\x00", 5) + std::string (64, '\0'),   // an empty one
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

// Each asks for an answer that this peer does not read before it has sent all of them.
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

// A peer that says goodbye and closes only its side gets what it has asked for.
TEST_F (TlsTest, GoodbyesEndAConnectionInOrder)
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

// ---- bounds -------------------------------------------------------------------------------------

class NoMemory : public TlsTest
{
protected:
  void
  Configure (TpsServerOptions *options) override
  {
    TpsBudgetLimits limits = {};
    limits.max_memory_bytes = 64 << 10;
    tps_budgets_free (budgets_);
    budgets_ = tps_budgets_new (&limits);
    options->budgets = budgets_;
  }
};

TEST_F (NoMemory, EncryptedConnectionsAreRefused)
{
  Tls tls = MakeTls ("");
  EXPECT_EQ (Client (tcp_, tls.get ()).Ask ("echo", 1).code, TPS_ERROR_CONNECTION_LOST);
  EXPECT_EQ (tps_budget_get_held (budgets_->channels), 0u);
}

// A server that never answers the handshake.
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
  EXPECT_THAT (error->message, HasSubstr ("was not open after"));
  close (listener);
}

// The server stops while handshakes are under way.
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
