// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "plugin/app/top/view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const char kStatus[] = R"({"name": "server0", "version": "0.1.0", "state": "ready",
  "time_s": 93784, "start_time_s": 0,
  "totals": {"connections": 12, "max_connections": 1024, "refused": 3, "in_flight": 7},
  "budgets": [{"name": "process", "held_bytes": 1073741824, "peak_bytes": 2147483648,
               "max_bytes": 4294967296},
              {"name": "tables", "held_bytes": 512, "peak_bytes": 512, "max_bytes": null}],
  "workers": {"threads": 2, "running": 1, "queued": 3, "queued_long": 1},
  "durability": {"phase": "live", "lsn": 120, "end_lsn": 121, "log_bytes": 1048576,
                 "snapshot": {"lsn": 100}}})";

const char kSample[] = R"({"interval_s": 2, "calls": 2400, "failures": 1, "received_bytes": 3000000,
  "sent_bytes": 900,
  "methods": [{"name": "EmbeddingTable:lookup_bags", "calls": 1800, "failures": 1, "p50_ms": 0.2125,
               "p99_ms": 12.5},
              {"name": "Node:describe", "calls": 2, "failures": 0, "p50_ms": null}],
  "tables": [{"name": "users", "lookups": 1800, "lookup_rows": 36000, "pushes": 4, "push_rows": 8}],
  "rounds": {"open": 12, "oldest_s": 1.25, "waiting": 71, "version": 42}})";

std::vector<std::string>
Render (const char *sample, const char *status, guint n_columns, guint n_rows,
        const char *message = nullptr)
{
  g_autoptr (TpsFigures) figures = tps_figures_new ();
  TpsViewSize size = { n_columns, n_rows };
  tps_figures_begin (figures);
  if (sample != nullptr)
    tps_figures_add_sample (figures, sample);
  if (status != nullptr)
    tps_figures_set_status (figures, status);
  tps_figures_end (figures);
  g_auto (GStrv) lines = tps_view_render (figures, message, &size);
  return std::vector<std::string> (lines, lines + g_strv_length (lines));
}

// A row of a table at a width of 100 columns.
std::string
Row (const char *name, const char *a, const char *b, const char *c, const char *d)
{
  g_autofree gchar *row = g_strdup_printf ("%-56s %10s %10s %10s %10s", name, a, b, c, d);
  return row;
}

TEST (View, HasTotalsMethodsTablesMemoryAndLog)
{
  EXPECT_THAT (Render (kSample, kStatus, 100, 0),
               ElementsAre ("server0  ThriftPS 0.1.0  ready  up 1d 02:03",
                            "calls 1.20k/s  failed 0.5/s  in 1.43 MiB/s  out 450 B/s",
                            "connections 12 of 1024, 3 refused  calls in flight 7",
                            "workers 1 of 2 busy, 4 jobs queued",
                            "rounds 12 open, 71 calls waiting, oldest 1.2 s  model version 42",
                            "log live  LSN 120 of 121  1.00 MiB  snapshot at LSN 100", "",
                            Row ("METHOD", "CALLS/s", "FAILED/s", "P50 ms", "P99 ms"),
                            Row ("EmbeddingTable:lookup_bags", "900", "0.5", "0.212", "12.50"),
                            Row ("Node:describe", "1", "0", "-", "-"), "",
                            Row ("TABLE", "LOOKUPS/s", "ROWS/s", "PUSHES/s", "ROWS/s"),
                            Row ("users", "900", "18.0k", "2", "4"), "",
                            Row ("MEMORY", "HELD", "PEAK", "LIMIT", "PART"),
                            Row ("process", "1.00 GiB", "2.00 GiB", "4.00 GiB", "25%"),
                            Row ("tables", "512 B", "512 B", "-", "-")));
}

TEST (View, IsNeverWiderOrHigherThanItsTerminal)
{
  for (guint n_columns : { 60, 80, 200 })
    for (guint n_rows = 1; n_rows < 30; n_rows++)
      {
        std::vector<std::string> lines = Render (kSample, kStatus, n_columns, n_rows, "message");
        EXPECT_LE (lines.size (), n_rows);
        for (const std::string &line : lines)
          EXPECT_LE (line.size (), n_columns);
      }
}

TEST (View, SectionsShareTheRows)
{
  std::string sample = R"({"interval_s": 1, "methods": [)", tables;
  for (int i = 0; i < 50; i++)
    {
      sample += (i > 0 ? "," : "") + std::string (R"({"name": "m)") + std::to_string (i)
                + R"(", "calls": 1})";
      tables += (i > 0 ? "," : "") + std::string (R"({"name": "t)") + std::to_string (i)
                + R"(", "pushes": 1})";
    }
  sample += "], \"tables\": [" + tables + "]}";
  std::vector<std::string> lines = Render (sample.c_str (), kStatus, 80, 31);
  EXPECT_EQ (lines.size (), 31u);
  int n_methods = 0, n_tables = 0;
  for (const std::string &line : lines)
    {
      n_methods += line[0] == 'm' && line[1] >= '0' && line[1] <= '9';
      n_tables += line[0] == 't' && line[1] >= '0' && line[1] <= '9';
    }
  EXPECT_EQ (n_methods, 9); // Of the 31 rows, 5 are the head, 6 section heads and 2 budgets.
  EXPECT_EQ (n_tables, 9);
}

TEST (View, ShowsTheReasonForMissingData)
{
  std::vector<std::string> lines = Render (nullptr, nullptr, 80, 10, "http://a: refused");
  EXPECT_EQ (lines[0], "thriftps_top");
  EXPECT_EQ (lines[1], "http://a: refused");
}

TEST (View, PrintsNoControlCharacters)
{
  for (const std::string &line : Render (
           R"({"interval_s": 1, "methods": [{"name": "a\u001b[31m\n\u00e9", "calls": 1}]})",
           R"({"name": "\u001b]0;x\u0007", "state": "\r\n", "version": "\t"})", 80, 20, "\033[2J"))
    for (char byte : line)
      EXPECT_TRUE (g_ascii_isprint (byte)) << line;
}

} // namespace
