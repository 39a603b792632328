// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "bench/dlrm/click_log.h"

#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "runtime/base/error.h"

namespace {

// Returns a line with these first numbers, the second one hexadecimal, and zeros for all others.
std::string
make_line (const std::string &label, const std::string &first_integer, const std::string &first_hex)
{
  std::string line = label + "\t" + first_integer;

  for (int i = 1; i < TPS_CLICK_DENSE; i++)
    line += "\t0";
  line += "\t" + first_hex;
  for (int t = 1; t < TPS_CLICK_TABLES; t++)
    line += "\t0";
  return line;
}

class CriteoLog : public testing::Test
{
protected:
  void
  SetUp () override
  {
    tps_click_shape_init (&shape, 0.001, 1);
    tps_click_batch_init (&batch, &shape, 3);
  }

  void
  TearDown () override
  {
    tps_click_batch_clear (&batch);
    g_clear_pointer (&log, tps_criteo_log_free);
    g_clear_error (&error);
  }

  void
  open (const std::string &text)
  {
    path = testing::TempDir () + "clicks.tsv";
    ASSERT_TRUE (g_file_set_contents (path.c_str (), text.data (),
                                      static_cast<gssize> (text.size ()), nullptr));
    g_clear_pointer (&log, tps_criteo_log_free);
    log = tps_criteo_log_open (path.c_str (), &shape, &error);
    ASSERT_NE (log, nullptr);
  }

  // Returns the error message without the path.
  std::string
  refuse (const std::string &text)
  {
    open (text);
    EXPECT_FALSE (tps_criteo_log_read (log, &batch, &error));
    EXPECT_EQ (error->code, TPS_ERROR_INVALID_ARGUMENT);
    std::string message = error->message;
    g_clear_error (&error);
    EXPECT_EQ (message.compare (0, path.size (), path), 0) << message;
    return message.substr (path.size ());
  }

  TpsClickShape shape;
  TpsClickBatch batch {};
  TpsCriteoLog *log = nullptr;
  GError *error = nullptr;
  std::string path;
};

TEST_F (CriteoLog, ReadsLabelsIntegersAndHexadecimalNumbers)
{
  open (make_line ("1", "7", "ff") + "\n" + make_line ("0", "-2", "FFFFFFFF") + "\r\n"
        + make_line ("0", "", ""));
  ASSERT_TRUE (tps_criteo_log_read (log, &batch, &error));
  EXPECT_EQ (batch.labels[0], 1);
  EXPECT_EQ (batch.labels[1], 0);
  EXPECT_FLOAT_EQ (batch.dense[0], static_cast<float> (std::log (8.0)));
  EXPECT_EQ (batch.dense[TPS_CLICK_DENSE], 0);
  EXPECT_EQ (batch.dense[2 * TPS_CLICK_DENSE], 0);
  EXPECT_EQ (batch.ids[0][0], 255 % shape.rows[0]);
  EXPECT_EQ (batch.ids[0][1], G_GINT64_CONSTANT (0xffffffff) % shape.rows[0]);
  EXPECT_EQ (batch.ids[0][2], 0);
}

TEST_F (CriteoLog, ContinuesWithTheFirstLineAfterTheLast)
{
  open (make_line ("1", "1", "1") + "\n" + make_line ("0", "2", "2") + "\n");
  ASSERT_TRUE (tps_criteo_log_read (log, &batch, &error));
  EXPECT_EQ (batch.labels[2], 1);
  ASSERT_TRUE (tps_criteo_log_skip (log, 1, &error)); // skips the line with label 0
  ASSERT_TRUE (tps_criteo_log_read (log, &batch, &error));
  EXPECT_EQ (batch.labels[0], 1);
}

TEST_F (CriteoLog, NamesTheLineTheFieldAndTheValue)
{
  std::string good = make_line ("1", "1", "a") + "\n";

  EXPECT_EQ (refuse (good + make_line ("2", "1", "a")), ":2: field 1: \"2\", expected 0 or 1");
  EXPECT_EQ (refuse (good + good + make_line ("1", "x1", "a")),
             ":3: field 2: \"x1\", expected an integer or nothing");
  EXPECT_EQ (refuse (make_line ("1", "1", "0x1")),
             ":1: field 15: \"0x1\", expected up to 8 hexadecimal digits or nothing");
  EXPECT_EQ (refuse (make_line ("1", "1", "123456789")),
             ":1: field 15: \"123456789\", expected up to 8 hexadecimal digits or nothing");
  EXPECT_EQ (refuse ("1\t2\n"), ":1: 2 fields, expected 40");
  EXPECT_EQ (refuse (make_line ("1", "1", "a") + "\tb\n"), ":1: 41 fields, expected 40");
  EXPECT_EQ (refuse (good + std::string (2000, 'a') + "\n"),
             ":2: the line is longer than 1024 bytes or contains a NUL");
  EXPECT_EQ (refuse (""), ": the file is empty");
}

TEST_F (CriteoLog, RefusesMissingFilesAndLongerBags)
{
  EXPECT_EQ (tps_criteo_log_open ("/nowhere/clicks.tsv", &shape, &error), nullptr);
  EXPECT_STREQ (error->message, "/nowhere/clicks.tsv: No such file or directory");
  g_clear_error (&error);
  shape.bag_length[3] = 20;
  EXPECT_EQ (tps_criteo_log_open ("clicks.tsv", &shape, &error), nullptr);
  EXPECT_STREQ (error->message, "clicks.tsv: its lines have one id of each table, not 20");
}

TEST_F (CriteoLog, TrainersReadTheirPartsOfEachStep)
{
  std::string text;
  TpsSyntheticLog synthetic;
  g_auto (TpsClickLog) clicks = {};

  for (int i = 0; i < 12; i++)
    text += make_line ("0", std::to_string (i), "0") + "\n";
  open (text);
  tps_synthetic_log_init (&synthetic, &shape, 0, TRUE, 0);
  ASSERT_TRUE (tps_click_log_init (&clicks, &synthetic, path.c_str (), &error));
  for (guint64 first : { 3u, 9u })
    {
      ASSERT_TRUE (tps_click_log_read (&clicks, first, &batch, &error));
      for (guint64 i = 0; i < 3; i++)
        EXPECT_FLOAT_EQ (batch.dense[i * TPS_CLICK_DENSE],
                         static_cast<float> (std::log1p (static_cast<double> (first + i))));
    }
}

}
