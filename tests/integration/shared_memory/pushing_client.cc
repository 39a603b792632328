/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A client that the test kills. When tensors use shared memory, it prints "ready" and continues
 * endlessly. With "wait" it pushes a gradient that the server keeps, prints "ready" when the
 * gradient has arrived, and waits for the other trainer. */

#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <numeric>

#include "tests/integration/shared_memory/sharing_client.h"

int
main (int argc, char **argv)
{
  tps_test::SharingClient client (argv[1]);
  std::vector<gint64> ids (16384);

  if (!client.warm_up ())
    {
      std::fprintf (stderr, "no tensor passed through shared memory: %s\n",
                    client.error ().c_str ());
      return 1;
    }
  std::iota (ids.begin (), ids.end (), 0);
  if (argc > 2 && strcmp (argv[2], "wait") == 0)
    {
      guint64 n_before = client.stats ().sent_shared.n_tensors;

      client.push (0, 0, tps_test::make_values (200000, 0));
      client.look_up ("warm", { 1 }); /* its reply proves that the push has arrived */
      if (client.stats ().sent_shared.n_tensors == n_before
          || write (STDOUT_FILENO, "ready\n", 6) != 6)
        return 1;
      pause ();
    }
  for (;;)
    {
      client.look_up ("warm", ids);
      if (write (STDOUT_FILENO, "ready\n", 6) != 6)
        return 1;
    }
}
