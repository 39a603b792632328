// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Tests peers that send the bytes of a handshake one at a time. The test controls the clock. The
// deadline of a handshake is set at its first byte, and later bytes must not extend it.

#include <signal.h>

#include <openssl/ssl.h>

#include "plugin/net/tls/tls_acceptor.h"
#include "tests/plugin/net/connection_fixture.h"
#include "tests/plugin/net/tls/certificates.h"
#include "tests/runtime/base/readings.h"

namespace {

using thriftps_test::ReadNumber;
using tps_test::ToBytes;

constexpr gint64 kSecond = 1000000000;
constexpr gint64 kBegin = 1000 * kSecond;
constexpr gint64 kDeadline = kBegin + 10 * kSecond;

// The parameter is true if TLS is required.
class SlowHandshake : public tps_test::ConnectionTest, public testing::WithParamInterface<bool>
{
protected:
  void
  SetUp () override
  {
    thriftps_test::Authority authority ("authority");
    g_autofree gchar *folder = g_dir_make_tmp ("tps-tls-XXXXXX", nullptr);
    std::string file = std::string (folder) + "/certificate";
    TpsTlsOptions options = {};
    TpsTlsAcceptorOptions acceptor = {};
    authority.Issue (file);
    options.certificate = file.c_str ();
    g_autoptr (TpsTls) tls = tps_tls_new (&options, nullptr);
    unlink (file.c_str ());
    rmdir (folder);
    ASSERT_NE (tls, nullptr);
    acceptor.tls = tls;
    acceptor.is_required = GetParam ();
    acceptor.counters = counters_;
    acceptor_ = tps_tls_acceptor_new (&acceptor);

    signal (SIGPIPE, SIG_IGN);
    ConnectionTest::SetUp ();
    tps_connection_set_channel (connection_, tps_tls_acceptor_get_channel (acceptor_));
    context_ = SSL_CTX_new (TLS_client_method ());
    ssl_ = SSL_new (context_);
    SSL_set_bio (ssl_, BIO_new (BIO_s_mem ()), BIO_new (BIO_s_mem ()));
    Start ();
  }
  void
  TearDown () override
  {
    ConnectionTest::TearDown ();
    SSL_free (ssl_);
    SSL_CTX_free (context_);
    tps_tls_acceptor_free (acceptor_);
    tps_counters_unref (counters_);
  }

  // Checks the progress at `now_ns`. Returns true if the connection is still open.
  bool
  IsOpenAt (gint64 now_ns)
  {
    TpsConnectionPatience patience = {};
    patience.moving_ns = patience.half_closed_ns = 60 * kSecond;
    patience.opening_ns = 10 * kSecond;
    OnLoop ([&] { tps_connection_check_progress (connection_, now_ns, &patience); });
    Settle ();
    return !IsClosed ();
  }

  // Returns the bytes that the client sends next.
  std::string
  Flight ()
  {
    char *bytes = nullptr;
    SSL_connect (ssl_);
    long n = BIO_get_mem_data (SSL_get_wbio (ssl_), &bytes);
    std::string flight (bytes, (size_t) n);
    (void) BIO_reset (SSL_get_wbio (ssl_));
    return flight;
  }

  // Sends the bytes one by one, with a check after each. The times of the checks are spread evenly
  // over the interval.
  void
  Drip (const std::string &bytes, gint64 from_ns, gint64 until_ns)
  {
    for (size_t i = 0; i < bytes.size (); i++)
      {
        PeerSends (bytes.substr (i, 1));
        Settle ();
        ASSERT_TRUE (
            IsOpenAt (from_ns + (until_ns - from_ns) * (gint64) (i + 1) / (gint64) bytes.size ()))
            << "byte " << i << " of " << bytes.size () << ": " << error_;
      }
  }

  void
  ExpectFailed ()
  {
    EXPECT_EQ (error_, "the TLS handshake was not complete after 10 s");
    EXPECT_EQ (ReadNumber (counters_, "tls_handshakes_total", "failed"), 1);
    EXPECT_EQ (ReadNumber (counters_, "tls_handshakes_total", "done"), 0);
    EXPECT_EQ (ReadNumber (counters_, "tls_handshakes_in_progress"), 0);
  }

  // Receives the server's flight. The socket has room for all its bytes.
  void
  ReceiveFlight ()
  {
    char bytes[16384];
    ssize_t n;
    Settle ();
    while ((n = recv (peer_, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
      BIO_write (SSL_get_rbio (ssl_), bytes, (int) n);
  }

  TpsCounters *counters_ = tps_counters_new ();
  TpsTlsAcceptor *acceptor_ = nullptr;
  SSL_CTX *context_ = nullptr;
  SSL *ssl_ = nullptr;
};

TEST_P (SlowHandshake, EndsAtTheDeadlineInItsFirstFlight)
{
  std::string flight = Flight ();
  PeerSends (flight.substr (0, 1));
  Settle ();
  ASSERT_TRUE (IsOpenAt (kBegin));
  EXPECT_EQ (ReadNumber (counters_, "tls_handshakes_in_progress"), 1);
  Drip (flight.substr (1, flight.size () - 2), kBegin, kDeadline - 1);
  EXPECT_FALSE (IsOpenAt (kDeadline));
  ExpectFailed ();
}

TEST_P (SlowHandshake, EndsAtTheDeadlineInItsSecondFlight)
{
  std::string flight = Flight ();
  PeerSends (flight.substr (0, 1));
  Settle ();
  ASSERT_TRUE (IsOpenAt (kBegin));
  Drip (flight.substr (1), kBegin, kBegin + 5 * kSecond);
  ReceiveFlight ();
  flight = Flight ();
  ASSERT_FALSE (flight.empty ());
  Drip (flight.substr (0, flight.size () - 1), kBegin + 5 * kSecond, kDeadline - 1);
  EXPECT_FALSE (IsOpenAt (kDeadline));
  ExpectFailed ();
}

TEST_P (SlowHandshake, IsServedIfItIsInTime)
{
  std::string flight = Flight ();
  PeerSends (flight.substr (0, 1));
  Settle ();
  ASSERT_TRUE (IsOpenAt (kBegin));
  Drip (flight.substr (1), kBegin, kBegin + 5 * kSecond);
  ReceiveFlight ();
  Drip (Flight (), kBegin + 5 * kSecond, kDeadline - 1);
  ASSERT_TRUE (SSL_is_init_finished (ssl_));
  EXPECT_TRUE (IsOpenAt (kDeadline + 1000 * kSecond)) << "it is open";
  std::string call = ToBytes (1, 10);
  ASSERT_EQ (SSL_write (ssl_, call.data (), (int) call.size ()), (int) call.size ());
  PeerSends (Flight ());
  WaitForMessages (1);
  EXPECT_EQ (NMessages (), 1u);
  EXPECT_EQ (ReadNumber (counters_, "tls_handshakes_total", "done"), 1);
  EXPECT_EQ (ReadNumber (counters_, "tls_handshakes_in_progress"), 0);
}

// Before the first byte, the connection may be a plain one, whose silence has no limit unless TLS
// is required.
TEST_P (SlowHandshake, SilenceHasTheDeadlineIfTlsIsRequired)
{
  ASSERT_TRUE (IsOpenAt (kBegin));
  ASSERT_TRUE (IsOpenAt (kDeadline - 1));
  EXPECT_EQ (IsOpenAt (kDeadline), !GetParam ());
  EXPECT_EQ (ReadNumber (counters_, "tls_handshakes_in_progress"), 0) << "none has begun";
}

INSTANTIATE_TEST_SUITE_P (Modes, SlowHandshake, testing::Bool (),
                          [] (const auto &of) { return of.param ? "Required" : "Allowed"; });

} // namespace
