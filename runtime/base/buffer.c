/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/buffer.h"

#include <glib.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/base/error.h"
#include "runtime/base/magazine.h"
#include "runtime/base/sync.h"

/* Blocks of the heap have a chosen position within a page.
 *
 * On AMD's Zen 3, "rep movsb" copies at a tenth of its speed if the destination lies 1 to 31 bytes
 * after the source modulo the page size. Operating systems use this instruction, and so does the C
 * library for 2 to 512 KiB. The tensors of other programs lie near the start of a page: at byte 0,
 * 16 (large blocks of malloc) or 64. A tensor within a message lies after the first 50 to 100 bytes
 * of the message. Blocks of 32 KiB and more therefore begin in the middle of a page. Blocks of 2
 * MiB and more begin at a huge page, and consist of huge pages if the system allows them. */
#define MIN_PAGED_BYTES ((gsize) 32 << 10)
#define PAGE_BYTES 4096
#define HUGE_PAGE_BYTES ((gsize) 2 << 20)

/* There are four size classes for each power of two from 4 KiB upwards. At most a fifth of a buffer
 * above 4 KiB is unused. */
#define MIN_CLASS_SHIFT 12
#define STEPS 4
#define N_CLASSES ((48 - MIN_CLASS_SHIFT) * STEPS)
#define DEFAULT_KEEP_BYTES ((gsize) 1 << 30)
/* A buffer that is charged as it is filled is charged in steps of a huge page, the most memory that
 * one write can take. */
#define CHARGE_STEP_BYTES ((gsize) 2 << 20)

/* The sizes of small buffers are powers of two. Header and bytes are in one block of memory. */
#define MIN_SMALL_BYTES TPS_BUFFER_ALIGNMENT
#define N_SMALL_CLASSES 7

struct TpsBuffer
{
  TpsRefcount refcount;
  guint8 *data;
  gsize n_bytes;
  gsize capacity;
  TpsDevice *device;
  TpsBufferPool *pool; /* NULL for foreign memory, and for small buffers */
  /* the block of the pool's source that contains the memory; NULL = the memory is from the heap */
  TpsBuffer *block;
  guint size_class;
  gsize n_charged; /* to the pool's budget, while it is in use */
  gboolean small;  /* header and bytes are in one block */
  gboolean shared; /* another process also maps the memory */
  GDestroyNotify free_func;
  gpointer user_data;
  TpsBuffer *next_free;
};

typedef TpsBuffer *FreeLists[N_CLASSES];

struct TpsBufferPool
{
  TpsRefcount refcount;
  gsize keep_bytes;
  TpsBufferSource source; /* without alloc, all memory comes from the heap */

  TpsMutex lock;           /* guards everything below */
  TpsBudget *budget;       /* for buffers in use; may be NULL */
  TpsBudget *kept;         /* for buffers kept for reuse; may be NULL */
  guint reclaimer;         /* of `kept` */
  gsize n_bytes_out;       /* of buffers in use */
  gsize n_bytes_kept;      /* of buffers from the heap */
  gsize n_bytes_of_source; /* in use or kept */
  /* the source is not asked for this size or more; G_MAXSIZE = it has not refused any request */
  gsize refused_bytes;
  FreeLists heap_lists;
  FreeLists source_lists;
};

#define SMALL_HEADER_BYTES \
  ((sizeof (TpsBuffer) + TPS_BUFFER_ALIGNMENT - 1) / TPS_BUFFER_ALIGNMENT * TPS_BUFFER_ALIGNMENT)

G_STATIC_ASSERT (MIN_SMALL_BYTES << (N_SMALL_CLASSES - 1) == TPS_BUFFER_MAX_SMALL);

static TpsDepot small_depots[N_SMALL_CLASSES] = {
  TPS_DEPOT_INIT (free), TPS_DEPOT_INIT (free), TPS_DEPOT_INIT (free), TPS_DEPOT_INIT (free),
  TPS_DEPOT_INIT (free), TPS_DEPOT_INIT (free), TPS_DEPOT_INIT (free),
};
static _Thread_local TpsMagazine small_magazines[N_SMALL_CLASSES];

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

/* Returns a block of `n_bytes` with undefined contents, aligned to TPS_BUFFER_ALIGNMENT or more;
 * owned by the caller. NULL = there is no memory. A block below 2 MiB takes up to 6 KiB more than
 * `n_bytes`. Thread: any. */
static gpointer
heap_block_new (gsize n_bytes)
{
  gsize offset = get_page_offset (n_bytes);
  void *memory;

  if (posix_memalign (&memory, get_alignment (n_bytes), offset + n_bytes) != 0)
    return NULL;
  if (n_bytes >= HUGE_PAGE_BYTES)
    madvise (memory, n_bytes, MADV_HUGEPAGE); /* a hint, which may fail */
  return (guint8 *) memory + offset;
}

static gsize
class_capacity (guint size_class)
{
  gsize base = (gsize) 1 << (MIN_CLASS_SHIFT + size_class / STEPS);

  return base + base / STEPS * (size_class % STEPS);
}

/* Returns the smallest class for `n_bytes`; N_CLASSES if no class is large enough. */
static guint
class_of (gsize n_bytes)
{
  guint size_class = 0;

  if (n_bytes > ((gsize) 1 << MIN_CLASS_SHIFT))
    size_class = (guint) (g_bit_storage (n_bytes - 1) - 1 - MIN_CLASS_SHIFT) * STEPS;
  while (size_class < N_CLASSES && class_capacity (size_class) < n_bytes)
    size_class++;
  return size_class;
}

TpsBufferPool *
tps_buffer_pool_new (TpsBudget *budget, TpsBudget *kept, gsize keep_bytes)
{
  static const TpsBufferSource heap;

  return tps_buffer_pool_new_from (budget, kept, keep_bytes, &heap);
}

TpsBufferPool *
tps_buffer_pool_new_from (TpsBudget *budget, TpsBudget *kept, gsize keep_bytes,
                          const TpsBufferSource *source)
{
  TpsBufferPool *pool = g_new0 (TpsBufferPool, 1);

  tps_refcount_init (&pool->refcount);
  tps_mutex_init (&pool->lock);
  pool->keep_bytes = keep_bytes;
  pool->source = *source;
  pool->refused_bytes = G_MAXSIZE;
  tps_buffer_pool_set_budgets (pool, budget, kept);
  return pool;
}

TPS_DEFINE_REF (TpsBufferPool, tps_buffer_pool)

static void
release_memory (TpsBuffer *buffer)
{
  if (buffer->block != NULL)
    tps_buffer_unref (buffer->block);
  else
    free ((guint8 *) buffer->data - get_page_offset (buffer->capacity));
  g_free (buffer);
}

/* Takes a buffer out of the list of its class. Returns NULL if the list is empty. */
static TpsBuffer *
take_free (FreeLists lists, guint size_class)
{
  TpsBuffer *buffer = lists[size_class];

  if (buffer != NULL)
    lists[size_class] = buffer->next_free;
  return buffer;
}

/* Takes kept buffers out of `lists`, the largest first, until `*n_taken` reaches `n_bytes`. Returns
 * the list `taken` with these buffers before it. The lock is held. */
static TpsBuffer *
take_lists (FreeLists lists, gsize n_bytes, gsize *n_taken, TpsBuffer *taken)
{
  for (guint i = N_CLASSES; i > 0 && *n_taken < n_bytes; i--)
    while (*n_taken < n_bytes && lists[i - 1] != NULL)
      {
        TpsBuffer *buffer = take_free (lists, i - 1);

        *n_taken += buffer->capacity;
        buffer->next_free = taken;
        taken = buffer;
      }
  return taken;
}

/* Takes kept buffers of at least `n_bytes` in total, if there are as many. Buffers from the heap
 * come first, since memory from the source takes long to allocate. The lock is held. */
static TpsBuffer *
take_kept (TpsBufferPool *pool, gsize n_bytes, gsize *n_taken)
{
  TpsBuffer *taken = take_lists (pool->heap_lists, n_bytes, n_taken, NULL);
  gsize n_of_heap = *n_taken;

  taken = take_lists (pool->source_lists, n_bytes, n_taken, taken);
  pool->n_bytes_kept -= n_of_heap;
  pool->n_bytes_of_source -= *n_taken - n_of_heap;
  return taken;
}

/* A TpsBudgetReclaim: frees kept buffers. Memory is freed without the lock. */
static gsize
reclaim (gpointer user_data, gsize n_bytes)
{
  TpsBufferPool *pool = user_data;
  gsize n_taken = 0;
  TpsBuffer *taken;
  TpsBudget *kept;

  tps_mutex_lock (&pool->lock);
  taken = take_kept (pool, n_bytes, &n_taken);
  kept = pool->kept;
  tps_mutex_unlock (&pool->lock);
  for (TpsBuffer *next; taken != NULL; taken = next)
    {
      next = taken->next_free;
      release_memory (taken);
    }
  tps_budget_release (kept, n_taken);
  return n_taken;
}

void
tps_buffer_pool_trim (TpsBufferPool *pool)
{
  reclaim (pool, G_MAXSIZE);
}

void
tps_buffer_pool_set_budgets (TpsBufferPool *pool, TpsBudget *budget, TpsBudget *kept)
{
  tps_buffer_pool_trim (pool);
  tps_mutex_lock (&pool->lock);
  pool->budget = tps_budget_ref (budget);
  pool->kept = tps_budget_ref (kept);
  tps_mutex_unlock (&pool->lock);
  pool->reclaimer = tps_budget_add_reclaimer (kept, reclaim, pool);
}

void
tps_buffer_pool_unref (TpsBufferPool *pool)
{
  if (!tps_refcount_dec (&pool->refcount))
    return;
  tps_budget_remove_reclaimer (pool->kept, pool->reclaimer);
  tps_buffer_pool_trim (pool);
  tps_budget_unref (pool->kept);
  tps_budget_unref (pool->budget);
  tps_mutex_clear (&pool->lock);
  g_free (pool);
}

TpsBufferPool *
tps_buffer_pool_get_default (void)
{
  static _Atomic (TpsBufferPool *) shared;
  TpsBufferPool *pool = atomic_load_explicit (&shared, memory_order_acquire);
  TpsBufferPool *created;

  if (pool != NULL)
    return pool;
  created = tps_buffer_pool_new (NULL, NULL, DEFAULT_KEEP_BYTES);
  if (atomic_compare_exchange_strong (&shared, &pool, created))
    return created;
  tps_buffer_pool_unref (created);
  return pool;
}

static TpsBuffer *
new_pooled (guint size_class, gpointer data, TpsBuffer *block)
{
  TpsBuffer *buffer = g_new0 (TpsBuffer, 1);

  buffer->data = data;
  buffer->capacity = class_capacity (size_class);
  buffer->size_class = size_class;
  buffer->block = block;
  return buffer;
}

static TpsBuffer *
allocate_on_heap (guint size_class)
{
  gpointer data = heap_block_new (class_capacity (size_class));

  return data != NULL ? new_pooled (size_class, data, NULL) : NULL;
}

/* Returns TRUE if `capacity` bytes may be requested from the source. They then count as allocated
 * already, so that concurrent requests cannot exceed `keep_bytes` together. */
static gboolean
may_ask_source (TpsBufferPool *pool, gsize capacity)
{
  gboolean may_ask;

  if (pool->source.alloc == NULL || capacity < pool->source.min_bytes)
    return FALSE;
  TPS_LOCK_SCOPE (&pool->lock);
  may_ask = capacity < pool->refused_bytes && capacity <= pool->keep_bytes
            && pool->n_bytes_of_source <= pool->keep_bytes - capacity;
  if (may_ask)
    pool->n_bytes_of_source += capacity;
  return may_ask;
}

/* Undoes may_ask_source() after the source has refused. After RESOURCE_EXHAUSTED, only smaller
 * requests follow; after any other error, no request follows. */
static void
note_refusal (TpsBufferPool *pool, gsize capacity, const GError *error)
{
  gboolean is_first;

  tps_mutex_lock (&pool->lock);
  is_first = pool->refused_bytes == G_MAXSIZE;
  pool->n_bytes_of_source -= capacity;
  if (!g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED))
    capacity = 0;
  pool->refused_bytes = MIN (pool->refused_bytes, capacity);
  tps_mutex_unlock (&pool->lock);
  if (is_first)
    g_warning ("%s; ordinary memory is used instead, which is slower to copy", error->message);
}

/* Returns NULL if the memory must come from the heap. */
static TpsBuffer *
allocate_from_source (TpsBufferPool *pool, guint size_class)
{
  gsize capacity = class_capacity (size_class);
  g_autoptr (GError) error = NULL;
  TpsBuffer *block;

  if (!may_ask_source (pool, capacity))
    return NULL;
  block = pool->source.alloc (pool->source.user_data, capacity, &error);
  if (block != NULL)
    return new_pooled (size_class, tps_buffer_get_data (block), block);
  note_refusal (pool, capacity, error);
  return NULL;
}

/* Takes a kept buffer and moves its charge from `kept` to `budget`. Returns NULL if there is no
 * such buffer or `budget` has no room. The lock is held. */
static TpsBuffer *
reuse (TpsBufferPool *pool, guint size_class)
{
  gboolean of_source = pool->source_lists[size_class] != NULL;
  gsize capacity = class_capacity (size_class);
  TpsBuffer *buffer;

  if (!of_source && pool->heap_lists[size_class] == NULL)
    return NULL;
  if (!tps_budget_move (pool->kept, pool->budget, capacity))
    return NULL;
  pool->n_bytes_out += capacity;
  pool->n_bytes_kept -= of_source ? 0 : capacity;
  buffer = take_free (of_source ? pool->source_lists : pool->heap_lists, size_class);
  buffer->n_charged = pool->budget != NULL ? capacity : 0;
  return buffer;
}

static TpsBuffer *
find_kept (TpsBufferPool *pool, guint size_class)
{
  TPS_LOCK_SCOPE (&pool->lock);
  return reuse (pool, size_class);
}

/* Allocates a buffer without a charge to the budget. */
static TpsBuffer *
allocate (TpsBufferPool *pool, guint size_class, GError **error)
{
  TpsBuffer *buffer = allocate_from_source (pool, size_class);

  if (buffer == NULL)
    buffer = allocate_on_heap (size_class);
  if (buffer == NULL)
    return tps_fail_null (error, TPS_ERROR_RESOURCE_EXHAUSTED,
                          "out of memory: a buffer of %" G_GSIZE_FORMAT " bytes",
                          class_capacity (size_class));
  TPS_LOCK_SCOPE (&pool->lock);
  pool->n_bytes_out += buffer->capacity;
  return buffer;
}

static TpsBuffer *
allocate_charged (TpsBufferPool *pool, guint size_class, GError **error)
{
  gsize capacity = class_capacity (size_class);
  TpsBuffer *buffer;

  if (!tps_budget_charge (pool->budget, capacity, error))
    return NULL;
  buffer = allocate (pool, size_class, error);
  if (buffer != NULL)
    buffer->n_charged = pool->budget != NULL ? capacity : 0;
  else
    tps_budget_release (pool->budget, capacity);
  return buffer;
}

/* Initialises a buffer for its new user. The buffer takes a reference to the pool. */
static TpsBuffer *
begin_use (TpsBufferPool *pool, TpsBuffer *buffer, gsize n_bytes)
{
  tps_refcount_init (&buffer->refcount);
  buffer->n_bytes = n_bytes;
  buffer->pool = tps_buffer_pool_ref (pool);
  return buffer;
}

/* Returns the class of a buffer of `n_bytes` in this pool. The size of a class is a power of two if
 * the number of the class is a multiple of STEPS. */
static guint
class_in (const TpsBufferPool *pool, gsize n_bytes)
{
  guint size_class = class_of (n_bytes);

  if (pool->source.powers_of_two && n_bytes >= pool->source.min_bytes)
    size_class = (size_class + STEPS - 1) / STEPS * STEPS;
  return size_class;
}

static TpsBuffer *
get_buffer (TpsBufferPool *pool, gsize n_bytes,
            TpsBuffer *(*make) (TpsBufferPool *pool, guint size_class, GError **error),
            GError **error)
{
  guint size_class = class_in (pool, n_bytes);
  TpsBuffer *buffer;

  if (size_class >= N_CLASSES)
    return tps_fail_null (error, TPS_ERROR_RESOURCE_EXHAUSTED,
                          "a buffer of %" G_GSIZE_FORMAT " bytes exceeds the address space",
                          n_bytes);
  buffer = find_kept (pool, size_class);
  if (buffer == NULL)
    buffer = make (pool, size_class, error);
  return buffer != NULL ? begin_use (pool, buffer, n_bytes) : NULL;
}

TpsBuffer *
tps_buffer_pool_get (TpsBufferPool *pool, gsize n_bytes, GError **error)
{
  return get_buffer (pool, n_bytes, allocate_charged, error);
}

TpsBuffer *
tps_buffer_pool_get_empty (TpsBufferPool *pool, gsize n_bytes, GError **error)
{
  return get_buffer (pool, n_bytes, allocate, error);
}

gboolean
tps_buffer_charge (TpsBuffer *buffer, gsize n_bytes, GError **error)
{
  gsize n_wanted = MIN ((n_bytes + CHARGE_STEP_BYTES - 1) & ~(CHARGE_STEP_BYTES - 1),
                        buffer->capacity);

  if (n_wanted <= buffer->n_charged || buffer->pool->budget == NULL)
    return TRUE;
  if (!tps_budget_charge (buffer->pool->budget, n_wanted - buffer->n_charged, error))
    return FALSE;
  buffer->n_charged = n_wanted;
  return TRUE;
}

gsize
tps_buffer_pool_get_n_bytes_out (TpsBufferPool *pool)
{
  TPS_LOCK_SCOPE (&pool->lock);
  return pool->n_bytes_out;
}

TpsBudget *
tps_buffer_pool_get_budget (TpsBufferPool *pool)
{
  return pool->budget;
}

gsize
tps_buffer_pool_get_n_bytes_of_source (TpsBufferPool *pool)
{
  TPS_LOCK_SCOPE (&pool->lock);
  return pool->n_bytes_of_source;
}

gsize
tps_buffer_pool_get_cost (gsize n_bytes)
{
  guint size_class = class_of (n_bytes);

  return size_class < N_CLASSES ? class_capacity (size_class) : G_MAXSIZE;
}

TpsBuffer *
tps_buffer_new (gsize n_bytes)
{
  TpsBufferPool *pool = tps_buffer_pool_get_default ();
  TpsBuffer *buffer = tps_buffer_pool_get (pool, n_bytes, NULL);
  guint size_class = class_of (n_bytes);

  if (buffer != NULL)
    return buffer;
  /* No budget is charged, since this function must not fail. */
  buffer = size_class < N_CLASSES ? allocate (pool, size_class, NULL) : NULL;
  if (buffer == NULL)
    g_error ("out of memory: a buffer of %" G_GSIZE_FORMAT " bytes", n_bytes);
  return begin_use (pool, buffer, n_bytes);
}

TpsBuffer *
tps_buffer_new_zeroed (gsize n_bytes)
{
  TpsBuffer *buffer = tps_buffer_new (n_bytes);

  memset (buffer->data, 0, n_bytes);
  return buffer;
}

TpsBuffer *
tps_buffer_new_foreign (gpointer data, gsize n_bytes, TpsDevice *device, GDestroyNotify free_func,
                        gpointer user_data)
{
  TpsBuffer *buffer = g_new0 (TpsBuffer, 1);

  tps_refcount_init (&buffer->refcount);
  buffer->data = data;
  buffer->n_bytes = n_bytes;
  buffer->device = device;
  buffer->free_func = free_func;
  buffer->user_data = user_data;
  return buffer;
}

TpsBuffer *
tps_buffer_new_shared (gconstpointer data, gsize n_bytes, GDestroyNotify free_func,
                       gpointer user_data)
{
  TpsBuffer *buffer = tps_buffer_new_foreign ((gpointer) (gsize) data, n_bytes, NULL, free_func,
                                              user_data);

  buffer->shared = TRUE;
  return buffer;
}

static guint
small_class_of (gsize n_bytes)
{
  return n_bytes <= MIN_SMALL_BYTES ? 0 : (guint) g_bit_storage ((n_bytes - 1) / MIN_SMALL_BYTES);
}

static TpsBuffer *
allocate_small (guint small_class)
{
  gsize capacity = (gsize) MIN_SMALL_BYTES << small_class;
  TpsBuffer *buffer;
  void *memory;

  if (posix_memalign (&memory, TPS_BUFFER_ALIGNMENT, SMALL_HEADER_BYTES + capacity) != 0)
    g_error ("out of memory: a buffer of %" G_GSIZE_FORMAT " bytes", capacity);
  buffer = memory;
  *buffer = (TpsBuffer) { .data = (guint8 *) memory + SMALL_HEADER_BYTES,
                          .capacity = capacity,
                          .size_class = small_class,
                          .small = TRUE };
  return buffer;
}

static TpsBuffer *
new_small (gsize n_bytes)
{
  guint small_class = small_class_of (n_bytes);
  TpsBuffer *buffer = tps_magazine_take (&small_magazines[small_class], &small_depots[small_class]);

  if (buffer == NULL)
    buffer = allocate_small (small_class);
  tps_refcount_init (&buffer->refcount);
  buffer->n_bytes = n_bytes;
  return buffer;
}

gsize
tps_buffer_get_copy_cost (gsize n_bytes)
{
  if (n_bytes > TPS_BUFFER_MAX_SMALL)
    return tps_buffer_pool_get_cost (n_bytes);
  return SMALL_HEADER_BYTES + ((gsize) MIN_SMALL_BYTES << small_class_of (n_bytes));
}

TpsBuffer *
tps_buffer_new_copy (gconstpointer data, gsize n_bytes)
{
  TpsBuffer *buffer = n_bytes <= TPS_BUFFER_MAX_SMALL ? new_small (n_bytes)
                                                      : tps_buffer_new (n_bytes);

  if (n_bytes > 0)
    memcpy (buffer->data, data, n_bytes);
  return buffer;
}

TPS_DEFINE_REF (TpsBuffer, tps_buffer)

/* Keeps a buffer for reuse and moves its charge to `kept`. Returns FALSE if the pool keeps enough
 * or `kept` has no room; the charge does not change then. The lock is held. */
static gboolean
keep_buffer (TpsBufferPool *pool, TpsBuffer *buffer)
{
  gboolean of_source = buffer->block != NULL;
  TpsBuffer **lists = of_source ? pool->source_lists : pool->heap_lists;

  if (!of_source
      && pool->n_bytes_kept + pool->n_bytes_of_source + buffer->capacity > pool->keep_bytes)
    return FALSE;
  if (buffer->n_charged > 0 && buffer->n_charged < buffer->capacity)
    return FALSE;
  if (!tps_budget_move (buffer->n_charged > 0 ? pool->budget : NULL, pool->kept, buffer->capacity))
    return FALSE;
  buffer->n_charged = 0;
  buffer->next_free = lists[buffer->size_class];
  lists[buffer->size_class] = buffer;
  if (!of_source)
    pool->n_bytes_kept += buffer->capacity;
  return TRUE;
}

static void
give_back (TpsBuffer *buffer)
{
  TpsBufferPool *pool = buffer->pool;
  gsize capacity = buffer->capacity;
  gsize n_charged = buffer->n_charged;
  gboolean is_kept;

  tps_mutex_lock (&pool->lock);
  pool->n_bytes_out -= capacity;
  is_kept = keep_buffer (pool, buffer);
  if (!is_kept && buffer->block != NULL)
    pool->n_bytes_of_source -= capacity;
  tps_mutex_unlock (&pool->lock);
  if (!is_kept)
    {
      release_memory (buffer);
      tps_budget_release (pool->budget, n_charged);
    }
  tps_buffer_pool_unref (pool);
}

void
tps_buffer_unref (TpsBuffer *buffer)
{
  if (!tps_refcount_dec (&buffer->refcount))
    return;
  if (buffer->pool != NULL)
    {
      give_back (buffer);
      return;
    }
  if (buffer->small)
    {
      tps_magazine_put (&small_magazines[buffer->size_class], &small_depots[buffer->size_class],
                        buffer);
      return;
    }
  if (buffer->free_func != NULL)
    buffer->free_func (buffer->user_data);
  g_free (buffer);
}

guint8 *
tps_buffer_get_data (const TpsBuffer *buffer)
{
  return buffer->data;
}

gsize
tps_buffer_get_size (const TpsBuffer *buffer)
{
  return buffer->n_bytes;
}

TpsDevice *
tps_buffer_get_device (const TpsBuffer *buffer)
{
  return buffer->device;
}

gboolean
tps_buffer_is_exclusive (TpsBuffer *buffer)
{
  return !buffer->shared && tps_refcount_is_one (&buffer->refcount);
}

gboolean
tps_buffer_is_shared (const TpsBuffer *buffer)
{
  return buffer->shared;
}
