// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Tests the log of thriftps_server: its formats, its file, and changes of its levels at run time.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <json-glib/json-glib.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sstream>
#include <string>
#include <vector>

#include "plugin/client/stubs.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "tests/integration/server/server_process.h"
#include "tests/plugin/server/gradient_call.h"

namespace thriftps_test {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::vector<std::string>
Lines (const std::string &text)
{
  std::vector<std::string> lines;
  std::istringstream in (text);
  for (std::string line; std::getline (in, line);)
    lines.push_back (line);
  return lines;
}

WriteFields
DropTable (const char *name)
{
  return [name] (TpsWriter *out) {
    tps_writer_field (out, 1, TPS_WIRE_BINARY);
    tps_writer_string (out, name);
  };
}

TEST (ServerLog, IsOneJsonObjectPerLineForAnyBytesOfAPeer)
{
  ServerProcess server ({ "--listen=127.0.0.1:0", "--log-format=json", "--name=ps\"0" });
  {
    RawClient client (server.ReadAddress ());
    EXPECT_NE (ErrorCode (client.Call ("EmbeddingTable:drop_table", DropTable ("a\"b\n{}"))), 0);
  }
  server.Signal (SIGTERM);
  EXPECT_EQ (server.Wait (), 0);
  bool has_failure = false;
  gint64 sequence = 0;
  for (const std::string &line : Lines (server.ReadErrors ()))
    {
      g_autoptr (JsonParser) parser = json_parser_new ();
      ASSERT_TRUE (json_parser_load_from_data (parser, line.c_str (), -1, nullptr)) << line;
      JsonObject *object = json_node_get_object (json_parser_get_root (parser));
      EXPECT_EQ (json_object_get_int_member (object, "sequence"), ++sequence);
      EXPECT_STREQ (json_object_get_string_member (object, "process"), "thriftps_server");
      EXPECT_STREQ (json_object_get_string_member (object, "node"), "ps\"0");
      EXPECT_GT (json_object_get_int_member (object, "pid"), 0);
      g_autoptr (GDateTime) time = g_date_time_new_from_iso8601 (
          json_object_get_string_member (object, "time"), nullptr);
      ASSERT_NE (time, nullptr) << line;
      if (g_str_equal (json_object_get_string_member (object, "event"), "request_failed"))
        {
          JsonObject *fields = json_object_get_object_member (object, "fields");
          EXPECT_STREQ (json_object_get_string_member (fields, "method"),
                        "EmbeddingTable:drop_table");
          EXPECT_STREQ (json_object_get_string_member (object, "area"), "plugin/service");
          has_failure = true;
        }
    }
  EXPECT_TRUE (has_failure);
}

TEST (ServerLog, HasPrioritiesForTheJournal)
{
  ServerProcess server ({ "--listen=127.0.0.1:0", "--log-format=journal" });
  server.ReadAddress ();
  server.Signal (SIGTERM);
  EXPECT_EQ (server.Wait (), 0);
  for (const std::string &line : Lines (server.ReadErrors ()))
    EXPECT_THAT (line, StartsWith ("<6>"));
}

// stderr is the file named in JOURNAL_STREAM, as under systemd.
TEST (ServerLog, FindsOutThatItGoesToTheJournal)
{
  std::string path = TemporaryFolder () + "/journal";
  for (const char *format : { "auto", "json", "text" })
    {
      ServerProcess server ({ "-c", ": > " + path + "; export JOURNAL_STREAM=$(stat -c %d:%i "
                                        + path
                                        + "); exec plugin/app/thriftps_server "
                                          "--listen=127.0.0.1:0 --log-format="
                                        + format + " 2> " + path },
                            "/bin/sh");
      server.ReadAddress ();
      server.Signal (SIGTERM);
      EXPECT_EQ (server.Wait (), 0);
      g_autofree gchar *text = nullptr;
      ASSERT_TRUE (g_file_get_contents (path.c_str (), &text, nullptr, nullptr));
      EXPECT_NE (*text, '\0');
      const char *head = g_str_equal (format, "auto")   ? "<6>"
                         : g_str_equal (format, "json") ? "<6>{"
                                                        : "20"; // the year
      for (const std::string &line : Lines (text))
        EXPECT_THAT (line, StartsWith (head));
    }
}

TEST (ServerLog, GoesToAFileAndNotToStderr)
{
  std::string path = TemporaryFolder () + "/log";
  ServerProcess server ({ "--listen=127.0.0.1:0", "--log-file=" + path });
  std::string address = server.ReadAddress ();
  server.Signal (SIGTERM);
  EXPECT_EQ (server.Wait (), 0);
  EXPECT_EQ (server.ReadErrors (), "");
  g_autofree gchar *text = nullptr;
  ASSERT_TRUE (g_file_get_contents (path.c_str (), &text, nullptr, nullptr));
  EXPECT_THAT (text, HasSubstr (" INFO devices_found devices="));
  EXPECT_THAT (text, HasSubstr (" INFO server_listening address=" + address + "\n"));
  EXPECT_THAT (text, HasSubstr (" INFO server_stopped all_answered=true\n"));
}

TEST (ServerLog, NamesAFileThatCannotBeOpened)
{
  ServerProcess server ({ "--listen=127.0.0.1:0", "--log-file=/nowhere/log" });
  EXPECT_EQ (server.ReadErrors (), "thriftps_server: log file /nowhere/log cannot be opened: No "
                                   "such file or directory\n");
  EXPECT_EQ (server.Wait (), 1);
}

TEST (ServerLog, ChangesItsLevelsWhileItRuns)
{
  ServerProcess server ({ "--listen=127.0.0.1:0", "--log-level=warning,service=info" });
  std::string address = server.ReadAddress ();
  g_autoptr (GError) error = nullptr;
  TpsClientOptions options = {};
  options.address = address.c_str ();
  g_autoptr (TpsClient) client = tps_client_new (&options, &error);
  ASSERT_NE (client, nullptr) << error->message;
  gint64 deadline_ns = tps_clock_now_ns () + (gint64) 60 * 1000000000;

  g_autofree gchar *first = tps_remote_set_log_level (client, "info,server=debug", deadline_ns,
                                                      &error);
  ASSERT_NE (first, nullptr) << error->message;
  EXPECT_STREQ (first, "warning,service=info");
  RawClient (address).Call ("Node:describe"); // causes connection_accepted, which has level debug
  EXPECT_EQ (tps_remote_set_log_level (client, "net=loud", deadline_ns, &error), nullptr);
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT));
  EXPECT_THAT (error->message, HasSubstr ("net=loud"));
  g_autofree gchar *second = tps_remote_set_log_level (client, "error", deadline_ns, nullptr);
  EXPECT_STREQ (second, "info,server=debug");

  server.Signal (SIGTERM);
  EXPECT_EQ (server.Wait (), 0);
  std::string log = server.ReadErrors ();
  EXPECT_THAT (log, Not (HasSubstr ("server_listening"))); // level info, before the change
  EXPECT_THAT (log, HasSubstr (" DEBUG connection_accepted "));
  EXPECT_THAT (log, HasSubstr (" INFO log_level_changed peer=127.0.0.1:"));
  EXPECT_THAT (log, HasSubstr ("levels=\"info,server=debug\" before=\"warning,service=info\""));
  EXPECT_THAT (log, HasSubstr (" INFO admin_call principal=anonymous peer=127.0.0.1:"));
  EXPECT_THAT (log, HasSubstr ("method=Node:set_log_level "));
  EXPECT_THAT (log, Not (HasSubstr ("server_stopped")));
}

} // namespace
} // namespace thriftps_test
