// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Tests thriftps_server under a simulated service manager: notifications of the server, and sockets
// that the manager passes to it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/integration/server/server_process.h"
#include "tests/plugin/app/notify_socket.h"
#include "tests/plugin/server/gradient_call.h"

namespace thriftps_test {
namespace {

using testing::HasSubstr;
using testing::Not;

// Starts the server with `variables` in its environment, and with `fd` as its descriptor 3.
std::unique_ptr<ServerProcess>
StartWith (const std::string &variables, const std::string &flags, int fd = -1)
{
  std::string command = "export LISTEN_PID=$$ " + variables + "; exec plugin/app/thriftps_server "
                        + flags;
  if (fd >= 0)
    command += " 3<&" + std::to_string (fd);
  return std::make_unique<ServerProcess> (std::vector<std::string> { "-c", command }, "/bin/bash");
}

TEST (ServiceManager, IsToldWhenTheServerServesAndStops)
{
  NotifySocket manager (NotifySocket::InFolder ());
  auto server = StartWith ("NOTIFY_SOCKET=" + manager.address (), "--listen=127.0.0.1:0");
  std::string address = server->ReadAddress ();
  EXPECT_EQ (manager.Receive (), "READY=1\nSTATUS=Serving on " + address);
  EXPECT_EQ (ErrorCode (RawClient (address).Call ("Node:describe")), 0);
  server->Signal (SIGTERM);
  EXPECT_THAT (manager.Receive (), HasSubstr ("STOPPING=1"));
  EXPECT_EQ (server->Wait (), 0);
}

TEST (ServiceManager, MayHaveAnAbstractSocket)
{
  NotifySocket manager ("@thriftps-manager-" + std::to_string (getpid ()));
  auto server = StartWith ("NOTIFY_SOCKET=" + manager.address (), "--listen=127.0.0.1:0");
  EXPECT_THAT (manager.Receive (), HasSubstr ("READY=1"));
}

TEST (ServiceManager, IsToldWhenTheDataDirectoryHasBeenRead)
{
  NotifySocket manager (NotifySocket::InFolder ());
  auto server = StartWith (
      "NOTIFY_SOCKET=" + manager.address (),
      "--listen=127.0.0.1:0 --log-segment-mib=1 --data-dir=" + TemporaryFolder () + "/data");
  manager.WaitFor ("READY=1");
}

TEST (ServiceManager, GetsBeatsThatComeFromTheThreads)
{
  NotifySocket manager (NotifySocket::InFolder ());
  auto server = StartWith ("WATCHDOG_USEC=1000000 NOTIFY_SOCKET=" + manager.address (),
                           "--listen=127.0.0.1:0");
  EXPECT_THAT (manager.Receive (), HasSubstr ("READY=1"));
  for (int i = 0; i < 3; i++)
    EXPECT_EQ (manager.Receive (), "WATCHDOG=1");
}

TEST (ServiceManager, IsToldOfAReload)
{
  NotifySocket manager (NotifySocket::InFolder ());
  std::string folder = TemporaryFolder (), log = folder + "/log";
  auto server = StartWith ("NOTIFY_SOCKET=" + manager.address (),
                           "--listen=127.0.0.1:0 --log-file=" + log);
  EXPECT_THAT (manager.Receive (), HasSubstr ("READY=1"));
  ASSERT_EQ (rename (log.c_str (), (log + ".1").c_str ()), 0);
  server->Signal (SIGHUP);
  EXPECT_THAT (manager.Receive (), HasSubstr ("RELOADING=1\nMONOTONIC_USEC="));
  EXPECT_THAT (manager.Receive (), HasSubstr ("READY=1"));
  struct stat status;
  EXPECT_EQ (stat (log.c_str (), &status), 0);
}

// The server must keep the old file, and log the reason there.
TEST (ServiceManager, AReloadWithoutTheFolderOfTheLogIsLogged)
{
  NotifySocket manager (NotifySocket::InFolder ());
  std::string folder = TemporaryFolder (), log = folder + "/log";
  auto server = StartWith ("NOTIFY_SOCKET=" + manager.address (),
                           "--listen=127.0.0.1:0 --log-file=" + log);
  EXPECT_THAT (manager.Receive (), HasSubstr ("READY=1"));
  ASSERT_EQ (rename (folder.c_str (), (folder + ".1").c_str ()), 0);
  server->Signal (SIGHUP);
  EXPECT_THAT (manager.Receive (), HasSubstr ("RELOADING=1"));
  EXPECT_THAT (manager.Receive (), HasSubstr ("READY=1"));
  server->Signal (SIGTERM);
  EXPECT_EQ (server->Wait (), 0);
  g_autofree gchar *text = nullptr;
  ASSERT_TRUE (g_file_get_contents ((folder + ".1/log").c_str (), &text, nullptr, nullptr));
  EXPECT_THAT (text, HasSubstr (" log_not_reopened reason="));
}

/* ---- passed sockets -------------------------------------------------------------------------- */

// Returns a listening socket without close-on-exec, so executed programs inherit it.
int
ListenOnTcp (std::string *address)
{
  struct sockaddr_in in = {};
  socklen_t n_bytes = sizeof in;
  int fd = socket (AF_INET, SOCK_STREAM, 0);
  in.sin_family = AF_INET;
  in.sin_addr.s_addr = htonl (INADDR_LOOPBACK);
  EXPECT_EQ (bind (fd, reinterpret_cast<struct sockaddr *> (&in), sizeof in), 0);
  EXPECT_EQ (listen (fd, 16), 0);
  EXPECT_EQ (getsockname (fd, reinterpret_cast<struct sockaddr *> (&in), &n_bytes), 0);
  *address = "127.0.0.1:" + std::to_string (ntohs (in.sin_port));
  return fd;
}

TEST (ServiceManager, PassesSocketsThatTakeThePlaceOfListen)
{
  std::string address;
  int fd = ListenOnTcp (&address);
  RawClient early (address); // it waits in the backlog
  auto server = StartWith ("LISTEN_FDS=1 LISTEN_FDNAMES=rpc", "--listen=127.0.0.1:1", fd);
  EXPECT_EQ (server->ReadAddress (), address);
  EXPECT_EQ (ErrorCode (early.Call ("Node:describe")), 0);
  server->Signal (SIGTERM);
  EXPECT_EQ (server->Wait (), 0);

  // The socket outlives the server, so the next server must serve clients that connected in the
  // meantime.
  RawClient between (address);
  auto next = StartWith ("LISTEN_FDS=1", "", fd);
  EXPECT_EQ (next->ReadAddress (), address);
  EXPECT_EQ (ErrorCode (between.Call ("Node:describe")), 0);
  close (fd);
}

TEST (ServiceManager, KeepsTheFileOfASocketThatItHasMade)
{
  std::string path = TemporaryFolder () + "/socket";
  struct sockaddr_un un = {};
  un.sun_family = AF_UNIX;
  path.copy (un.sun_path, sizeof un.sun_path - 1);
  int fd = socket (AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ (bind (fd, reinterpret_cast<struct sockaddr *> (&un), sizeof un), 0);
  ASSERT_EQ (listen (fd, 16), 0);
  auto server = StartWith ("LISTEN_FDS=1", "", fd);
  EXPECT_EQ (server->ReadAddress (), "unix:" + path);
  EXPECT_EQ (ErrorCode (RawClient ("unix:" + path).Call ("Node:describe")), 0);
  server->Signal (SIGTERM);
  EXPECT_EQ (server->Wait (), 0);
  struct stat status;
  EXPECT_EQ (stat (path.c_str (), &status), 0);
  close (fd);
}

TEST (ServiceManager, IsRefusedADescriptorThatIsNoSocket)
{
  int fds[2];
  ASSERT_EQ (pipe (fds), 0);
  auto server = StartWith ("LISTEN_FDS=1 LISTEN_FDNAMES=mine.socket", "", fds[0]);
  EXPECT_THAT (server->ReadErrors (),
               HasSubstr ("thriftps_server: socket 3 (mine.socket) of the service manager: "
                          "descriptor 3: not a stream socket"));
  EXPECT_EQ (server->Wait (), 1);
  close (fds[0]);
  close (fds[1]);
}

TEST (ServiceManager, IsRefusedAnAddressThatItCannotHave)
{
  auto server = StartWith ("NOTIFY_SOCKET=relative", "");
  EXPECT_THAT (server->ReadErrors (), HasSubstr ("NOTIFY_SOCKET=relative: expected an absolute"));
  EXPECT_EQ (server->Wait (), 1);
}

} // namespace
} // namespace thriftps_test
