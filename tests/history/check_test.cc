/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests the checker with examples. planted_bugs_test shows that it finds errors of the server. */

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tests/history/check.h"

namespace history {
namespace {

using testing::HasSubstr;

/* Returns a file of two clients and three rows. */
std::string
with_head (const std::string &events)
{
  return "thriftps history 1\nclients 2\nrows 3\n" + events;
}

/* Returns "" for a valid history. Otherwise it returns the first anomaly, such as "line 5:
 * lost-push: ...". */
std::string
verdict (const std::string &events)
{
  History history;
  std::string error;
  std::istringstream in (with_head (events));

  EXPECT_TRUE (read_history (in, &history, &error)) << error;
  std::vector<Anomaly> anomalies = check_history (history);

  if (anomalies.empty ())
    return "";
  return "line " + std::to_string (anomalies[0].line) + ": " + anomalies[0].name + ": "
         + anomalies[0].text;
}

std::string
refusal (const std::string &events)
{
  History history;
  std::string error;

  std::istringstream in (with_head (events));

  EXPECT_FALSE (read_history (in, &history, &error)) << events;
  return error;
}

} // namespace

/* ---- the format ------------------------------------------------------------------------------ */

TEST (HistoryFormat, refusesInvalidHistories)
{
  EXPECT_THAT (refusal ("push 2 1 0\n"), HasSubstr ("line 4: this client only reads"));
  EXPECT_THAT (refusal ("push 0 2 0\n"), HasSubstr ("push 2 after 0 were acknowledged"));
  EXPECT_THAT (refusal ("push 0 1 3\n"), HasSubstr ("row 3 is not below 3"));
  EXPECT_THAT (refusal ("push 0 1\n"), HasSubstr ("no row"));
  EXPECT_THAT (refusal ("push 0 1 2 2\n"), HasSubstr ("a row is named twice"));
  EXPECT_THAT (refusal ("push 0 1 2\nread 0 1\n"), HasSubstr ("line 5: client 0 has an open call"));
  EXPECT_THAT (refusal ("push 0 1 2\nunknown 0 1\npush 0 1 1\n"), HasSubstr ("had other rows"));
  EXPECT_THAT (refusal ("ack 0 1\n"), HasSubstr ("no open call"));
  EXPECT_THAT (refusal ("push 0 1 2\nvalues 0 1 1\n"), HasSubstr ("no open read"));
  EXPECT_THAT (refusal ("read 5 2\nvalues 5 1\n"), HasSubstr ("a value is missing"));
  EXPECT_THAT (refusal ("read 5 2\nvalues 5 1 1 1\n"), HasSubstr ("a word too many"));
  EXPECT_THAT (refusal ("push 0 1 2\ncrash\n"), HasSubstr ("while calls are open"));
  EXPECT_THAT (refusal ("crash\nread 5 2\n"), HasSubstr ("between a crash and a restart"));
  EXPECT_THAT (refusal ("crash\ncrash\n"), HasSubstr ("crash and restart in turn"));
  EXPECT_THAT (refusal ("restart\n"), HasSubstr ("crash and restart in turn"));
  EXPECT_THAT (refusal ("read 1 2\ndrop 1\n"), HasSubstr ("unknown event \"drop\""));
}

/* ---- examples -------------------------------------------------------------------------------- */

struct Example
{
  const char *name, *events, *verdict; /* a part of the verdict; "" = valid */
};

const Example examples[] = {
  { "comments and empty lines", "# started\n\npush 0 1 2\n# and ended\nack 0 1", "" },
  { "a push without an answer is not there", "push 0 1 2\nunknown 0 1\nread 5 2\nvalues 5 0 0\n",
    "" },
  { "a push without an answer is there", "push 0 1 2\nunknown 0 1\nread 5 2\nvalues 5 1 0\n", "" },
  { "a crash loses a push that was read and not acknowledged",
    "push 0 1 2\nread 5 2\nvalues 5 1 0\nunknown 0 1\ncrash\nrestart\n"
    "read 5 2\nvalues 5 0 0\npush 0 1 2\nack 0 1\nread 5 2\nvalues 5 1 0\n",
    "" },
  { "rows show a push at different times",
    "push 0 1 0 1\nread 5 0\nvalues 5 1 0\nread 5 1\nvalues 5 0 0\nack 0 1\n", "" },
  { "a lost push", "push 0 1 2\nack 0 1\ncrash\nrestart\nread 5 2\nvalues 5 0 0\n",
    "line 9: lost-push: row 2, client 0: the read shows 0 pushes, but 1 were acknowledged before "
    "it began; the first one missing is push 1 of client 0" },
  { "a stale read", "push 0 1 2\nack 0 1\nread 5 2\nvalues 5 0 0\nread 5 2\nvalues 5 1 0\n",
    "line 7: stale-read: row 2, client 0" },
  { "a push that was applied twice",
    "push 0 1 2\nunknown 0 1\npush 0 1 2\nack 0 1\nread 5 2\nvalues 5 2 0\n",
    "line 9: excess: row 2, client 0: the read shows 2 pushes, but only 1" },
  { "a repeat that was applied",
    "push 0 1 2\nack 0 1\npush 0 1 2\nack 0 1\nread 5 2\nvalues 5 2 0\n", "excess" },
  { "a part of a push", "read 5 0 1\nvalues 5 0 0 0.5 0\n",
    "line 5: not-a-count: row 1, client 0: the value 0.5" },
  { "a negative value", "read 5 0\nvalues 5 0 -1\n", "not-a-count" },
  { "a read that goes back",
    "push 0 1 2\nread 5 2\nvalues 5 1 0\nread 5 2\nvalues 5 0 0\nack 0 1\n",
    "line 8: backwards: row 2" },
  { "reads that no order explains",
    "push 0 1 2\npush 1 1 2\nread 5 2\nread 6 2\nvalues 5 1 0\nvalues 6 0 1\n",
    "line 9: fork: row 2" },
  { "an order that differs between rows",
    "push 0 1 0 1\npush 1 1 0 1\nread 5 0\nvalues 5 1 0\nread 6 1\nvalues 6 0 1\nack 0 1\n"
    "ack 1 1\n",
    "order: reads and times contradict each other" },
  { "a torn push", "push 0 1 0 1\nunknown 0 1\ncrash\nrestart\nread 5 0 1\nvalues 5 1 0 0 0\n",
    "line 9: torn-push: push 1 of client 0 was open at a crash. Row 0 has it" },
  { "a push that comes later",
    "push 0 1 0\nunknown 0 1\ncrash\nrestart\nread 5 0\nvalues 5 0 0\nread 5 0\nvalues 5 1 0\n",
    "line 11: unstable-push" },
  { "a crash that kept the later push",
    "push 0 1 0\nread 5 0\nvalues 5 1 0\npush 1 1 1 0\nack 1 1\nunknown 0 1\ncrash\nrestart\n"
    "read 5 0\nvalues 5 0 1\n",
    "not-a-prefix: the crash lost a push" },
  { "a crash that kept a later push without an answer",
    "push 0 1 0\nread 5 0\nvalues 5 1 0\npush 1 1 1 0\nread 5 0\nvalues 5 1 1\nread 6 0\n"
    "values 6 1 1\nunknown 0 1\nunknown 1 1\ncrash\nrestart\nread 5 1\nvalues 5 0 1\nread 6 0\n"
    "values 6 0 1\n",
    "not-a-prefix" },
};

TEST (HistoryCheck, hasTheVerdictOfEachExample)
{
  for (const Example &example : examples)
    {
      std::string found = verdict (example.events);

      EXPECT_THAT (found, HasSubstr (example.verdict)) << example.name;
      EXPECT_EQ (found.empty (), *example.verdict == '\0') << example.name << ": " << found;
    }
}

} // namespace history
