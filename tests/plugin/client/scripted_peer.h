/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A peer on a raw socket that sends exactly the bytes that the test chooses, and functions that
 * build its messages. Each wait takes at most ten seconds. */

#pragma once

#include <glib.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tps_test {

/* Big-endian integers, as in the binary protocol. */
std::string be16 (int value);
std::string be32 (int64_t value);
std::string be64 (int64_t value);

/* Parts of messages: a field with the bytes of its value, a binary with its length, and a frame. */
std::string field (int type, int id, const std::string &value);
std::string binary (const std::string &bytes);
std::string framed (const std::string &message);

/* Framed messages in the binary protocol. `result` is the content of the result struct. */
std::string message (int kind, const std::string &name, int seqid, const std::string &inside);
std::string reply (const std::string &name, int seqid, const std::string &inside);
std::string reply_i64 (const std::string &name, int seqid, int64_t value);
std::string service_error (const std::string &name, int seqid, int code, const std::string &text,
                           int retry_after_ms = -1);
std::string application_exception (const std::string &name, int seqid, int kind,
                                   const std::string &text);

struct ReceivedCall
{
  std::string name;
  int kind = 0;
  int seqid = 0;
  std::string inside; /* the content of the arguments struct */
  std::string raw;    /* the frame without its length */
};

class Connection
{
public:
  explicit Connection (int fd) : fd_ (fd)
  {
  }
  Connection (Connection &&other) noexcept : fd_ (other.fd_)
  {
    other.fd_ = -1;
  }
  Connection &operator= (Connection &&other) noexcept;
  ~Connection ()
  {
    close ();
  }

  /* These methods wait for the other side. If it closes the connection, they throw. */
  ReceivedCall read_call ();
  std::string read (size_t n_bytes);
  void send (const std::string &bytes);
  /* Sends file descriptors along with the bytes (Unix sockets only). The caller still owns them. */
  void send_with_descriptors (const std::string &bytes, const std::vector<int> &descriptors);
  void close ();
  /* Reads and drops bytes until the other side closes. Returns the number of bytes. */
  size_t drain ();
  /* Returns true if the other side closes without sending more. */
  bool
  is_closed_by_peer ()
  {
    return drain () == 0;
  }

private:
  int fd_;
  std::string received_; /* bytes received; those from `n_taken_` on are not yet consumed */
  size_t n_taken_ = 0;
};

class Listener
{
public:
  /* Listens on 127.0.0.1 at the given port, or at a free port if it is 0. */
  explicit Listener (int port = 0, int backlog = 16);
  /* Listens on a Unix socket. */
  explicit Listener (const std::string &path);
  ~Listener ();
  std::string address () const;
  int
  port () const
  {
    return port_;
  }
  Connection accept ();

private:
  int fd_;
  int port_ = 0;
  std::string path_;
};

}
