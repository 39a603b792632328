/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The client's end of an encrypted connection without its socket: bytes in, records out, and back.
 * It accepts every certificate. */

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

  /* Goes on with the handshake; TRUE when it is done. take_output() returns the next flight. */
  bool shake_hands ();

  /* The records of `bytes`, and the record that says that nothing more comes. */
  std::string seal (const std::string &bytes);
  std::string goodbye ();

  /* Takes the received bytes; returns those inside of whole records. */
  std::string open (const std::string &records);

  std::string take_output ();

private:
  ssl_ctx_st *context_;
  ssl_st *ssl_;
};

} // namespace wire
