/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/memory/segment_registry.h"

#include <string.h>
#include <unistd.h>

#include "runtime/base/error.h"
#include "runtime/base/magazine.h"
#include "runtime/base/stream_copy.h"
#include "runtime/base/sync.h"
#include "runtime/device/device_memory.h"

/* -- segment budget -- */

/* The limits of all segments of one connection: bytes, number, and the budget of the server.
 * Private to plugin/memory. Reference-counted, because charges may outlive the registry. Thread:
 * any.
 */

typedef struct TpsSegmentBudget TpsSegmentBudget;

#define DEFAULT_MAX_SEGMENTS 256
/* Each segment is a mapping. Linux allows a process 65530 mappings (vm.max_map_count), and its
 * threads and its heap need some of them. */
#define DEFAULT_MAX_IN_PROCESS 16384

static atomic_uint n_in_process;

struct TpsSegmentBudget
{
  TpsRefcount refcount;
  gsize max_bytes;
  guint max_segments;
  guint max_in_process;
  TpsBufferPool *copies; /* `copies` and `all` may be NULL */
  TpsBudget *all;
  TpsMutex lock; /* guards all fields below */
  gsize n_bytes;
  guint n_segments;
};

struct TpsSegmentCharge
{
  TpsRefcount refcount;
  TpsSegmentBudget *budget;
  gsize n_bytes;
};

/* Creates a budget; copies `limits`. The caller owns a reference. */
static TpsSegmentBudget *
segment_budget_new (const TpsSegmentLimits *limits)
{
  TpsSegmentBudget *budget = g_new0 (TpsSegmentBudget, 1);

  tps_refcount_init (&budget->refcount);
  tps_mutex_init (&budget->lock);
  budget->max_bytes = limits->max_bytes;
  budget->max_segments = limits->max_segments > 0 ? limits->max_segments : DEFAULT_MAX_SEGMENTS;
  budget->max_in_process = limits->max_in_process > 0 ? limits->max_in_process
                                                      : DEFAULT_MAX_IN_PROCESS;
  budget->copies = limits->copies != NULL ? tps_buffer_pool_ref (limits->copies) : NULL;
  budget->all = tps_budget_ref (limits->all);
  return budget;
}

static void
segment_budget_unref (TpsSegmentBudget *budget)
{
  if (!tps_refcount_dec (&budget->refcount))
    return;
  g_clear_pointer (&budget->copies, tps_buffer_pool_unref);
  tps_budget_unref (budget->all);
  tps_mutex_clear (&budget->lock);
  g_free (budget);
}

guint
tps_segments_get_n_in_process (void)
{
  return atomic_load_explicit (&n_in_process, memory_order_relaxed);
}

static gboolean
reserve_in_server (TpsSegmentBudget *budget, gsize n_bytes, GError **error)
{
  if (atomic_fetch_add_explicit (&n_in_process, 1, memory_order_relaxed) >= budget->max_in_process)
    tps_fail (error, TPS_ERROR_RESOURCE_EXHAUSTED,
              "all connections together have %u segments, which is the limit",
              budget->max_in_process);
  else if (tps_budget_charge (budget->all, n_bytes, error))
    return TRUE;
  else
    g_prefix_error (error, "a segment of %" G_GSIZE_FORMAT " bytes: ", n_bytes);
  atomic_fetch_sub_explicit (&n_in_process, 1, memory_order_relaxed);
  return FALSE;
}

/* Must be called with the lock held. */
static gboolean
check_connection (const TpsSegmentBudget *budget, gsize n_bytes, GError **error)
{
  if (budget->n_segments >= budget->max_segments)
    return tps_fail (error, TPS_ERROR_RESOURCE_EXHAUSTED,
                     "this connection has %u segments, which is the limit", budget->n_segments);
  if (n_bytes > budget->max_bytes - budget->n_bytes)
    return tps_fail (error, TPS_ERROR_RESOURCE_EXHAUSTED,
                     "no room for a segment of %" G_GSIZE_FORMAT
                     " bytes: the connection shares %" G_GSIZE_FORMAT " of at most %" G_GSIZE_FORMAT
                     " bytes (--max-shared-mib)",
                     n_bytes, budget->n_bytes, budget->max_bytes);
  return TRUE;
}

/* Charges a segment of `n_bytes`. The caller owns the charge, which holds a reference to the
 * budget. Errors: RESOURCE_EXHAUSTED, with the limit. */
static TpsSegmentCharge *
segment_budget_take (TpsSegmentBudget *budget, gsize n_bytes, GError **error)
{
  TpsSegmentCharge *charge;
  gboolean allowed;

  tps_mutex_lock (&budget->lock);
  allowed = check_connection (budget, n_bytes, error) && reserve_in_server (budget, n_bytes, error);
  if (allowed)
    {
      budget->n_bytes += n_bytes;
      budget->n_segments++;
    }
  tps_mutex_unlock (&budget->lock);
  if (!allowed)
    return NULL;
  charge = g_new0 (TpsSegmentCharge, 1);
  tps_refcount_init (&charge->refcount);
  tps_refcount_inc (&budget->refcount);
  charge->budget = budget;
  charge->n_bytes = n_bytes;
  return charge;
}

TPS_DEFINE_REF (TpsSegmentCharge, tps_segment_charge)

void
tps_segment_charge_unref (TpsSegmentCharge *charge)
{
  TpsSegmentBudget *budget = charge->budget;

  if (!tps_refcount_dec (&charge->refcount))
    return;
  tps_mutex_lock (&budget->lock);
  budget->n_bytes -= charge->n_bytes;
  budget->n_segments--;
  tps_mutex_unlock (&budget->lock);
  tps_budget_release (budget->all, charge->n_bytes);
  atomic_fetch_sub_explicit (&n_in_process, 1, memory_order_relaxed);
  segment_budget_unref (budget);
  g_free (charge);
}

/* -- segment registry -- */

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

/* A segment for REQUESTS is written by the client, which alone decides which of its calls uses the
 * segment, so it has a single state here. A segment for ANSWERS is free, then filled by one reply,
 * then lent to the client until the client returns it. */
typedef enum
{
  STATE_REQUESTS = 0,
  STATE_FREE = 1,
  STATE_FILLING = 2,
  STATE_LENT = 3,
  STATE_CLOSED = 4,
} State;

typedef enum
{
  EVENT_TAKE = 0,
  EVENT_COMMIT = 1,
  EVENT_ABANDON = 2,
  EVENT_RELEASE = 3,
  EVENT_CLOSE = 4,
} Event;

/* Limit of the number of common segments that a registry records as missed: a reply had a tensor in
 * them, but the client has not opened them. */
#define MAX_MISSED 8

typedef struct
{
  TpsRefcount refcount;
  gint64 id;
  TpsSegment *segment;      /* borrowed from `common`, if that is set */
  TpsCommonSegment *common; /* a reference; NULL: not a common segment */
  /* Of a common segment: the buffer that the last reply refers to. Guarded by the lock. */
  TpsBuffer *lent;
  TpsSegmentCharge *charge;
  gboolean takes_lookups; /* results of lookups may be placed in it */
  State state;            /* guarded by the lock, as is `is_known` */
  gboolean is_known;      /* the reply that names it to the client has been queued */
} Entry;

struct TpsSegmentRegistry
{
  TpsRefcount refcount;
  TpsDevice *device;            /* NULL: no segments of kind CUDA_IPC */
  gboolean is_for_lookups_only; /* segments of kind CUDA_IPC are for lookups only */
  TpsCommonSegments *common;    /* a reference; NULL: there are none */
  TpsSegmentBudget *budgets[TPS_SEGMENT_N_KINDS]; /* by kind; NULL for a kind that is not offered */

  TpsMutex lock;       /* guards all fields below, and the states of entries */
  GHashTable *entries; /* gint64 in the entry, to Entry */
  guint n_opening;     /* replies to open_segment that are not queued yet */
  guint n_free;        /* in STATE_FREE */
  gboolean is_shut_down;
  gboolean opens_common;      /* the client has requested COMMON_ANSWERS */
  guint64 missed[MAX_MISSED]; /* numbers of common segments, oldest first */
  guint n_missed;
};

/* ---- states of segments --------------------------------------------------------------------- */

#define BIT(state) (1u << (state))

static const struct
{
  guint from;
  State to;
} transitions[] = {
  [EVENT_TAKE] = { BIT (STATE_FREE), STATE_FILLING },
  [EVENT_COMMIT] = { BIT (STATE_FILLING), STATE_LENT },
  [EVENT_ABANDON] = { BIT (STATE_FILLING), STATE_FREE },
  [EVENT_RELEASE] = { BIT (STATE_LENT), STATE_FREE },
  [EVENT_CLOSE] = { BIT (STATE_REQUESTS) | BIT (STATE_FREE) | BIT (STATE_FILLING)
                        | BIT (STATE_LENT),
                    STATE_CLOSED },
};

/* ---- entries -------------------------------------------------------------------------------- */

/* Releases a reference; the last one unmaps the segment. */
static void
entry_unref (Entry *entry)
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
  registry->budgets[TPS_SEGMENT_CUDA_IPC] = segment_budget_new (&on_device);
}

TpsSegmentRegistry *
tps_segment_registry_new (const TpsSegmentLimits *limits)
{
  TpsSegmentRegistry *registry = g_new0 (TpsSegmentRegistry, 1);

  tps_refcount_init (&registry->refcount);
  tps_mutex_init (&registry->lock);
  registry->budgets[TPS_SEGMENT_MEMFD] = segment_budget_new (limits);
  set_device (registry, limits);
  if (limits->common != NULL)
    registry->common = tps_common_segments_ref (limits->common);
  registry->entries = g_hash_table_new_full (g_int64_hash, g_int64_equal, NULL,
                                             (GDestroyNotify) entry_unref);
  return registry;
}

TPS_DEFINE_REF (TpsSegmentRegistry, tps_segment_registry)

void
tps_segment_registry_unref (TpsSegmentRegistry *registry)
{
  if (!tps_refcount_dec (&registry->refcount))
    return;
  g_hash_table_unref (registry->entries);
  g_clear_pointer (&registry->common, tps_common_segments_unref);
  for (guint kind = 0; kind < TPS_SEGMENT_N_KINDS; kind++)
    g_clear_pointer (&registry->budgets[kind], segment_budget_unref);
  tps_mutex_clear (&registry->lock);
  g_free (registry);
}

gsize
tps_segment_registry_get_max_bytes (const TpsSegmentRegistry *registry)
{
  return registry->budgets[TPS_SEGMENT_MEMFD]->max_bytes;
}

gsize
tps_segment_registry_get_bytes (const TpsSegmentRegistry *registry)
{
  gsize n_bytes = 0;

  for (guint i = 0; i < TPS_SEGMENT_N_KINDS; i++)
    if (registry->budgets[i] != NULL)
      {
        tps_mutex_lock (&registry->budgets[i]->lock);
        n_bytes += registry->budgets[i]->n_bytes;
        tps_mutex_unlock (&registry->budgets[i]->lock);
      }
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
  TPS_LOCK_SCOPE (&registry->lock);
  return g_hash_table_size (registry->entries) > 0;
}

/* Changes the state of the entry; no other function does. The lock must be held. Returns FALSE,
 * and changes nothing, if the event is not allowed in the current state. */
static gboolean
move_entry (TpsSegmentRegistry *registry, Entry *entry, Event event)
{
  gboolean was_free = entry->state == STATE_FREE;

  if ((transitions[event].from & BIT (entry->state)) == 0)
    return FALSE;
  entry->state = transitions[event].to;
  registry->n_free += (entry->state == STATE_FREE) - was_free;
  return TRUE;
}

void
tps_segment_registry_shut_down (TpsSegmentRegistry *registry)
{
  GHashTable *nothing = g_hash_table_new_full (g_int64_hash, g_int64_equal, NULL,
                                               (GDestroyNotify) entry_unref);
  GHashTable *entries;
  GHashTableIter iter;
  gpointer entry;

  tps_mutex_lock (&registry->lock);
  registry->is_shut_down = TRUE;
  entries = registry->entries;
  registry->entries = nothing;
  g_hash_table_iter_init (&iter, entries);
  while (g_hash_table_iter_next (&iter, NULL, &entry))
    move_entry (registry, entry, EVENT_CLOSE);
  tps_mutex_unlock (&registry->lock);
  g_hash_table_unref (entries);
}

/* ---- opening -------------------------------------------------------------------------------- */

static gboolean
check_open (gsize n_bytes, TpsSegmentUse use, GError **error)
{
  if (use != TPS_SEGMENT_REQUESTS && use != TPS_SEGMENT_ANSWERS)
    return tps_fail (
        error, TPS_ERROR_INVALID_ARGUMENT,
        "a segment's use is %d, expected %d (REQUESTS), %d (ANSWERS) or, in host memory, %d "
        "(COMMON_ANSWERS)",
        (gint) use, TPS_SEGMENT_REQUESTS, TPS_SEGMENT_ANSWERS, TPS_SEGMENT_COMMON_ANSWERS);
  if (n_bytes == 0)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "a segment must have at least 1 byte");
  return TRUE;
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
      return opening->fd >= 0 ? opening->common->segment : NULL;
    }
  if (opening->kind == TPS_SEGMENT_MEMFD)
    return tps_segment_create (opening->use, opening->n_bytes, &opening->fd, error);
  return tps_segment_create_exported (registry->device, opening->use, opening->n_bytes,
                                      opening->handle, error);
}

static Entry *
create_entry (TpsSegmentRegistry *registry, Opening *opening, GError **error)
{
  /* Ids are unique in the process, so the id of a closed segment, or of a segment of another
   * connection, is unknown. */
  static atomic_llong last_id;
  g_autoptr (TpsSegmentCharge) charge = NULL;
  Entry *entry;
  TpsSegment *segment;

  charge = segment_budget_take (registry->budgets[opening->kind], opening->n_bytes, error);
  if (charge == NULL)
    return NULL;
  segment = create_segment (registry, opening, error);
  if (segment == NULL)
    return NULL;
  entry = g_new0 (Entry, 1);
  tps_refcount_init (&entry->refcount);
  entry->id = (gint64) atomic_fetch_add_explicit (&last_id, 1, memory_order_relaxed) + 1;
  entry->segment = segment;
  entry->charge = g_steal_pointer (&charge);
  entry->state = segment->use == TPS_SEGMENT_ANSWERS ? STATE_FREE : STATE_REQUESTS;
  entry->takes_lookups = opening->takes_lookups;
  if (opening->common != NULL)
    entry->common = tps_common_segment_ref (opening->common);
  return entry;
}

static gboolean
enter (TpsSegmentRegistry *registry, Entry *entry)
{
  gboolean open;

  TPS_LOCK_SCOPE (&registry->lock);
  open = !registry->is_shut_down;
  if (open)
    {
      g_hash_table_insert (registry->entries, &entry->id, entry);
      registry->n_free += entry->state == STATE_FREE;
    }
  return open;
}

/* Opens a segment. `charge` may be NULL. */
static gboolean
open_segment (TpsSegmentRegistry *registry, Opening *opening, gint64 *id, TpsSegmentCharge **charge,
              GError **error)
{
  g_autoptr (TpsSegmentCharge) kept = NULL;
  Entry *entry;
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
      entry_unref (entry);
      return tps_fail (error, TPS_ERROR_UNAVAILABLE, "the connection has closed");
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

  TPS_LOCK_SCOPE (&registry->lock);
  registry->opens_common = TRUE;
  if (registry->n_missed > 0)
    {
      number = registry->missed[0];
      registry->n_missed--;
      memmove (registry->missed, registry->missed + 1,
               registry->n_missed * sizeof *registry->missed);
    }
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

      if (common != NULL && common->segment->n_bytes == n_bytes)
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
    return tps_fail (error, TPS_ERROR_UNAVAILABLE, "%s",
                     opening->takes_lookups
                         ? "segments for lookups are not offered: this server has no device "
                           "for tables, or its device cannot share memory"
                         : "segments of kind CUDA_IPC are not offered: this server averages "
                           "in host memory, or on a device that cannot share memory");
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
  TPS_LOCK_SCOPE (&registry->lock);
  registry->n_opening++;
}

void
tps_segment_registry_resume_answers (TpsSegmentRegistry *registry)
{
  GHashTableIter iter;
  gpointer entry;

  TPS_LOCK_SCOPE (&registry->lock);
  registry->n_opening--;
  g_hash_table_iter_init (&iter, registry->entries);
  while (registry->n_opening == 0 && g_hash_table_iter_next (&iter, NULL, &entry))
    ((Entry *) entry)->is_known = TRUE;
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
  Entry *entry = g_hash_table_lookup (registry->entries, &id);

  if (entry == NULL)
    refuse_id (id, "is not open on this connection", error);
  else if (entry->state == STATE_REQUESTS)
    refuse_id (id, "is for requests: only segments for replies are released", error);
  else if (!move_entry (registry, entry, EVENT_RELEASE))
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

  TPS_LOCK_SCOPE (&registry->lock);
  for (guint i = 0; i < n_ids; i++)
    ok &= release_one (registry, ids[i], lent, error);
  return ok;
}

/* Removes an entry from the table. The caller owns its reference. NULL = there is no such entry. */
static Entry *
steal_entry (TpsSegmentRegistry *registry, gint64 id)
{
  Entry *entry;

  TPS_LOCK_SCOPE (&registry->lock);
  entry = g_hash_table_lookup (registry->entries, &id);
  if (entry != NULL)
    {
      g_hash_table_steal (registry->entries, &id);
      move_entry (registry, entry, EVENT_CLOSE);
    }
  return entry;
}

gboolean
tps_segment_registry_close (TpsSegmentRegistry *registry, const gint64 *ids, guint n_ids,
                            GError **error)
{
  gboolean ok = TRUE;

  for (guint i = 0; i < n_ids; i++)
    {
      Entry *entry = steal_entry (registry, ids[i]);

      if (entry != NULL)
        entry_unref (entry);
      else
        refuse_id (ids[i], "is not open on this connection", error);
      ok &= entry != NULL;
    }
  return ok;
}

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
  Entry *entry;
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

  entry_unref (hold->entry);
  receive_unref (&hold->receive->sharing);
  g_free (hold);
}

/* Returns a reference to the segment with this id; NULL = the id is refused. The lock protects only
 * the table, because the size of a segment does not change. */
static Entry *
find_for_request (TpsSegmentRegistry *registry, gint64 id, GError **error)
{
  const gchar *why = NULL;
  Entry *entry;

  tps_mutex_lock (&registry->lock);
  entry = g_hash_table_lookup (registry->entries, &id);
  if (entry == NULL)
    why = "is not open on this connection";
  else if (entry->state != STATE_REQUESTS)
    why = "is for replies";
  else
    tps_refcount_inc (&entry->refcount);
  tps_mutex_unlock (&registry->lock);
  if (why == NULL)
    return entry;
  return tps_fail_null (error, TPS_ERROR_INVALID_ARGUMENT,
                        "names segment %" G_GINT64_FORMAT ", which %s", id, why);
}

static TpsBuffer *
receive_resolve (TpsSharing *sharing, const TpsSharedSlice *slice, GError **error)
{
  Receive *receive = (Receive *) sharing;
  Entry *entry = find_for_request (receive->registry, slice->segment, error);
  Hold *hold;

  if (entry == NULL)
    return NULL;
  if (!tps_segment_check_slice (entry->segment, slice, error))
    {
      entry_unref (entry);
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
  return ((Receive *) sharing)->registry->budgets[TPS_SEGMENT_MEMFD]->copies;
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
  Entry *entry; /* NULL = no tensor has been placed yet */
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
is_usable (const TpsSegmentRegistry *registry, const Entry *entry)
{
  return entry->is_known || registry->n_opening == 0;
}

/* Takes the smallest free segment of the kind that is large enough. The caller owns a reference.
 * NULL = there is none. If `for_lookup` is TRUE, the segment must take results of lookups. */
static Entry *
take_free (TpsSegmentRegistry *registry, TpsSegmentKind kind, gboolean for_lookup, gsize n_bytes)
{
  Entry *best = NULL;
  GHashTableIter iter;
  gpointer value;

  TPS_LOCK_SCOPE (&registry->lock);
  g_hash_table_iter_init (&iter, registry->entries);
  while (registry->n_free > 0 && g_hash_table_iter_next (&iter, NULL, &value))
    {
      Entry *entry = value;
      gsize size = entry->segment->n_bytes;

      if (entry->state == STATE_FREE && is_usable (registry, entry) && entry->common == NULL
          && size >= n_bytes && tps_segment_get_kind (entry->segment) == kind
          && (entry->takes_lookups || !for_lookup)
          && (best == NULL || size < best->segment->n_bytes))
        best = entry;
    }
  if (best != NULL)
    {
      move_entry (registry, best, EVENT_TAKE);
      tps_refcount_inc (&best->refcount);
    }
  return best;
}

static void
end_filling (Answer *answer, Event event)
{
  Entry *entry = g_steal_pointer (&answer->entry);
  /* Released after the lock. */
  g_autoptr (TpsBuffer) unsent = NULL;

  answer->reserved = NULL;
  if (entry == NULL)
    return;
  tps_mutex_lock (&answer->registry->lock);
  move_entry (answer->registry, entry, event);
  if (event == EVENT_ABANDON)
    unsent = g_steal_pointer (&entry->lent);
  tps_mutex_unlock (&answer->registry->lock);
  entry_unref (entry);
}

static void
free_answer (gpointer data)
{
  Answer *answer = data;

  if (!tps_refcount_dec (&answer->refcount))
    return;
  end_filling (answer, EVENT_ABANDON);
  tps_segment_registry_unref (answer->registry);
  tps_magazine_put (&answer_magazine, &answer_depot, answer);
}

static void
answer_unref (TpsSharing *sharing)
{
  free_answer (sharing);
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
  size = answer->entry->segment->n_bytes;
  if (offset > size || n_bytes > size - offset)
    return NULL;
  answer->n_used = offset + n_bytes;
  *slice = (TpsSharedSlice) { .segment = answer->entry->id,
                              .offset = (gint64) offset,
                              .length = (gint64) n_bytes };
  return answer->entry->segment->data + offset;
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
    .offset = data - answer->entry->segment->data,
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
  if (registry->n_missed == MAX_MISSED)
    return FALSE;
  registry->missed[registry->n_missed++] = number;
  return TRUE;
}

static Entry *
find_common (TpsSegmentRegistry *registry, const TpsCommonSegment *common)
{
  GHashTableIter iter;
  gpointer value;

  g_hash_table_iter_init (&iter, registry->entries);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    if (((Entry *) value)->common == common)
      return value;
  return NULL;
}

/* Takes the entry of a common segment for a reply that names `buffer`. The caller owns a reference.
 * NULL = the client has not opened the segment, or has not yet returned it after an earlier reply.
 * Sets *is_new if the client uses COMMON_ANSWERS, has not opened the segment, and no earlier reply
 * has missed it. */
static Entry *
take_common (TpsSegmentRegistry *registry, TpsCommonSegment *common, TpsBuffer *buffer,
             gboolean *is_new)
{
  Entry *entry;

  *is_new = FALSE;
  TPS_LOCK_SCOPE (&registry->lock);
  entry = find_common (registry, common);
  if (entry == NULL)
    *is_new = miss (registry, common->number) && registry->opens_common;
  else if (!is_usable (registry, entry) || !move_entry (registry, entry, EVENT_TAKE))
    entry = NULL;
  if (entry != NULL)
    {
      tps_refcount_inc (&entry->refcount);
      entry->lent = tps_buffer_ref (buffer);
    }
  return entry;
}

/* Sets `slice` to bytes of a common segment, if the client has opened the segment, and the reply
 * uses no other segment. `is_new`: see take_common(). */
static gboolean
name_common (Answer *answer, TpsCommonSegment *common, TpsBuffer *buffer, const guint8 *data,
             gsize n_bytes, TpsSharedSlice *slice, gboolean *is_new)
{
  const guint8 *begin = common->segment->data;

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
    end_filling (answer, EVENT_ABANDON);
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
  return tps_segment_show (answer->entry->segment, (gsize) slice.offset, n_bytes, free_answer,
                           answer);
}

void
tps_segment_registry_commit (TpsSharing *answer)
{
  end_filling ((Answer *) answer, EVENT_COMMIT);
}
