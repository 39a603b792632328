/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/history/history.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <unordered_map>

namespace history {

std::string
to_text (const Push &push)
{
  return "push " + std::to_string (push.number) + " of client " + std::to_string (push.client);
}

namespace {

/* Returns false if the word is not a whole number below kNone. */
bool
parse_count (const std::string &word, uint32_t *count)
{
  if (word.empty () || word.size () > 10
      || word.find_first_not_of ("0123456789") != std::string::npos)
    return false;
  uint64_t value = std::stoull (word);
  *count = static_cast<uint32_t> (value);
  return value < kNone;
}

/* A call that has started but not ended. */
struct Open
{
  EventKind kind; /* push, repeat or read */
  uint32_t what;
};

struct Client
{
  uint32_t n_acked = 0;         /* pushes 1 to n_acked have been acknowledged */
  std::vector<uint32_t> pushes; /* all, or all but the last one, are acknowledged */
};

class Reader
{
public:
  Reader (std::istream &in, History *history) : in_ (in), history_ (*history)
  {
  }

  void
  read ()
  {
    check (next () && line_ == "thriftps history 1", "expected \"thriftps history 1\"");
    history_.n_clients = head ("clients");
    history_.n_rows = head ("rows");
    clients_.resize (history_.n_clients);
    while (next ())
      read_event (word ());
  }

  uint32_t
  number () const
  {
    return number_;
  }

private:
  /* Reads the next line that is neither empty nor a comment. */
  bool
  next ()
  {
    do
      {
        number_++;
        if (!std::getline (in_, line_))
          return false;
      }
    while (line_.empty () || line_[0] == '#');
    words_.clear ();
    words_.str (line_);
    return true;
  }

  /* Returns the next word, or an empty one at the end of the line. */
  std::string
  word ()
  {
    std::string found;

    words_ >> found;
    return found;
  }

  static void
  check (bool claim, const std::string &what)
  {
    if (!claim)
      throw std::runtime_error (what);
  }

  uint32_t
  count (const char *what)
  {
    uint32_t value = 0;

    check (parse_count (word (), &value), std::string (what) + " is not a whole number");
    return value;
  }

  uint32_t
  head (const char *name)
  {
    check (next () && word () == name, std::string ("expected \"") + name + " N\"");
    return count (name);
  }

  void
  add (EventKind kind, uint32_t what)
  {
    history_.events.push_back ({ kind, what, number_ });
  }

  void
  read_event (const std::string &event)
  {
    if (event == "crash" || event == "restart")
      {
        check (open_.empty (), "a crash while calls are open");
        check ((event == "crash") == is_running_, "no crash and restart in turn");
        is_running_ = !is_running_;
        add (is_running_ ? EventKind::restart : EventKind::crash, kNone);
        return;
      }
    uint32_t who = count ("client");
    auto open = open_.find (who);
    if (event == "push" || event == "read")
      {
        check (is_running_, "a call between a crash and a restart");
        check (open == open_.end (), "client " + std::to_string (who) + " has an open call");
        open_[who] = event == "push" ? read_push (who) : begin_read (who);
        add (open_[who].kind, open_[who].what);
        return;
      }
    check (open != open_.end (), "client " + std::to_string (who) + " has no open call");
    if (event == "ack" || event == "unknown")
      end_push (who, open->second, event == "ack" ? EventKind::ack : EventKind::unknown);
    else
      {
        check (event == "values" || event == "lost", "unknown event \"" + event + "\"");
        end_read (open->second, event == "values" ? EventKind::values : EventKind::lost);
      }
    check (word ().empty (), "a word too many");
    open_.erase (open);
  }

  /* Reads distinct rows from the rest of the line. */
  std::vector<uint32_t>
  read_rows ()
  {
    std::vector<uint32_t> rows;

    for (std::string text = word (); !text.empty (); text = word ())
      {
        uint32_t row = 0;

        check (parse_count (text, &row) && row < history_.n_rows,
               "row " + text + " is not below " + std::to_string (history_.n_rows));
        rows.push_back (row);
      }
    std::vector<uint32_t> sorted (rows);
    std::sort (sorted.begin (), sorted.end ());
    check (!rows.empty (), "no row");
    check (std::adjacent_find (sorted.begin (), sorted.end ()) == sorted.end (),
           "a row is named twice");
    return rows;
  }

  /* Returns the place of the rows in the history. */
  uint32_t
  keep_rows (const std::vector<uint32_t> &rows)
  {
    history_.rows.insert (history_.rows.end (), rows.begin (), rows.end ());
    return static_cast<uint32_t> (history_.rows.size () - rows.size ());
  }

  Open
  read_push (uint32_t who)
  {
    uint32_t number = count ("number of the push");

    check (who < history_.n_clients, "this client only reads");
    Client &client = clients_[who];
    check (number > 0 && number <= client.n_acked + 1, "push " + std::to_string (number) + " after "
                                                           + std::to_string (client.n_acked)
                                                           + " were acknowledged");
    std::vector<uint32_t> rows = read_rows ();
    if (number > client.pushes.size ())
      {
        client.pushes.push_back (static_cast<uint32_t> (history_.pushes.size ()));
        history_.pushes.push_back (
            { who, number, keep_rows (rows), static_cast<uint32_t> (rows.size ()) });
      }
    uint32_t what = client.pushes[number - 1];
    const Push &push = history_.pushes[what];
    const uint32_t *before = history_.rows_of (push);
    check (std::equal (rows.begin (), rows.end (), before, before + push.n_rows),
           to_text (push) + " had other rows before");
    return { number > client.n_acked ? EventKind::push : EventKind::repeat, what };
  }

  void
  end_push (uint32_t who, const Open &open, EventKind kind)
  {
    uint32_t number = count ("number of the push");

    check (open.kind != EventKind::read && history_.pushes[open.what].number == number,
           "client " + std::to_string (who) + " has no open push " + std::to_string (number));
    if (open.kind == EventKind::push && kind == EventKind::ack)
      clients_[who].n_acked = number;
    add (open.kind == EventKind::push ? kind : EventKind::repeat, open.what);
  }

  Open
  begin_read (uint32_t who)
  {
    std::vector<uint32_t> rows = read_rows ();

    history_.reads.push_back (
        { who, keep_rows (rows), static_cast<uint32_t> (rows.size ()), SIZE_MAX });
    return { EventKind::read, static_cast<uint32_t> (history_.reads.size () - 1) };
  }

  void
  end_read (const Open &open, EventKind kind)
  {
    check (open.kind == EventKind::read, "no open read");
    if (kind == EventKind::values)
      read_values (&history_.reads[open.what]);
    add (kind, open.what);
  }

  void
  read_values (Read *read)
  {
    read->first_value = history_.values.size ();
    for (uint32_t i = 0; i < read->n_rows * history_.n_clients; i++)
      {
        std::string text = word ();
        uint32_t value = kNone;

        check (!text.empty (), "a value is missing");
        if (!parse_count (text, &value))
          history_.bad_values.push_back ({ number_,
                                           history_.rows_of (*read)[i / history_.n_clients],
                                           i % history_.n_clients, text });
        history_.values.push_back (value);
      }
  }

  std::istream &in_;
  std::string line_;
  std::istringstream words_;
  uint32_t number_ = 0;
  History &history_;
  std::vector<Client> clients_;
  std::unordered_map<uint32_t, Open> open_;
  bool is_running_ = true;
};

} // namespace

bool
read_history (std::istream &in, History *history, std::string *error)
{
  Reader reader (in, history);

  try
    {
      reader.read ();
      return true;
    }
  catch (const std::runtime_error &failure)
    {
      *error = "line " + std::to_string (reader.number ()) + ": " + failure.what ();
      return false;
    }
}

} // namespace history
