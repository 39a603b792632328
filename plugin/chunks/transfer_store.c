/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/chunks/transfer_store.h"

#include "plugin/chunks/chunk_layout.h"
#include "runtime/base/error.h"

#define DEFAULT_MAX_TRANSFERS 256
#define DEFAULT_IDLE_NS ((gint64) 60 * 1000000000)
/* A transfer may take this much more memory than has arrived: the last huge page of a tensor. */
#define PAGE_BYTES ((gsize) 2 << 20)

typedef struct
{
  TpsTransfer *transfer;
  gconstpointer tenant; /* only compared */
  gsize n_received;     /* bytes of the request */
  gsize n_bytes;        /* counted against the limit of the store */
  gint64 touched_ns;    /* time of the last progress */
  gboolean ended;       /* the client ended the transfer while its call was running */
  gboolean gives_way;   /* during find_room() only */
} Entry;

struct TpsTransferStore
{
  TpsTransferStoreOptions options;
  TpsBufferPool *bodies; /* does not keep freed buffers: they are large and rarely reused */
  GHashTable *entries;   /* of Entry, by name */
  gsize n_bytes;         /* sum over all entries */
};

static void
entry_free (gpointer data)
{
  Entry *entry = data;

  g_clear_pointer (&entry->transfer, tps_transfer_unref);
  g_free (entry);
}

TpsTransferStore *
tps_transfer_store_new (const TpsTransferStoreOptions *options)
{
  TpsTransferStore *store = g_new0 (TpsTransferStore, 1);

  store->options = *options;
  if (store->options.max_transfers == 0)
    store->options.max_transfers = DEFAULT_MAX_TRANSFERS;
  if (store->options.max_bytes == 0) /* a buffer may be a fifth larger than its data */
    store->options.max_bytes = tps_budget_get_max (options->budget) / 5 * 4;
  if (store->options.idle_ns == 0)
    store->options.idle_ns = DEFAULT_IDLE_NS;
  store->bodies = tps_buffer_pool_new (options->budget, NULL, 0);
  store->entries = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, entry_free);
  return store;
}

void
tps_transfer_store_free (TpsTransferStore *store)
{
  g_hash_table_unref (store->entries);
  tps_buffer_pool_unref (store->bodies);
  g_free (store);
}

/* ---- room ----------------------------------------------------------------------------------- */

/* Room for `n_more` bytes or transfers, which a tenant needs. */
typedef struct
{
  const Entry *asking; /* gives way to nothing; NULL = a new transfer */
  gconstpointer tenant;
  gboolean in_bytes;
  gsize n_more;
  gint64 now_ns;
  GHashTable *loads; /* of all tenants: their bytes or transfers that do not give way */
} Room;

static gsize
measure (const Room *room, const Entry *entry)
{
  return room->in_bytes ? entry->n_bytes : 1;
}

static gsize
get_load (const Room *room, gconstpointer tenant)
{
  return GPOINTER_TO_SIZE (g_hash_table_lookup (room->loads, tenant));
}

static void
set_load (const Room *room, gconstpointer tenant, gsize load)
{
  g_hash_table_insert (room->loads, (gpointer) (gsize) tenant, GSIZE_TO_POINTER (load));
}

static void
count_loads (const TpsTransferStore *store, const Room *room)
{
  GHashTableIter iter;
  gpointer value;

  g_hash_table_iter_init (&iter, store->entries);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    {
      const Entry *entry = value;

      set_load (room, entry->tenant, get_load (room, entry->tenant) + measure (room, entry));
    }
}

/* Returns the rank of an entry among those that may give way; 0 = it does not. */
static gsize
get_rank (const Room *room, const Entry *entry)
{
  TpsTransferState state = entry->transfer->state;
  gboolean is_idle = state != TPS_TRANSFER_ANSWERED
                     && entry->touched_ns <= room->now_ns - TPS_TRANSFER_PATIENCE_NS;
  gsize load = get_load (room, entry->tenant), asking_load = get_load (room, room->tenant);

  if (entry == room->asking || entry->gives_way || state == TPS_TRANSFER_RUNNING
      || measure (room, entry) == 0)
    return 0;
  if (is_idle && load >= asking_load)
    return G_MAXSIZE;
  /* The client of a complete transfer is about to run it. */
  return state != TPS_TRANSFER_COMPLETE && load > asking_load + room->n_more ? load : 0;
}

/* Returns the next transfer that gives way; NULL = none does. */
static Entry *
find_victim (const TpsTransferStore *store, const Room *room)
{
  gsize victim_rank = 0;
  Entry *victim = NULL;
  GHashTableIter iter;
  gpointer value;

  g_hash_table_iter_init (&iter, store->entries);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    {
      Entry *entry = value;
      gsize rank = get_rank (room, entry);

      if (rank == 0 || rank < victim_rank
          || (rank == victim_rank && entry->touched_ns >= victim->touched_ns))
        continue;
      victim = entry;
      victim_rank = rank;
    }
  return victim;
}

/* Removes an entry; the caller owns its transfer. */
static TpsTransfer *
remove_entry (TpsTransferStore *store, Entry *entry)
{
  TpsTransfer *transfer = g_steal_pointer (&entry->transfer);

  store->n_bytes -= entry->n_bytes;
  g_hash_table_remove (store->entries, transfer->name);
  return transfer;
}

/* Refuses a transfer for which there will never be room. */
static gboolean
check_size (const TpsTransferStore *store, gsize n_bytes, GError **error)
{
  if (n_bytes <= store->options.max_bytes)
    return TRUE;
  return tps_fail (error, TPS_ERROR_RESOURCE_EXHAUSTED,
                   "a transfer of %" G_GSIZE_FORMAT " bytes exceeds the limit of all transfers, "
                   "%" G_GSIZE_FORMAT " bytes",
                   n_bytes, store->options.max_bytes);
}

/* Removes the transfers that give way, but only if there is enough room without them. */
static gboolean
find_room (TpsTransferStore *store, Room *room, GPtrArray *dropped)
{
  gsize max = room->in_bytes ? store->options.max_bytes : store->options.max_transfers;
  gsize held = room->in_bytes ? store->n_bytes : g_hash_table_size (store->entries);
  g_autoptr (GPtrArray) victims = NULL;
  Entry *victim;

  if (held <= max - room->n_more)
    return TRUE;
  victims = g_ptr_array_new ();
  room->loads = g_hash_table_new (NULL, NULL);
  count_loads (store, room);
  while (held > max - room->n_more && (victim = find_victim (store, room)) != NULL)
    {
      gsize n = measure (room, victim);

      held -= n;
      set_load (room, victim->tenant, get_load (room, victim->tenant) - n);
      victim->gives_way = TRUE;
      if (!room->in_bytes && room->tenant != NULL && victim->tenant == room->tenant)
        room->n_more--; /* make_place() */
      g_ptr_array_add (victims, victim);
    }
  g_hash_table_unref (room->loads);
  for (guint i = 0; i < victims->len; i++)
    {
      victim = victims->pdata[i];
      victim->gives_way = FALSE;
      if (held <= max - room->n_more)
        g_ptr_array_add (dropped, remove_entry (store, victim));
    }
  return held <= max - room->n_more;
}

static guint
count_of (const TpsTransferStore *store, gconstpointer tenant)
{
  GHashTableIter iter;
  gpointer entry;
  guint n = 0;

  g_hash_table_iter_init (&iter, store->entries);
  while (g_hash_table_iter_next (&iter, NULL, &entry))
    n += ((const Entry *) entry)->tenant == tenant;
  return n;
}

/* Makes room for one more transfer. A tenant must leave as many places to others as it has, because
 * a call in a transfer may wait for minutes. */
static gboolean
make_place (TpsTransferStore *store, const TpsTransferNeed *need, GError **error)
{
  guint n_own = need->tenant != NULL ? count_of (store, need->tenant) : 0;
  Room room = { .tenant = need->tenant, .n_more = n_own + 1, .now_ns = need->now_ns };

  if (find_room (store, &room, need->dropped))
    return TRUE;
  return tps_fail (error, TPS_ERROR_RESOURCE_EXHAUSTED,
                   "no room for another transfer: %u of the %u places belong to the tenant of the "
                   "caller, which must leave as many to others, and others may have the rest",
                   n_own, store->options.max_transfers);
}

/* Makes room for `n_bytes` more of `asking`, or, if it is NULL, for a new transfer with them. */
static gboolean
make_room (TpsTransferStore *store, const Entry *asking, gsize n_bytes, const TpsTransferNeed *need,
           GError **error)
{
  Room bytes = { .asking = asking,
                 .tenant = asking != NULL ? asking->tenant : need->tenant,
                 .in_bytes = TRUE,
                 .n_more = n_bytes,
                 .now_ns = need->now_ns };
  GError *refusal = NULL;

  if (!find_room (store, &bytes, need->dropped))
    g_set_error (&refusal, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                 "no room for %" G_GSIZE_FORMAT " bytes of a transfer: the limit of all transfers "
                 "is %" G_GSIZE_FORMAT " bytes",
                 n_bytes, store->options.max_bytes);
  else if (asking != NULL || make_place (store, need, &refusal))
    return TRUE;
  g_propagate_error (error, refusal);
  if (error != NULL)
    tps_error_set_retry_after_ms (*error, TPS_RETRY_AFTER_MS);
  return FALSE;
}

/* ---- requests and replies -------------------------------------------------------------------- */

/* Adds an entry with `n_bytes` for the transfer. Takes ownership of `transfer`. */
static void
insert (TpsTransferStore *store, TpsTransfer *transfer, gsize n_bytes, const TpsTransferNeed *need)
{
  Entry *entry = g_new0 (Entry, 1);

  entry->transfer = transfer;
  entry->tenant = need->tenant;
  entry->n_bytes = n_bytes;
  entry->touched_ns = need->now_ns;
  store->n_bytes += n_bytes;
  g_hash_table_insert (store->entries, (gpointer) (gsize) transfer->name, entry);
}

TpsTransfer *
tps_transfer_store_begin (TpsTransferStore *store, const gchar *name, gint64 n_bytes,
                          gint32 n_chunks, const TpsTransferNeed *need, GError **error)
{
  Entry *entry = g_hash_table_lookup (store->entries, name);
  TpsTransfer *transfer;

  if (entry != NULL && !entry->ended && entry->transfer->n_bytes == n_bytes
      && entry->transfer->n_chunks == n_chunks)
    return entry->transfer;
  if (entry != NULL)
    return tps_fail_null (
        error, TPS_ERROR_ALREADY_EXISTS,
        "transfer %s exists with another size or count, or is ending: choose a new name", name);
  transfer = tps_transfer_new (name, n_bytes, n_chunks, store->bodies, error);
  if (transfer == NULL)
    return NULL;
  if (!check_size (store, (gsize) n_bytes, error) || !make_room (store, NULL, 0, need, error))
    {
      tps_transfer_unref (transfer);
      return NULL;
    }
  insert (store, transfer, 0, need);
  return transfer;
}

void
tps_transfer_store_set_not_found (const TpsTransferStore *store, const gchar *name, GError **error)
{
  g_set_error (error, TPS_ERROR, TPS_ERROR_NOT_FOUND,
               "transfer %s does not exist: never begun, ended, or without progress for %.3g s",
               name, (gdouble) store->options.idle_ns / 1000000000);
}

TpsTransfer *
tps_transfer_store_find (TpsTransferStore *store, const gchar *name, GError **error)
{
  Entry *entry = g_hash_table_lookup (store->entries, name);

  if (entry != NULL && !entry->ended)
    return entry->transfer;
  tps_transfer_store_set_not_found (store, name, error);
  return NULL;
}

/* Returns the entry of `transfer`. Errors (NULL): NOT_FOUND. */
static Entry *
get_entry (TpsTransferStore *store, const TpsTransfer *transfer, GError **error)
{
  const gchar *name = transfer->name;
  Entry *entry = g_hash_table_lookup (store->entries, name);

  if (entry != NULL && entry->transfer == transfer)
    return entry;
  tps_transfer_store_set_not_found (store, name, error);
  return NULL;
}

gboolean
tps_transfer_store_reserve (TpsTransferStore *store, const TpsTransfer *transfer, gsize n_bytes,
                            const TpsTransferNeed *need, GError **error)
{
  Entry *entry = get_entry (store, transfer, error);
  gsize n_counted, n_more;

  if (entry == NULL)
    return FALSE;
  n_counted = MIN (entry->n_received + n_bytes + PAGE_BYTES,
                   (gsize) tps_transfer_get_n_bytes (transfer));
  n_more = n_counted - entry->n_bytes;
  if (!make_room (store, entry, n_more, need, error))
    return FALSE;
  entry->n_received += n_bytes;
  entry->n_bytes += n_more;
  store->n_bytes += n_more;
  return TRUE;
}

gboolean
tps_transfer_store_touch (TpsTransferStore *store, const TpsTransfer *transfer, gint64 now_ns,
                          GError **error)
{
  Entry *entry = get_entry (store, transfer, error);

  if (entry == NULL)
    return FALSE;
  entry->touched_ns = now_ns;
  return TRUE;
}

TpsTransfer *
tps_transfer_store_keep (TpsTransferStore *store, TpsWriter *answer, const TpsTransferNeed *need,
                         GError **error)
{
  gchar name[TPS_TRANSFER_NAME_BYTES];
  TpsTransfer *transfer;
  guint n_pieces;
  gsize n_bytes;

  tps_writer_get_pieces (answer, &n_pieces, &n_bytes);
  if (!check_size (store, n_bytes, error) || !make_room (store, NULL, n_bytes, need, error))
    return NULL;
  tps_transfer_make_name (name);
  transfer = tps_transfer_new_answered (name, answer);
  insert (store, transfer, n_bytes, need);
  return transfer;
}

/* The reply already exists, so it is kept even if the limit is exceeded. The bytes of the call have
 * been released. */
void
tps_transfer_store_answer (TpsTransferStore *store, TpsTransfer *transfer, TpsWriter *answer,
                           gint64 now_ns)
{
  Entry *entry = g_hash_table_lookup (store->entries, transfer->name);

  tps_transfer_take_answer (transfer, answer);
  g_assert (entry != NULL && entry->transfer == transfer); /* running transfers are never removed */
  if (entry->ended)
    {
      tps_transfer_unref (remove_entry (store, entry));
      return;
    }
  store->n_bytes -= entry->n_bytes;
  entry->n_bytes = (gsize) tps_transfer_get_n_bytes (transfer);
  store->n_bytes += entry->n_bytes;
  entry->touched_ns = now_ns;
}

TpsTransfer *
tps_transfer_store_end (TpsTransferStore *store, const gchar *name)
{
  Entry *entry = g_hash_table_lookup (store->entries, name);

  if (entry == NULL)
    return NULL;
  if (entry->transfer->state != TPS_TRANSFER_RUNNING)
    return remove_entry (store, entry);
  entry->ended = TRUE;
  return NULL;
}

static gint64
get_expiry_ns (const TpsTransferStore *store, const Entry *entry)
{
  if (entry->transfer->state == TPS_TRANSFER_RUNNING)
    return G_MAXINT64;
  return entry->touched_ns + store->options.idle_ns;
}

GPtrArray *
tps_transfer_store_expire (TpsTransferStore *store, gint64 now_ns)
{
  GPtrArray *forgotten = g_ptr_array_new_with_free_func ((GDestroyNotify) tps_transfer_unref);
  GHashTableIter iter;
  gpointer value;

  g_hash_table_iter_init (&iter, store->entries);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    {
      Entry *entry = value;

      if (get_expiry_ns (store, entry) > now_ns)
        continue;
      store->n_bytes -= entry->n_bytes;
      g_ptr_array_add (forgotten, g_steal_pointer (&entry->transfer));
      g_hash_table_iter_remove (&iter);
    }
  return forgotten;
}

gint64
tps_transfer_store_get_next_expiry_ns (TpsTransferStore *store)
{
  gint64 next_ns = G_MAXINT64;
  GHashTableIter iter;
  gpointer value;

  g_hash_table_iter_init (&iter, store->entries);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    next_ns = MIN (next_ns, get_expiry_ns (store, value));
  return next_ns;
}

guint
tps_transfer_store_get_n_transfers (TpsTransferStore *store)
{
  return g_hash_table_size (store->entries);
}

gsize
tps_transfer_store_get_n_bytes (TpsTransferStore *store)
{
  return store->n_bytes;
}
