/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/snapshot/write_behind.h"

#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/base/thread.h"

#define MAX_THREADS 4

typedef struct
{
  guint8 *block;
  gsize n_bytes;
  gint64 offset;
} Write;

struct TpsWriteBehind
{
  TpsDiskFile *file;
  guint n_threads;
  TpsThread threads[MAX_THREADS];

  TpsMutex lock; /* guards the following */
  TpsCond changed;
  /* [n_free]: the free blocks; a block is allocated when it is first needed */
  guint8 *blocks[TPS_WRITE_BEHIND_BLOCKS];
  guint n_free, n_made;                 /* free blocks, allocated blocks */
  Write queue[TPS_WRITE_BEHIND_BLOCKS]; /* a ring that begins at `first` */
  guint first, n_queued;
  guint n_writing; /* writes in progress */
  gboolean is_end; /* the threads end when the queue is empty */
  GError *error;
};

/* Removes the first write from the queue, and does it unless an earlier write has failed. The lock
 * is held, but is released during the write. */
static void
write_first (TpsWriteBehind *behind)
{
  Write write = behind->queue[behind->first];
  gboolean has_failed = behind->error != NULL;
  GError *error = NULL;

  behind->first = (behind->first + 1) % TPS_WRITE_BEHIND_BLOCKS;
  behind->n_queued--;
  behind->n_writing++;
  tps_mutex_unlock (&behind->lock);
  if (!has_failed)
    behind->file->disk->write (behind->file, write.block, write.n_bytes, write.offset, FALSE,
                               &error);
  tps_mutex_lock (&behind->lock);
  behind->n_writing--;
  if (behind->error == NULL)
    behind->error = error;
  else
    g_clear_error (&error);
  behind->blocks[behind->n_free++] = write.block;
  tps_cond_broadcast (&behind->changed);
}

static gpointer
write_all (gpointer user_data)
{
  TpsWriteBehind *behind = user_data;

  tps_mutex_lock (&behind->lock);
  while (behind->n_queued > 0 || !behind->is_end)
    if (behind->n_queued > 0)
      write_first (behind);
    else
      tps_cond_wait (&behind->changed, &behind->lock);
  tps_mutex_unlock (&behind->lock);
  return NULL;
}

TpsWriteBehind *
tps_write_behind_new (TpsDiskFile *file, GError **error)
{
  TpsWriteBehind *behind = g_new0 (TpsWriteBehind, 1);
  guint n_threads = CLAMP (file->disk->n_writers, 1, MAX_THREADS);
  GError *failure = NULL;

  behind->file = file;
  tps_mutex_init (&behind->lock);
  tps_cond_init (&behind->changed);
  while (behind->n_threads < n_threads
         && tps_thread_start (&behind->threads[behind->n_threads], "tps-write", write_all, behind,
                              &failure))
    behind->n_threads++;
  if (behind->n_threads == 0)
    {
      g_propagate_error (error, failure);
      tps_write_behind_free (behind);
      return NULL;
    }
  g_clear_error (&failure); /* one thread suffices */
  return behind;
}

void
tps_write_behind_free (TpsWriteBehind *behind)
{
  tps_mutex_lock (&behind->lock);
  behind->is_end = TRUE;
  tps_cond_broadcast (&behind->changed);
  tps_mutex_unlock (&behind->lock);
  for (guint i = 0; i < behind->n_threads; i++)
    tps_sync_check (pthread_join (behind->threads[i], NULL));
  for (guint i = 0; i < behind->n_free; i++)
    g_aligned_free (behind->blocks[i]);
  g_clear_error (&behind->error);
  tps_cond_clear (&behind->changed);
  tps_mutex_clear (&behind->lock);
  g_free (behind);
}

guint8 *
tps_write_behind_take (TpsWriteBehind *behind)
{
  guint8 *block;

  tps_mutex_lock (&behind->lock);
  if (behind->n_free == 0 && behind->n_made < TPS_WRITE_BEHIND_BLOCKS)
    {
      behind->blocks[behind->n_free++] = g_aligned_alloc (1, TPS_WRITE_BEHIND_BYTES,
                                                          TPS_DISK_BLOCK);
      behind->n_made++;
    }
  while (behind->n_free == 0)
    tps_cond_wait (&behind->changed, &behind->lock);
  block = behind->blocks[--behind->n_free];
  tps_mutex_unlock (&behind->lock);
  return block;
}

void
tps_write_behind_submit (TpsWriteBehind *behind, guint8 *block, gsize n_bytes, gint64 offset)
{
  tps_mutex_lock (&behind->lock);
  behind->queue[(behind->first + behind->n_queued++) % TPS_WRITE_BEHIND_BLOCKS] = (Write) {
    block, n_bytes, offset
  };
  tps_cond_broadcast (&behind->changed);
  tps_mutex_unlock (&behind->lock);
}

void
tps_write_behind_return (TpsWriteBehind *behind, guint8 *block)
{
  tps_mutex_lock (&behind->lock);
  behind->blocks[behind->n_free++] = block;
  tps_cond_broadcast (&behind->changed);
  tps_mutex_unlock (&behind->lock);
}

gboolean
tps_write_behind_has_failed (TpsWriteBehind *behind)
{
  gboolean has_failed;

  tps_mutex_lock (&behind->lock);
  has_failed = behind->error != NULL;
  tps_mutex_unlock (&behind->lock);
  return has_failed;
}

gboolean
tps_write_behind_drain (TpsWriteBehind *behind, GError **error)
{
  GError *failure;

  tps_mutex_lock (&behind->lock);
  while (behind->n_queued > 0 || behind->n_writing > 0)
    tps_cond_wait (&behind->changed, &behind->lock);
  failure = behind->error != NULL ? g_error_copy (behind->error) : NULL;
  tps_mutex_unlock (&behind->lock);
  if (failure == NULL)
    return TRUE;
  g_propagate_error (error, failure);
  return FALSE;
}
