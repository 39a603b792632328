/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/transfer/system/serve.h"

#include <stdio.h>
#include <unistd.h>

void
tps_transfer_announce (const gchar *address)
{
  printf ("listening on %s\n", address);
  fflush (stdout);
}

void
tps_transfer_wait_for_end (void)
{
  gchar chunk[64];

  while (read (STDIN_FILENO, chunk, sizeof chunk) > 0)
    continue;
}

gint
tps_transfer_fail (const GError *error)
{
  fprintf (stderr, "transfer: %s\n", error->message);
  return 1;
}
