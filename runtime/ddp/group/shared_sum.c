/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A chunk's way: the data is cut into one segment a rank. Everybody puts the segments of the others into its own slot ->
 * meet -> everybody adds up its own segment from all slots, in rank order, and puts the sum into its slot -> meet ->
 * everybody takes the sums of the others' segments from their slots.
 *
 * Each rank has two slots, used in turn: who is back early fills the other one while some still read the first; before that
 * is filled again everybody has met twice.
 *
 * Meeting: the last to arrive counts `generation` up and wakes the others, who sleep on it. They look around in between for
 * ranks that have broken the group or whose process is gone.
 */

#include "runtime/ddp/group/shared_sum.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/cpu/elementwise.h"
#include "runtime/error.h"
#include "runtime/sync.h"

#define SLOT_ELEMS ((gsize) 256 * 1024) /* 1 MiB */
#define HEADER_BYTES 4096
#define LOOK_NS (G_GINT64_CONSTANT (50) * 1000 * 1000)
#define SPINS 2000 /* of some 50 ns, where every rank may have a processor */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

#if defined(__x86_64__) || defined(__i386__)
#define RELAX() __builtin_ia32_pause ()
#else
#define RELAX() atomic_signal_fence (memory_order_seq_cst)
#endif

typedef struct
{
  guint64 token;
  _Atomic guint32 n_arrived;
  _Atomic guint32 generation; /* a futex */
  _Atomic guint32 broken_by;  /* rank + 1 */
  struct
  {
    _Atomic guint32 pid;
    _Atomic guint32 n_meetings; /* that the rank has come to */
  } ranks[TPS_SHARED_SUM_MAX_RANKS];
} Header;

struct TpsSharedSum
{
  guint rank;
  guint size;
  gint fd; /* -1 when the door is closed */
  guint n_spins;
  guint n_chunks; /* done so far */
  Header *header;
  gfloat *slots; /* [2, size, SLOT_ELEMS] */
};

static gsize
count_bytes (guint size)
{
  return HEADER_BYTES + 2 * (gsize) size * SLOT_ELEMS * sizeof (gfloat);
}

/* -- coming and going -- */

static TpsSharedSum *
map (gint fd, guint rank, guint size)
{
  TpsSharedSum *shared;
  void *memory;

  G_STATIC_ASSERT (sizeof (Header) <= HEADER_BYTES);
  memory = mmap (NULL, count_bytes (size), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED)
    return NULL;
  shared = g_new0 (TpsSharedSum, 1);
  shared->rank = rank;
  shared->size = size;
  shared->fd = fd;
  shared->n_spins = (long) size <= sysconf (_SC_NPROCESSORS_ONLN) ? SPINS : 0;
  shared->header = memory;
  shared->slots = (gfloat *) (gpointer) ((guint8 *) memory + HEADER_BYTES);
  return shared;
}

TpsSharedSum *
tps_shared_sum_create (guint size, TpsSharedSumAddress *address)
{
  TpsSharedSum *shared;
  gint fd;

  if (size > TPS_SHARED_SUM_MAX_RANKS)
    return NULL;
  fd = memfd_create ("thriftps-sum", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0)
    return NULL;
  if (ftruncate (fd, (off_t) count_bytes (size)) != 0 || fcntl (fd, F_ADD_SEALS, SEALS) != 0
      || (shared = map (fd, 0, size)) == NULL)
    {
      close (fd);
      return NULL;
    }
  address->handle = (guint64) getpid () << 32 | (guint32) fd;
  address->token = (guint64) tps_clock_now_ns () ^ (guint64) (gsize) shared << 20;
  shared->header->token = address->token;
  shared->header->ranks[0].pid = (guint32) getpid ();
  return shared;
}

/* Whether the file is one that rank 0 has made: it cannot shrink under our feet. */
static gboolean
is_sealed (gint fd, guint size)
{
  struct stat status;

  return fstat (fd, &status) == 0 && (gsize) status.st_size == count_bytes (size)
         && fcntl (fd, F_GET_SEALS) == SEALS;
}

TpsSharedSum *
tps_shared_sum_open (const TpsSharedSumAddress *address, guint rank, guint size)
{
  g_autofree gchar *path = g_strdup_printf ("/proc/%u/fd/%u", (guint32) (address->handle >> 32),
                                            (guint32) address->handle);
  TpsSharedSum *shared;
  gint fd;

  if (address->handle == 0 || size > TPS_SHARED_SUM_MAX_RANKS)
    return NULL;
  fd = open (path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0)
    return NULL;
  if (!is_sealed (fd, size) || (shared = map (fd, rank, size)) == NULL)
    {
      close (fd);
      return NULL;
    }
  if (shared->header->token != address->token)
    {
      tps_shared_sum_free (shared);
      return NULL;
    }
  shared->header->ranks[rank].pid = (guint32) getpid ();
  return shared;
}

void
tps_shared_sum_close_door (TpsSharedSum *shared)
{
  if (shared->fd >= 0)
    close (shared->fd);
  shared->fd = -1;
}

void
tps_shared_sum_free (TpsSharedSum *shared)
{
  tps_shared_sum_close_door (shared);
  munmap (shared->header, count_bytes (shared->size));
  g_free (shared);
}

/* -- meeting -- */

static void
wake_all (Header *header)
{
  syscall (SYS_futex, &header->generation, FUTEX_WAKE, G_MAXINT32, NULL, NULL, 0);
}

static void
sleep_while (Header *header, guint32 generation, gint64 span_ns)
{
  struct timespec span = { .tv_sec = span_ns / 1000000000, .tv_nsec = span_ns % 1000000000 };

  syscall (SYS_futex, &header->generation, FUTEX_WAIT, generation, &span, NULL, 0);
}

void
tps_shared_sum_break (TpsSharedSum *shared)
{
  guint32 whole = 0;

  atomic_compare_exchange_strong (&shared->header->broken_by, &whole, shared->rank + 1);
  wake_all (shared->header);
}

/* The ranks that have not come to the meeting that this one waits in; owned. */
static gchar *
name_missing (TpsSharedSum *shared)
{
  GString *names = g_string_new (NULL);
  guint32 n_meetings = shared->header->ranks[shared->rank].n_meetings;

  for (guint r = 0; r < shared->size; r++)
    if ((gint32) (shared->header->ranks[r].n_meetings - n_meetings) < 0)
      g_string_append_printf (names, "%srank %u", names->len > 0 ? ", " : "", r);
  return g_string_free (names, FALSE);
}

static gboolean
fail (GError **error, const gchar *who, const gchar *what)
{
  g_set_error (error, TPS_ERROR, TPS_ERROR_GROUP_BROKEN, "%s: %s", who, what);
  return FALSE;
}

/* Whether everybody is still there and there is time. */
static gboolean
look_around (TpsSharedSum *shared, gint64 deadline_ns, GError **error)
{
  guint32 broken_by = shared->header->broken_by;
  g_autofree gchar *who = NULL;

  if (broken_by != 0)
    {
      who = g_strdup_printf ("rank %u", broken_by - 1);
      return fail (error, who, "has left the group");
    }
  for (guint r = 0; r < shared->size; r++)
    if (kill ((pid_t) shared->header->ranks[r].pid, 0) != 0 && errno == ESRCH)
      {
        who = g_strdup_printf ("rank %u", r);
        return fail (error, who, "its process is gone");
      }
  if (tps_clock_now_ns () < deadline_ns)
    return TRUE;
  who = name_missing (shared);
  return fail (error, who, "Timed out waiting");
}

static gboolean
wait_for_generation (TpsSharedSum *shared, guint32 generation, gint64 deadline_ns, GError **error)
{
  Header *header = shared->header;

  for (guint i = 0; i < shared->n_spins; i++)
    {
      if (atomic_load_explicit (&header->generation, memory_order_acquire) != generation)
        return TRUE;
      RELAX ();
    }
  while (atomic_load_explicit (&header->generation, memory_order_acquire) == generation)
    {
      gint64 left_ns = deadline_ns - tps_clock_now_ns ();

      if (left_ns > 0)
        sleep_while (header, generation, MIN (left_ns, LOOK_NS));
      if (atomic_load_explicit (&header->generation, memory_order_acquire) == generation
          && !look_around (shared, deadline_ns, error))
        return FALSE;
    }
  return TRUE;
}

/* Returns when all ranks have come. */
static gboolean
meet (TpsSharedSum *shared, gint64 deadline_ns, GError **error)
{
  Header *header = shared->header;
  guint32 generation = header->generation;

  header->ranks[shared->rank].n_meetings++;
  if (header->broken_by != 0)
    return look_around (shared, deadline_ns, error);
  if (atomic_fetch_add (&header->n_arrived, 1) + 1 < shared->size)
    return wait_for_generation (shared, generation, deadline_ns, error);
  header->n_arrived = 0;
  atomic_fetch_add (&header->generation, 1);
  wake_all (header);
  return TRUE;
}

/* -- the sum -- */

/* Where a chunk lies, and how it is cut. */
typedef struct
{
  TpsSharedSum *shared;
  gfloat *data;
  gsize n_elems;
  guint turn; /* of the two slots */
} Chunk;

static gsize
begin_of (const Chunk *chunk, guint rank)
{
  return chunk->n_elems * rank / chunk->shared->size;
}

static gfloat *
slot_of (const Chunk *chunk, guint rank)
{
  return chunk->shared->slots + (chunk->turn * chunk->shared->size + rank) * SLOT_ELEMS;
}

static void
copy (gfloat *to, const gfloat *from, gsize begin, gsize end)
{
  memcpy (to + begin, from + begin, (end - begin) * sizeof *to);
}

static void
put_segments (const Chunk *chunk)
{
  guint rank = chunk->shared->rank;

  copy (slot_of (chunk, rank), chunk->data, 0, begin_of (chunk, rank));
  copy (slot_of (chunk, rank), chunk->data, begin_of (chunk, rank + 1), chunk->n_elems);
}

static void
add_own_segment (const Chunk *chunk)
{
  enum
  {
    BLOCK = 4096
  }; /* stays in the first-level cache */
  guint rank = chunk->shared->rank;
  gfloat *own_slot = slot_of (chunk, rank);
  gfloat sum[BLOCK];

  for (gsize begin = begin_of (chunk, rank); begin < begin_of (chunk, rank + 1); begin += BLOCK)
    {
      gsize n = MIN (BLOCK, begin_of (chunk, rank + 1) - begin);

      for (guint r = 0; r < chunk->shared->size; r++)
        {
          const gfloat *part = (r == rank ? chunk->data : slot_of (chunk, r)) + begin;

          if (r == 0)
            memcpy (sum, part, n * sizeof sum[0]);
          else
            tps_cpu_accumulate (TPS_DTYPE_FLOAT32, sum, part, n);
        }
      memcpy (chunk->data + begin, sum, n * sizeof sum[0]);
      memcpy (own_slot + begin, sum, n * sizeof sum[0]);
    }
}

static void
take_sums (const Chunk *chunk)
{
  for (guint r = 0; r < chunk->shared->size; r++)
    if (r != chunk->shared->rank)
      copy (chunk->data, slot_of (chunk, r), begin_of (chunk, r), begin_of (chunk, r + 1));
}

gboolean
tps_shared_sum_run (TpsSharedSum *shared, gfloat *data, gsize n_elems, gint64 deadline_ns,
                    GError **error)
{
  for (gsize start = 0; start < n_elems; start += SLOT_ELEMS)
    {
      Chunk chunk = {
        .shared = shared,
        .data = data + start,
        .n_elems = MIN (SLOT_ELEMS, n_elems - start),
        .turn = shared->n_chunks++ % 2,
      };

      put_segments (&chunk);
      if (!meet (shared, deadline_ns, error))
        return FALSE;
      add_own_segment (&chunk);
      if (!meet (shared, deadline_ns, error))
        return FALSE;
      take_sums (&chunk);
    }
  return TRUE;
}
