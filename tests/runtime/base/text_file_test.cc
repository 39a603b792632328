// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "runtime/base/text_file.h"

#include <gtest/gtest.h>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

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

TEST_F (TextFile, isReadToItsEnd)
{
  const std::string texts[] = { "", "one\n", std::string (4095, 'a'), std::string (4096, 'b'),
                                std::string (9000, 'c') };

  for (const std::string &text : texts)
    {
      Write (text);
      g_autofree gchar *read = tps_text_file_read (path_.c_str (), 16384, nullptr);
      EXPECT_STREQ (read, text.c_str ());
    }
}

TEST_F (TextFile, theLimitIsExact)
{
  Write (std::string (8192, 'a'));
  EXPECT_EQ (Refusal (path_, 8192), "");
  Write (std::string (8193, 'a'));
  EXPECT_EQ (Refusal (path_, 8192), "it is larger than 8 KiB");
}

TEST_F (TextFile, aSparseFileOfAnySizeIsRefused)
{
  Write ("");
  ASSERT_EQ (truncate (path_.c_str (), (off_t) 1 << 40), 0);
  EXPECT_EQ (Refusal (path_, 1 << 20), "it is larger than 1 MiB");
}

// The FIFO has no writer, so a blocking open would never return.
TEST_F (TextFile, onlyRegularFilesAreRead)
{
  const std::string fifo = testing::TempDir () + "fifo", name = testing::TempDir () + "socket";
  struct sockaddr_un address = { AF_UNIX, {} };
  int server = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

  unlink (fifo.c_str ());
  unlink (name.c_str ());
  ASSERT_EQ (mkfifo (fifo.c_str (), 0600), 0);
  // The folder's path may be longer than a socket address, so the test binds a relative name.
  ASSERT_EQ (chdir (testing::TempDir ().c_str ()), 0);
  g_strlcpy (address.sun_path, "socket", sizeof address.sun_path);
  ASSERT_EQ (bind (server, (const struct sockaddr *) &address, sizeof address), 0);
  for (const std::string &path :
       { fifo, name, testing::TempDir (), std::string ("/dev/zero"), std::string ("/dev/null") })
    EXPECT_EQ (Refusal (path, 1024), "it is not a regular file") << path;
  close (server);
  unlink (fifo.c_str ());
  unlink (name.c_str ());
}

TEST_F (TextFile, linksAreFollowed)
{
  const std::string link = testing::TempDir () + "link";

  Write ("text");
  unlink (link.c_str ());
  ASSERT_EQ (symlink (path_.c_str (), link.c_str ()), 0);
  EXPECT_EQ (Refusal (link, 1024), "");
  unlink (link.c_str ());
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

TEST_F (TextFile, theReasonOfTheSystemIsReported)
{
  EXPECT_EQ (Refusal ("/nowhere/file", 1024), "No such file or directory");
}

} // namespace
