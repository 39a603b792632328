/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The references between objects:
 *
 *   registry -> entry          each entry is one segment, until the segment is closed
 *   buffer -> entry, receive   the buffer of a slice keeps the mapping, and delays the reply
 *   answer -> entry            the segment that a reply fills
 *   entry -> buffer            the contents of a common segment, while the client reads them
 *   entry -> charge            memory is charged until it is unmapped, perhaps after the registry
 *                              has been freed
 *   reply to open -> charge    the charge also stays until the descriptor has been sent
 *   charge -> budget
 *
 * The lock guards the table and the states. Bytes are copied, mapped and unmapped without it. */

#include "plugin/memory/segment_registry.h"

#include <string.h>
#include <unistd.h>

#include "plugin/memory/segment_registry_private.h"
#include "runtime/base/error.h"

/* ---- states of segments --------------------------------------------------------------------- */

#define BIT(state) (1u << (state))

static const struct
{
  guint from;
  TpsSegmentState to;
} transitions[] = {
  [TPS_SEGMENT_EVENT_TAKE] = { BIT (TPS_SEGMENT_STATE_FREE), TPS_SEGMENT_STATE_FILLING },
  [TPS_SEGMENT_EVENT_COMMIT] = { BIT (TPS_SEGMENT_STATE_FILLING), TPS_SEGMENT_STATE_LENT },
  [TPS_SEGMENT_EVENT_ABANDON] = { BIT (TPS_SEGMENT_STATE_FILLING), TPS_SEGMENT_STATE_FREE },
  [TPS_SEGMENT_EVENT_RELEASE] = { BIT (TPS_SEGMENT_STATE_LENT), TPS_SEGMENT_STATE_FREE },
  [TPS_SEGMENT_EVENT_CLOSE] = { BIT (TPS_SEGMENT_STATE_REQUESTS) | BIT (TPS_SEGMENT_STATE_FREE)
                                    | BIT (TPS_SEGMENT_STATE_FILLING)
                                    | BIT (TPS_SEGMENT_STATE_LENT),
                                TPS_SEGMENT_STATE_CLOSED },
};

/* Changes the state. FALSE: the event is not allowed in this state, and nothing is changed. */
static gboolean
advance (TpsSegmentState *state, TpsSegmentEvent event)
{
  if ((transitions[event].from & BIT (*state)) == 0)
    return FALSE;
  *state = transitions[event].to;
  return TRUE;
}

/* ---- entries -------------------------------------------------------------------------------- */

void
tps_segment_entry_unref (TpsSegmentEntry *entry)
{
  if (!tps_refcount_dec (&entry->refcount))
    return;
  g_clear_pointer (&entry->lent, tps_buffer_unref);
  if (entry->common != NULL)
    tps_common_segment_unref (entry->common);
  else
    tps_segment_free (entry->segment);
  tps_segment_charge_unref (entry->charge);
  g_free (entry);
}

/* Returns a new id. Ids are unique in the process, so the id of a closed segment, or of a segment
 * of another connection, is unknown. */
static gint64
make_id (void)
{
  static atomic_llong last_id;

  return (gint64) atomic_fetch_add_explicit (&last_id, 1, memory_order_relaxed) + 1;
}

/* Takes ownership of the charge and, unless the segment is common, of the segment. */
static TpsSegmentEntry *
entry_new (TpsSegmentCharge *charge, TpsSegment *segment)
{
  TpsSegmentEntry *entry = g_new0 (TpsSegmentEntry, 1);

  tps_refcount_init (&entry->refcount);
  entry->id = make_id ();
  entry->segment = segment;
  entry->charge = charge;
  entry->state = tps_segment_get_use (segment) == TPS_SEGMENT_ANSWERS ? TPS_SEGMENT_STATE_FREE
                                                                      : TPS_SEGMENT_STATE_REQUESTS;
  return entry;
}

/* ---- registry ------------------------------------------------------------------------------- */

/* Sets the device. Segments on it have separate limits. */
static void
set_device (TpsSegmentRegistry *registry, const TpsSegmentLimits *limits)
{
  TpsSegmentLimits on_device = { .max_bytes = limits->max_bytes,
                                 .max_segments = limits->max_segments,
                                 .all = limits->all_on_device };

  if (limits->device == NULL || limits->device->ops->alloc_exported == NULL)
    return;
  registry->device = limits->device;
  registry->is_for_lookups_only = limits->device_for_lookups_only;
  registry->budgets[TPS_SEGMENT_CUDA_IPC] = tps_segment_budget_new (&on_device);
}

TpsSegmentRegistry *
tps_segment_registry_new (const TpsSegmentLimits *limits)
{
  TpsSegmentRegistry *registry = g_new0 (TpsSegmentRegistry, 1);

  tps_refcount_init (&registry->refcount);
  tps_mutex_init (&registry->lock);
  registry->budgets[TPS_SEGMENT_MEMFD] = tps_segment_budget_new (limits);
  set_device (registry, limits);
  if (limits->common != NULL)
    registry->common = tps_common_segments_ref (limits->common);
  registry->entries = g_hash_table_new_full (g_int64_hash, g_int64_equal, NULL,
                                             (GDestroyNotify) tps_segment_entry_unref);
  return registry;
}

TpsSegmentRegistry *
tps_segment_registry_ref (TpsSegmentRegistry *registry)
{
  tps_refcount_inc (&registry->refcount);
  return registry;
}

void
tps_segment_registry_unref (TpsSegmentRegistry *registry)
{
  if (!tps_refcount_dec (&registry->refcount))
    return;
  g_hash_table_unref (registry->entries);
  g_clear_pointer (&registry->common, tps_common_segments_unref);
  for (guint kind = 0; kind < TPS_SEGMENT_N_KINDS; kind++)
    g_clear_pointer (&registry->budgets[kind], tps_segment_budget_unref);
  tps_mutex_clear (&registry->lock);
  g_free (registry);
}

gsize
tps_segment_registry_get_max_bytes (const TpsSegmentRegistry *registry)
{
  return tps_segment_budget_get_max_bytes (registry->budgets[TPS_SEGMENT_MEMFD]);
}

gsize
tps_segment_registry_get_bytes (const TpsSegmentRegistry *registry)
{
  gsize n_bytes = 0;

  for (guint i = 0; i < TPS_SEGMENT_N_KINDS; i++)
    if (registry->budgets[i] != NULL)
      n_bytes += tps_segment_budget_get_bytes (registry->budgets[i]);
  return n_bytes;
}

TpsDevice *
tps_segment_registry_get_device (const TpsSegmentRegistry *registry)
{
  return registry->device;
}

gboolean
tps_segment_registry_is_for_lookups_only (const TpsSegmentRegistry *registry)
{
  return registry->is_for_lookups_only;
}

gboolean
tps_segment_registry_has_segments (TpsSegmentRegistry *registry)
{
  gboolean has_segments;

  tps_mutex_lock (&registry->lock);
  has_segments = g_hash_table_size (registry->entries) > 0;
  tps_mutex_unlock (&registry->lock);
  return has_segments;
}

gboolean
tps_segment_registry_move (TpsSegmentRegistry *registry, TpsSegmentEntry *entry,
                           TpsSegmentEvent event)
{
  gboolean was_free = entry->state == TPS_SEGMENT_STATE_FREE;

  if (!advance (&entry->state, event))
    return FALSE;
  registry->n_free += (entry->state == TPS_SEGMENT_STATE_FREE) - was_free;
  return TRUE;
}

void
tps_segment_registry_shut_down (TpsSegmentRegistry *registry)
{
  GHashTable *nothing = g_hash_table_new_full (g_int64_hash, g_int64_equal, NULL,
                                               (GDestroyNotify) tps_segment_entry_unref);
  GHashTable *entries;
  GHashTableIter iter;
  gpointer entry;

  tps_mutex_lock (&registry->lock);
  registry->is_shut_down = TRUE;
  entries = registry->entries;
  registry->entries = nothing;
  g_hash_table_iter_init (&iter, entries);
  while (g_hash_table_iter_next (&iter, NULL, &entry))
    tps_segment_registry_move (registry, entry, TPS_SEGMENT_EVENT_CLOSE);
  tps_mutex_unlock (&registry->lock);
  g_hash_table_unref (entries);
}

/* ---- opening -------------------------------------------------------------------------------- */

static gboolean
check_open (gsize n_bytes, TpsSegmentUse use, GError **error)
{
  if (use != TPS_SEGMENT_REQUESTS && use != TPS_SEGMENT_ANSWERS)
    g_set_error (
        error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
        "a segment's use is %d, expected %d (REQUESTS), %d (ANSWERS) or, in host memory, %d "
        "(COMMON_ANSWERS)",
        (gint) use, TPS_SEGMENT_REQUESTS, TPS_SEGMENT_ANSWERS, TPS_SEGMENT_COMMON_ANSWERS);
  else if (n_bytes == 0)
    g_set_error_literal (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                         "a segment must have at least 1 byte");
  else
    return TRUE;
  return FALSE;
}

/* The parameters of an opening, and its results: the descriptor `fd` of a file, or the `handle` of
 * device memory. */
typedef struct
{
  TpsSegmentKind kind;
  TpsSegmentUse use;
  gsize n_bytes; /* rounded */
  gint fd;
  guint8 *handle;
  gboolean takes_lookups;
  TpsCommonSegment *common; /* the segment to open; NULL = a new segment */
} Opening;

static TpsSegment *
create_segment (TpsSegmentRegistry *registry, Opening *opening, GError **error)
{
  if (opening->common != NULL)
    {
      opening->fd = tps_common_segment_dup_descriptor (opening->common, error);
      return opening->fd >= 0 ? tps_common_segment_get (opening->common) : NULL;
    }
  if (opening->kind == TPS_SEGMENT_MEMFD)
    return tps_segment_create (opening->use, opening->n_bytes, &opening->fd, error);
  return tps_segment_create_exported (registry->device, opening->use, opening->n_bytes,
                                      opening->handle, error);
}

static TpsSegmentEntry *
create_entry (TpsSegmentRegistry *registry, Opening *opening, GError **error)
{
  g_autoptr (TpsSegmentCharge) charge = NULL;
  TpsSegmentEntry *entry;
  TpsSegment *segment;

  charge = tps_segment_budget_take (registry->budgets[opening->kind], opening->n_bytes, error);
  if (charge == NULL)
    return NULL;
  segment = create_segment (registry, opening, error);
  if (segment == NULL)
    return NULL;
  entry = entry_new (g_steal_pointer (&charge), segment);
  entry->takes_lookups = opening->takes_lookups;
  if (opening->common != NULL)
    entry->common = tps_common_segment_ref (opening->common);
  return entry;
}

/* Adds the entry to the table. FALSE: the registry is shut down. */
static gboolean
enter (TpsSegmentRegistry *registry, TpsSegmentEntry *entry)
{
  gboolean open;

  tps_mutex_lock (&registry->lock);
  open = !registry->is_shut_down;
  if (open)
    {
      g_hash_table_insert (registry->entries, &entry->id, entry);
      registry->n_free += entry->state == TPS_SEGMENT_STATE_FREE;
    }
  tps_mutex_unlock (&registry->lock);
  return open;
}

/* Opens a segment. `charge` may be NULL. */
static gboolean
open_segment (TpsSegmentRegistry *registry, Opening *opening, gint64 *id, TpsSegmentCharge **charge,
              GError **error)
{
  g_autoptr (TpsSegmentCharge) kept = NULL;
  TpsSegmentEntry *entry;
  gint64 new_id;

  if (!check_open (opening->n_bytes, opening->use, error))
    return FALSE;
  opening->n_bytes = tps_segment_round_size (opening->kind, opening->n_bytes);
  entry = create_entry (registry, opening, error);
  if (entry == NULL)
    return FALSE;
  new_id = entry->id;
  /* As soon as the entry is in the table, the client may close it. */
  kept = tps_segment_charge_ref (entry->charge);
  if (!enter (registry, entry))
    {
      tps_segment_entry_unref (entry);
      g_set_error_literal (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE, "the connection has closed");
      return FALSE;
    }
  *id = new_id;
  if (charge != NULL)
    *charge = g_steal_pointer (&kept);
  return TRUE;
}

/* Removes and returns the oldest number of a common segment that the client has missed; 0 = none.
 * Records that the client uses COMMON_ANSWERS. */
static guint64
take_missed (TpsSegmentRegistry *registry)
{
  guint64 number = 0;

  tps_mutex_lock (&registry->lock);
  registry->opens_common = TRUE;
  if (registry->n_missed > 0)
    {
      number = registry->missed[0];
      registry->n_missed--;
      memmove (registry->missed, registry->missed + 1,
               registry->n_missed * sizeof *registry->missed);
    }
  tps_mutex_unlock (&registry->lock);
  return number;
}

/* Returns a common segment of this size that the client has missed; the caller owns a reference.
 * NULL = there is none. Missed segments of other sizes are removed from the record. If a reply
 * misses them again, they are recorded again. */
static TpsCommonSegment *
find_missed (TpsSegmentRegistry *registry, gsize n_bytes)
{
  guint64 number;

  while ((number = take_missed (registry)) != 0)
    {
      TpsCommonSegment *common = tps_common_segments_find_number (registry->common, number);

      if (common != NULL && tps_segment_get_size (tps_common_segment_get (common)) == n_bytes)
        return common;
      if (common != NULL)
        tps_common_segment_unref (common);
    }
  return NULL;
}

gboolean
tps_segment_registry_open (TpsSegmentRegistry *registry, TpsSegmentUse use, gsize n_bytes,
                           gint64 *id, gsize *size, gint *fd, TpsSegmentCharge **charge,
                           GError **error)
{
  g_autoptr (TpsCommonSegment) common = NULL;
  Opening opening = { TPS_SEGMENT_MEMFD, use, n_bytes, .fd = -1 };

  if (use == TPS_SEGMENT_COMMON_ANSWERS)
    {
      opening.use = TPS_SEGMENT_ANSWERS;
      opening.common = common = find_missed (registry, n_bytes);
    }
  if (!open_segment (registry, &opening, id, charge, error))
    {
      if (opening.fd >= 0)
        close (opening.fd);
      return FALSE;
    }
  *size = opening.n_bytes;
  *fd = opening.fd;
  return TRUE;
}

static gboolean
open_exported (TpsSegmentRegistry *registry, Opening *opening, gint64 *id, gsize *size,
               GError **error)
{
  if (registry->device == NULL || (registry->is_for_lookups_only && !opening->takes_lookups))
    {
      g_set_error_literal (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
                           opening->takes_lookups
                               ? "segments for lookups are not offered: this server has no device "
                                 "for tables, or its device cannot share memory"
                               : "segments of kind CUDA_IPC are not offered: this server averages "
                                 "in host memory, or on a device that cannot share memory");
      return FALSE;
    }
  if (!open_segment (registry, opening, id, NULL, error))
    return FALSE;
  *size = opening->n_bytes;
  return TRUE;
}

gboolean
tps_segment_registry_open_exported (TpsSegmentRegistry *registry, TpsSegmentUse use, gsize n_bytes,
                                    gint64 *id, gsize *size, guint8 *handle, GError **error)
{
  Opening opening = { TPS_SEGMENT_CUDA_IPC, use, n_bytes, .fd = -1, .handle = handle };

  return open_exported (registry, &opening, id, size, error);
}

gboolean
tps_segment_registry_open_for_lookups (TpsSegmentRegistry *registry, gsize n_bytes, gint64 *id,
                                       gsize *size, guint8 *handle, GError **error)
{
  Opening opening = { TPS_SEGMENT_CUDA_IPC, TPS_SEGMENT_ANSWERS,  n_bytes, .fd = -1,
                      .handle = handle,     .takes_lookups = TRUE };

  return open_exported (registry, &opening, id, size, error);
}

void
tps_segment_registry_hold_answers (TpsSegmentRegistry *registry)
{
  tps_mutex_lock (&registry->lock);
  registry->n_opening++;
  tps_mutex_unlock (&registry->lock);
}

void
tps_segment_registry_resume_answers (TpsSegmentRegistry *registry)
{
  GHashTableIter iter;
  gpointer entry;

  tps_mutex_lock (&registry->lock);
  registry->n_opening--;
  g_hash_table_iter_init (&iter, registry->entries);
  while (registry->n_opening == 0 && g_hash_table_iter_next (&iter, NULL, &entry))
    ((TpsSegmentEntry *) entry)->is_known = TRUE;
  tps_mutex_unlock (&registry->lock);
}

/* ---- giving back and closing ---------------------------------------------------------------- */

static void
refuse_id (gint64 id, const gchar *why, GError **error)
{
  /* The error names only the first of the refused ids. */
  if (error != NULL && *error == NULL)
    g_set_error (error, TPS_ERROR, TPS_ERROR_NOT_FOUND, "segment %" G_GINT64_FORMAT " %s", id, why);
}

/* Frees one segment. Moves the buffer of a common segment to `lent`, because it must be released
 * without the lock. Must be called with the lock held. */
static gboolean
release_one (TpsSegmentRegistry *registry, gint64 id, GPtrArray *lent, GError **error)
{
  TpsSegmentEntry *entry = g_hash_table_lookup (registry->entries, &id);

  if (entry == NULL)
    refuse_id (id, "is not open on this connection", error);
  else if (entry->state == TPS_SEGMENT_STATE_REQUESTS)
    refuse_id (id, "is for requests: only segments for replies are released", error);
  else if (!tps_segment_registry_move (registry, entry, TPS_SEGMENT_EVENT_RELEASE))
    refuse_id (id, "is not held by the client", error);
  else
    {
      if (entry->lent != NULL)
        g_ptr_array_add (lent, g_steal_pointer (&entry->lent));
      return TRUE;
    }
  return FALSE;
}

gboolean
tps_segment_registry_release (TpsSegmentRegistry *registry, const gint64 *ids, guint n_ids,
                              GError **error)
{
  g_autoptr (GPtrArray) lent = g_ptr_array_new_with_free_func ((GDestroyNotify) tps_buffer_unref);
  gboolean ok = TRUE;

  tps_mutex_lock (&registry->lock);
  for (guint i = 0; i < n_ids; i++)
    ok &= release_one (registry, ids[i], lent, error);
  tps_mutex_unlock (&registry->lock);
  return ok;
}

/* Removes an entry from the table. The caller owns its reference. NULL = there is no such entry. */
static TpsSegmentEntry *
steal_entry (TpsSegmentRegistry *registry, gint64 id)
{
  TpsSegmentEntry *entry;

  tps_mutex_lock (&registry->lock);
  entry = g_hash_table_lookup (registry->entries, &id);
  if (entry != NULL)
    {
      g_hash_table_steal (registry->entries, &id);
      tps_segment_registry_move (registry, entry, TPS_SEGMENT_EVENT_CLOSE);
    }
  tps_mutex_unlock (&registry->lock);
  return entry;
}

gboolean
tps_segment_registry_close (TpsSegmentRegistry *registry, const gint64 *ids, guint n_ids,
                            GError **error)
{
  gboolean ok = TRUE;

  for (guint i = 0; i < n_ids; i++)
    {
      TpsSegmentEntry *entry = steal_entry (registry, ids[i]);

      if (entry != NULL)
        tps_segment_entry_unref (entry);
      else
        refuse_id (ids[i], "is not open on this connection", error);
      ok &= entry != NULL;
    }
  return ok;
}
