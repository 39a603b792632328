/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A client that sends arbitrary bytes, and a server process to send them to. Every wait has a
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

/* The result of waiting for a reply. */
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

  /* FALSE if the other side has closed. */
  bool send (const std::string &bytes);
  bool send_message (const Message &message);

  /* Shuts down the sending direction. */
  void end_of_sending ();

  /* Closes at once and discards unread bytes. */
  void reset ();

  /* The next message. A frame without a whole message, or with bytes after it, is malformed. */
  Answer receive (int timeout_ms = 20000);

  Answer call (const std::string &name, Value arguments, int32_t seqid = 1, int timeout_ms = 20000);

  /* Reads and discards bytes until the connection ends; FALSE if it does not end in time. */
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

/* A server as a child process that prints "listening on ADDRESS" and ends with its standard input
 * (or SIGTERM). */
class Process
{
public:
  /* argv[0] is a path in the runfiles. */
  explicit Process (const std::vector<std::string> &argv, bool end_by_signal = false);
  ~Process ();
  Process (const Process &) = delete;
  Process &operator= (const Process &) = delete;

  /* In the format that Peer accepts. */
  const std::string &
  address () const
  {
    return address_;
  }

  bool is_alive ();

  /* Ends the process; returns its exit code, or -signal. */
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
