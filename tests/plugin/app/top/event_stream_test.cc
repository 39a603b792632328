// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "plugin/app/top/event_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/base/error.h"

namespace {

using testing::ElementsAre;
using testing::HasSubstr;

void
Keep (gpointer data, const gchar *name, const gchar *text)
{
  static_cast<std::vector<std::string> *> (data)->push_back (std::string (name) + "|" + text);
}

// Feeds `text` in pieces of `n` bytes, and returns the parsed events.
std::vector<std::string>
Parse (const std::string &text, size_t n)
{
  std::vector<std::string> events;
  g_autoptr (TpsEventStream) stream = tps_event_stream_new (Keep, &events);
  for (size_t at = 0; at < text.size (); at += n)
    {
      std::string piece = text.substr (at, n);
      EXPECT_TRUE (tps_event_stream_feed (stream, piece.data (), piece.size (), nullptr));
    }
  return events;
}

TEST (EventStream, FindsEventsWhereverThePiecesEnd)
{
  std::string text = ": comment\n\nevent: hello\ndata: {\"a\": 1}\n\nid: 7\nevent:sample\ndata:x\n"
                     "data: y\n\ndata: no name\n\nevent: not ended\ndata: z\n";
  for (size_t n = 1; n <= text.size (); n++)
    EXPECT_THAT (Parse (text, n),
                 ElementsAre ("hello|{\"a\": 1}", "sample|x\ny", "message|no name"));
}

TEST (EventStream, KnowsAllEndsOfLines)
{
  for (size_t n : { 1, 2, 100 })
    {
      EXPECT_THAT (Parse ("event: a\r\ndata: 1\r\n\r\ndata: 2\r\n\r\n", n),
                   ElementsAre ("a|1", "message|2"));
      EXPECT_THAT (Parse ("event: a\rdata: 1\r\rdata: 2\r\r", n), ElementsAre ("a|1", "message|2"));
    }
}

TEST (EventStream, SkipsEventsWithoutData)
{
  EXPECT_THAT (Parse ("event: a\n\ndata\n\ndatum: 1\n\n", 3), ElementsAre ());
  EXPECT_THAT (Parse ("data:\n\n", 3), ElementsAre ("message|"));
}

TEST (EventStream, RefusesAnEventWithoutAnEnd)
{
  std::vector<std::string> events;
  g_autoptr (TpsEventStream) stream = tps_event_stream_new (Keep, &events);
  g_autoptr (GError) error = nullptr;
  std::string line = "data: " + std::string (1 << 20, 'x') + "\n";
  for (int i = 0; i < 3; i++)
    ASSERT_TRUE (tps_event_stream_feed (stream, line.data (), line.size (), nullptr));
  EXPECT_FALSE (tps_event_stream_feed (stream, line.data (), line.size (), &error));
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_PROTOCOL));
  EXPECT_THAT (error->message, HasSubstr ("longer than 4194304 bytes"));
}

} // namespace
