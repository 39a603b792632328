// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// One end is an encrypted connection on a loop. The other is OpenSSL on a plain socket with very
// small buffers.

#include <signal.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>

#include "plugin/net/tls/tls_channel.h"
#include "tests/plugin/net/connection_fixture.h"
#include "tests/plugin/net/tls/certificates.h"

namespace {

using tps_test::NewMessage;
using tps_test::ToBytes;

// Computes HKDF-Expand-Label of RFC 8446 with SHA-256, for at most 32 bytes.
std::string
ExpandLabel (const std::string &secret, const std::string &label, size_t n_bytes)
{
  std::string name = "tls13 " + label;
  std::string info = { '\0', (char) n_bytes, (char) name.size () };
  unsigned char block[EVP_MAX_MD_SIZE];
  info += name + std::string (1, '\0') + std::string (1, '\x01');
  HMAC (EVP_sha256 (), secret.data (), (int) secret.size (), (const unsigned char *) info.data (),
        info.size (), block, nullptr);
  return std::string ((const char *) block, n_bytes);
}

// Encrypts `content` with AES-128-GCM as the record of a peer that has already sent `sequence`
// records with these keys.
std::string
SealRecord (const std::string &secret, int sequence, const std::string &content, char type)
{
  std::string key = ExpandLabel (secret, "key", 16), nonce = ExpandLabel (secret, "iv", 12);
  std::string plain = content + type, sealed (plain.size (), '\0'), tag (16, '\0');
  std::string head ("\x17\x03\x03\x00", 4);
  EVP_CIPHER_CTX *cipher = EVP_CIPHER_CTX_new ();
  int n;
  head += (char) (plain.size () + tag.size ());
  nonce[11] = (char) (nonce[11] ^ sequence);
  EVP_EncryptInit_ex (cipher, EVP_aes_128_gcm (), nullptr, (const unsigned char *) key.data (),
                      (const unsigned char *) nonce.data ());
  EVP_EncryptUpdate (cipher, nullptr, &n, (const unsigned char *) head.data (), (int) head.size ());
  EVP_EncryptUpdate (cipher, (unsigned char *) &sealed[0], &n,
                     (const unsigned char *) plain.data (), (int) plain.size ());
  EVP_EncryptFinal_ex (cipher, (unsigned char *) &sealed[0], &n);
  EVP_CIPHER_CTX_ctrl (cipher, EVP_CTRL_AEAD_GET_TAG, (int) tag.size (), &tag[0]);
  EVP_CIPHER_CTX_free (cipher);
  return head + sealed + tag;
}

class TlsConnectionTest : public tps_test::ConnectionTest
{
protected:
  void
  SetUp () override
  {
    thriftps_test::Authority authority ("authority");
    g_autofree gchar *folder = g_dir_make_tmp ("tps-tls-XXXXXX", nullptr);
    std::string file = std::string (folder) + "/certificate";
    TpsTlsOptions options = {};
    TpsTlsCounts counts = {};
    int few_bytes = 1;
    authority.Issue (file);
    options.certificate = file.c_str ();
    g_autoptr (TpsTls) tls = tps_tls_new (&options, nullptr);
    unlink (file.c_str ());
    rmdir (folder);
    ASSERT_NE (tls, nullptr);

    signal (SIGPIPE, SIG_IGN); // OpenSSL may write to a socket after its other end is closed
    send_buffer_ = &few_bytes;
    ConnectionTest::SetUp ();
    tps_connection_set_channel (connection_,
                                tps_tls_accept (tls, nullptr, nullptr, &counts, nullptr));
    context_ = SSL_CTX_new (TLS_client_method ());
    SSL_CTX_set_ciphersuites (context_, "TLS_AES_128_GCM_SHA256");
    SSL_CTX_set_keylog_callback (context_, NoteSecret);
    ssl_ = SSL_new (context_);
    SSL_set_fd (ssl_, peer_);
    Start ();
    ASSERT_EQ (SSL_connect (ssl_), 1);
  }
  void
  TearDown () override
  {
    ConnectionTest::TearDown ();
    SSL_free (ssl_);
    SSL_CTX_free (context_);
  }
  // The line has the form "LABEL RANDOM SECRET", in hexadecimal digits.
  static void
  NoteSecret (const SSL *, const char *line)
  {
    std::string text = line;
    if (text.rfind ("CLIENT_TRAFFIC_SECRET_0 ", 0) != 0)
      return;
    secret_.clear ();
    for (size_t at = text.rfind (' ') + 1; at < text.size (); at += 2)
      secret_ += (char) std::stoi (text.substr (at, 2), nullptr, 16);
  }
  void
  Send (const std::string &bytes)
  {
    ASSERT_EQ (SSL_write (ssl_, bytes.data (), (int) bytes.size ()), (int) bytes.size ());
  }
  std::string
  Receive (size_t n_bytes)
  {
    std::string bytes (n_bytes, '\0');
    for (size_t n_got = 0, n = 0; n_got < n_bytes; n_got += n)
      if (SSL_read_ex (ssl_, &bytes[n_got], n_bytes - n_got, &n) != 1)
        return "";
    return bytes;
  }

  static inline std::string secret_; // the secret of the peer's records
  SSL_CTX *context_ = nullptr;
  SSL *ssl_ = nullptr;
};

// The connection must reply to each key update before it continues to read. Its socket is full long
// before the last one.
TEST_F (TlsConnectionTest, KeyUpdatesOfAPeerThatDoesNotRead)
{
  on_message_ = [this] (TpsMessage *) {
    tps_connection_send (connection_, NewMessage (2, 100000));
  };
  for (int i = 0; i < 100; i++)
    {
      SSL_key_update (ssl_, SSL_KEY_UPDATE_REQUESTED);
      ASSERT_EQ (SSL_do_handshake (ssl_), 1) << i << ": " << error_;
    }
  Send (ToBytes (1, 9));
  EXPECT_TRUE (Receive (ToBytes (2, 100000).size ()) == ToBytes (2, 100000));
  WaitForMessages (1);
  EXPECT_EQ (error_, "");
  EXPECT_EQ (NMessages (), 1u);
}

// The second half of the key update must arrive before the connection may send anything.
TEST_F (TlsConnectionTest, HalfAKeyUpdateDelaysSending)
{
  const char handshake = 22;
  char byte;
  PeerSends (SealRecord (secret_, 0, std::string ("\x18\0\0\1", 4), handshake));
  Settle ();
  tps_connection_send (connection_, NewMessage (1, 9));
  Settle ();
  EXPECT_EQ (recv (peer_, &byte, 1, MSG_DONTWAIT), -1);
  PeerSends (SealRecord (secret_, 1, std::string (1, '\0'), handshake));
  EXPECT_TRUE (Receive (ToBytes (1, 9).size ()) == ToBytes (1, 9)) << error_;
}

// A record is longer than the part that the socket accepts at a time.
TEST_F (TlsConnectionTest, LargeMessagesThroughASmallSocket)
{
  for (int i = 0; i < 3; i++)
    tps_connection_send (connection_, NewMessage (i, 300000 + i));
  for (int i = 0; i < 3; i++)
    EXPECT_TRUE (Receive (ToBytes (i, 300000 + i).size ()) == ToBytes (i, 300000 + i));
  Send (ToBytes (1, 3000000));
  WaitForMessages (1);
  EXPECT_EQ (NMessages (), 1u);
}

// Another thread sends while the loop receives.
TEST_F (TlsConnectionTest, ReceivesWhileOthersSend)
{
  on_message_ = [this] (TpsMessage *message) {
    tps_connection_send (connection_, NewMessage (message->seqid, 20000));
  };
  for (int i = 0; i < 20; i++)
    {
      Send (ToBytes (i, 5000));
      tps_connection_send (connection_, NewMessage (7, 9));
    }
  size_t n_bytes = 20 * (ToBytes (7, 20000).size () + ToBytes (7, 9).size ());
  EXPECT_EQ (Receive (n_bytes).size (), n_bytes);
}

TEST_F (TlsConnectionTest, PausesWithRecordsReadAhead)
{
  on_message_ = [this] (TpsMessage *) { tps_connection_pause (connection_); };
  std::string bytes;
  for (int i = 0; i < 20; i++)
    bytes += ToBytes (i, 9);
  Send (bytes);
  for (size_t i = 1; i <= 20; i++)
    {
      WaitForMessages (i);
      Settle ();
      EXPECT_EQ (NMessages (), i);
      tps_connection_resume (connection_);
    }
}

} // namespace
