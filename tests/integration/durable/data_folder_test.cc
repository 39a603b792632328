/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests folders that a server must not or cannot use. The server must report the reason and
 * exit. */

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/integration/durable/data_server.h"

namespace thriftps_test {
namespace {

using testing::HasSubstr;

/* Returns the error message of a server that cannot start. */
std::string
refusal (const std::string &folder, const std::vector<std::string> &flags = {})
{
  DataServer server (folder, flags);

  if (server.start ())
    return "it serves";
  EXPECT_NE (server.process ().Wait (), 0);
  return server.process ().ReadErrors ();
}

void
write_file (const std::string &path, const std::string &text)
{
  std::ofstream (path) << text;
}

} // namespace

TEST (DataFolder, isMadeAndUsedAgain)
{
  const std::string folder = new_folder () + "/a/b";

  for (int i = 0; i < 3; i++)
    {
      DataServer server (folder);

      ASSERT_TRUE (server.start ()) << server.process ().ReadErrors ();
      server.wait_until_live ();
      EXPECT_EQ (server.stop (), 0);
    }
}

TEST (DataFolder, isOfOneProcess)
{
  const std::string folder = new_folder ();
  DataServer first (folder);

  ASSERT_TRUE (first.start ());
  first.wait_until_live ();
  EXPECT_THAT (refusal (folder), HasSubstr (folder));
  EXPECT_THAT (refusal (folder), HasSubstr ("another process"));
  first.kill ();
  ASSERT_TRUE (first.start ()) << "the lock of a process that was killed is gone";
  first.wait_until_live ();
}

TEST (DataFolder, ofSomethingElseIsRefused)
{
  const std::string folder = new_folder ();

  write_file (folder + "/thesis.tex", "\\begin{document}");
  EXPECT_THAT (refusal (folder), HasSubstr ("does not belong to a server"));
}

TEST (DataFolder, ofAnotherVersionIsRefused)
{
  const std::string folder = new_folder ();

  write_file (folder + "/FORMAT", "thriftps data 7\n");
  EXPECT_THAT (refusal (folder), HasSubstr ("thriftps data 7"));
}

TEST (DataFolder, thatCannotBeWrittenIsRefused)
{
  const std::string path = new_folder () + "/file";

  EXPECT_THAT (refusal ("/proc/self/data"), HasSubstr ("/proc/self/data"));
  write_file (path, "");
  EXPECT_THAT (refusal (path), HasSubstr (path));
}

/* An earlier process was killed while it created the directory. */
TEST (DataFolder, thatIsIncompleteIsCompleted)
{
  const std::string folder = new_folder ();
  DataServer server (folder);

  write_file (folder + "/LOCK", "");
  write_file (folder + "/FORMAT.new", "thri");
  ASSERT_TRUE (server.start ());
  server.wait_until_live ();
}

TEST (DataFolder, aLogThatCannotBeAppliedEndsTheServer)
{
  const std::string folder = new_folder ();
  DataServer server (folder);
  TpsTableSpec spec;

  ASSERT_TRUE (server.start ());
  server.wait_until_live ();
  tps_table_spec_init (&spec, "emb", 1 << 17, 8);
  EXPECT_EQ (ErrorCode (RawClient (server.address ())
                            .Call ("EmbeddingTable:create_table",
                                   fields_of<tps_create_table_rpc> (&spec))),
             0);
  tps_table_spec_clear (&spec);
  EXPECT_EQ (server.stop (), 0);

  DataServer smaller (folder, { "--max-table-mib=1" });
  smaller.start ();
  EXPECT_EQ (smaller.process ().Wait (), 1);
  EXPECT_THAT (smaller.process ().ReadErrors (), HasSubstr ("command 1 of the log"));
}

} // namespace thriftps_test
