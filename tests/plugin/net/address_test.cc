// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "plugin/net/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/error.h"

namespace {

std::string
Normalized (const char *text)
{
  g_auto (TpsAddress) address = {};
  g_autoptr (GError) error = nullptr;
  if (!tps_address_parse (text, &address, &error))
    return std::string ("error: ") + error->message;
  g_autofree gchar *normal = tps_address_to_string (&address);
  return normal;
}

// Listens. Holds the descriptor and the bound address, or the error message.
struct Listening
{
  explicit Listening (const std::string &text)
  {
    g_auto (TpsAddress) address = {};
    g_autoptr (GError) error = nullptr;
    g_autofree gchar *text_bound = nullptr;
    if (tps_address_parse (text.c_str (), &address, &error))
      fd = tps_address_listen (&address, &text_bound, &error);
    if (text_bound != nullptr)
      bound = text_bound;
    if (error != nullptr)
      {
        code = error->code;
        message = error->message;
      }
  }
  ~Listening ()
  {
    if (fd >= 0)
      close (fd);
  }
  int fd = -1;
  int code = 0;
  std::string bound;
  std::string message;
};

bool
CanConnect (const std::string &text)
{
  g_auto (TpsAddress) address = {};
  g_autoptr (GError) error = nullptr;
  gboolean in_progress = FALSE;
  if (!tps_address_parse (text.c_str (), &address, &error))
    return false;
  int fd = tps_address_connect (&address, &in_progress, &error);
  if (fd < 0)
    return false;
  bool fine = tps_socket_check (fd, "connect", nullptr);
  close (fd);
  return fine;
}

// A path in a folder of its own; both are removed.
struct FreshPath
{
  FreshPath () : folder (g_dir_make_tmp ("tps-address-XXXXXX", nullptr))
  {
  }
  ~FreshPath ()
  {
    unlink (path.c_str ());
    rmdir (folder);
    g_free (folder);
  }
  FreshPath (const FreshPath &) = delete;
  FreshPath &operator= (const FreshPath &) = delete;

  gchar *folder;
  const std::string path = std::string (folder) + "/path";
};

TEST (Address, RefusesBadAddressesWithTheReason)
{
  EXPECT_THAT (Normalized ("localhost"), testing::HasSubstr ("there is no port"));
  EXPECT_THAT (Normalized ("h:65536"), testing::HasSubstr ("0 to 65535"));
  EXPECT_THAT (Normalized ("h:-1"), testing::HasSubstr ("0 to 65535"));
  EXPECT_THAT (Normalized ("h:"), testing::HasSubstr ("0 to 65535"));
  EXPECT_THAT (Normalized ("::1:80"), testing::HasSubstr ("brackets"));
  EXPECT_THAT (Normalized ("[::1:80"), testing::HasSubstr ("not closed"));
  EXPECT_THAT (Normalized ("[]:80"), testing::HasSubstr ("not closed"));
  EXPECT_THAT (Normalized ("unix:"), testing::HasSubstr ("empty"));
  EXPECT_THAT (Normalized (("unix:/" + std::string (107, 'x')).c_str ()),
               testing::HasSubstr ("107"));
  EXPECT_EQ (Normalized (("unix:/" + std::string (106, 'x')).c_str ()),
             "unix:/" + std::string (106, 'x'));
}

TEST (Address, GivesUnixSocketsToTheirOwnerAlone)
{
  FreshPath fresh;
  const std::string &path = fresh.path;
  Listening listening ("unix:" + path);
  struct stat status;

  ASSERT_GE (listening.fd, 0) << listening.message;
  ASSERT_EQ (stat (path.c_str (), &status), 0);
  EXPECT_EQ (status.st_mode & 0777, 0600u);
  EXPECT_TRUE (CanConnect ("unix:" + path));
}

// A socket is bound before it listens. In between, another server must not take it for a stale
// socket.
TEST (Address, OneOfTwoServersThatStartAtTheSameTimeListens)
{
  for (int round = 0; round < 200; round++)
    {
      FreshPath fresh;
      const std::string &path = fresh.path;
      std::unique_ptr<Listening> servers[4];
      std::vector<std::thread> threads;
      int n_listening = 0;

      if (round % 2 == 0)
        Listening ("unix:" + path); // leaves a stale socket behind
      for (auto &server : servers)
        threads.emplace_back (
            [&server, &path] { server = std::make_unique<Listening> ("unix:" + path); });
      for (std::thread &thread : threads)
        thread.join ();
      for (const auto &server : servers)
        n_listening += server->fd >= 0;
      ASSERT_EQ (n_listening, 1);
      EXPECT_TRUE (CanConnect ("unix:" + path));
    }
}

// If the folder is locked by another process or cannot be read, the server must start nevertheless.
TEST (Address, ListensInAFolderThatCannotBeLocked)
{
  g_autofree gchar *folder = g_dir_make_tmp ("tps-address-XXXXXX", nullptr);
  std::string path = std::string (folder) + "/socket";
  ASSERT_EQ (chmod (folder, 0300), 0);
  {
    Listening listening ("unix:" + path);
    EXPECT_GE (listening.fd, 0) << listening.message;
    EXPECT_TRUE (CanConnect ("unix:" + path));
  }
  unlink (path.c_str ());
  rmdir (folder);
}

TEST (Address, LeavesAFileThatIsNoSocket)
{
  FreshPath fresh;
  const std::string &path = fresh.path;
  ASSERT_TRUE (g_file_set_contents (path.c_str (), "precious", -1, nullptr));
  Listening listening ("unix:" + path);
  g_autofree gchar *contents = nullptr;

  EXPECT_EQ (listening.code, TPS_ERROR_INVALID_ARGUMENT);
  ASSERT_TRUE (g_file_get_contents (path.c_str (), &contents, nullptr, nullptr));
  EXPECT_STREQ (contents, "precious");
}

// ---- socket options --------------------------------------------------------------------------

std::string
CongestionControl (int fd)
{
  char name[16] = "";
  socklen_t n_bytes = sizeof name;
  EXPECT_EQ (getsockopt (fd, IPPROTO_TCP, TCP_CONGESTION, name, &n_bytes), 0);
  return name;
}

// A socket of the system, and the address for its connect().
struct PlainClient
{
  explicit PlainClient (const std::string &target)
  {
    g_auto (TpsAddress) address = {};
    EXPECT_TRUE (tps_address_parse (target.c_str (), &address, nullptr));
    server = {};
    server.sin_family = AF_INET;
    server.sin_addr.s_addr = htonl (INADDR_LOOPBACK);
    server.sin_port = htons (address.port);
    fd = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  }
  ~PlainClient ()
  {
    close (fd);
  }
  struct sockaddr_in server;
  int fd;
};

TEST (Address, IsNotPacedWithinAHost)
{
  for (const char *host : { "127.0.0.1:0", "[::1]:0" })
    {
      Listening listening (host);
      g_auto (TpsAddress) address = {};
      gboolean in_progress = TRUE;
      ASSERT_TRUE (tps_address_parse (listening.bound.c_str (), &address, nullptr));
      int client = tps_address_connect (&address, &in_progress, nullptr);
      ASSERT_GE (client, 0);
      int accepted = accept (listening.fd, nullptr, nullptr);
      tps_socket_tune (accepted);
      EXPECT_EQ (CongestionControl (client), "reno");
      EXPECT_EQ (CongestionControl (accepted), "reno");
      close (client);
      close (accepted);
    }
}

// The client simulates another host: it binds to an address that differs from the server's.
TEST (Address, KeepsTheSystemsCongestionControlBetweenHosts)
{
  Listening listening ("127.0.0.1:0");
  PlainClient client (listening.bound);
  std::string chosen = CongestionControl (client.fd);
  struct sockaddr_in other = {};
  other.sin_family = AF_INET;
  other.sin_addr.s_addr = htonl (INADDR_LOOPBACK + 1);
  ASSERT_EQ (bind (client.fd, reinterpret_cast<struct sockaddr *> (&other), sizeof other), 0);
  ASSERT_EQ (connect (client.fd, reinterpret_cast<struct sockaddr *> (&client.server),
                      sizeof client.server),
             0);
  int accepted = accept (listening.fd, nullptr, nullptr);
  tps_socket_tune (accepted);
  tps_socket_tune (client.fd);
  EXPECT_EQ (CongestionControl (accepted), chosen);
  EXPECT_EQ (CongestionControl (client.fd), chosen);
  close (accepted);
}

int
IntOption (int fd, int option)
{
  int value = 0;
  socklen_t n_bytes = sizeof value;

  EXPECT_EQ (getsockopt (fd, IPPROTO_TCP, option, &value, &n_bytes), 0);
  return value;
}

TEST (Address, NoticesAHostThatIsSilent)
{
  Listening listening ("127.0.0.1:0");
  g_auto (TpsAddress) address = {};
  gboolean in_progress = TRUE;
  ASSERT_TRUE (tps_address_parse (listening.bound.c_str (), &address, nullptr));
  int client = tps_address_connect (&address, &in_progress, nullptr);
  EXPECT_EQ (IntOption (client, TCP_KEEPIDLE) + 8 * IntOption (client, TCP_KEEPINTVL), 180);
  EXPECT_EQ (IntOption (client, TCP_KEEPCNT), 8);
  EXPECT_EQ (IntOption (client, TCP_USER_TIMEOUT), 180000);
  close (client);
}

// The first address of "two.example" has no listener, and the second is the test server's. See
// getaddrinfo() below.
TEST (Address, TriesTheNextAddressOfAName)
{
  Listening listening ("127.0.0.1:0");
  std::string text = "two.example" + listening.bound.substr (listening.bound.rfind (':'));
  g_auto (TpsAddress) address = {};
  gboolean in_progress = TRUE;
  g_autoptr (GError) error = nullptr;
  ASSERT_TRUE (tps_address_parse (text.c_str (), &address, nullptr));
  int client = tps_address_connect (&address, &in_progress, &error);
  ASSERT_GE (client, 0) << error->message;
  int accepted = accept (listening.fd, nullptr, nullptr);
  EXPECT_GE (accepted, 0);
  EXPECT_TRUE (tps_socket_check (client, "client", nullptr));
  close (client);
  close (accepted);
}

} // namespace

// Replaces the resolver of this program. Every name has the addresses 127.0.0.2 and 127.0.0.1.
extern "C" int
getaddrinfo (const char *, const char *port, const struct addrinfo *, struct addrinfo **found)
{
  static struct sockaddr_in addresses[2];
  static struct addrinfo items[2];

  for (unsigned i = 0; i < 2; i++)
    {
      addresses[i].sin_family = AF_INET;
      addresses[i].sin_port = htons ((uint16_t) atoi (port));
      addresses[i].sin_addr.s_addr = htonl (INADDR_LOOPBACK + 1 - i);
      items[i].ai_addr = reinterpret_cast<struct sockaddr *> (&addresses[i]);
      items[i].ai_addrlen = sizeof addresses[i];
      items[i].ai_next = i == 0 ? &items[1] : nullptr;
    }
  *found = items;
  return 0;
}

extern "C" void
freeaddrinfo (struct addrinfo *)
{
}
