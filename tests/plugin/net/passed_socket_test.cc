// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "plugin/net/address.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "runtime/base/error.h"

namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

// Creates a socket as systemd does: it is blocking, and executed programs inherit it.
int
Listen (int family, const std::string &unix_name = "")
{
  struct sockaddr_storage bytes = {};
  socklen_t n_bytes = family == AF_INET ? sizeof (struct sockaddr_in)
                                        : sizeof (struct sockaddr_in6);
  int fd = socket (family, SOCK_STREAM, 0);

  bytes.ss_family = (sa_family_t) family;
  if (family == AF_INET)
    reinterpret_cast<struct sockaddr_in *> (&bytes)->sin_addr.s_addr = htonl (INADDR_LOOPBACK);
  else if (family == AF_INET6)
    reinterpret_cast<struct sockaddr_in6 *> (&bytes)->sin6_addr = in6addr_loopback;
  else
    {
      auto *un = reinterpret_cast<struct sockaddr_un *> (&bytes);
      memcpy (un->sun_path, unix_name.data (), unix_name.size ());
      n_bytes = (socklen_t) (offsetof (struct sockaddr_un, sun_path) + unix_name.size ());
    }
  if (bind (fd, reinterpret_cast<struct sockaddr *> (&bytes), n_bytes) < 0 || listen (fd, 5) < 0)
    {
      close (fd);
      return -1;
    }
  return fd;
}

std::string
Prepare (int fd)
{
  g_autofree gchar *address = nullptr;
  g_autoptr (GError) error = nullptr;
  if (tps_passed_socket_prepare (fd, &address, &error))
    return address;
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT));
  EXPECT_EQ (address, nullptr);
  return std::string ("refused: ") + error->message;
}

TEST (PassedSocket, SaysItsAddressAndBecomesNonBlocking)
{
  int fd = Listen (AF_INET);
  EXPECT_THAT (Prepare (fd), MatchesRegex ("127\\.0\\.0\\.1:[0-9]+"));
  EXPECT_NE (fcntl (fd, F_GETFL) & O_NONBLOCK, 0);
  EXPECT_NE (fcntl (fd, F_GETFD) & FD_CLOEXEC, 0);
  close (fd);
}

TEST (PassedSocket, MayBeOfAnyFamilyOfStreams)
{
  int v6 = Listen (AF_INET6);
  if (v6 >= 0) // some hosts have no IPv6
    {
      EXPECT_THAT (Prepare (v6), MatchesRegex ("\\[::1\\]:[0-9]+"));
    }
  g_autofree gchar *folder = g_dir_make_tmp ("thriftps-XXXXXX", nullptr);
  std::string path = std::string (folder) + "/socket";
  int file = Listen (AF_UNIX, path);
  EXPECT_EQ (Prepare (file), "unix:" + path);
  std::string name = "thriftps-test-" + std::to_string (getpid ());
  int abstract = Listen (AF_UNIX, std::string (1, '\0') + name);
  EXPECT_EQ (Prepare (abstract), "unix:@" + name);
  for (int fd : { v6, file, abstract })
    if (fd >= 0)
      close (fd);
}

TEST (PassedSocket, RefusesDescriptorsThatCannotAccept)
{
  int fds[2];
  EXPECT_THAT (Prepare (9999), HasSubstr ("refused: descriptor 9999: not a stream socket"));
  ASSERT_EQ (pipe (fds), 0);
  EXPECT_THAT (Prepare (fds[0]), HasSubstr ("not a stream socket; expected ListenStream="));
  int datagrams = socket (AF_INET, SOCK_DGRAM, 0);
  EXPECT_THAT (Prepare (datagrams), HasSubstr ("not a stream socket"));
  int unconnected = socket (AF_INET, SOCK_STREAM, 0);
  EXPECT_THAT (Prepare (unconnected), HasSubstr ("does not listen; expected Accept=no"));
  for (int fd : { fds[0], fds[1], datagrams, unconnected })
    close (fd);
}

} // namespace
