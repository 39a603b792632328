// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "runtime/base/text_file.h"

#include <gtest/gtest.h>

#include <string>

#include "runtime/base/error.h"

namespace {

class TextFile : public testing::Test
{
protected:
  void
  SetUp () override
  {
    path_ = testing::TempDir () + "text_file_test.txt";
  }

  void
  Write (const std::string &text)
  {
    ASSERT_TRUE (
        g_file_set_contents (path_.c_str (), text.data (), (gssize) text.size (), nullptr));
  }

  // Returns the message of the refusal, or "" if the file is read.
  std::string
  Refusal (const std::string &path, gsize max_bytes)
  {
    g_autoptr (GError) error = nullptr;
    g_autofree gchar *text = tps_text_file_read (path.c_str (), max_bytes, &error);

    EXPECT_EQ (text == nullptr, error != nullptr);
    EXPECT_TRUE (error == nullptr
                 || g_error_matches (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT));
    return error != nullptr ? error->message : "";
  }

  std::string path_;
};

TEST_F (TextFile, theLimitIsExact)
{
  Write (std::string (8192, 'a'));
  EXPECT_EQ (Refusal (path_, 8192), "");
  Write (std::string (8193, 'a'));
  EXPECT_EQ (Refusal (path_, 8192), "it is larger than 8 KiB");
}

TEST_F (TextFile, bytesOfValueZeroAreRefused)
{
  Write (std::string ("ab\0cd", 5));
  EXPECT_EQ (Refusal (path_, 1024), "it contains NUL bytes");
}

/* A rule for the table "victim\u0000x" would be one for the table "victim". */
TEST_F (TextFile, theJsonEscapeOfZeroIsRefused)
{
  Write ("{\"tables\": [\"victim\\u0000x\"]}");
  EXPECT_EQ (Refusal (path_, 1024), "it contains \\u0000");
}

} // namespace
