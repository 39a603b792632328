/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include <string.h>

#include "bench/transfer/limits/raw.h"
#include "bench/transfer/system/pattern.h"
#include "bench/transfer/system/row.h"
#include "runtime/base/sync.h"

typedef struct
{
  TpsBuffer *from, *to, *back;
} Loader;

static void
copy (TpsBuffer *to, TpsBuffer *from, gsize n_bytes)
{
  guint8 *data = tps_buffer_get_data (to);

  memcpy (data, tps_buffer_get_data (from), n_bytes);
  __asm__ volatile("" : : "r"(data) : "memory"); /* so that the compiler keeps the copy */
}

static gint64
run_row (gpointer user_data, const TpsTransferRow *row, gint64 *ns, G_GNUC_UNUSED GError **error)
{
  const Loader *loader = user_data;
  gint64 start_ns = tps_clock_now_ns (), before_ns = start_ns;

  for (guint i = 0; i < row->n_calls; i++)
    {
      gint64 after_ns;

      copy (loader->to, loader->from, row->n_bytes);
      if (row->op == TPS_TRANSFER_ECHO)
        copy (loader->back, loader->to, row->n_bytes);
      after_ns = tps_clock_now_ns ();
      ns[i] = after_ns - before_ns;
      before_ns = after_ns;
    }
  return before_ns - start_ns;
}

gint
tps_transfer_load_memcpy (G_GNUC_UNUSED const gchar *address, gsize max_bytes)
{
  g_autoptr (TpsBuffer) from = tps_transfer_pattern_new (max_bytes);
  g_autoptr (TpsBuffer) to = tps_buffer_new (max_bytes);
  g_autoptr (TpsBuffer) back = tps_buffer_new (max_bytes);
  Loader loader = { from, to, back };

  return tps_transfer_serve_rows (run_row, &loader);
}
