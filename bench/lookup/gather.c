/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/lookup/gather.h"

#include <string.h>

#define STAGE_BYTES (16 << 10)
#define AHEAD_ROWS 48
#define PAIR_OF_LINES 128 /* bytes; the processor fetches lines in pairs */

void
tps_lookup_gather (const gfloat *table, const gint64 *ids, gsize n, gsize dim)
{
  gsize row_bytes = dim * sizeof table[0];
  gsize n_stage_rows = MAX (1, STAGE_BYTES / row_bytes);
  g_autofree guint8 *stage = g_malloc (n_stage_rows * row_bytes);
  const guint8 *rows = (const guint8 *) table;

  for (gsize i = 0, to = 0; i < n; i++, to = to + 1 < n_stage_rows ? to + 1 : 0)
    {
      const guint8 *ahead = rows + (gsize) ids[MIN (i + AHEAD_ROWS, n - 1)] * row_bytes;

      for (gsize byte = 0; byte < row_bytes; byte += PAIR_OF_LINES)
        __builtin_prefetch (ahead + byte, 0, 2);
      memcpy (stage + to * row_bytes, rows + (gsize) ids[i] * row_bytes, row_bytes);
    }
  __asm__ volatile("" : : "r"(stage) : "memory"); /* not to be left out */
}
