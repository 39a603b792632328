/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Clients that push and read countable pushes while a server runs. They write a history of it.
 *
 *   Workload workload (options, "history");
 *   for each life of the server:
 *     workload.settle (connect)      repeats open pushes and some acknowledged ones
 *     workload.live (connect)        threads push and read until their connections are lost
 *     workload.crash ()              after the server has exited
 *     workload.restart ()            after the server has started again
 *   settle (), then close () and check the file */

#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/history/recorder.h"

namespace history {

using Rows = std::vector<guint>;

enum class Reply
{
  ok,
  refused, /* with an error; the connection is still usable */
  gone,    /* the server has exited */
};

/* A connection to a server with a table of zeros, durability COMMIT, and SGD with learning rate
 * 1. */
class Connection
{
public:
  virtual ~Connection () = default;

  /* Pushes -1 to `column` of `rows`. Sends `n_copies` at the same time. Calls `acked` after the
   * first acknowledgement, and returns after all replies. */
  virtual Reply push (guint column, gint64 sequence, const Rows &rows, unsigned n_copies,
                      const std::function<void ()> &acked) = 0;
  /* `values` has one column per client, row by row. */
  virtual Reply read (const Rows &rows, std::vector<float> *values) = 0;
  /* Drops the table and creates it again. */
  virtual Reply recreate () = 0;
};

using Connect = std::function<std::unique_ptr<Connection> ()>;

struct WorkloadOptions
{
  uint32_t seed = 1;
  guint n_clients = 4; /* this many clients push, and half as many only read */
  guint n_rows = 512;
  guint max_tables = 8;   /* how often the table may be created, at most */
  unsigned n_calls = 150; /* of each client in one life, at most */
};

class Workload
{
public:
  Workload (const WorkloadOptions &options, const std::string &path);
  ~Workload ();
  Workload (const Workload &) = delete;
  Workload &operator= (const Workload &) = delete;

  /* Returns false if the server has refused a call that it must accept. `why` has the details. */
  bool settle (const Connect &connect, std::string *why);
  /* Runs one thread per client. Returns when all connections are lost or all calls are made. */
  void live (const Connect &connect);
  /* Record the end and the next start of the server. */
  void crash ();
  void restart ();
  /* Returns false if the history could not be written. */
  bool close ();

  uint64_t
  n_operations () const
  {
    return n_operations_;
  }
  /* Returns true if all clients have ended their calls of this life. Thread: any. */
  bool
  is_over () const
  {
    return n_alive_ == 0;
  }

private:
  struct Push
  {
    guint number;
    gint64 sequence;
    Rows rows;
  };
  struct Client
  {
    guint who = 0;
    std::mt19937 random;
    std::vector<Push> pushes; /* pushes to the current table */
    guint n_pushes = 0;
    bool is_open = false; /* the last push has not been acknowledged */
  };

  void push_until_gone (Client *client, Connection *connection);
  void read_until_gone (Client *client, Connection *connection);
  Reply do_something (Client *client, Connection *connection);
  Reply send (Client *client, Connection *connection, size_t push, unsigned n_copies);
  Reply send_next (Client *client, Connection *connection);
  Reply send_old (Client *client, Connection *connection, size_t how_old);
  Reply read (const Client &client, Connection *connection, const Rows &rows);
  bool read_all (const Client &client, Connection *connection);
  bool finish (Client *client, Connection *connection, std::string *why);
  Rows choose_rows (std::mt19937 *random) const;
  Rows in_history (const Rows &rows) const;

  const WorkloadOptions options_;
  TpsHistoryRecorder *recorder_;
  std::vector<Client> clients_;
  std::mt19937 random_;
  guint table_ = 0; /* number of times that the table was dropped */
  std::atomic<size_t> n_alive_ { 0 };
  std::atomic<uint64_t> n_operations_ { 0 };
};

} // namespace history
