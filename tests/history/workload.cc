/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/history/workload.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <utility>

namespace history {

constexpr size_t kSentAgain = 64; /* acknowledged pushes that are sent again */
constexpr guint kRowsOfRead = 64;

Workload::Workload (const WorkloadOptions &options, const std::string &path)
    : options_ (options), random_ (options.seed)
{
  GError *error = nullptr;

  recorder_ = tps_history_recorder_new (path.c_str (), options.n_clients,
                                        options.n_rows * options.max_tables, &error);
  if (recorder_ == nullptr)
    throw std::runtime_error (error->message);
  clients_.resize (options.n_clients + options.n_clients / 2);
  for (guint i = 0; i < clients_.size (); i++)
    {
      clients_[i].who = i;
      clients_[i].random.seed (options.seed * 64 + i);
    }
}

Workload::~Workload ()
{
  if (recorder_ != nullptr)
    tps_history_recorder_close (recorder_);
}

bool
Workload::close ()
{
  return tps_history_recorder_close (std::exchange (recorder_, nullptr));
}

void
Workload::crash ()
{
  tps_history_crash (recorder_);
}

void
Workload::restart ()
{
  tps_history_restart (recorder_);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Chooses a few rows in most cases, and sometimes enough rows that workers apply the push. */
Rows
Workload::choose_rows (std::mt19937 *random) const
{
  bool is_large = (*random) () % 6 == 0;
  guint n = is_large ? options_.n_rows / 2 : 1 + (*random) () % 4;
  guint first = (*random) () % options_.n_rows;
  Rows rows (n);

  std::iota (rows.begin (), rows.end (), 0);
  for (guint &row : rows)
    row = (first + row * (is_large ? 1 : 7)) % options_.n_rows;
  return rows;
}

/* In the history, each table has its own rows. */
Rows
Workload::in_history (const Rows &rows) const
{
  Rows named = rows;

  for (guint &row : named)
    row += table_ * options_.n_rows;
  return named;
}

Reply
Workload::send (Client *client, Connection *connection, size_t push, unsigned n_copies)
{
  const Push &sent = client->pushes[push];
  const Rows rows = in_history (sent.rows);
  bool is_acked = false;

  n_operations_++;
  tps_history_push (recorder_, client->who, sent.number, rows.data (),
                    static_cast<guint> (rows.size ()));
  Reply reply = connection->push (client->who, sent.sequence, sent.rows, n_copies, [&] {
    if (!is_acked)
      tps_history_ack (recorder_, client->who, sent.number);
    is_acked = true;
  });
  if (!is_acked)
    tps_history_unknown (recorder_, client->who, sent.number);
  else if (push + 1 == client->pushes.size ())
    client->is_open = false;
  return reply;
}

Reply
Workload::send_next (Client *client, Connection *connection)
{
  if (!client->is_open)
    client->pushes.push_back ({ ++client->n_pushes,
                                static_cast<gint64> (client->pushes.size ()) + 1,
                                choose_rows (&client->random) });
  client->is_open = true;
  return send (client, connection, client->pushes.size () - 1, 1 + client->random () % 2);
}

/* Repeats an old push. The server may no longer know whether it has applied it. */
Reply
Workload::send_old (Client *client, Connection *connection, size_t how_old)
{
  size_t n = client->pushes.size () - (client->is_open ? 1 : 0);

  if (how_old > n)
    return Reply::ok;
  return send (client, connection, n - how_old, 1);
}

Reply
Workload::read (const Client &client, Connection *connection, const Rows &rows)
{
  const Rows named = in_history (rows);
  auto n_rows = static_cast<guint> (rows.size ());
  std::vector<float> values;

  n_operations_++;
  tps_history_read (recorder_, client.who, named.data (), n_rows);
  Reply reply = connection->read (rows, &values);
  if (reply == Reply::ok)
    tps_history_values (recorder_, client.who, values.data (), n_rows, options_.n_clients);
  else
    tps_history_lost (recorder_, client.who);
  return reply;
}

/* ---- one life of the server ------------------------------------------------------------------ */

Reply
Workload::do_something (Client *client, Connection *connection)
{
  switch (client->random () % 8)
    {
    case 0:
      if (send_old (client, connection, 1 + client->random () % kSentAgain) == Reply::gone)
        return Reply::gone;
      return Reply::ok;
    case 1:
    case 2:
      return read (*client, connection,
                   client->pushes.empty () ? Rows { 0 } : client->pushes.back ().rows);
    default:
      return send_next (client, connection);
    }
}

void
Workload::push_until_gone (Client *client, Connection *connection)
{
  for (unsigned i = 0; i < options_.n_calls; i++)
    if (do_something (client, connection) != Reply::ok)
      return;
}

void
Workload::read_until_gone (Client *client, Connection *connection)
{
  for (unsigned i = 0; i < options_.n_calls; i++)
    if (read (*client, connection, choose_rows (&client->random)) != Reply::ok)
      return;
}

void
Workload::live (const Connect &connect)
{
  std::vector<std::thread> threads;

  n_alive_ = clients_.size ();
  for (Client &client : clients_)
    threads.emplace_back ([this, &client, &connect] {
      std::unique_ptr<Connection> connection = connect ();

      if (connection != nullptr && client.who < options_.n_clients)
        push_until_gone (&client, connection.get ());
      else if (connection != nullptr)
        read_until_gone (&client, connection.get ());
      n_alive_--;
    });
  for (std::thread &thread : threads)
    thread.join ();
}

/* ---- between two lives ----------------------------------------------------------------------- */

bool
Workload::read_all (const Client &client, Connection *connection)
{
  for (guint first = 0; first < options_.n_rows; first += kRowsOfRead)
    {
      Rows rows (std::min (kRowsOfRead, options_.n_rows - first));

      std::iota (rows.begin (), rows.end (), first);
      if (read (client, connection, rows) != Reply::ok)
        return false;
    }
  return true;
}

bool
Workload::finish (Client *client, Connection *connection, std::string *why)
{
  if (client->is_open && send_next (client, connection) != Reply::ok)
    {
      *why = "push " + std::to_string (client->n_pushes) + " of client "
             + std::to_string (client->who) + " was refused";
      return false;
    }
  for (size_t i = kSentAgain; i > 0; i--)
    send_old (client, connection, i);
  return true;
}

bool
Workload::settle (const Connect &connect, std::string *why)
{
  std::unique_ptr<Connection> connection = connect ();
  const bool looks_first = random_ () % 2 == 0;

  *why = "a read of all rows was refused";
  if (connection == nullptr || (looks_first && !read_all (clients_.back (), connection.get ())))
    return false;
  for (guint i = 0; i < options_.n_clients; i++)
    if (!finish (&clients_[i], connection.get (), why))
      return false;
  if (!read_all (clients_.back (), connection.get ()))
    return false;
  if (random_ () % 3 != 0 || table_ + 1 >= options_.max_tables)
    return true;
  *why = "the table could not be dropped and created again";
  if (connection->recreate () != Reply::ok)
    return false;
  table_++;
  for (Client &client : clients_)
    client.pushes.clear ();
  return true;
}

} // namespace history
