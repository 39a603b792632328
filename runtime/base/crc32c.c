/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/crc32c.h"

#include <isa-l/crc.h>
#include <string.h>

#define MAX_STEP_BYTES ((gsize) 1 << 30) /* ISA-L has an int for the length */
/* At this size, the copied bytes are still in the first-level cache when their checksum is
 * computed. */
#define COPY_STEP_BYTES ((gsize) 16 << 10)

guint32
tps_crc32c (guint32 crc, gconstpointer data, gsize n_bytes)
{
  unsigned char *bytes = (unsigned char *) (gsize) data; /* ISA-L does not write to it */
  guint32 inverted = ~crc;

  while (n_bytes > 0)
    {
      gsize n_now = MIN (n_bytes, MAX_STEP_BYTES);

      inverted = crc32_iscsi (bytes, (int) n_now, inverted);
      bytes += n_now;
      n_bytes -= n_now;
    }
  return ~inverted;
}

guint32
tps_crc32c_copy (guint32 crc, gpointer to, gconstpointer data, gsize n_bytes)
{
  for (gsize done = 0; done < n_bytes; done += COPY_STEP_BYTES)
    {
      gsize n_now = MIN (n_bytes - done, COPY_STEP_BYTES);
      guint8 *copied = (guint8 *) to + done;

      memcpy (copied, (const guint8 *) data + done, n_now);
      crc = tps_crc32c (crc, copied, n_now);
    }
  return crc;
}
