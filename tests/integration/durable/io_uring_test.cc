/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests a server on a system that refuses io_uring. It must keep acknowledged pushes and snapshots,
 * and a server that may use io_uring must be able to continue its folder. */

#include <gmock/gmock.h>

#include <cerrno>

#include "plugin/wire/wire_durability.h"
#include "tests/integration/durable/countable.h"

namespace thriftps_test {
namespace {

using testing::HasSubstr;

constexpr int64_t kRows = 10;

class IoUring : public testing::TestWithParam<int>
{
protected:
  /* Adds 1 to every row, and checks that every row is `expected`. */
  void
  count_all (DataServer &server, int expected)
  {
    RawClient connection (server.address ());
    embedding_test::Ids rows;

    for (int64_t row = 0; row < kRows; row++)
      rows.push_back (row);
    create_counts (connection, kRows);
    EXPECT_EQ (count (connection, rows), 0);
    EXPECT_EQ (read_counts (connection, kRows), std::vector<int> (kRows, expected));
  }

  /* Kills the server. Returns the event disk_chosen of its log. */
  static std::string
  kill (DataServer &server)
  {
    server.kill ();
    const std::string log = server.process ().ReadErrors ();
    const size_t at = log.find ("disk_chosen");
    return at != std::string::npos ? log.substr (at, log.find ('\n', at) - at) : log;
  }
};

TEST_P (IoUring, ARefusalChangesOnlyTheWriteMethod)
{
  const std::string folder = new_folder ();
  const std::string number = std::to_string (GetParam ());
  DataServer refused (folder, { "--log-level=info" },
                      { "tests/integration/durable/without_io_uring", number });
  DataServer other (folder, { "--log-level=info" });

  if (!refused.start () && refused.process ().Wait () == 126)
    GTEST_SKIP () << refused.process ().ReadErrors ();
  refused.wait_until_live ();
  count_all (refused, 1);
  EXPECT_THAT (kill (refused),
               testing::AllOf (HasSubstr ("writes=pwrite"), HasSubstr (strerror (GetParam ()))));

  ASSERT_TRUE (other.start ()) << other.process ().ReadErrors ();
  other.wait_until_live ();
  count_all (other, 2);
  EXPECT_THAT (kill (other), HasSubstr ("writes="));

  ASSERT_TRUE (refused.start ()) << refused.process ().ReadErrors ();
  refused.wait_until_live ();
  count_all (refused, 3);
  gboolean is_incremental = FALSE;
  EXPECT_EQ (
      ErrorCode (RawClient (refused.address ())
                     .Call ("Durability:snapshot", fields_of<tps_snapshot_rpc> (&is_incremental))),
      0);
  EXPECT_THAT (kill (refused), HasSubstr ("writes=pwrite"));
  ASSERT_TRUE (refused.start ()) << refused.process ().ReadErrors ();
  refused.wait_until_live ();
  count_all (refused, 4);
  EXPECT_EQ (refused.stop (), 0);
}

INSTANTIATE_TEST_SUITE_P (Errors, IoUring, testing::Values (EPERM, ENOSYS),
                          [] (const auto &tested) {
                            return std::string (tested.param == EPERM ? "eperm" : "enosys");
                          });

} // namespace
} // namespace thriftps_test
