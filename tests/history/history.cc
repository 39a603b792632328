/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/history/history.h"

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <unordered_map>

namespace history {

std::string
to_text (const Push &push)
{
  return "push " + std::to_string (push.number) + " of client " + std::to_string (push.client);
}

namespace {

/* ---- words ----------------------------------------------------------------------------------- */

/* The lines of a file. Their words are valid until the next line is read. */
class Lines
{
public:
  explicit Lines (FILE *in) : in_ (in), buffer_ (1 << 20)
  {
  }

  /* Reads the next line that is neither empty nor a comment. Returns false at the end of the
   * file. */
  bool
  next ()
  {
    do
      if (!next_line ())
        return false;
    while (is_empty ());
    return true;
  }

  /* Returns the next word, or an empty one at the end of the line. */
  std::string_view
  word ()
  {
    size_t begin = std::min (line_.find_first_not_of (' ', at_), line_.size ());
    size_t end = std::min (line_.find (' ', begin), line_.size ());

    at_ = end;
    return line_.substr (begin, end - begin);
  }

  uint32_t
  number () const
  {
    return number_;
  }

private:
  bool
  is_empty () const
  {
    return line_.empty () || line_[0] == '#';
  }

  /* Moves the unread bytes to the front of the buffer, and reads more. Returns false at the end of
   * the file. */
  bool
  fill ()
  {
    size_t n_rest = end_ - begin_;

    std::copy (buffer_.begin () + static_cast<ptrdiff_t> (begin_),
               buffer_.begin () + static_cast<ptrdiff_t> (end_), buffer_.begin ());
    begin_ = 0;
    end_ = n_rest;
    if (end_ == buffer_.size ())
      buffer_.resize (2 * buffer_.size ());
    end_ += fread (buffer_.data () + end_, 1, buffer_.size () - end_, in_);
    return end_ > n_rest;
  }

  bool
  next_line ()
  {
    for (;;)
      {
        std::string_view rest (buffer_.data () + begin_, end_ - begin_);
        size_t length = rest.find ('\n');

        if (length == std::string_view::npos)
          {
            if (fill ())
              continue;
            rest = { buffer_.data (), end_ };
            length = rest.size ();
          }
        if (rest.empty ())
          return false;
        line_ = rest.substr (0, length);
        begin_ += std::min (length + 1, rest.size ());
        at_ = 0;
        number_++;
        return true;
      }
  }

  FILE *in_;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;
  std::string_view line_;
  size_t at_ = 0;
  uint32_t number_ = 0;
};

/* Returns false if the word is not a whole number below kNone. */
bool
parse_count (std::string_view word, uint32_t *count)
{
  uint64_t value = 0;

  if (word.empty () || word.size () > 10)
    return false;
  for (char digit : word)
    {
      if (digit < '0' || digit > '9')
        return false;
      value = 10 * value + static_cast<uint64_t> (digit - '0');
    }
  *count = static_cast<uint32_t> (value);
  return value < kNone;
}

/* ---- events ---------------------------------------------------------------------------------- */

/* A call that has started but not ended. */
struct Open
{
  enum class Kind
  {
    none,
    push,
    repeat,
    read
  } kind = Kind::none;
  uint32_t what = kNone;
};

struct Client
{
  uint32_t n_acked = 0; /* pushes 1 to n_acked have been acknowledged */
  uint32_t n_sent = 0;  /* n_acked or n_acked + 1 */
  std::vector<uint32_t> pushes;
};

class Reader
{
public:
  Reader (FILE *in, History *history) : lines_ (in), history_ (*history)
  {
  }

  void
  read ()
  {
    read_head ();
    while (lines_.next ())
      read_event (lines_.word ());
  }

private:
  [[noreturn]] void
  fail (const std::string &what) const
  {
    throw std::runtime_error ("line " + std::to_string (lines_.number ()) + ": " + what);
  }

  uint32_t
  count (const char *what)
  {
    uint32_t value = 0;

    if (!parse_count (lines_.word (), &value))
      fail (std::string (what) + " is not a whole number");
    return value;
  }

  uint32_t
  count_below (uint32_t limit, const char *what)
  {
    uint32_t value = count (what);

    if (value >= limit)
      fail (std::string (what) + " " + std::to_string (value) + " is not below "
            + std::to_string (limit));
    return value;
  }

  void
  end_line ()
  {
    if (!lines_.word ().empty ())
      fail ("a word too many");
  }

  uint32_t
  head (const char *name)
  {
    uint32_t value;

    if (!lines_.next () || lines_.word () != name)
      fail (std::string ("expected \"") + name + " N\"");
    value = count (name);
    end_line ();
    return value;
  }

  void
  read_head ()
  {
    if (!lines_.next () || lines_.word () != "thriftps" || lines_.word () != "history"
        || lines_.word () != "1")
      fail ("expected \"thriftps history 1\"");
    history_.n_clients = head ("clients");
    history_.n_rows = head ("rows");
    clients_.resize (history_.n_clients);
    row_lines_.resize (history_.n_rows);
  }

  void
  add (EventKind kind, uint32_t what)
  {
    history_.events.push_back ({ kind, what, lines_.number () });
  }

  void
  read_event (std::string_view word)
  {
    if (word == "push")
      read_push ();
    else if (word == "ack")
      end_push (EventKind::ack);
    else if (word == "unknown")
      end_push (EventKind::unknown);
    else if (word == "read")
      begin_read ();
    else if (word == "values")
      end_read (EventKind::values);
    else if (word == "lost")
      end_read (EventKind::lost);
    else if (word == "crash")
      crash ();
    else if (word == "restart")
      restart ();
    else
      fail ("unknown event \"" + std::string (word) + "\"");
    end_line ();
  }

  Open &
  begin_call (uint32_t who)
  {
    if (!is_running_)
      fail ("a call between a crash and a restart");
    Open &open = open_[who];
    if (open.kind != Open::Kind::none)
      fail ("client " + std::to_string (who) + " has an open call");
    n_open_++;
    return open;
  }

  void
  end_call (Open *open)
  {
    open->kind = Open::Kind::none;
    n_open_--;
  }

  /* Reads distinct rows from the rest of the line. Returns their number. */
  uint32_t
  read_rows (uint32_t *first_row)
  {
    uint32_t n_rows = 0;

    *first_row = static_cast<uint32_t> (history_.rows.size ());
    for (std::string_view word = lines_.word (); !word.empty (); word = lines_.word ())
      {
        uint32_t row = 0;

        if (!parse_count (word, &row) || row >= history_.n_rows)
          fail ("row " + std::string (word) + " is not below " + std::to_string (history_.n_rows));
        if (row_lines_[row] == lines_.number ())
          fail ("row " + std::to_string (row) + " is named twice");
        row_lines_[row] = lines_.number ();
        history_.rows.push_back (row);
        n_rows++;
      }
    if (n_rows == 0)
      fail ("no row");
    return n_rows;
  }

  void
  check_same_rows (const Push &push, uint32_t first_row, uint32_t n_rows)
  {
    const uint32_t *rows = history_.rows_of (push);

    if (n_rows != push.n_rows
        || !std::equal (rows, rows + n_rows, history_.rows.begin () + first_row))
      fail (to_text (push) + " had other rows before");
    history_.rows.resize (first_row);
  }

  void
  read_push ()
  {
    uint32_t who = count_below (history_.n_clients, "client");
    uint32_t number = count ("number of the push");
    Client &client = clients_[who];
    Open &open = begin_call (who);
    uint32_t first_row, n_rows;

    if (number == 0 || number > client.n_acked + 1)
      fail ("client " + std::to_string (who) + " sends push " + std::to_string (number) + " after "
            + std::to_string (client.n_acked) + " were acknowledged");
    n_rows = read_rows (&first_row);
    if (number > client.n_sent)
      {
        client.n_sent = number;
        client.pushes.push_back (static_cast<uint32_t> (history_.pushes.size ()));
        history_.pushes.push_back ({ who, number, first_row, n_rows });
      }
    else
      check_same_rows (history_.pushes[client.pushes[number - 1]], first_row, n_rows);
    open.what = client.pushes[number - 1];
    open.kind = number > client.n_acked ? Open::Kind::push : Open::Kind::repeat;
    add (open.kind == Open::Kind::push ? EventKind::push : EventKind::repeat, open.what);
  }

  void
  end_push (EventKind kind)
  {
    uint32_t who = count_below (history_.n_clients, "client");
    uint32_t number = count ("number of the push");
    Open &open = open_[who];

    if ((open.kind != Open::Kind::push && open.kind != Open::Kind::repeat)
        || history_.pushes[open.what].number != number)
      fail ("client " + std::to_string (who) + " has no open push " + std::to_string (number));
    if (open.kind == Open::Kind::push && kind == EventKind::ack)
      clients_[who].n_acked = number;
    add (open.kind == Open::Kind::push ? kind : EventKind::repeat, open.what);
    end_call (&open);
  }

  void
  begin_read ()
  {
    uint32_t who = count ("client");
    Open &open = begin_call (who);
    Read read = { who, 0, 0, SIZE_MAX };

    read.n_rows = read_rows (&read.first_row);
    open.kind = Open::Kind::read;
    open.what = static_cast<uint32_t> (history_.reads.size ());
    history_.reads.push_back (read);
    add (EventKind::read, open.what);
  }

  void
  end_read (EventKind kind)
  {
    Open &open = open_[count ("client")];

    if (open.kind != Open::Kind::read)
      fail ("no open read");
    if (kind == EventKind::values)
      read_values (&history_.reads[open.what]);
    add (kind, open.what);
    end_call (&open);
  }

  void
  read_values (Read *read)
  {
    read->first_value = history_.values.size ();
    for (uint32_t i = 0; i < read->n_rows; i++)
      for (uint32_t client = 0; client < history_.n_clients; client++)
        {
          std::string_view word = lines_.word ();
          uint32_t value = kNone;

          if (word.empty ())
            fail ("a value is missing");
          if (!parse_count (word, &value))
            history_.bad_values.push_back (
                { lines_.number (), history_.rows_of (*read)[i], client, std::string (word) });
          history_.values.push_back (value);
        }
  }

  void
  crash ()
  {
    if (!is_running_)
      fail ("a crash without a restart after the one before");
    if (n_open_ > 0)
      fail ("a crash while calls are open");
    is_running_ = false;
    add (EventKind::crash, kNone);
  }

  void
  restart ()
  {
    if (is_running_)
      fail ("a restart without a crash");
    is_running_ = true;
    add (EventKind::restart, kNone);
  }

  Lines lines_;
  History &history_;
  std::vector<Client> clients_;
  std::vector<uint32_t> row_lines_; /* by row: the last line that named it */
  std::unordered_map<uint32_t, Open> open_;
  uint32_t n_open_ = 0;
  bool is_running_ = true;
};

} // namespace

bool
read_history (FILE *in, History *history, std::string *error)
{
  try
    {
      Reader (in, history).read ();
      return true;
    }
  catch (const std::runtime_error &failure)
    {
      *error = failure.what ();
      return false;
    }
}

} // namespace history
