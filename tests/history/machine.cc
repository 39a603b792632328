/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/history/machine.h"

#include <algorithm>
#include <deque>
#include <random>
#include <vector>

namespace history {
namespace {

using Rows = std::vector<uint32_t>;

struct Pushed
{
  uint32_t client;
  Rows rows;
};

struct Client
{
  enum class Call
  {
    none,
    push,
    repeat,
    read
  } call = Call::none;
  Rows rows;                    /* of the current call */
  std::vector<bool> is_sampled; /* by row of a read: the row has been sampled */
  std::vector<uint32_t> values;
  uint32_t number = 0; /* of the last push */
  bool is_acked = true;
  bool is_waiting = false; /* the server has received the last push but not ordered it */
  uint64_t place = 0;      /* of the last push in the order, from 1; 0 = none */
  Rows last_rows;          /* of the last push */
};

class Machine
{
public:
  Machine (const MachineOptions &options, const std::function<void (const std::string &)> &write)
      : options_ (options), write_ (write), random_ (options.seed),
        clients_ (2 * static_cast<size_t> (options.n_clients)), queues_ (options.n_rows),
        counts_ (static_cast<size_t> (options.n_rows) * options.n_clients)
  {
  }

  void
  run ()
  {
    write_ ("thriftps history 1\nclients " + std::to_string (options_.n_clients) + "\nrows "
            + std::to_string (options_.n_rows) + "\n");
    while (n_begun_ < options_.n_operations)
      step ();
    for (uint32_t who = 0; who < clients_.size (); who++)
      end_call (who, true);
  }

private:
  uint32_t
  below (size_t limit)
  {
    return static_cast<uint32_t> (random_ () % limit);
  }
  bool
  chance (double probability)
  {
    return probability > 0
           && static_cast<double> (random_ ()) < probability * static_cast<double> (UINT32_MAX);
  }

  void
  step ()
  {
    uint32_t who = below (clients_.size ());

    if (chance (options_.crash))
      crash ();
    work (who);
    if (clients_[who].call == Client::Call::none)
      begin_call (who);
    else if (below (2) == 0)
      end_call (who, !chance (options_.no_answer));
  }

  /* ---- the server ---- */

  /* Takes some of the steps that a server may take at any time. */
  void
  work (uint32_t who)
  {
    if (below (2) == 0)
      give_place (below (options_.n_clients));
    if (!clients_[who].rows.empty () && below (2) == 0)
      apply_next (clients_[who].rows[below (clients_[who].rows.size ())]);
    if (clients_[who].call == Client::Call::read && below (2) == 0)
      sample (who, below (clients_[who].rows.size ()));
  }

  void
  give_place (uint32_t who)
  {
    Client &client = clients_[who];

    if (!client.is_waiting)
      return;
    client.is_waiting = false;
    client.place = first_place_ + order_.size ();
    order_.push_back ({ who, client.last_rows });
    for (uint32_t row : client.last_rows)
      queues_[row].push_back (client.place);
  }

  void
  apply_next (uint32_t row)
  {
    if (queues_[row].empty ())
      return;
    uint32_t client = order_[queues_[row].front () - first_place_].client;
    queues_[row].pop_front ();
    counts_[static_cast<size_t> (row) * options_.n_clients + client]++;
  }

  /* Makes all pushes up to `place` visible and durable. */
  void
  finish (uint64_t place)
  {
    for (; first_place_ <= place; first_place_++)
      {
        for (uint32_t row : order_.front ().rows)
          while (!queues_[row].empty () && queues_[row].front () <= first_place_)
            apply_next (row);
        order_.pop_front ();
      }
  }

  void
  sample (uint32_t who, uint32_t i)
  {
    Client &client = clients_[who];
    auto from = counts_.begin () + static_cast<ptrdiff_t> (client.rows[i]) * options_.n_clients;

    if (client.is_sampled[i])
      return;
    client.is_sampled[i] = true;
    std::copy (from, from + options_.n_clients,
               client.values.begin () + static_cast<ptrdiff_t> (i) * options_.n_clients);
  }

  /* Keeps a random prefix of the order, and applies all of it. */
  void
  crash ()
  {
    uint64_t end = first_place_ + order_.size ();
    uint64_t cut = first_place_ + below (order_.size () + 1);

    for (uint32_t who = 0; who < clients_.size (); who++)
      end_call (who, false);
    for (uint64_t place = first_place_; place < end; place++)
      if (place < cut)
        finish (place);
      else
        forget (place);
    order_.clear ();
    first_place_ = std::max<uint64_t> (cut, first_place_);
    for (auto &queue : queues_)
      queue.clear ();
    for (Client &client : clients_)
      {
        client.is_waiting = false;
        if (client.place >= cut)
          client.place = 0;
      }
    write_ ("crash\nrestart\n");
  }

  void
  forget (uint64_t place)
  {
    const Pushed &push = order_[place - first_place_];

    for (uint32_t row : push.rows)
      if (std::find (queues_[row].begin (), queues_[row].end (), place) == queues_[row].end ())
        counts_[static_cast<size_t> (row) * options_.n_clients + push.client]--;
  }

  /* ---- the clients ---- */

  void
  line (const char *event, uint32_t who, const std::string &rest)
  {
    write_ (event + (" " + std::to_string (who)) + rest + "\n");
  }

  template <typename Numbers>
  static std::string
  join (const Numbers &numbers)
  {
    std::string text;

    for (uint32_t number : numbers)
      text += " " + std::to_string (number);
    return text;
  }

  Rows
  choose_rows ()
  {
    Rows rows;

    for (uint32_t n = 1 + below (options_.max_rows); n > 0; n--)
      {
        uint32_t row = below (options_.n_rows);

        if (std::find (rows.begin (), rows.end (), row) == rows.end ())
          rows.push_back (row);
      }
    return rows;
  }

  void
  begin_call (uint32_t who)
  {
    n_begun_++;
    if (who < options_.n_clients)
      begin_push (who);
    else
      begin_read (who);
  }

  void
  begin_push (uint32_t who)
  {
    Client &client = clients_[who];
    bool is_repeat = client.is_acked && client.number > 0 && chance (options_.no_answer);

    if (client.is_acked && !is_repeat)
      {
        client.number++;
        client.last_rows = choose_rows ();
        client.is_acked = false;
        client.place = 0;
      }
    client.call = is_repeat ? Client::Call::repeat : Client::Call::push;
    client.rows = client.last_rows;
    client.is_waiting |= client.place == 0 && !client.is_acked;
    line ("push", who, " " + std::to_string (client.number) + join (client.rows));
  }

  void
  begin_read (uint32_t who)
  {
    Client &client = clients_[who];

    client.call = Client::Call::read;
    client.rows = choose_rows ();
    client.is_sampled.assign (client.rows.size (), false);
    client.values.assign (client.rows.size () * options_.n_clients, 0);
    line ("read", who, join (client.rows));
  }

  void
  end_call (uint32_t who, bool is_answered)
  {
    Client &client = clients_[who];
    Client::Call call = client.call;

    client.call = Client::Call::none;
    if (call == Client::Call::none)
      return;
    if (call == Client::Call::read)
      end_read (who, is_answered);
    else
      end_push (who, is_answered);
  }

  void
  end_read (uint32_t who, bool is_answered)
  {
    for (uint32_t i = 0; i < clients_[who].rows.size (); i++)
      sample (who, i);
    if (is_answered)
      line ("values", who, join (clients_[who].values));
    else
      line ("lost", who, "");
  }

  void
  end_push (uint32_t who, bool is_answered)
  {
    Client &client = clients_[who];

    if (is_answered)
      {
        give_place (who);
        finish (client.place);
        client.is_acked = true;
      }
    line (is_answered ? "ack" : "unknown", who, " " + std::to_string (client.number));
  }

  MachineOptions options_;
  std::function<void (const std::string &)> write_;
  std::mt19937 random_;
  std::vector<Client> clients_;
  std::deque<Pushed> order_; /* pushes from `first_place_` on, not all visible and durable */
  uint64_t first_place_ = 1;
  /* by row: places of pushes that have not been applied to the row yet */
  std::vector<std::deque<uint64_t>> queues_;
  std::vector<uint32_t> counts_; /* by row and client */
  uint64_t n_begun_ = 0;
};

} // namespace

void
write_valid_history (const MachineOptions &options,
                     const std::function<void (const std::string &)> &write)
{
  Machine (options, write).run ();
}

} // namespace history
