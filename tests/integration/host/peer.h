/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A client that sends whatever bytes, and a server process to send them to. Every wait has a
 * deadline. */

#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/integration/host/tls_end.h"
#include "tests/integration/host/wire_value.h"

namespace wire {

/* What came of waiting for an answer. */
struct Answer
{
  bool closed = false; /* the connection ended */
  bool timed_out = false;
  bool malformed = false;
  std::string why;
  std::optional<Message> message;
};

enum class Transport
{
  Plain,
  Tls,
};

/* One connection. */
class Peer
{
public:
  /* `address` is "PORT" or "unix:PATH". */
  Peer (const std::string &address, Protocol protocol, bool framed,
        Transport transport = Transport::Plain);
  ~Peer ();
  Peer (const Peer &) = delete;
  Peer &operator= (const Peer &) = delete;

  /* FALSE when the other side has closed. */
  bool send (const std::string &bytes);
  bool send_message (const Message &message);

  /* Says that nothing more comes. */
  void end_of_sending ();

  /* Closes at once, throwing away what was not read. */
  void reset ();

  /* The next message. Anything that is no message, or goes on after it in its frame, is malformed.
   */
  Answer receive (int timeout_ms = 20000);

  Answer call (const std::string &name, Value arguments, int32_t seqid = 1, int timeout_ms = 20000);

  /* Reads until the connection ends; FALSE when it does not. What came is thrown away. */
  bool wait_for_end (int timeout_ms = 20000);

private:
  void shake_hands ();
  bool send_raw (const std::string &bytes);
  bool read_some (int timeout_ms, Answer *answer);
  bool try_decode (Answer *answer);

  int fd_ = -1;
  std::unique_ptr<TlsEnd> tls_; /* null: the bytes are sent as they are */
  Protocol protocol_;
  bool framed_;
  std::string received_;
};

/* A server as a child process that says "listening on ADDRESS" and ends with its standard input (or
 * SIGTERM). */
class Process
{
public:
  /* argv[0] is a path in the runfiles. */
  explicit Process (const std::vector<std::string> &argv, bool end_by_signal = false);
  ~Process ();
  Process (const Process &) = delete;
  Process &operator= (const Process &) = delete;

  /* As Peer takes it. */
  const std::string &
  address () const
  {
    return address_;
  }

  bool is_alive ();

  /* Ends it; its exit code, or -signal. */
  int end ();

  size_t resident_bytes () const;
  double cpu_seconds () const;

private:
  pid_t pid_ = -1;
  int stdin_ = -1;
  int stdout_ = -1;
  bool end_by_signal_;
  std::optional<int> status_;
  std::string address_;
};

} // namespace wire
