// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Records as JSON lines, and the targets of lines: reopened files and the journal.

#include "runtime/base/trace_sinks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <json-glib/json-glib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "runtime/base/error.h"

namespace {

using testing::HasSubstr;

std::string
ToJson (const std::vector<TpsTraceField> &fields, const TpsTraceOrigin *origin = nullptr)
{
  TpsTraceRecord record = { 1700000000123456,       TPS_TRACE_WARNING, "e", 0, fields.data (),
                            (guint) fields.size (), "plugin/net/x.c",  7 };
  g_autoptr (GString) line = g_string_new (nullptr);
  tps_trace_append_json (&record, origin, line);
  return line->str;
}

// Returns the text of field "v" according to a JSON parser, or "" if the line is not JSON.
std::string
RoundTrip (const std::string &text)
{
  std::string line = ToJson ({ tps_field_text ("v", text.c_str ()) });
  g_autoptr (JsonParser) parser = json_parser_new ();
  EXPECT_EQ (line.find ('\n'), std::string::npos);
  EXPECT_TRUE (g_utf8_validate (line.c_str (), -1, nullptr)) << line;
  if (!json_parser_load_from_data (parser, line.c_str (), -1, nullptr))
    return "";
  JsonObject *object = json_node_get_object (json_parser_get_root (parser));
  return json_object_get_string_member (json_object_get_object_member (object, "fields"), "v");
}

TEST (TraceJson, HasTimeSequenceLevelEventAreaAndTypedFields)
{
  EXPECT_EQ (ToJson ({ tps_field_text ("table", "users"), tps_field_int ("delta", -3),
                       tps_field_uint ("rows", G_MAXUINT64), tps_field_real ("part", 0.5),
                       tps_field_bool ("shared", TRUE) }),
             "{\"time\":\"2023-11-14T22:13:20.123456Z\",\"sequence\":7,\"level\":\"warning\","
             "\"event\":\"e\",\"area\":\"plugin/net\",\"fields\":{\"table\":\"users\","
             "\"delta\":-3,\"rows\":18446744073709551615,\"part\":0.5,\"shared\":true}}");
}

TEST (TraceJson, NamesItsProcessAndNode)
{
  TpsTraceOrigin origin = { "thriftps_server", "ps0.example", "server\"0", 4711 };
  EXPECT_THAT (ToJson ({}, &origin),
               HasSubstr (",\"process\":\"thriftps_server\",\"pid\":4711,\"host\":\"ps0.example\","
                          "\"node\":\"server\\\"0\",\"fields\":{}}"));
}

TEST (TraceJson, EscapesAnyBytesOfAPeer)
{
  for (const char *text :
       { "plain", "", "say \"hi\" \\ \n\t\r\b", "caf\xc3\xa9", "\xf0\x9f\x98\x80", "\x01\x1f\x7f",
         "\xe2\x80\xa8\xe2\x80\xa9\xc2\x85", "\xf3\xa0\x80\x81" })
    EXPECT_EQ (RoundTrip (text), text);
  EXPECT_EQ (RoundTrip ("a\xff\xc3z\xed\xa0\x80"),
             "a\xef\xbf\xbd\xef\xbf\xbdz\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
  for (int byte = 1; byte < 256; byte++)
    EXPECT_NE (RoundTrip (std::string (1, (char) byte) + "x"), "") << byte;
}

TEST (TraceJson, DoesNotWriteControlCharactersAsTheyAre)
{
  std::string line = ToJson ({ tps_field_text ("v", "\x1b[1m\xc2\x9b\xe2\x80\xa8") });
  EXPECT_THAT (line, HasSubstr ("\"\\u001b[1m\\u009b\\u2028\""));
}

TEST (TraceJson, NumbersThatJsonCannotWriteAreNull)
{
  EXPECT_THAT (ToJson ({ tps_field_real ("a", INFINITY), tps_field_real ("b", NAN),
                         tps_field_real ("c", std::numeric_limits<double>::max ()) }),
               HasSubstr ("{\"a\":null,\"b\":null,\"c\":1.7976931348623157e+308}"));
}

// ---- streams ------------------------------------------------------------------------------------

std::string
Contents (const std::string &path)
{
  g_autofree gchar *text = nullptr;
  EXPECT_TRUE (g_file_get_contents (path.c_str (), &text, nullptr, nullptr)) << path;
  return text != nullptr ? text : "";
}

class TraceStream : public testing::Test
{
protected:
  TraceStream ()
  {
    g_autofree gchar *folder = g_dir_make_tmp ("thriftps-XXXXXX", nullptr);
    folder_ = folder;
    path_ = folder_ + "/log";
  }
  void
  Write (TpsTraceStream *stream, TpsTraceLevel level = TPS_TRACE_INFO)
  {
    TpsTraceField field = tps_field_int ("n", ++n_);
    TpsTraceRecord record = { 1700000000123456, level, "e", 0, &field, 1, "plugin/net/x.c", 0 };
    tps_trace_stream_sink (&record, stream);
  }

  std::string folder_, path_;
  int n_ = 0;
};

TEST_F (TraceStream, GoesOnInANewFileWhenItIsOpenedAgain)
{
  TpsTraceStreamOptions options = {};
  options.path = path_.c_str ();
  g_autoptr (TpsTraceStream) stream = tps_trace_stream_new (&options, nullptr);
  ASSERT_NE (stream, nullptr);
  struct stat status;
  ASSERT_EQ (stat (path_.c_str (), &status), 0);
  EXPECT_EQ (status.st_mode & 0777 & ~0640u, 0u);
  Write (stream);
  std::string old_path = path_ + ".1";
  ASSERT_EQ (rename (path_.c_str (), old_path.c_str ()), 0);
  Write (stream);
  ASSERT_TRUE (tps_trace_stream_reopen (stream, nullptr));
  Write (stream);
  EXPECT_EQ (Contents (old_path), "2023-11-14T22:13:20.123Z INFO e n=1\n"
                                  "2023-11-14T22:13:20.123Z INFO e n=2\n");
  EXPECT_EQ (Contents (path_), "2023-11-14T22:13:20.123Z INFO e n=3\n");
}

TEST_F (TraceStream, StaysWhereItIsWhenTheFileCannotBeOpened)
{
  TpsTraceStreamOptions options = {};
  std::string folder = folder_ + "/sub", path = folder + "/log", moved = folder_ + "/moved";
  ASSERT_EQ (mkdir (folder.c_str (), 0700), 0);
  options.path = path.c_str ();
  g_autoptr (TpsTraceStream) stream = tps_trace_stream_new (&options, nullptr);
  ASSERT_NE (stream, nullptr);
  ASSERT_EQ (rename (folder.c_str (), moved.c_str ()), 0);
  g_autoptr (GError) error = nullptr;
  EXPECT_FALSE (tps_trace_stream_reopen (stream, &error));
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT));
  EXPECT_THAT (error->message, HasSubstr ("log file " + path + " cannot be opened: "));
  Write (stream);
  EXPECT_THAT (Contents (moved + "/log"), HasSubstr (" e n=1\n"));

  g_autoptr (GError) none = nullptr;
  EXPECT_EQ (tps_trace_stream_new (&options, &none), nullptr);
  EXPECT_THAT (none->message, HasSubstr (path));
}

TEST_F (TraceStream, AppendsToAnExistingFile)
{
  ASSERT_TRUE (g_file_set_contents (path_.c_str (), "before\n", -1, nullptr));
  TpsTraceStreamOptions options = {};
  options.path = path_.c_str ();
  options.format = TPS_TRACE_JSON;
  options.origin.node = "server0";
  g_autoptr (TpsTraceStream) stream = tps_trace_stream_new (&options, nullptr);
  Write (stream);
  EXPECT_THAT (Contents (path_), HasSubstr ("before\n{\"time\":\"2023-11-14T22:13:20.123456Z\""));
  EXPECT_THAT (Contents (path_), HasSubstr ("\"node\":\"server0\",\"fields\":{\"n\":1}}\n"));
}

TEST_F (TraceStream, LinesForTheJournalBeginWithTheirPriority)
{
  TpsTraceStreamOptions options = {};
  options.path = path_.c_str ();
  options.is_journal = TRUE;
  g_autoptr (TpsTraceStream) stream = tps_trace_stream_new (&options, nullptr);
  for (TpsTraceLevel level :
       { TPS_TRACE_ERROR, TPS_TRACE_WARNING, TPS_TRACE_INFO, TPS_TRACE_DEBUG })
    Write (stream, level);
  EXPECT_EQ (Contents (path_), "<3>e n=1\n<4>e n=2\n<6>e n=3\n<7>e n=4\n");
}

TEST_F (TraceStream, KnowsTheJournalByDeviceAndInode)
{
  int fds[2];
  struct stat status;
  ASSERT_EQ (pipe (fds), 0);
  ASSERT_EQ (fstat (fds[1], &status), 0);
  std::string device = std::to_string (status.st_dev), inode = std::to_string (status.st_ino);
  EXPECT_TRUE (tps_trace_stream_is_journal (fds[1], (device + ":" + inode).c_str ()));
  EXPECT_FALSE (tps_trace_stream_is_journal (STDERR_FILENO, (device + ":" + inode).c_str ()));
  for (const std::string &other : { device + ":" + inode + "1", inode + ":" + device, device, inode,
                                    std::string (), std::string ("x:y"), device + ":" })
    EXPECT_FALSE (tps_trace_stream_is_journal (fds[1], other.c_str ())) << other;
  EXPECT_FALSE (tps_trace_stream_is_journal (fds[1], nullptr));
  close (fds[0]);
  close (fds[1]);
}

} // namespace
