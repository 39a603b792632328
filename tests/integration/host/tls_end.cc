/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/integration/host/tls_end.h"

#include <openssl/ssl.h>

namespace wire {

TlsEnd::TlsEnd () : context_ (SSL_CTX_new (TLS_client_method ())), ssl_ (SSL_new (context_))
{
  SSL_set_bio (ssl_, BIO_new (BIO_s_mem ()), BIO_new (BIO_s_mem ()));
  SSL_set_connect_state (ssl_);
}

TlsEnd::~TlsEnd ()
{
  SSL_free (ssl_);
  SSL_CTX_free (context_);
}

bool
TlsEnd::shake_hands ()
{
  return SSL_do_handshake (ssl_) == 1;
}

std::string
TlsEnd::seal (const std::string &bytes)
{
  size_t n = 0;
  if (!bytes.empty ())
    SSL_write_ex (ssl_, bytes.data (), bytes.size (), &n);
  return take_output ();
}

std::string
TlsEnd::goodbye ()
{
  SSL_shutdown (ssl_);
  return take_output ();
}

std::string
TlsEnd::open (const std::string &records)
{
  std::string bytes;
  char chunk[16384];
  size_t n;
  BIO_write (SSL_get_rbio (ssl_), records.data (), static_cast<int> (records.size ()));
  while (SSL_read_ex (ssl_, chunk, sizeof chunk, &n) == 1)
    bytes.append (chunk, n);
  return bytes;
}

std::string
TlsEnd::take_output ()
{
  BIO *out = SSL_get_wbio (ssl_);
  std::string bytes (BIO_ctrl_pending (out), '\0');
  if (!bytes.empty ())
    BIO_read (out, &bytes[0], static_cast<int> (bytes.size ()));
  return bytes;
}

} // namespace wire
