/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/log/read_ahead.h"

#include <string.h>

#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/base/thread.h"

#define N_THREADS 2 /* concurrent reads */
#define N_BLOCKS TPS_READ_AHEAD_BLOCKS

typedef struct
{
  guint8 *data; /* allocated when it is first needed */
  gboolean is_ready;
  GError *error; /* set instead of `is_ready` if the read failed */
} Block;

struct TpsReadAhead
{
  TpsDiskFile *file;
  gint64 begin, end;
  gint64 n_blocks; /* of the range; block i uses blocks[i % N_BLOCKS] */
  gint64 position; /* the offset in the file of the next byte for the caller */
  guint n_threads;
  TpsThread threads[N_THREADS];

  TpsMutex lock; /* guards the following */
  TpsCond changed;
  Block blocks[N_BLOCKS];
  gint64 next;     /* the next block to read */
  gint64 current;  /* the block at `position` */
  gboolean is_end; /* no further block is read: the object is being freed, or a read failed */
};

/* ---- reading threads ------------------------------------------------------------------------- */

static gboolean
read_block (const TpsReadAhead *ahead, gint64 number, guint8 *data, GError **error)
{
  gint64 offset = ahead->begin + number * (gint64) TPS_READ_AHEAD_BYTES;
  gsize n_bytes = (gsize) MIN (ahead->end - offset, (gint64) TPS_READ_AHEAD_BYTES);
  gssize n_read = ahead->file->disk->read (ahead->file, data, n_bytes, offset, error);

  if (n_read < 0)
    return FALSE;
  if ((gsize) n_read == n_bytes)
    return TRUE;
  return tps_fail (error, TPS_ERROR_ABORTED, "the file ends at offset %" G_GINT64_FORMAT,
                   offset + (gint64) n_read);
}

/* Reads the next block. The lock is held, but is released during the read. */
static void
read_next (TpsReadAhead *ahead)
{
  gint64 number = ahead->next++;
  Block *block = &ahead->blocks[number % N_BLOCKS];
  GError *error = NULL;

  if (block->data == NULL)
    block->data = g_aligned_alloc (1, TPS_READ_AHEAD_BYTES, TPS_DISK_BLOCK);
  tps_mutex_unlock (&ahead->lock);
  read_block (ahead, number, block->data, &error);
  tps_mutex_lock (&ahead->lock);
  block->error = error;
  block->is_ready = error == NULL;
  ahead->is_end |= error != NULL;
  tps_cond_broadcast (&ahead->changed);
}

static gpointer
read_all (gpointer user_data)
{
  TpsReadAhead *ahead = user_data;

  TPS_LOCK_SCOPE (&ahead->lock);
  while (!ahead->is_end && ahead->next < ahead->n_blocks)
    if (ahead->next < ahead->n_blocks && ahead->next < ahead->current + N_BLOCKS)
      read_next (ahead);
    else
      tps_cond_wait (&ahead->changed, &ahead->lock);
  return NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

TpsReadAhead *
tps_read_ahead_new (TpsDiskFile *file, gint64 begin, gint64 end, GError **error)
{
  TpsReadAhead *ahead = g_new0 (TpsReadAhead, 1);
  gint64 n_bytes = (gint64) TPS_READ_AHEAD_BYTES;
  GError *failure = NULL;

  ahead->file = file;
  ahead->begin = ahead->position = begin;
  ahead->end = end;
  ahead->n_blocks = (end - begin + n_bytes - 1) / n_bytes;
  tps_mutex_init (&ahead->lock);
  tps_cond_init (&ahead->changed);
  while (ahead->n_threads < N_THREADS
         && tps_thread_start (&ahead->threads[ahead->n_threads], "tps-read", read_all, ahead,
                              &failure))
    ahead->n_threads++;
  if (ahead->n_threads == 0)
    {
      g_propagate_error (error, failure);
      tps_read_ahead_free (ahead);
      return NULL;
    }
  g_clear_error (&failure); /* one thread suffices */
  return ahead;
}

void
tps_read_ahead_free (TpsReadAhead *ahead)
{
  tps_mutex_lock (&ahead->lock);
  ahead->is_end = TRUE;
  tps_cond_broadcast (&ahead->changed);
  tps_mutex_unlock (&ahead->lock);
  for (guint i = 0; i < ahead->n_threads; i++)
    tps_sync_check (pthread_join (ahead->threads[i], NULL));
  for (guint i = 0; i < N_BLOCKS; i++)
    {
      g_aligned_free (ahead->blocks[i].data);
      g_clear_error (&ahead->blocks[i].error);
    }
  tps_cond_clear (&ahead->changed);
  tps_mutex_clear (&ahead->lock);
  g_free (ahead);
}

/* ---- calls of the owner ---------------------------------------------------------------------- */

gint64
tps_read_ahead_get_position (const TpsReadAhead *ahead)
{
  return ahead->position;
}

/* Waits for the block with the next byte, and returns it; NULL with an error. Reads begin in order.
 * If a later block fails, the read of this block has therefore begun, and will end. */
static const guint8 *
wait_for_block (TpsReadAhead *ahead, GError **error)
{
  const Block *block = &ahead->blocks[ahead->current % N_BLOCKS];
  const guint8 *data = NULL;

  TPS_LOCK_SCOPE (&ahead->lock);
  while (!block->is_ready && block->error == NULL)
    tps_cond_wait (&ahead->changed, &ahead->lock);
  if (block->is_ready)
    data = block->data;
  else
    g_propagate_error (error, g_error_copy (block->error));
  return data;
}

gboolean
tps_read_ahead_read (TpsReadAhead *ahead, gpointer data, gsize n_bytes, GError **error)
{
  guint8 *to = data;

  g_assert (ahead->position + (gint64) n_bytes <= ahead->end);
  while (n_bytes > 0)
    {
      gsize at = (gsize) ((ahead->position - ahead->begin) % (gint64) TPS_READ_AHEAD_BYTES);
      gsize n = MIN (n_bytes, TPS_READ_AHEAD_BYTES - at);
      const guint8 *block = wait_for_block (ahead, error);

      if (block == NULL)
        return FALSE;
      memcpy (to, block + at, n);
      ahead->position += (gint64) n;
      to += n;
      n_bytes -= n;
      if (at + n == TPS_READ_AHEAD_BYTES)
        {
          tps_mutex_lock (&ahead->lock);
          ahead->blocks[ahead->current % N_BLOCKS].is_ready = FALSE;
          ahead->current++;
          tps_cond_broadcast (&ahead->changed);
          tps_mutex_unlock (&ahead->lock);
        }
    }
  return TRUE;
}
