/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/chunks/transfer_name.h"

#include <errno.h>
#include <sys/random.h>

void
tps_transfer_make_name (gchar name[TPS_TRANSFER_NAME_BYTES])
{
  guint64 bits[2];

  while (getrandom (bits, sizeof bits, 0) != sizeof bits)
    if (errno != EINTR)
      g_error ("no random numbers: %s", g_strerror (errno));
  g_snprintf (name, TPS_TRANSFER_NAME_BYTES, "%016" G_GINT64_MODIFIER "x%016" G_GINT64_MODIFIER "x",
              bits[0], bits[1]);
}
