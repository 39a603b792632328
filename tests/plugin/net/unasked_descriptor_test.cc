// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Unexpected file descriptors must not block the loop, neither when they arrive nor when the
// connection closes.

#include <arpa/inet.h>
#include <dirent.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/syscall.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "plugin/net/descriptors.h"
#include "runtime/base/error.h"
#include "tests/plugin/net/connection_fixture.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

namespace {

// Linux before 6.16 does not support SO_PASSRIGHTS.
std::atomic<bool> is_old_kernel { false };

bool
IsUnknown (int level, int option)
{
  return is_old_kernel && level == SOL_SOCKET && option == SO_PASSRIGHTS;
}

} // namespace

extern "C" int
setsockopt (int fd, int level, int option, const void *value, socklen_t n_bytes) noexcept
{
  if (!IsUnknown (level, option))
    return (int) syscall (SYS_setsockopt, fd, level, option, value, n_bytes);
  errno = ENOPROTOOPT;
  return -1;
}

extern "C" int
getsockopt (int fd, int level, int option, void *value, socklen_t *n_bytes) noexcept
{
  if (!IsUnknown (level, option))
    return (int) syscall (SYS_getsockopt, fd, level, option, value, n_bytes);
  errno = ENOPROTOOPT;
  return -1;
}

namespace {

using tps_test::ConnectionTest;
using tps_test::ToBytes;

constexpr int kLingerSeconds = 120;

// A TCP socket whose close() blocks until the peer has read all bytes, which it never does.
class LingeringSocket
{
public:
  LingeringSocket ()
  {
    struct sockaddr_in address = {};
    socklen_t n_bytes = sizeof address;
    struct linger linger = { 1, kLingerSeconds };
    char bytes[65536] = {};

    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl (INADDR_LOOPBACK);
    listener_ = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fd = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ (bind (listener_, (struct sockaddr *) &address, sizeof address), 0);
    EXPECT_EQ (listen (listener_, 1), 0);
    EXPECT_EQ (getsockname (listener_, (struct sockaddr *) &address, &n_bytes), 0);
    EXPECT_EQ (connect (fd, (struct sockaddr *) &address, sizeof address), 0);
    while (send (fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
      ;
    EXPECT_EQ (setsockopt (fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
  }
  ~LingeringSocket ()
  {
    close (listener_);
  }

  int fd;

private:
  int listener_;
};

int
CountOpenDescriptors ()
{
  DIR *folder = opendir ("/proc/self/fd");
  int n = 0;
  while (readdir (folder) != nullptr)
    n++;
  closedir (folder);
  return n;
}

// A connection without a callback for descriptors.
class UnaskedDescriptorTest : public ConnectionTest
{
protected:
  // Returns 0, or errno.
  int
  PeerSendsWithDescriptors (const std::string &bytes, const std::vector<int> &fds)
  {
    std::vector<char> room (CMSG_SPACE (fds.size () * sizeof (int)));
    struct iovec piece = { const_cast<char *> (bytes.data ()), bytes.size () };
    struct msghdr message = {};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = room.data ();
    message.msg_controllen = room.size ();
    struct cmsghdr *control = CMSG_FIRSTHDR (&message);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN (fds.size () * sizeof (int));
    memcpy (CMSG_DATA (control), fds.data (), fds.size () * sizeof (int));
    return sendmsg (peer_, &message, MSG_NOSIGNAL) < 0 ? errno : 0;
  }

  // The loop must finish its work long before a lingering close would.
  void
  ExpectLoopIsFree ()
  {
    auto start = std::chrono::steady_clock::now ();
    Settle ();
    EXPECT_LT (std::chrono::steady_clock::now () - start,
               std::chrono::seconds (kLingerSeconds / 4));
  }

  void
  WaitForDescriptors (int n)
  {
    while (CountOpenDescriptors () > n)
      std::this_thread::yield ();
  }
};

class OldKernelTest : public UnaskedDescriptorTest
{
protected:
  void
  SetUp () override
  {
    is_old_kernel = true;
    UnaskedDescriptorTest::SetUp ();
  }
  void
  TearDown () override
  {
    UnaskedDescriptorTest::TearDown ();
    is_old_kernel = false;
  }
};

TEST_F (UnaskedDescriptorTest, TheKernelRefusesThem)
{
  int probe[2];
  ASSERT_EQ (socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, probe), 0);
  bool can_refuse = tps_descriptors_refuse (probe[0]);
  close (probe[0]);
  close (probe[1]);
  if (!can_refuse)
    GTEST_SKIP () << "this kernel cannot refuse descriptors";
  Start ();
  EXPECT_EQ (PeerSendsWithDescriptors (ToBytes (1, 10), { 0 }), EPERM);
  PeerSends (ToBytes (2, 10));
  WaitForMessages (1);
  EXPECT_FALSE (IsClosed ());
}

TEST_F (OldKernelTest, ADescriptorThatComesClosesTheConnectionAndBlocksNothing)
{
  LingeringSocket lingering;
  int n_before = CountOpenDescriptors ();
  Start ();
  ASSERT_EQ (PeerSendsWithDescriptors (ToBytes (1, 10), { lingering.fd }), 0);
  close (lingering.fd);
  WaitUntil ([this] { return closed_; });
  ExpectLoopIsFree ();
  EXPECT_EQ (error_code_, TPS_ERROR_PROTOCOL) << error_;
  EXPECT_THAT (error_, testing::HasSubstr ("unexpected file descriptors"));
  EXPECT_EQ (NMessages (), 0u);
  WaitForDescriptors (n_before - 2); // the lingering socket and the connection
}

TEST_F (OldKernelTest, AsManyAsTheKernelTakesAtOnce)
{
  LingeringSocket lingering;
  int n_before = CountOpenDescriptors ();
  Start ();
  ASSERT_EQ (PeerSendsWithDescriptors (ToBytes (1, 10),
                                       std::vector<int> (TPS_DESCRIPTORS_MAX, lingering.fd)),
             0);
  close (lingering.fd);
  WaitUntil ([this] { return closed_; });
  ExpectLoopIsFree ();
  WaitForDescriptors (n_before - 2);
}

TEST_F (OldKernelTest, DescriptorsThatWereNeverReadDoNotBlockTheClose)
{
  LingeringSocket lingering;
  int n_before = CountOpenDescriptors ();
  OnLoop ([this] { tps_connection_pause (connection_); });
  Start ();
  for (int i = 0; i < 10; i++)
    ASSERT_EQ (PeerSendsWithDescriptors (ToBytes (i, 1000), { lingering.fd }), 0);
  close (lingering.fd);
  tps_connection_close (connection_);
  WaitUntil ([this] { return closed_; });
  ExpectLoopIsFree ();
  WaitForDescriptors (n_before - 2);
}

TEST_F (OldKernelTest, OtherBytesAreReadAsEver)
{
  Start ();
  for (int i = 0; i < 10; i++)
    PeerSends (ToBytes (i, 100000));
  WaitForMessages (10);
  EXPECT_FALSE (IsClosed ());
}

} // namespace
