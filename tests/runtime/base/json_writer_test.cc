// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "runtime/base/json_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

namespace thriftps_test {
namespace {

class JsonWriterTest : public testing::Test
{
protected:
  JsonWriterTest ()
  {
    tps_json_writer_init (&json_);
  }
  ~JsonWriterTest () override
  {
    tps_json_writer_clear (&json_);
  }

  std::string
  Take ()
  {
    GString *text = tps_json_writer_take (&json_);
    std::string copy (text->str, text->len);
    g_string_free (text, TRUE);
    return copy;
  }

  TpsJsonWriter json_;
};

TEST_F (JsonWriterTest, NestsObjectsAndArrays)
{
  tps_json_open (&json_, nullptr, '{');
  tps_json_add_text (&json_, "a", "b");
  tps_json_open (&json_, "list", '[');
  tps_json_add_int (&json_, nullptr, -1);
  tps_json_open (&json_, nullptr, '{');
  tps_json_close (&json_, '}');
  tps_json_add_null (&json_, nullptr);
  tps_json_close (&json_, ']');
  tps_json_add_bool (&json_, "yes", TRUE);
  tps_json_add_uint (&json_, "max", G_MAXUINT64);
  tps_json_close (&json_, '}');
  EXPECT_EQ (Take (), "{\"a\":\"b\",\"list\":[-1,{},null],\"yes\":true,"
                      "\"max\":18446744073709551615}");
}

TEST_F (JsonWriterTest, EscapesText)
{
  tps_json_add_text (&json_, nullptr, "\"\\/\n\x01\x7f\xc3\xa9");
  EXPECT_EQ (Take (), "\"\\\"\\\\/\\u000a\\u0001\\u007f\xc3\xa9\"");
}

TEST_F (JsonWriterTest, TextThatIsNoUtf8IsReplaced)
{
  tps_json_add_text (&json_, nullptr,
                     "a\xff"
                     "b");
  EXPECT_EQ (Take (), "\"a\xef\xbf\xbd"
                      "b\"");
}

TEST_F (JsonWriterTest, InfinitiesAreNumbersWhereTheyAreAllowed)
{
  tps_json_open (&json_, nullptr, '[');
  for (double each : { 0.5, HUGE_VAL, -HUGE_VAL, std::nan ("") })
    tps_json_add_unbounded (&json_, nullptr, each);
  tps_json_close (&json_, ']');
  EXPECT_EQ (Take (), "[0.5,1e999,-1e999,null]");
}

TEST_F (JsonWriterTest, RealsAreShortAndFinite)
{
  tps_json_open (&json_, nullptr, '[');
  tps_json_add_real (&json_, nullptr, 0.5, 3);
  tps_json_add_real (&json_, nullptr, 1.0 / 3, 3);
  tps_json_add_real (&json_, nullptr, -20, 2);
  tps_json_add_real (&json_, nullptr, 1e300, 0);
  tps_json_add_real (&json_, nullptr, std::numeric_limits<double>::infinity (), 3);
  tps_json_add_real (&json_, nullptr, std::nan (""), 3);
  tps_json_add_time (&json_, nullptr, G_GINT64_CONSTANT (1790000000125999));
  tps_json_add_seconds (&json_, nullptr, 1500000000);
  tps_json_add_text (&json_, nullptr, nullptr);
  tps_json_close (&json_, ']');
  std::string text = Take ();
  EXPECT_THAT (text, testing::StartsWith ("[0.5,0.333,-20.0,100"));
  EXPECT_THAT (text, testing::EndsWith (",null,null,1790000000.126,1.5,null]"));
}

} // namespace
} // namespace thriftps_test
