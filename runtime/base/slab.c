/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/slab.h"

#include <string.h>

#include "runtime/base/sanitizers.h"

#if TPS_HAS_ADDRESS_SANITIZER
/* There is one record in each chunk, so that the sanitizer detects uses of a freed record. */
#define CHUNK_BYTES 1
#else
#define CHUNK_BYTES (64 << 10)
#endif

typedef struct Chunk Chunk;

typedef union Slot Slot;
union Slot
{
  Chunk *chunk; /* in a taken slot, whose record follows */
  Slot *next;   /* in a free slot */
};

struct Chunk
{
  GList link; /* in `roomy`, unless all slots are taken */
  guint n_taken;
  guint n_begun;    /* slots that have been taken at least once; the others are not touched */
  Slot *free_slots; /* slots that have been given back */
  Slot slots[];
};

static gsize
slot_bytes (const TpsSlab *slab)
{
  return sizeof (Slot) + slab->n_bytes;
}

static guint
slots_of_chunk (const TpsSlab *slab)
{
  return (guint) MAX (1, (CHUNK_BYTES - (gssize) sizeof (Chunk)) / (gssize) slot_bytes (slab));
}

void
tps_slab_init (TpsSlab *slab, gsize n_bytes)
{
  *slab = (TpsSlab) { .n_bytes = (n_bytes + 7) / 8 * 8 };
}

static void
free_chunk (TpsSlab *slab, Chunk *chunk)
{
  g_queue_unlink (&slab->roomy, &chunk->link);
  g_free (chunk);
  slab->n_chunks--;
}

void
tps_slab_clear (TpsSlab *slab)
{
  while (slab->roomy.head != NULL)
    free_chunk (slab, slab->roomy.head->data);
  g_assert (slab->n_chunks == 0);
}

gpointer
tps_slab_take (TpsSlab *slab)
{
  Chunk *chunk;
  Slot *slot;

  if (slab->roomy.head == NULL)
    {
      chunk = g_malloc (sizeof *chunk + slots_of_chunk (slab) * slot_bytes (slab));
      *chunk = (Chunk) { .link = { .data = chunk } };
      g_queue_push_head_link (&slab->roomy, &chunk->link);
      slab->n_chunks++;
    }
  chunk = slab->roomy.head->data;
  slot = chunk->free_slots;
  if (slot != NULL)
    chunk->free_slots = slot->next;
  else
    slot = (Slot *) ((guint8 *) chunk->slots + chunk->n_begun++ * slot_bytes (slab));
  slot->chunk = chunk;
  if (++chunk->n_taken == slots_of_chunk (slab))
    g_queue_unlink (&slab->roomy, &chunk->link);
  return memset (slot + 1, 0, slab->n_bytes);
}

void
tps_slab_give (TpsSlab *slab, gpointer record)
{
  Slot *slot = (Slot *) record - 1;
  Chunk *chunk = slot->chunk;

  slot->next = chunk->free_slots;
  chunk->free_slots = slot;
  if (chunk->n_taken-- == slots_of_chunk (slab))
    g_queue_push_head_link (&slab->roomy, &chunk->link);
  /* The last chunk with a free slot stays. Otherwise a record that is taken and given back
   * repeatedly could allocate and free a chunk each time. */
  if (chunk->n_taken == 0 && slab->roomy.length > 1)
    free_chunk (slab, chunk);
}
