/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The client side of an encrypted connection, without a socket. It converts bytes to records and
 * back, and accepts every certificate. */

#pragma once

#include <string>

struct ssl_st;
struct ssl_ctx_st;

namespace wire {

class TlsEnd
{
public:
  TlsEnd ();
  ~TlsEnd ();
  TlsEnd (const TlsEnd &) = delete;
  TlsEnd &operator= (const TlsEnd &) = delete;

  /* Continues the handshake. Returns true when the handshake is complete. take_output() returns the
   * next flight. */
  bool shake_hands ();

  /* seal() returns the records of `bytes`. goodbye() returns the close_notify record. */
  std::string seal (const std::string &bytes);
  std::string goodbye ();

  /* Takes received bytes. Returns the plain bytes of all complete records. */
  std::string open (const std::string &records);

  /* Returns the bytes that OpenSSL wants to send, and removes them. */
  std::string take_output ();

private:
  ssl_ctx_st *context_;
  ssl_st *ssl_;
};

} // namespace wire
