/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A history of countable pushes in memory, and its reader. For the file's format see FORMAT.md. */

#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <string>
#include <vector>

namespace history {

constexpr uint32_t kNone = UINT32_MAX;

/* The number of an event in the history. Events are totally ordered. */
using Time = uint32_t;

enum class EventKind : uint8_t
{
  push,    /* an attempt of a push that has not been acknowledged */
  ack,     /* the first acknowledgement of a push */
  unknown, /* an attempt ended without a reply */
  repeat,  /* an attempt of an acknowledged push, or its end; it must change nothing */
  read,
  values, /* the values that a read returned */
  lost,   /* a read ended without a reply */
  crash,
  restart,
};

struct Event
{
  EventKind kind;
  uint32_t what; /* index of the push or the read; kNone for a crash or a restart */
  uint32_t line; /* line of the file, from 1 */
};

struct Push
{
  uint32_t client;
  uint32_t number;    /* of this client, from 1 */
  uint32_t first_row; /* in History::rows */
  uint32_t n_rows;
};

struct Read
{
  uint32_t who;
  uint32_t first_row; /* in History::rows */
  uint32_t n_rows;
  size_t first_value; /* in History::values: n_rows * n_clients counts */
};

/* A value of a row that is not a whole number of pushes. */
struct BadValue
{
  uint32_t line;
  uint32_t row;
  uint32_t client;
  std::string text;
};

struct History
{
  uint32_t n_clients = 0;
  uint32_t n_rows = 0;
  std::vector<Event> events;
  std::vector<Push> pushes;
  std::vector<Read> reads;
  std::vector<uint32_t> rows;
  std::vector<uint32_t> values;
  std::vector<BadValue> bad_values;

  const uint32_t *
  rows_of (const Push &push) const
  {
    return rows.data () + push.first_row;
  }
  const uint32_t *
  rows_of (const Read &read) const
  {
    return rows.data () + read.first_row;
  }
  const uint32_t *
  values_of (const Read &read, uint32_t i) const
  {
    return values.data () + read.first_value + static_cast<size_t> (i) * n_clients;
  }
};

/* Reads a whole file. If the file violates a rule of FORMAT.md, returns false and stores the line
 * and the rule in `*error`. */
bool read_history (std::istream &in, History *history, std::string *error);

/* Returns a text such as "push 17 of client 2". */
std::string to_text (const Push &push);

} // namespace history
