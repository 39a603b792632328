// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Tests file descriptors that a connection sends and receives over a Unix socket.

#include <dirent.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "plugin/net/connection.h"
#include "runtime/base/error.h"
#include "tests/plugin/net/connection_fixture.h"

namespace {

using tps_test::ConnectionTest;
using tps_test::NewMessage;
using tps_test::ToBytes;

int
NewFile ()
{
  return memfd_create ("test", MFD_CLOEXEC);
}

ino_t
Identify (int fd)
{
  struct stat status = {};
  EXPECT_EQ (fstat (fd, &status), 0);
  return status.st_ino;
}

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

TpsWriter *
NewMessageWithDescriptor (int seqid, size_t body_bytes, int fd)
{
  TpsWriter *out = NewMessage (seqid, body_bytes);
  tps_writer_take_descriptor (out, fd);
  return out;
}

// Descriptors that the plain socket received with one recvmsg().
struct Arrival
{
  size_t first_byte;
  size_t end;
  std::vector<ino_t> files;
};

class DescriptorTest : public ConnectionTest
{
protected:
  DescriptorTest ()
  {
    on_descriptor_ = OnDescriptor;
  }

  void
  TearDown () override
  {
    ConnectionTest::TearDown ();
    for (int fd : descriptors_)
      close (fd);
  }

  static void
  OnDescriptor (TpsConnection *, gint fd, gpointer data)
  {
    auto *test = static_cast<DescriptorTest *> (data);
    std::lock_guard<std::mutex> guard (test->lock_);
    test->descriptors_.push_back (fd);
    test->n_messages_before_.push_back (test->messages_.size ());
  }

  void
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
    ASSERT_EQ (sendmsg (peer_, &message, MSG_NOSIGNAL), (ssize_t) bytes.size ());
  }

  // Reads `n_bytes`, and returns the arrivals that had descriptors.
  std::vector<Arrival>
  PeerReceivesDescriptors (size_t n_bytes)
  {
    std::vector<Arrival> arrivals;
    std::vector<char> chunk (10000);
    for (size_t at = 0; at < n_bytes;)
      {
        alignas (struct cmsghdr) char room[CMSG_SPACE (64)];
        struct iovec piece = { chunk.data (), std::min (chunk.size (), n_bytes - at) };
        struct msghdr message = {};
        message.msg_iov = &piece;
        message.msg_iovlen = 1;
        message.msg_control = room;
        message.msg_controllen = sizeof room;
        ssize_t n = recvmsg (peer_, &message, MSG_CMSG_CLOEXEC);
        EXPECT_GT (n, 0);
        if (n <= 0)
          break;
        if (struct cmsghdr *control = CMSG_FIRSTHDR (&message))
          arrivals.push_back ({ at, at + (size_t) n, Take (control) });
        at += (size_t) n;
      }
    return arrivals;
  }

  static std::vector<ino_t>
  Take (struct cmsghdr *control)
  {
    std::vector<ino_t> files;
    for (size_t i = 0; CMSG_LEN ((i + 1) * sizeof (int)) <= control->cmsg_len; i++)
      {
        int fd;
        memcpy (&fd, CMSG_DATA (control) + i * sizeof fd, sizeof fd);
        files.push_back (Identify (fd));
        close (fd);
      }
    return files;
  }

  std::vector<int> descriptors_; // guarded by lock_
  std::vector<size_t> n_messages_before_;
};

TEST_F (DescriptorTest, SendsEachDescriptorOnceWithTheFirstByteOfItsMessage)
{
  // Large messages are sent in many parts. The first and the last message have no descriptor.
  const std::vector<size_t> sizes = { 100, 3 << 20, 10, 20, 5 << 20, 30 };
  std::vector<ino_t> files (sizes.size (), 0);
  std::vector<size_t> begins;
  std::vector<int> fds;
  size_t n_bytes = 0;
  Start ();
  for (size_t i = 0; i < sizes.size (); i++)
    {
      begins.push_back (n_bytes);
      n_bytes += ToBytes ((int) i, sizes[i]).size ();
      if (i == 0 || i + 1 == sizes.size ())
        {
          tps_connection_send (connection_, NewMessage ((int) i, sizes[i]));
          continue;
        }
      fds.push_back (NewFile ());
      files[i] = Identify (fds.back ());
      tps_connection_send (connection_, NewMessageWithDescriptor ((int) i, sizes[i], fds.back ()));
    }

  std::vector<Arrival> arrivals = PeerReceivesDescriptors (n_bytes);
  ASSERT_EQ (arrivals.size (), fds.size ());
  for (size_t i = 0; i < fds.size (); i++)
    {
      EXPECT_LE (arrivals[i].first_byte, begins[i + 1]);
      EXPECT_GT (arrivals[i].end, begins[i + 1]);
      EXPECT_THAT (arrivals[i].files, testing::ElementsAre (files[i + 1]));
    }
  Settle ();
  for (int fd : fds)
    EXPECT_EQ (fcntl (fd, F_GETFD), -1);
}

TEST_F (DescriptorTest, SendsDescriptorsOfMessagesThatLeaveTogether)
{
  std::vector<ino_t> files;
  size_t n_bytes = 0;
  Start ();
  on_message_ = [&] (TpsMessage *message) {
    int fd = NewFile ();
    files.push_back (Identify (fd));
    n_bytes += ToBytes (message->seqid, 5).size ();
    tps_connection_send (connection_, NewMessageWithDescriptor (message->seqid, 5, fd));
  };
  PeerSends (ToBytes (1, 5) + ToBytes (2, 5) + ToBytes (3, 5));
  WaitForMessages (3);
  Settle ();
  std::vector<ino_t> received;
  for (const Arrival &arrival : PeerReceivesDescriptors (n_bytes))
    received.insert (received.end (), arrival.files.begin (), arrival.files.end ());
  EXPECT_EQ (received, files);
}

TEST_F (DescriptorTest, ClosesDescriptorsThatCouldNotBeSent)
{
  Start ();
  int fds[2] = { NewFile (), NewFile () };
  tps_connection_send (connection_, NewMessage (1, 16 << 20));
  tps_connection_send (connection_, NewMessageWithDescriptor (2, 10, fds[0]));
  ClosePeer ();
  WaitUntil ([this] { return closed_; });
  tps_connection_send (connection_, NewMessageWithDescriptor (3, 10, fds[1]));
  for (int fd : fds)
    EXPECT_EQ (fcntl (fd, F_GETFD), -1);
}

TEST_F (DescriptorTest, HandsOutDescriptorsBeforeTheirMessage)
{
  std::vector<int> fds;
  for (int i = 0; i < 4; i++)
    fds.push_back (NewFile ());
  Start ();
  PeerSends (ToBytes (0, 10));
  PeerSendsWithDescriptors (ToBytes (1, 100), { fds[0] });
  PeerSendsWithDescriptors (ToBytes (2, 50000), { fds[1], fds[2] });
  PeerSends (ToBytes (3, 10));
  PeerSendsWithDescriptors (ToBytes (4, 10), { fds[3] });
  WaitForMessages (5);

  ASSERT_EQ (descriptors_.size (), fds.size ());
  const size_t message_of[] = { 1, 2, 2, 4 };
  for (size_t i = 0; i < fds.size (); i++)
    {
      EXPECT_EQ (Identify (descriptors_[i]), Identify (fds[i]));
      EXPECT_LE (n_messages_before_[i], message_of[i]);
      EXPECT_EQ (fcntl (descriptors_[i], F_GETFD), FD_CLOEXEC);
    }
  for (int fd : fds)
    close (fd);
}

TEST_F (DescriptorTest, HandsOutDescriptorsThatComeInsideABody)
{
  std::string bytes = ToBytes (1, 1 << 20);
  int fd = NewFile ();
  Start ();
  PeerSends (bytes.substr (0, 500000));
  PeerSendsWithDescriptors (bytes.substr (500000, 1000), { fd });
  PeerSends (bytes.substr (501000));
  WaitForMessages (1);
  ASSERT_EQ (descriptors_.size (), 1u);
  EXPECT_EQ (Identify (descriptors_[0]), Identify (fd));
  close (fd);
}

TEST_F (DescriptorTest, TakesSixteenAtOnce)
{
  int fd = NewFile ();
  Start ();
  PeerSendsWithDescriptors (ToBytes (1, 10), std::vector<int> (16, fd));
  WaitForMessages (1);
  EXPECT_EQ (descriptors_.size (), 16u);
  close (fd);
}

TEST_F (DescriptorTest, ClosesAPeerThatSendsMoreAtOnceAndKeepsNone)
{
  int fd = NewFile ();
  Start ();
  Settle ();
  int n_before = CountOpenDescriptors ();
  PeerSendsWithDescriptors (ToBytes (1, 10), std::vector<int> (17, fd));
  WaitUntil ([this] { return closed_; });
  EXPECT_EQ (error_code_, TPS_ERROR_PROTOCOL) << error_;
  EXPECT_THAT (error_, testing::HasSubstr ("16 file descriptors"));
  EXPECT_TRUE (descriptors_.empty ());
  EXPECT_EQ (NMessages (), 0u);
  while (CountOpenDescriptors () > n_before - 1) // one less: the connection's own
    std::this_thread::yield ();
  close (fd);
}

} // namespace
