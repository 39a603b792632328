/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests a server that has no descriptors for its files, or whose files may not grow. Idle peers
 * must not cause the first of these states, and the server must leave both by itself. */

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <thread>

#include "plugin/wire/wire_durability.h"
#include "tests/integration/durable/countable.h"

namespace thriftps_test {
namespace {

using std::chrono::steady_clock;
using testing::AllOf;
using testing::HasSubstr;

constexpr int kExhausted = 7;
constexpr int64_t kRows = 4;
const auto kSoon = std::chrono::seconds (60);

/* Runs a program with few descriptors. Signals about the size of files are ignored. */
const std::vector<std::string> kFewDescriptors = { "/bin/sh", "-c",
                                                   "trap '' XFSZ; ulimit -n 192; exec \"$@\"",
                                                   "sh" };
constexpr size_t kDescriptors = 192;

size_t
count_descriptors (pid_t pid)
{
  std::filesystem::directory_iterator all ("/proc/" + std::to_string (pid) + "/fd");

  return static_cast<size_t> (std::distance (begin (all), end (all)));
}

bool
is_closed (RawClient &client)
{
  struct pollfd state = { client.fd (), POLLIN | POLLRDHUP, 0 };

  return poll (&state, 1, 0) > 0;
}

/* Writes about 1.5 MiB to the log, more than a segment. */
int
push_much (RawClient &client, int64_t sequence)
{
  return count (client, embedding_test::Ids (65536, 1), "much", sequence);
}

class NoRoom : public testing::Test
{
protected:
  void
  SetUp () override
  {
    server_ = std::make_unique<DataServer> (
        folder_, std::vector<std::string> { "--http=127.0.0.1:0", "--log-level=warning" },
        kFewDescriptors);
    ASSERT_TRUE (server_->start ()) << server_->process ().ReadErrors ();
    http_ = server_->process ().ReadAddress ();
    ASSERT_TRUE (server_->wait_until_live ());
    client_ = std::make_unique<RawClient> (server_->address ());
    create_counts (*client_, kRows);
  }

  std::string
  get (const std::string &path)
  {
    RawClient http (http_.substr (http_.find ("127")));
    std::string answer (1 << 20, '\0');

    http.SendBytes ("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    answer.resize (static_cast<size_t> (
        std::max<ssize_t> (recv (http.fd (), &answer[0], answer.size (), MSG_WAITALL), 0)));
    return answer;
  }

  /* The server refuses pushes for lack of room, says why and what to do, and goes on after the
   * limit has been raised again. */
  void
  expect_full_while (__rlimit_resource resource, rlim_t low, const std::string &remedy,
                     const std::function<void ()> &check)
  {
    struct rlimit before, limited;
    int code, n_counted = 0;
    Message reply;

    ASSERT_EQ (prlimit (server_->process ().pid (), resource, nullptr, &before), 0);
    limited = before;
    limited.rlim_cur = low;
    ASSERT_EQ (prlimit (server_->process ().pid (), resource, &limited, nullptr), 0);
    do
      {
        reply = Count ({ 0, 1, 2, 3 }, "c", n_counted + 1).call (*client_);
        code = ErrorCode (reply);
        n_counted += code == 0;
      }
    while (code == 0 && n_counted < 10000);
    EXPECT_EQ (code, kExhausted) << ErrorText (reply);
    EXPECT_THAT (ErrorText (reply), HasSubstr (remedy));
    EXPECT_GE (RetryAfterMs (reply), 0);
    EXPECT_EQ (read_counts (*client_, kRows), std::vector<int> (kRows, n_counted));
    check ();

    ASSERT_EQ (prlimit (server_->process ().pid (), resource, &before, nullptr), 0);
    for (auto end = steady_clock::now () + kSoon; code == kExhausted && steady_clock::now () < end;)
      code = count (*client_, { 0, 1, 2, 3 }, "c", n_counted + 1);
    EXPECT_EQ (code, 0) << "goes on by itself";
    server_->kill ();
    EXPECT_THAT (server_->process ().ReadErrors (), HasSubstr (remedy));
    ASSERT_TRUE (server_->serve ());
    RawClient after (server_->address ());
    EXPECT_EQ (read_counts (after, kRows), std::vector<int> (kRows, n_counted + 1));
  }

  const std::string folder_ = new_folder ();
  std::unique_ptr<DataServer> server_;
  std::unique_ptr<RawClient> client_;
  std::string http_;
};

TEST_F (NoRoom, IdlePeersLeaveDescriptorsToTheFilesAndToHttp)
{
  std::vector<std::unique_ptr<RawClient>> idle;

  for (size_t i = 0; i < 2 * kDescriptors; i++)
    idle.push_back (std::make_unique<RawClient> (server_->address ()));
  for (auto end = steady_clock::now () + kSoon;
       !is_closed (*idle.back ()) && count_descriptors (server_->process ().pid ()) < kDescriptors
       && steady_clock::now () < end;)
    std::this_thread::yield ();
  EXPECT_THAT (get ("/healthz"), HasSubstr (" 200 "));
  for (size_t i = 0; i < kDescriptors; i++)
    idle.push_back (std::make_unique<RawClient> (http_.substr (http_.find ("127"))));
  for (auto end = steady_clock::now () + kSoon;
       !is_closed (*idle.back ()) && count_descriptors (server_->process ().pid ()) < kDescriptors
       && steady_clock::now () < end;)
    std::this_thread::yield ();
  for (int i = 1; i <= 6; i++)
    ASSERT_EQ (push_much (*client_, i), 0) << i;
  EXPECT_EQ (ErrorCode (take_snapshot (*client_)), 0);
  EXPECT_EQ (read_counts (*client_, kRows), std::vector<int> ({ 0, 6 * 65536, 0, 0 }));
  EXPECT_TRUE (is_closed (*idle.back ())) << "peers beyond the limit are told at once";
  idle.clear ();
  Message reply;
  for (auto end = steady_clock::now () + kSoon; reply == nullptr && steady_clock::now () < end;)
    reply = RawClient (server_->address ()).Call ("Node:describe");
  EXPECT_EQ (ErrorCode (reply), 0) << "a new peer is served when the idle ones have left";
  EXPECT_EQ (server_->stop (), 0);
  EXPECT_THAT (server_->process ().ReadErrors (),
               AllOf (HasSubstr ("connection_refused"), HasSubstr ("ulimit -n")));
}

/* The program, but not the library, may change the limit of the process. */
TEST (Descriptors, TheSoftLimitIsRaisedToTheHardOne)
{
  struct rlimit limit;
  DataServer server (new_folder (), {},
                     { "/bin/sh", "-c", "ulimit -Sn 100; ulimit -Hn 500; exec \"$@\"", "sh" });

  ASSERT_TRUE (server.start ()) << server.process ().ReadErrors ();
  ASSERT_EQ (prlimit (server.process ().pid (), RLIMIT_NOFILE, nullptr, &limit), 0);
  EXPECT_EQ (limit.rlim_cur, 500u);
}

TEST_F (NoRoom, ALackOfDescriptorsPasses)
{
  const std::string remedy = "raise the limit of open files (ulimit -n)";

  expect_full_while (RLIMIT_NOFILE, 3, remedy, [&] {
    Message reply = take_snapshot (*client_);
    EXPECT_EQ (ErrorCode (reply), kExhausted) << ErrorText (reply);
    EXPECT_THAT (ErrorText (reply), HasSubstr (remedy));
    EXPECT_GE (RetryAfterMs (reply), 0);
  });
}

/* The current segment of 1 MiB may be filled, except for its end. */
TEST_F (NoRoom, ALimitOnTheSizeOfFilesPasses)
{
  const std::string remedy = "raise the limit on the size of files (ulimit -f)";

  expect_full_while (RLIMIT_FSIZE, (1 << 20) - 4096, remedy, [&] {
    EXPECT_THAT (get ("/status"), AllOf (HasSubstr ("\"full\""), HasSubstr (remedy)));
  });
}

} // namespace
} // namespace thriftps_test
