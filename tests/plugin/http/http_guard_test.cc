// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "plugin/http/http_guard.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cstring>
#include <string>

namespace thriftps_test {
namespace {

guint
Examine (const std::string &bytes, gsize *n_request)
{
  return tps_http_guard_examine (bytes.data (), bytes.size (), n_request);
}

TEST (HttpGuard, WaitsForAWholeRequest)
{
  const std::string get = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
                    post = "POST / HTTP/1.1\ncontent-length:\t3 \r\n\nabc";
  for (const std::string &request : { get, post })
    {
      gsize n_request = 0;
      for (gsize n = 0; n < request.size (); n++)
        EXPECT_EQ (Examine (request.substr (0, n), &n_request), 0u) << n;
      EXPECT_EQ (Examine (request + "more", &n_request), 200u);
      EXPECT_EQ (n_request, request.size ());
    }
}

TEST (HttpGuard, RefusesRequestsThatWouldCostMemory)
{
  auto examine_with = [] (const std::string &fields) {
    gsize n_request;
    return Examine ("POST / HTTP/1.1\r\n" + fields + "\r\n" + std::string (8192, 'x'), &n_request);
  };
  std::string lines;
  for (int i = 0; i < TPS_HTTP_MAX_LINES - 2; i++) // the request line and the empty line
    lines += "a:\r\n";
  EXPECT_EQ (examine_with (lines), 200u);
  EXPECT_EQ (examine_with (lines + "a:\r\n"), 431u);
  EXPECT_EQ (examine_with ("a: " + std::string (TPS_HTTP_MAX_HEAD_BYTES, 'a') + "\r\n"), 431u);
  EXPECT_EQ (examine_with ("a:\r\n b\r\n"), 400u);
  EXPECT_EQ (examine_with (std::string ("a: \0\r\n", 6)), 400u);
  EXPECT_EQ (examine_with ("transfer-encoding: gzip\r\n"), 411u);
  EXPECT_EQ (examine_with ("Content-Length: 4096\r\n"), 200u);
  for (const char *length : { "4097", "99999999999999999999" })
    EXPECT_EQ (examine_with ("Content-Length: " + std::string (length) + "\r\n"), 413u);
  for (const char *length : { "", "-1", "+1", "1 2", "1,1", "1\r\nContent-Length: 1" })
    EXPECT_EQ (examine_with ("Content-Length: " + std::string (length) + "\r\n"), 400u) << length;
  EXPECT_EQ (examine_with ("a: %00\r\n"), 200u);
  gsize n_request;
  EXPECT_EQ (Examine ("GET /tables?after=a%00b HTTP/1.1\r\n\r\n", &n_request), 400u);
  EXPECT_EQ (
      Examine (std::string ("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\na\0b", 41), &n_request),
      400u);
  EXPECT_EQ (Examine ("\r\nGET / HTTP/1.1\r\n\r\n", &n_request), 400u);
  EXPECT_EQ (Examine (std::string (TPS_HTTP_MAX_HEAD_BYTES - 1, 'a'), &n_request), 0u);
  EXPECT_EQ (Examine (std::string (TPS_HTTP_MAX_HEAD_BYTES, 'a'), &n_request), 431u);
}

TEST (HttpGuard, AcceptsAddressesAndKnownNames)
{
  const char *const names[] = { "ps0.example.org", "ps0", nullptr };
  for (const char *host : { "127.0.0.1", "127.0.0.1:8080", "[::1]:8080", "[::1]", "10.1.2.3:1",
                            "localhost", "LocalHost:8080", "ps0", "PS0.example.org:65535" })
    EXPECT_TRUE (tps_http_guard_accepts_host (host, names)) << host;
}

TEST (HttpGuard, RefusesForeignNamesAndInvalidHosts)
{
  const char *const names[] = { "ps0", nullptr };
  const std::string long_name (300, 'a');
  for (const char *host : { "",
                            "evil.example",
                            "evil.example:8080",
                            "127.0.0.1.evil.example",
                            "localhost.evil.example",
                            "ps0.evil.example",
                            "localhost, evil.example",
                            "127.0.0.1:",
                            "127.0.0.1:123456",
                            "127.0.0.1:8o80",
                            "[::1",
                            "[::1]x",
                            "[]",
                            ":8080",
                            "::1",
                            "0x7f.1",
                            "user@localhost",
                            "localhost/x",
                            " localhost",
                            "localhost ",
                            long_name.c_str () })
    {
      bool is_empty_port = std::strcmp (host, "127.0.0.1:") == 0; // RFC 3986 allows an empty port
      EXPECT_EQ (tps_http_guard_accepts_host (host, names), is_empty_port) << host;
    }
  EXPECT_FALSE (tps_http_guard_accepts_host ("ps0", nullptr));
}

bool
IsLocal (const char *text)
{
  struct sockaddr_storage peer = {};
  auto *v4 = reinterpret_cast<struct sockaddr_in *> (&peer);
  auto *v6 = reinterpret_cast<struct sockaddr_in6 *> (&peer);
  peer.ss_family = std::strchr (text, ':') != nullptr ? AF_INET6 : AF_INET;
  void *address = peer.ss_family == AF_INET ? static_cast<void *> (&v4->sin_addr)
                                            : static_cast<void *> (&v6->sin6_addr);
  EXPECT_EQ (inet_pton (peer.ss_family, text, address), 1);
  return tps_http_guard_is_local (&peer);
}

TEST (HttpGuard, LocalPeersAreThoseOfLoopbackAndUnixSockets)
{
  for (const char *peer : { "127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1" })
    EXPECT_TRUE (IsLocal (peer)) << peer;
  for (const char *peer : { "10.0.0.1", "128.0.0.1", "::", "::2", "::ffff:10.0.0.1", "fe80::1" })
    EXPECT_FALSE (IsLocal (peer)) << peer;
  struct sockaddr_storage unix_peer = {};
  unix_peer.ss_family = AF_UNIX;
  EXPECT_TRUE (tps_http_guard_is_local (&unix_peer));
  unix_peer.ss_family = AF_UNSPEC;
  EXPECT_FALSE (tps_http_guard_is_local (&unix_peer));
}

TEST (HttpGuard, FindsTheToken)
{
  EXPECT_STREQ (tps_http_guard_find_token ("Bearer abc"), "abc");
  EXPECT_STREQ (tps_http_guard_find_token ("bearer   a b"), "a b");
  for (const char *header : { "", "Bearer", "Bearer ", "Basic abc", "abc" })
    EXPECT_EQ (tps_http_guard_find_token (header), nullptr) << header;
  EXPECT_EQ (tps_http_guard_find_token (nullptr), nullptr);
}

} // namespace
} // namespace thriftps_test
