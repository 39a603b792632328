/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/memory/segment_registry_private.h"

#include "runtime/device/device_memory.h"
#include "runtime/base/error.h"
#include "runtime/base/magazine.h"
#include "runtime/base/stream_copy.h"

/* ---- slices of a call ----------------------------------------------------------------------- */

typedef struct
{
  TpsSharing sharing; /* must be first */
  TpsRefcount refcount;
  TpsSegmentRegistry *registry;
  GDestroyNotify released;
  gpointer user_data;
} Receive;

static TpsDepot receive_depot = TPS_DEPOT_INIT (g_free);
static _Thread_local TpsMagazine receive_magazine;

typedef struct
{
  Receive *receive;
  TpsSegmentEntry *entry;
} Hold;

static void
receive_ref (TpsSharing *sharing)
{
  tps_refcount_inc (&((Receive *) sharing)->refcount);
}

static void
receive_unref (TpsSharing *sharing)
{
  Receive *receive = (Receive *) sharing;

  if (!tps_refcount_dec (&receive->refcount))
    return;
  tps_segment_registry_unref (receive->registry);
  receive->released (receive->user_data);
  tps_magazine_put (&receive_magazine, &receive_depot, receive);
}

static void
let_go (gpointer data)
{
  Hold *hold = data;

  tps_segment_entry_unref (hold->entry);
  receive_unref (&hold->receive->sharing);
  g_free (hold);
}

/* Returns a reference to the segment with this id; NULL = the id is refused. The lock protects only
 * the table, because the size of a segment does not change. */
static TpsSegmentEntry *
find_for_request (TpsSegmentRegistry *registry, gint64 id, GError **error)
{
  const gchar *why = NULL;
  TpsSegmentEntry *entry;

  tps_mutex_lock (&registry->lock);
  entry = g_hash_table_lookup (registry->entries, &id);
  if (entry == NULL)
    why = "is not open on this connection";
  else if (entry->state != TPS_SEGMENT_STATE_REQUESTS)
    why = "is for replies";
  else
    tps_refcount_inc (&entry->refcount);
  tps_mutex_unlock (&registry->lock);
  if (why == NULL)
    return entry;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "names segment %" G_GINT64_FORMAT ", which %s", id, why);
  return NULL;
}

static gboolean
check_bounds (const TpsSharedSlice *slice, gsize size, GError **error)
{
  if (slice->offset < 0 || slice->length < 0 || (guint64) slice->offset > size
      || (guint64) slice->length > size - (guint64) slice->offset)
    g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                 "has offset %" G_GINT64_FORMAT " and length %" G_GINT64_FORMAT
                 ", segment %" G_GINT64_FORMAT " has %" G_GSIZE_FORMAT " bytes",
                 slice->offset, slice->length, slice->segment, size);
  else if (slice->offset % TPS_SHARING_ALIGNMENT != 0)
    g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                 "has offset %" G_GINT64_FORMAT ", expected a multiple of %d", slice->offset,
                 TPS_SHARING_ALIGNMENT);
  else
    return TRUE;
  return FALSE;
}

static TpsBuffer *
receive_resolve (TpsSharing *sharing, const TpsSharedSlice *slice, GError **error)
{
  Receive *receive = (Receive *) sharing;
  TpsSegmentEntry *entry = find_for_request (receive->registry, slice->segment, error);
  Hold *hold;

  if (entry == NULL)
    return NULL;
  if (!check_bounds (slice, tps_segment_get_size (entry->segment), error))
    {
      tps_segment_entry_unref (entry);
      return NULL;
    }
  hold = g_new (Hold, 1);
  hold->entry = entry;
  hold->receive = receive;
  tps_refcount_inc (&receive->refcount);
  return tps_segment_show (entry->segment, (gsize) slice->offset, (gsize) slice->length, let_go,
                           hold);
}

static TpsBufferPool *
receive_get_pool (TpsSharing *sharing)
{
  return tps_segment_budget_get_copies (
      ((Receive *) sharing)->registry->budgets[TPS_SEGMENT_MEMFD]);
}

TpsSharing *
tps_segment_registry_receive (TpsSegmentRegistry *registry, GDestroyNotify released,
                              gpointer user_data)
{
  static const TpsSharingOps ops = {
    .resolve = receive_resolve,
    .ref = receive_ref,
    .unref = receive_unref,
    .get_pool = receive_get_pool,
  };
  Receive *receive;

  if (!tps_segment_registry_has_segments (registry))
    return NULL;
  receive = tps_magazine_take (&receive_magazine, &receive_depot);
  if (receive == NULL)
    receive = g_new (Receive, 1);
  receive->sharing.ops = &ops;
  tps_refcount_init (&receive->refcount);
  receive->registry = tps_segment_registry_ref (registry);
  receive->released = released;
  receive->user_data = user_data;
  return &receive->sharing;
}

/* ---- answers -------------------------------------------------------------------------------- */

typedef struct
{
  TpsSharing sharing; /* must be first */
  TpsRefcount refcount;
  TpsSegmentRegistry *registry;
  TpsSegmentEntry *entry; /* NULL = no tensor has been placed yet */
  gsize n_used;
  const guint8 *reserved; /* [n_reserved], in the segment; NULL = nothing is reserved */
  gsize n_reserved;
} Answer;

static TpsDepot answer_depot = TPS_DEPOT_INIT (g_free);
static _Thread_local TpsMagazine answer_magazine;

static void
answer_ref (TpsSharing *sharing)
{
  tps_refcount_inc (&((Answer *) sharing)->refcount);
}

/* Returns TRUE if the client has received the id of the segment. Must be called with the lock
 * held. */
static gboolean
is_usable (const TpsSegmentRegistry *registry, const TpsSegmentEntry *entry)
{
  return entry->is_known || registry->n_opening == 0;
}

/* Takes the smallest free segment of the kind that is large enough. The caller owns a reference.
 * NULL = there is none. If `for_lookup` is TRUE, the segment must take results of lookups. */
static TpsSegmentEntry *
take_free (TpsSegmentRegistry *registry, TpsSegmentKind kind, gboolean for_lookup, gsize n_bytes)
{
  TpsSegmentEntry *best = NULL;
  GHashTableIter iter;
  gpointer value;

  tps_mutex_lock (&registry->lock);
  g_hash_table_iter_init (&iter, registry->entries);
  while (registry->n_free > 0 && g_hash_table_iter_next (&iter, NULL, &value))
    {
      TpsSegmentEntry *entry = value;
      gsize size = tps_segment_get_size (entry->segment);

      if (entry->state == TPS_SEGMENT_STATE_FREE && is_usable (registry, entry)
          && entry->common == NULL && size >= n_bytes
          && tps_segment_get_kind (entry->segment) == kind && (entry->takes_lookups || !for_lookup)
          && (best == NULL || size < tps_segment_get_size (best->segment)))
        best = entry;
    }
  if (best != NULL)
    {
      tps_segment_registry_move (registry, best, TPS_SEGMENT_EVENT_TAKE);
      tps_refcount_inc (&best->refcount);
    }
  tps_mutex_unlock (&registry->lock);
  return best;
}

/* Ends the use of the segment by the reply, with COMMIT or ABANDON. */
static void
end_filling (Answer *answer, TpsSegmentEvent event)
{
  TpsSegmentEntry *entry = g_steal_pointer (&answer->entry);
  /* Released after the lock. */
  g_autoptr (TpsBuffer) unsent = NULL;

  answer->reserved = NULL;
  if (entry == NULL)
    return;
  tps_mutex_lock (&answer->registry->lock);
  tps_segment_registry_move (answer->registry, entry, event);
  if (event == TPS_SEGMENT_EVENT_ABANDON)
    unsent = g_steal_pointer (&entry->lent);
  tps_mutex_unlock (&answer->registry->lock);
  tps_segment_entry_unref (entry);
}

static void
answer_unref (TpsSharing *sharing)
{
  Answer *answer = (Answer *) sharing;

  if (!tps_refcount_dec (&answer->refcount))
    return;
  end_filling (answer, TPS_SEGMENT_EVENT_ABANDON);
  tps_segment_registry_unref (answer->registry);
  tps_magazine_put (&answer_magazine, &answer_depot, answer);
}

/* Returns the memory for the bytes; NULL = no room. A reply uses one segment, and therefore one
 * kind. */
static guint8 *
reserve (Answer *answer, TpsSegmentKind kind, gsize n_bytes, TpsSharedSlice *slice)
{
  gsize offset = tps_sharing_round (answer->n_used);
  gsize size;

  if (answer->entry == NULL)
    answer->entry = take_free (answer->registry, kind, FALSE, n_bytes);
  if (answer->entry == NULL || answer->entry->common != NULL
      || tps_segment_get_kind (answer->entry->segment) != kind)
    return NULL;
  size = tps_segment_get_size (answer->entry->segment);
  if (offset > size || n_bytes > size - offset)
    return NULL;
  answer->n_used = offset + n_bytes;
  *slice = (TpsSharedSlice) { .segment = answer->entry->id,
                              .offset = (gint64) offset,
                              .length = (gint64) n_bytes };
  return tps_segment_get_data (answer->entry->segment) + offset;
}

/* Sets `slice` if the bytes lie in the memory that was reserved for the reply. */
static gboolean
find_reserved (const Answer *answer, const guint8 *data, gsize n_bytes, TpsSharedSlice *slice)
{
  const guint8 *begin = answer->reserved;

  if (begin == NULL || data < begin || data >= begin + answer->n_reserved
      || n_bytes > answer->n_reserved - (gsize) (data - begin))
    return FALSE;
  *slice = (TpsSharedSlice) {
    .segment = answer->entry->id,
    .offset = data - tps_segment_get_data (answer->entry->segment),
    .length = (gint64) n_bytes,
  };
  return TRUE;
}

static gboolean
answer_place (TpsSharing *sharing, gconstpointer data, gsize n_bytes, TpsSharedSlice *slice)
{
  Answer *answer = (Answer *) sharing;
  guint8 *to;

  if (find_reserved (answer, data, n_bytes, slice))
    return TRUE;
  to = reserve (answer, TPS_SEGMENT_MEMFD, n_bytes, slice);
  if (to != NULL)
    tps_stream_copy (to, data, n_bytes);
  return to != NULL;
}

/* Records the number of a segment that the client should open. FALSE: the number is already
 * recorded, or there is no room for it. The lock must be held. */
static gboolean
miss (TpsSegmentRegistry *registry, guint64 number)
{
  for (guint i = 0; i < registry->n_missed; i++)
    if (registry->missed[i] == number)
      return FALSE;
  if (registry->n_missed == TPS_SEGMENT_MAX_MISSED)
    return FALSE;
  registry->missed[registry->n_missed++] = number;
  return TRUE;
}

static TpsSegmentEntry *
find_common (TpsSegmentRegistry *registry, const TpsCommonSegment *common)
{
  GHashTableIter iter;
  gpointer value;

  g_hash_table_iter_init (&iter, registry->entries);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    if (((TpsSegmentEntry *) value)->common == common)
      return value;
  return NULL;
}

/* Takes the entry of a common segment for a reply that names `buffer`. The caller owns a reference.
 * NULL = the client has not opened the segment, or has not yet returned it after an earlier reply.
 * Sets *is_new if the client uses COMMON_ANSWERS, has not opened the segment, and no earlier reply
 * has missed it. */
static TpsSegmentEntry *
take_common (TpsSegmentRegistry *registry, TpsCommonSegment *common, TpsBuffer *buffer,
             gboolean *is_new)
{
  TpsSegmentEntry *entry;

  *is_new = FALSE;
  tps_mutex_lock (&registry->lock);
  entry = find_common (registry, common);
  if (entry == NULL)
    *is_new = miss (registry, tps_common_segment_get_number (common)) && registry->opens_common;
  else if (!is_usable (registry, entry)
           || !tps_segment_registry_move (registry, entry, TPS_SEGMENT_EVENT_TAKE))
    entry = NULL;
  if (entry != NULL)
    {
      tps_refcount_inc (&entry->refcount);
      entry->lent = tps_buffer_ref (buffer);
    }
  tps_mutex_unlock (&registry->lock);
  return entry;
}

/* Sets `slice` to bytes of a common segment, if the client has opened the segment, and the reply
 * uses no other segment. `is_new`: see take_common(). */
static gboolean
name_common (Answer *answer, TpsCommonSegment *common, TpsBuffer *buffer, const guint8 *data,
             gsize n_bytes, TpsSharedSlice *slice, gboolean *is_new)
{
  const guint8 *begin = tps_segment_get_data (tps_common_segment_get (common));

  *is_new = FALSE;
  if ((data - begin) % TPS_SHARING_ALIGNMENT != 0)
    return FALSE;
  if (answer->entry == NULL)
    answer->entry = take_common (answer->registry, common, buffer, is_new);
  if (answer->entry == NULL || answer->entry->common != common)
    return FALSE;
  *slice = (TpsSharedSlice) { .segment = answer->entry->id,
                              .offset = data - begin,
                              .length = (gint64) n_bytes };
  return TRUE;
}

/* A client that uses COMMON_ANSWERS may not have opened the common segment of a tensor. The first
 * such tensor then travels inline, so that the client opens one more segment. Later tensors of that
 * segment are copied to other segments. */
static gboolean
answer_place_buffer (TpsSharing *sharing, TpsBuffer *buffer, gsize offset, gsize n_bytes,
                     TpsSharedSlice *slice)
{
  Answer *answer = (Answer *) sharing;
  const guint8 *data = tps_buffer_get_data (buffer) + offset;
  g_autoptr (TpsCommonSegment) common = NULL;
  gboolean is_new = FALSE;

  if (answer->registry->common != NULL)
    common = tps_common_segments_find (answer->registry->common, data, n_bytes);
  if (common != NULL && name_common (answer, common, buffer, data, n_bytes, slice, &is_new))
    return TRUE;
  return !is_new && answer_place (sharing, data, n_bytes, slice);
}

static gboolean
answer_place_device (TpsSharing *sharing, TpsDevice *device, gconstpointer data, gsize n_bytes,
                     TpsSharedSlice *slice)
{
  Answer *answer = (Answer *) sharing;
  gsize n_used = answer->n_used;
  guint8 *to = NULL;

  if (find_reserved (answer, data, n_bytes, slice))
    return TRUE;
  if (device == answer->registry->device)
    to = reserve (answer, TPS_SEGMENT_CUDA_IPC, n_bytes, slice);
  if (to == NULL)
    return FALSE;
  if (tps_device_memory_copy (device, to, data, n_bytes, NULL))
    return TRUE;
  answer->n_used = n_used;
  if (n_used == 0) /* the client cannot return a segment that no slice names */
    end_filling (answer, TPS_SEGMENT_EVENT_ABANDON);
  return FALSE;
}

TpsSharing *
tps_segment_registry_answer (TpsSegmentRegistry *registry)
{
  static const TpsSharingOps ops = {
    .place = answer_place,
    .place_buffer = answer_place_buffer,
    .place_device = answer_place_device,
    .ref = answer_ref,
    .unref = answer_unref,
  };
  gboolean may_place;
  Answer *answer;

  tps_mutex_lock (&registry->lock);
  may_place = registry->n_free > 0
              || (registry->common != NULL && tps_common_segments_has_any (registry->common));
  tps_mutex_unlock (&registry->lock);
  if (!may_place)
    return NULL;
  answer = tps_magazine_take (&answer_magazine, &answer_depot);
  if (answer == NULL)
    answer = g_new (Answer, 1);
  *answer = (Answer) { .sharing.ops = &ops, .registry = tps_segment_registry_ref (registry) };
  tps_refcount_init (&answer->refcount);
  return &answer->sharing;
}

static void
free_reserved (gpointer user_data)
{
  answer_unref (user_data);
}

TpsBuffer *
tps_segment_registry_reserve (TpsSharing *sharing, TpsDevice *device, gsize n_bytes)
{
  Answer *answer = (Answer *) sharing;
  TpsSegmentKind kind = device != NULL ? TPS_SEGMENT_CUDA_IPC : TPS_SEGMENT_MEMFD;
  TpsSharedSlice slice;

  if (answer->entry != NULL || (device != NULL && device != answer->registry->device))
    return NULL;
  answer->entry = take_free (answer->registry, kind, device != NULL, n_bytes);
  if (answer->entry == NULL)
    return NULL;
  answer->reserved = reserve (answer, kind, n_bytes, &slice);
  answer->n_reserved = n_bytes;
  answer_ref (sharing);
  return tps_segment_show (answer->entry->segment, (gsize) slice.offset, n_bytes, free_reserved,
                           answer);
}

void
tps_segment_registry_commit (TpsSharing *answer)
{
  end_filling ((Answer *) answer, TPS_SEGMENT_EVENT_COMMIT);
}
