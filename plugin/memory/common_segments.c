/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/memory/common_segments.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "runtime/base/descriptor_table.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

#define MIN_BYTES ((gsize) 1 << 20) /* of a segment that a client requests */

struct TpsCommonSegments
{
  TpsRefcount refcount;
  TpsMutex lock;
  GPtrArray *segments; /* of TpsCommonSegment, borrowed; guarded by the lock */
  atomic_uint n_segments;
};

TpsCommonSegments *
tps_common_segments_new (void)
{
  TpsCommonSegments *self = g_new0 (TpsCommonSegments, 1);

  tps_refcount_init (&self->refcount);
  tps_mutex_init (&self->lock);
  self->segments = g_ptr_array_new ();
  return self;
}

TPS_DEFINE_REF (TpsCommonSegments, tps_common_segments)

void
tps_common_segments_unref (TpsCommonSegments *self)
{
  if (!tps_refcount_dec (&self->refcount))
    return;
  g_ptr_array_unref (self->segments);
  tps_mutex_clear (&self->lock);
  g_free (self);
}

/* ---- segments ------------------------------------------------------------------------------- */

TPS_DEFINE_REF (TpsCommonSegment, tps_common_segment)

void
tps_common_segment_unref (TpsCommonSegment *segment)
{
  if (!tps_refcount_dec (&segment->refcount))
    return;
  tps_segment_free (segment->segment);
  close (segment->fd);
  tps_common_segments_unref (segment->owner);
  g_free (segment);
}

gint
tps_common_segment_dup_descriptor (const TpsCommonSegment *segment, GError **error)
{
  gint fd = fcntl (segment->fd, F_DUPFD_CLOEXEC, 0);
  const gchar *reason = fd < 0 ? g_strerror (errno) : TPS_DESCRIPTORS_LACK;

  if (fd >= 0 && tps_descriptor_table_may_keep (fd, TPS_DESCRIPTOR_OF_PEER))
    return fd;
  if (fd >= 0)
    close (fd);
  g_set_error (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
               "cannot duplicate the descriptor of a segment: %s", reason);
  return -1;
}

/* ---- allocation ----------------------------------------------------------------------------- */

/* Called when the buffer of the segment is freed. New replies do not use the segment any more, but
 * connections may keep it. */
static void
retire (gpointer user_data)
{
  TpsCommonSegment *segment = user_data;
  TpsCommonSegments *owner = segment->owner;

  tps_mutex_lock (&owner->lock);
  g_ptr_array_remove_fast (owner->segments, segment);
  atomic_fetch_sub (&owner->n_segments, 1);
  tps_mutex_unlock (&owner->lock);
  tps_common_segment_unref (segment);
}

static gsize
round_size (gsize n_bytes)
{
  gsize size = MIN_BYTES;

  while (size < n_bytes && size <= G_MAXSIZE / 2)
    size *= 2;
  return MAX (size, n_bytes);
}

TpsBuffer *
tps_common_segments_alloc (gpointer user_data, gsize n_bytes, GError **error)
{
  static atomic_ullong last_number;
  TpsCommonSegments *self = user_data;
  TpsCommonSegment *segment;
  TpsSegment *memory;
  gint fd;

  memory = tps_segment_create (TPS_SEGMENT_ANSWERS, round_size (n_bytes), &fd, error);
  if (memory == NULL)
    return NULL;
  /* All clients read the segment, so none of them may be able to change it. */
  if (!tps_segment_check_read_only (fd, error))
    {
      tps_segment_free (memory);
      close (fd);
      return NULL;
    }
  segment = g_new0 (TpsCommonSegment, 1);
  tps_refcount_init (&segment->refcount);
  segment->owner = tps_common_segments_ref (self);
  segment->number = atomic_fetch_add (&last_number, 1) + 1;
  segment->segment = memory;
  segment->fd = fd;
  tps_mutex_lock (&self->lock);
  g_ptr_array_add (self->segments, segment);
  atomic_fetch_add (&self->n_segments, 1);
  tps_mutex_unlock (&self->lock);
  return tps_buffer_new_foreign (memory->data, n_bytes, NULL, retire, segment);
}

gboolean
tps_common_segments_has_any (TpsCommonSegments *self)
{
  return atomic_load_explicit (&self->n_segments, memory_order_relaxed) > 0;
}

static gboolean
contains (const TpsSegment *segment, gconstpointer data, gsize n_bytes)
{
  /* If `data` lies before the segment, the unsigned difference is larger than any segment. */
  gsize offset = GPOINTER_TO_SIZE (data) - GPOINTER_TO_SIZE (segment->data);
  gsize size = segment->n_bytes;

  return offset <= size && n_bytes <= size - offset;
}

TpsCommonSegment *
tps_common_segments_find (TpsCommonSegments *self, gconstpointer data, gsize n_bytes)
{
  TpsCommonSegment *found = NULL;

  if (!tps_common_segments_has_any (self))
    return NULL;
  TPS_LOCK_SCOPE (&self->lock);
  for (guint i = 0; i < self->segments->len && found == NULL; i++)
    if (contains (((TpsCommonSegment *) self->segments->pdata[i])->segment, data, n_bytes))
      found = tps_common_segment_ref (self->segments->pdata[i]);
  return found;
}

TpsCommonSegment *
tps_common_segments_find_number (TpsCommonSegments *self, guint64 number)
{
  TpsCommonSegment *found = NULL;

  TPS_LOCK_SCOPE (&self->lock);
  for (guint i = 0; i < self->segments->len && found == NULL; i++)
    if (((TpsCommonSegment *) self->segments->pdata[i])->number == number)
      found = tps_common_segment_ref (self->segments->pdata[i]);
  return found;
}
