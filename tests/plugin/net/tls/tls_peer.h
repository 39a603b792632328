// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// A minimal TLS client: OpenSSL on a blocking socket, in one thread.

#pragma once

#include <openssl/ssl.h>
#include <signal.h>

#include <string>

#include "tests/plugin/server/raw_client.h"

namespace thriftps_test {

class TlsPeer
{
public:
  // Connects without a handshake. Uses the certificate in `file` unless it is "", and trusts every
  // server.
  explicit TlsPeer (const std::string &address, const std::string &file = "") : socket_ (address)
  {
    signal (SIGPIPE, SIG_IGN); // OpenSSL may write to a socket that the server has closed
    context_ = SSL_CTX_new (TLS_client_method ());
    if (!file.empty ())
      {
        SSL_CTX_use_certificate_chain_file (context_, file.c_str ());
        SSL_CTX_use_PrivateKey_file (context_, file.c_str (), SSL_FILETYPE_PEM);
      }
    ssl_ = SSL_new (context_);
    SSL_set_fd (ssl_, socket_.fd ());
  }
  ~TlsPeer ()
  {
    SSL_free (ssl_);
    SSL_CTX_free (context_);
  }
  TlsPeer (const TlsPeer &) = delete;
  TlsPeer &operator= (const TlsPeer &) = delete;

  bool
  ShakeHands ()
  {
    return SSL_connect (ssl_) == 1;
  }
  bool
  Send (const std::string &bytes)
  {
    size_t n = 0;
    return SSL_write_ex (ssl_, bytes.data (), bytes.size (), &n) == 1 && n == bytes.size ();
  }
  // Returns "" if the connection has ended.
  std::string
  Receive (size_t n_bytes)
  {
    std::string bytes (n_bytes, '\0');
    for (size_t n_got = 0, n = 0; n_got < n_bytes; n_got += n)
      if (SSL_read_ex (ssl_, &bytes[n_got], n_bytes - n_got, &n) != 1)
        return "";
    return bytes;
  }
  // Receives one framed message. Returns it without the length of its frame.
  std::string
  ReceiveFrame ()
  {
    std::string head = Receive (4);
    if (head.empty ())
      return "";
    size_t n = 0;
    for (char byte : head)
      n = n << 8 | (unsigned char) byte;
    return Receive (n);
  }
  SSL *
  ssl ()
  {
    return ssl_;
  }
  RawClient &
  socket ()
  {
    return socket_;
  }

private:
  RawClient socket_;
  SSL_CTX *context_;
  SSL *ssl_;
};

} // namespace thriftps_test
