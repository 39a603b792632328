/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests the checker with examples, and compares it with an exhaustive search of the server's steps.
 * The environment variable SEEDS sets the number of compared histories, and FIRST_SEED chooses
 * others. */

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>

#include "tests/history/brute_force.h"
#include "tests/history/check.h"
#include "tests/history/machine.h"

namespace history {
namespace {

using testing::HasSubstr;

bool
parse (const std::string &text, History *history, std::string *error)
{
  FILE *in = fmemopen (const_cast<char *> (text.data ()), text.size (), "r");
  bool ok = read_history (in, history, error);

  fclose (in);
  return ok;
}

History
parsed (const std::string &text)
{
  History history;
  std::string error;

  EXPECT_TRUE (parse (text, &history, &error)) << error << "\n" << text;
  return history;
}

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
  History history = parsed (with_head (events));
  std::vector<Anomaly> anomalies = check_history (history);

  EXPECT_EQ (anomalies.empty (), is_valid_by_search (history)) << events;
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

  EXPECT_FALSE (parse (with_head (events), &history, &error)) << events;
  return error;
}

unsigned
from_environment (const char *name, unsigned otherwise)
{
  const char *text = getenv (name);

  return text != nullptr ? static_cast<unsigned> (atoi (text)) : otherwise;
}

} // namespace

/* ---- the format ------------------------------------------------------------------------------ */

TEST (HistoryFormat, refusesInvalidHistories)
{
  EXPECT_THAT (refusal ("push 2 1 0\n"), HasSubstr ("line 4: client 2 is not below 2"));
  EXPECT_THAT (refusal ("push 0 2 0\n"), HasSubstr ("sends push 2 after 0 were acknowledged"));
  EXPECT_THAT (refusal ("push 0 1 3\n"), HasSubstr ("row 3 is not below 3"));
  EXPECT_THAT (refusal ("push 0 1\n"), HasSubstr ("no row"));
  EXPECT_THAT (refusal ("push 0 1 2 2\n"), HasSubstr ("row 2 is named twice"));
  EXPECT_THAT (refusal ("push 0 1 2\nread 0 1\n"), HasSubstr ("line 5: client 0 has an open call"));
  EXPECT_THAT (refusal ("push 0 1 2\nunknown 0 1\npush 0 1 1\n"), HasSubstr ("had other rows"));
  EXPECT_THAT (refusal ("ack 0 1\n"), HasSubstr ("no open push 1"));
  EXPECT_THAT (refusal ("push 0 1 2\nvalues 0 1 1\n"), HasSubstr ("no open read"));
  EXPECT_THAT (refusal ("read 5 2\nvalues 5 1\n"), HasSubstr ("a value is missing"));
  EXPECT_THAT (refusal ("read 5 2\nvalues 5 1 1 1\n"), HasSubstr ("a word too many"));
  EXPECT_THAT (refusal ("push 0 1 2\ncrash\n"), HasSubstr ("while calls are open"));
  EXPECT_THAT (refusal ("crash\nread 5 2\n"), HasSubstr ("between a crash and a restart"));
  EXPECT_THAT (refusal ("crash\ncrash\n"), HasSubstr ("without a restart"));
  EXPECT_THAT (refusal ("restart\n"), HasSubstr ("without a crash"));
  EXPECT_THAT (refusal ("drop 1\n"), HasSubstr ("unknown event \"drop\""));
}

TEST (HistoryFormat, refusesAnotherHead)
{
  History history;
  std::string error;

  EXPECT_FALSE (parse ("thriftps history 2\n", &history, &error));
  EXPECT_FALSE (parse ("thriftps history 1\nrows 3\nclients 2\n", &history, &error));
  EXPECT_FALSE (parse ("thriftps history 1\nclients two\nrows 3\n", &history, &error));
}

TEST (HistoryFormat, hasCommentsAndEmptyLines)
{
  EXPECT_EQ (verdict ("# started\n\npush 0 1 2\n# and ended\nack 0 1"), "");
}

/* ---- examples -------------------------------------------------------------------------------- */

TEST (HistoryCheck, acceptsAPushWithoutAnAnswerThereOrNot)
{
  EXPECT_EQ (verdict ("push 0 1 2\nunknown 0 1\nread 5 2\nvalues 5 0 0\n"), "");
  EXPECT_EQ (verdict ("push 0 1 2\nunknown 0 1\nread 5 2\nvalues 5 1 0\n"), "");
}

TEST (HistoryCheck, acceptsACrashThatLosesAPushWhichWasReadButNotAcknowledged)
{
  EXPECT_EQ (verdict ("push 0 1 2\nread 5 2\nvalues 5 1 0\nunknown 0 1\ncrash\nrestart\n"
                      "read 5 2\nvalues 5 0 0\npush 0 1 2\nack 0 1\nread 5 2\nvalues 5 1 0\n"),
             "");
}

TEST (HistoryCheck, acceptsThatRowsShowAPushAtDifferentTimes)
{
  EXPECT_EQ (verdict ("push 0 1 0 1\nread 5 0\nvalues 5 1 0\nread 5 1\nvalues 5 0 0\nack 0 1\n"),
             "");
}

TEST (HistoryCheck, findsALostPush)
{
  EXPECT_THAT (verdict ("push 0 1 2\nack 0 1\ncrash\nrestart\nread 5 2\nvalues 5 0 0\n"),
               HasSubstr ("line 9: lost-push: row 2, client 0: the read shows 0 pushes, but 1 were "
                          "acknowledged before it began; the first one missing is push 1 of client "
                          "0"));
}

TEST (HistoryCheck, findsAStaleRead)
{
  EXPECT_THAT (verdict ("push 0 1 2\nack 0 1\nread 5 2\nvalues 5 0 0\nread 5 2\nvalues 5 1 0\n"),
               HasSubstr ("line 7: stale-read: row 2, client 0"));
}

TEST (HistoryCheck, findsAPushThatWasAppliedTwice)
{
  EXPECT_THAT (verdict ("push 0 1 2\nunknown 0 1\npush 0 1 2\nack 0 1\nread 5 2\nvalues 5 2 0\n"),
               HasSubstr ("line 9: excess: row 2, client 0: the read shows 2 pushes, but only 1"));
}

TEST (HistoryCheck, findsARepeatThatWasApplied)
{
  EXPECT_THAT (verdict ("push 0 1 2\nack 0 1\npush 0 1 2\nack 0 1\nread 5 2\nvalues 5 2 0\n"),
               HasSubstr ("excess"));
}

TEST (HistoryCheck, findsAValueThatIsNoCount)
{
  EXPECT_THAT (verdict ("read 5 0 1\nvalues 5 0 0 0.5 0\n"),
               HasSubstr ("line 5: not-a-count: row 1, client 0: the value 0.5"));
  EXPECT_THAT (verdict ("read 5 0\nvalues 5 0 -1\n"), HasSubstr ("not-a-count"));
}

TEST (HistoryCheck, findsAReadThatGoesBack)
{
  EXPECT_THAT (verdict ("push 0 1 2\nread 5 2\nvalues 5 1 0\nread 5 2\nvalues 5 0 0\nack 0 1\n"),
               HasSubstr ("line 8: backwards: row 2"));
}

TEST (HistoryCheck, findsReadsThatNoOrderExplains)
{
  EXPECT_THAT (verdict ("push 0 1 2\npush 1 1 2\nread 5 2\nread 6 2\nvalues 5 1 0\nvalues 6 0 1\n"),
               HasSubstr ("line 9: fork: row 2"));
}

TEST (HistoryCheck, findsAnOrderThatDiffersBetweenRows)
{
  EXPECT_THAT (verdict ("push 0 1 0 1\npush 1 1 0 1\nread 5 0\nvalues 5 1 0\nread 6 1\n"
                        "values 6 0 1\nack 0 1\nack 1 1\n"),
               HasSubstr ("order: reads and times contradict each other"));
}

TEST (HistoryCheck, findsATornPush)
{
  EXPECT_THAT (
      verdict ("push 0 1 0 1\nunknown 0 1\ncrash\nrestart\nread 5 0 1\nvalues 5 1 0 0 0\n"),
      HasSubstr ("line 9: torn-push: push 1 of client 0 was open at a crash. Row 0 has it"));
}

TEST (HistoryCheck, findsAPushThatComesLater)
{
  EXPECT_THAT (verdict ("push 0 1 0\nunknown 0 1\ncrash\nrestart\nread 5 0\nvalues 5 0 0\n"
                        "read 5 0\nvalues 5 1 0\n"),
               HasSubstr ("line 11: unstable-push"));
}

TEST (HistoryCheck, findsACrashThatKeptTheLaterPush)
{
  EXPECT_THAT (verdict ("push 0 1 0\nread 5 0\nvalues 5 1 0\npush 1 1 1 0\nack 1 1\nunknown 0 1\n"
                        "crash\nrestart\nread 5 0\nvalues 5 0 1\n"),
               HasSubstr ("not-a-prefix: the crash lost a push"));
}

TEST (HistoryCheck, findsACrashThatKeptALaterPushWithoutAnAnswer)
{
  EXPECT_THAT (verdict ("push 0 1 0\nread 5 0\nvalues 5 1 0\npush 1 1 1 0\nread 5 0\nvalues 5 1 1\n"
                        "read 6 0\nvalues 6 1 1\nunknown 0 1\nunknown 1 1\n"
                        "crash\nrestart\nread 5 1\nvalues 5 0 1\nread 6 0\nvalues 6 0 1\n"),
               HasSubstr ("not-a-prefix"));
}

/* ---- comparison with the search -------------------------------------------------------------- */

namespace {

std::string
small_history (unsigned seed)
{
  MachineOptions options;
  std::string text;

  options.seed = seed;
  options.n_clients = 2;
  options.n_rows = 1 + seed % 3;
  options.max_rows = 2;
  options.n_operations = 5 + seed % 5;
  options.crash = seed % 2 == 0 ? 0.08 : 0;
  options.no_answer = 0.3;
  write_valid_history (options, [&text] (const std::string &line) { text += line; });
  return text;
}

/* Increments a value of a read, or exchanges two values of one row. */
bool
spoil_values (History *history, std::mt19937 *random)
{
  if (history->values.empty ())
    return false;
  uint32_t &value = history->values[(*random) () % history->values.size ()];
  if ((*random) () % 3 == 0)
    std::swap (value, history->values[(*random) () % history->values.size ()]);
  else
    value += (*random) () % 2 == 0 || value == 0 ? 1 : UINT32_MAX;
  return true;
}

} // namespace

TEST (HistoryCheck, agreesWithASearch)
{
  const unsigned first = from_environment ("FIRST_SEED", 0), n = from_environment ("SEEDS", 3000);
  std::map<std::string, unsigned> seen;

  for (unsigned seed = first; seed < first + n; seed++)
    {
      std::mt19937 random (seed);
      std::string text = small_history (seed);
      History history = parsed (text);

      ASSERT_TRUE (check_history (history).empty ()) << "seed " << seed << "\n"
                                                     << check_history (history)[0].text << "\n"
                                                     << text;
      for (int i = 0; i < 3 && spoil_values (&history, &random); i++)
        {
          std::vector<Anomaly> anomalies = check_history (history);
          bool is_valid = is_valid_by_search (history);

          ASSERT_EQ (anomalies.empty (), is_valid)
              << "seed " << seed << ", " << i + 1 << " changes\n"
              << (is_valid ? anomalies[0].text : "the search finds no order") << "\n"
              << text;
          seen[is_valid ? "valid" : anomalies[0].name]++;
        }
      ASSERT_TRUE (is_valid_by_search (parsed (text))) << "seed " << seed << "\n" << text;
    }
  for (const char *name : { "valid", "lost-push", "stale-read", "excess", "backwards", "fork",
                            "order", "torn-push", "unstable-push", "not-a-prefix" })
    {
      printf ("%8u %s\n", seen[name], name);
      if (n >= 3000)
        {
          EXPECT_GT (seen[name], 0u) << name;
        }
    }
}

/* ---- speed ----------------------------------------------------------------------------------- */

TEST (HistoryCheck, readsALongHistory)
{
  MachineOptions options;
  std::string text;

  options.n_operations = from_environment ("OPERATIONS", 50000);
  options.crash = 0.001;
  options.no_answer = 0.05;
  write_valid_history (options, [&text] (const std::string &line) { text += line; });
  std::vector<Anomaly> anomalies = check_history (parsed (text));
  EXPECT_TRUE (anomalies.empty ()) << anomalies[0].name << ": " << anomalies[0].text;
}

} // namespace history
