/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/transfer/system/pattern.h"

/* An odd number: 2^32 successive words are all different. */
#define STEP 2654435761u

void
tps_transfer_pattern_fill (gpointer data, gsize n_bytes)
{
  guint32 *words = data;

  for (gsize i = 0; i < n_bytes / sizeof *words; i++)
    words[i] = ((guint32) i + 1) * STEP;
}

gboolean
tps_transfer_pattern_matches (gconstpointer data, gsize n_bytes)
{
  const guint32 *words = data;

  for (gsize i = 0; i < n_bytes / sizeof *words; i++)
    if (words[i] != ((guint32) i + 1) * STEP)
      return FALSE;
  return TRUE;
}

TpsBuffer *
tps_transfer_pattern_new (gsize n_bytes)
{
  TpsBuffer *buffer = tps_buffer_new (n_bytes);

  tps_transfer_pattern_fill (tps_buffer_get_data (buffer), n_bytes);
  return buffer;
}
