/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The system grants io_uring, refuses it, or refuses it later. In every case, the log and the
 * snapshots must hold the same state, and each case must be able to continue the directory of
 * another case. The linker replaces io_uring_queue_init() by the function below (--wrap, see
 * BUILD). */

#include <gmock/gmock.h>
#include <liburing.h>
#include <stdlib.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <memory>

#include "tests/runtime/base/trace_capture.h"
#include "tests/runtime/server/durable/durable_fixture.h"

extern "C" int __real_io_uring_queue_init (unsigned n_entries, struct io_uring *ring,
                                           unsigned flags);
extern "C" int __wrap_io_uring_queue_init (unsigned n_entries, struct io_uring *ring,
                                           unsigned flags);

static std::atomic<int> refusal { 0 };  /* an errno value; 0: io_uring is granted */
static std::atomic<int> n_grants { 0 }; /* rings that are granted before the refusals begin */
static std::atomic<int> n_rings { 0 };  /* rings granted so far */

extern "C" int
__wrap_io_uring_queue_init (unsigned n_entries, struct io_uring *ring, unsigned flags)
{
  if (refusal != 0 && n_grants-- <= 0)
    return -refusal;
  n_rings++;
  return __real_io_uring_queue_init (n_entries, ring, flags);
}

namespace thriftps {
namespace {

using testing::HasSubstr;

struct Case
{
  const char *name;
  int refusal;
  int n_grants;
  const char *writes; /* the expected choice in the trace record */
  const char *reason;

  bool
  needs_uring () const
  {
    return refusal == 0 || n_grants > 0;
  }
};

const Case kCases[] = {
  { "granted", 0, 0, "writes=io_uring", "" },
  { "eperm", EPERM, 0, "writes=pwrite", "Operation not permitted" },
  { "enosys", ENOSYS, 0, "writes=pwrite", "Function not implemented" },
  { "enomem", ENOMEM, 0, "writes=pwrite", "Cannot allocate memory" },
  /* The probe succeeds, but no file gets a ring. */
  { "refusedToFiles", ENOMEM, 1, "writes=io_uring", "" },
  /* The first file gets a ring, but the next segment does not. */
  { "refusedToTheNextFile", ENOMEM, 2, "writes=io_uring", "" },
};

class DiskChoice : public testing::TestWithParam<Case>
{
protected:
  DiskChoice ()
  {
    const char *tmp = getenv ("TEST_TMPDIR");

    folder_ = std::string (tmp != nullptr ? tmp : "/tmp") + "/choice-XXXXXX";
    EXPECT_NE (mkdtemp (&folder_[0]), nullptr);
  }
  ~DiskChoice () override
  {
    refusal = 0;
    std::filesystem::remove_all (folder_);
  }

  void
  SetUp () override
  {
    struct io_uring ring;
    int code = __real_io_uring_queue_init (2, &ring, 0);

    has_uring_ = code == 0;
    if (has_uring_)
      io_uring_queue_exit (&ring);
    else if (GetParam ().needs_uring ())
      GTEST_SKIP () << "io_uring is refused here: " << g_strerror (-code);
  }

  /* Starts a server that chooses its disk itself. */
  std::unique_ptr<Server>
  start (const Case &chosen)
  {
    thriftps_test::TraceCapture capture;

    refusal = chosen.refusal;
    n_grants = chosen.n_grants;
    n_rings = 0;
    auto server = std::make_unique<Server> (nullptr, folder_, TPS_DURABILITY_COMMIT);
    EXPECT_EQ (server->recover (), "") << chosen.name;
    const std::string line = capture.WaitFor ("disk_chosen");
    EXPECT_THAT (line, HasSubstr (chosen.writes));
    EXPECT_THAT (line, HasSubstr (chosen.reason));
    EXPECT_EQ (line.find ("reason=") == std::string::npos, *chosen.reason == '\0') << line;
    return server;
  }

  /* Fills several segments of the log. */
  static void
  push (Server &server)
  {
    Pushes pushes ("emb");

    for (int i = 0; i < 60; i++)
      pushes.send (server);
    pushes.wait ();
    EXPECT_EQ (pushes.n_failed, 0) << pushes.message ();
  }

  std::string folder_;
  bool has_uring_ = false;
};

TEST_P (DiskChoice, TheLogAndSnapshotsHoldTheState)
{
  const Case &chosen = GetParam ();
  std::unique_ptr<Server> server = start (chosen);

  EXPECT_EQ (server->create ("emb"), 0);
  push (*server);
  if (chosen.refusal == 0)
    {
      EXPECT_GT (n_rings, 2) << "one for the probe, and one for each segment";
    }
  else
    {
      EXPECT_EQ (n_rings, chosen.n_grants);
    }
  EXPECT_EQ (Snapshot (*server).message, "");
  push (*server);
  EXPECT_EQ (Snapshot (*server, true).message, "");
  push (*server);
  server.reset ();
  /* Each other case must read these files and continue them. */
  int n_pushes = 180;
  for (const Case &next : kCases)
    {
      if (next.needs_uring () && !has_uring_)
        continue;
      server = start (next);
      EXPECT_EQ (server->row ("emb"), all (n_pushes)) << next.name;
      Pushes more ("emb");
      more.send (*server);
      more.wait ();
      EXPECT_EQ (more.n_failed, 0) << more.message ();
      n_pushes++;
      server.reset ();
    }
}

INSTANTIATE_TEST_SUITE_P (Cases, DiskChoice, testing::ValuesIn (kCases),
                          [] (const auto &tested) { return std::string (tested.param.name); });

} // namespace
} // namespace thriftps
