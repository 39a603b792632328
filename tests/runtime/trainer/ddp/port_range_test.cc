/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Groups with a fixed range of ports, as firewalls require. */

#include "runtime/trainer/ports/process_group.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "tests/runtime/trainer/ddp/collectives.h"
#include "tests/runtime/trainer/ddp/fakes.h"

namespace {

constexpr guint N_RANKS = 3;
constexpr gint64 TIMEOUT_NS = G_GINT64_CONSTANT (60000000000);

/* Returns the first of `n` consecutive free ports. The search begins at a random place, so that
 * concurrent tests seldom find the same ports. */
guint16
find_free_ports (guint n)
{
  const guint n_places = 12000 / n, begin = std::random_device () () % n_places;

  for (guint i = 0; i < n_places; i++)
    {
      const guint first = 20000 + (begin + i) % n_places * n;
      guint n_free = 0;

      for (; n_free < n; n_free++)
        {
          int fd = socket (AF_INET, SOCK_STREAM, 0);
          sockaddr_in address = {};

          address.sin_family = AF_INET;
          address.sin_port = htons (static_cast<guint16> (first + n_free));
          address.sin_addr.s_addr = htonl (INADDR_LOOPBACK);
          bool ok = bind (fd, reinterpret_cast<sockaddr *> (&address), sizeof address) == 0;
          close (fd);
          if (!ok)
            break;
        }
      if (n_free == n)
        return static_cast<guint16> (first);
    }
  return 0;
}

TpsProcessGroup *
join (MemoryStore *shared, guint rank, guint16 first, guint16 last, GError **error)
{
  TpsStore *store = shared->open ();
  TpsProcessGroupOptions options = {};

  options.rank = rank;
  options.size = N_RANKS;
  options.store = store;
  options.prefix = "pass/";
  options.timeout_ns = TIMEOUT_NS;
  options.first_port = first;
  options.last_port = last;
  options.no_shared_memory = TRUE;
  TpsProcessGroup *group = tps_process_group_new ("gloo", &options, error);
  store->ops->free (store);
  return group;
}

/* Returns the ports in the addresses that a rank has put into the store. Gloo writes the addresses
 * one after another. Each begins with a socket address. */
std::set<guint16>
ports_of (MemoryStore *shared, guint rank)
{
  std::string addresses;
  std::set<guint16> ports;

  EXPECT_TRUE (shared->get ("pass/" + std::to_string (rank), 0, &addresses));
  size_t n_bytes = addresses.size () / (N_RANKS - 1);
  for (size_t i = 0; i < N_RANKS - 1; i++)
    {
      sockaddr_in address;

      memcpy (&address, addresses.data () + i * n_bytes, sizeof address);
      EXPECT_EQ (address.sin_family, AF_INET);
      ports.insert (ntohs (address.sin_port));
    }
  return ports;
}

TEST (PortRange, EveryRankListensInsideIt)
{
  constexpr guint N_PORTS = N_RANKS * (N_RANKS - 1);
  guint16 first = find_free_ports (N_PORTS);
  guint16 last = static_cast<guint16> (first + N_PORTS - 1);
  MemoryStore shared;
  std::set<guint16> ports;

  run_ranks (N_RANKS, [&] (guint rank) {
    GError *error = nullptr;
    TpsProcessGroup *group = join (&shared, rank, first, last, &error);
    std::vector<float> data = { static_cast<float> (rank + 1) };

    ASSERT_NE (group, nullptr) << error->message;
    EXPECT_EQ (all_reduce (group, data.data (), data.size ()), "");
    EXPECT_EQ (data[0], 6.0f);
    group->ops->free (group);
  });
  for (guint rank = 0; rank < N_RANKS; rank++)
    for (guint16 port : ports_of (&shared, rank))
      {
        EXPECT_GE (port, first);
        EXPECT_LE (port, last);
        ports.insert (port);
      }
  EXPECT_GE (ports.size (), N_RANKS - 1);
}

TEST (PortRange, OneThatIsTooSmallIsNamed)
{
  guint16 port = find_free_ports (1);
  MemoryStore shared;
  GError *error = nullptr;

  EXPECT_EQ (join (&shared, 0, port, port, &error), nullptr);
  ASSERT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE)) << error->message;
  std::string range = std::to_string (port) + "-" + std::to_string (port);
  EXPECT_NE (std::string (error->message).find ("no port is left in " + range), std::string::npos)
      << error->message;
  g_error_free (error);
}

} /* namespace */
