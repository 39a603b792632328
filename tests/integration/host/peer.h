/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A client that can send any bytes, and a server process as its target. Every wait has a
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

/* The result of a wait for a reply. */
struct Answer
{
  bool closed = false; /* the connection has ended */
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

  /* Returns false if the other side has closed the connection. */
  bool send (const std::string &bytes);
  bool send_message (const Message &message);

  /* Shuts down the sending direction. */
  void end_of_sending ();

  /* Closes the connection with a reset, which discards unread bytes. */
  void reset ();

  /* Waits for the next message. A frame is malformed if it contains less or more than one
   * message. */
  Answer receive (int timeout_ms = 20000);

  /* Makes one call, and waits for the next message. */
  Answer call (const std::string &name, Value arguments, int32_t seqid = 1, int timeout_ms = 20000);

  /* Reads and discards bytes until the connection ends. Returns false if it does not end in
   * time. */
  bool wait_for_end (int timeout_ms = 20000);

private:
  void shake_hands ();
  bool send_raw (const std::string &bytes);
  bool read_some (int timeout_ms, Answer *answer);
  bool try_decode (Answer *answer);

  int fd_ = -1;
  std::unique_ptr<TlsEnd> tls_; /* null = not encrypted */
  Protocol protocol_;
  bool framed_;
  std::string received_;
};

/* A server in a child process. It prints "listening on ADDRESS", and exits with its standard input
 * or on SIGTERM. */
class Process
{
public:
  /* argv[0] is a path in the runfiles. */
  explicit Process (const std::vector<std::string> &argv, bool end_by_signal = false);
  ~Process ();
  Process (const Process &) = delete;
  Process &operator= (const Process &) = delete;

  /* Returns the address in the format that Peer accepts. */
  const std::string &
  address () const
  {
    return address_;
  }

  bool is_alive ();

  /* Ends the process. Returns its exit code, or the negated number of its signal. */
  int end ();

  /* These functions read the use of memory and CPU time from /proc. */
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
