/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/heap_block.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "runtime/base/buffer.h"

#define MIN_PAGED_BYTES ((gsize) 32 << 10)
#define PAGE_BYTES 4096
#define HUGE_PAGE_BYTES ((gsize) 2 << 20)

/* Returns the distance of a block from the start of a page. */
static gsize
get_page_offset (gsize n_bytes)
{
  return n_bytes >= MIN_PAGED_BYTES && n_bytes < HUGE_PAGE_BYTES ? PAGE_BYTES / 2 : 0;
}

static gsize
get_alignment (gsize n_bytes)
{
  if (n_bytes >= HUGE_PAGE_BYTES)
    return HUGE_PAGE_BYTES;
  return n_bytes >= MIN_PAGED_BYTES ? PAGE_BYTES : TPS_BUFFER_ALIGNMENT;
}

gpointer
tps_heap_block_new (gsize n_bytes)
{
  gsize offset = get_page_offset (n_bytes);
  void *memory;

  if (posix_memalign (&memory, get_alignment (n_bytes), offset + n_bytes) != 0)
    return NULL;
  if (n_bytes >= HUGE_PAGE_BYTES)
    madvise (memory, n_bytes, MADV_HUGEPAGE); /* a hint, which may fail */
  return (guint8 *) memory + offset;
}

void
tps_heap_block_free (gpointer block, gsize n_bytes)
{
  free ((guint8 *) block - get_page_offset (n_bytes));
}
