/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A meeting ends when the last rank arrives: this rank increments `generation` and wakes the
 * sleeping ranks. A waiting rank checks at intervals whether another rank has broken the group or
 * its process has exited. The process number alone does not answer this question, because a zombie
 * keeps its number and the system may reuse a number. Therefore the check also reads the state and
 * the start time of the process.
 */

#include "runtime/trainer/group/rank_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/machine/machine.h"

/* -- files of ranks -- */

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* Returns TRUE if the limit of file sizes (`ulimit -f`), which also applies to files in memory,
 * permits the size. If a process exceeded the limit, SIGXFSZ would terminate it. */
static gboolean
may_have_size (gsize n_bytes)
{
  struct rlimit limit;

  return getrlimit (RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY
         || n_bytes <= limit.rlim_cur;
}

gint
tps_rank_file_create (gsize n_bytes, TpsRankFileAddress *address)
{
  guint64 token = (guint64) tps_clock_now_ns () ^ (guint64) g_random_int () << 32;
  gint fd = -1;

  if (may_have_size (n_bytes))
    fd = memfd_create ("thriftps-ranks", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0)
    return -1;
  if (ftruncate (fd, (off_t) n_bytes) != 0 || fcntl (fd, F_ADD_SEALS, SEALS) != 0
      || pwrite (fd, &token, sizeof token, 0) != sizeof token)
    {
      close (fd);
      return -1;
    }
  *address = (TpsRankFileAddress) { (guint64) getpid () << 32 | (guint32) fd, token };
  return fd;
}

/* Returns TRUE if the file has the size and the seals of a rank's file. With these seals, the file
 * cannot shrink while it is mapped. The system may have added another seal (F_SEAL_EXEC, if
 * vm.memfd_noexec is set). */
static gboolean
is_sealed (gint fd, gsize n_bytes)
{
  gint seals = fcntl (fd, F_GET_SEALS);
  struct stat status;

  return seals >= 0 && (seals & (SEALS | F_SEAL_WRITE)) == SEALS && fstat (fd, &status) == 0
         && (gsize) status.st_size == n_bytes;
}

/* Returns TRUE if the file begins with this token. Must be checked before any write to the file,
 * because the handle may refer to an unrelated file. */
static gboolean
has_token (gint fd, guint64 token)
{
  guint64 found;

  return pread (fd, &found, sizeof found, 0) == sizeof found && found == token;
}

gint
tps_rank_file_open (const TpsRankFileAddress *address, gsize n_bytes)
{
  g_autofree gchar *path = g_strdup_printf ("/proc/%u/fd/%u", (guint32) (address->handle >> 32),
                                            (guint32) address->handle);
  gint fd;

  if (address->handle == 0)
    return -1;
  /* The path may lead to any kind of file: opening it must neither block nor acquire a terminal. */
  fd = open (path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0)
    return -1;
  if (is_sealed (fd, n_bytes) && has_token (fd, address->token))
    return fd;
  close (fd);
  return -1;
}

#define HEADER_BYTES 4096
#define LOOK_NS (G_GINT64_CONSTANT (50) * 1000 * 1000) /* interval of a sleeping rank's checks */
#define LINE_BYTES 64                                  /* a cache line */

/* If the machine has a processor for every rank, a waiting rank spins for SPIN_NS before it sleeps.
 * The limit is a time and not a number of pauses, because a pause takes 1 to 50 ns, depending on
 * the processor. After YIELD_NS, the rank yields its processor after each reading of the clock,
 * because the missing rank may be waiting for this processor. Where the system had put two ranks on
 * one core, yielding more than halved the time of a sum of 1 MiB. */
#define SPIN_NS (G_GINT64_CONSTANT (100) * 1000)
#define YIELD_NS (G_GINT64_CONSTANT (10) * 1000)
#define PAUSES_PER_LOOK 32 /* between two readings of the clock */

#if defined(__x86_64__) || defined(__i386__)
#define RELAX() __builtin_ia32_pause ()
#else
#define RELAX() atomic_signal_fence (memory_order_seq_cst)
#endif

typedef struct
{
  guint64 token;              /* of the file */
  _Atomic guint32 broken_by;  /* rank + 1; 0 = the group is not broken */
  _Atomic guint32 n_sleeping; /* an upper bound, because a rank that dies asleep stays counted */
  struct
  {
    _Atomic guint32 pid;
    _Atomic guint32 n_meetings; /* number of meetings at which the rank has arrived */
  } ranks[TPS_RANK_MEMORY_MAX_RANKS];
  /* `n_arrived` and `generation` have a cache line each, because ranks write `n_arrived` while
   * other ranks read `generation`. */
  _Alignas(LINE_BYTES) _Atomic guint32 n_arrived;
  guint8 rest_of_line[LINE_BYTES - sizeof (guint32)];
  _Atomic guint32 generation; /* a futex */
  guint8 rest_of_last_line[LINE_BYTES - sizeof (guint32)];
} Header;

struct TpsRankMemory
{
  guint rank;
  guint size;
  gsize n_bytes;
  gint fd;        /* -1 after the memory has been closed to further ranks */
  gint64 spin_ns; /* 0 = sleep at once */
  Header *header;
  /* start times of the ranks' processes; 0 = not readable in this process */
  guint64 started[TPS_RANK_MEMORY_MAX_RANKS];
};

/* -- opening and closing -- */

static TpsRankMemory *
map (gint fd, guint rank, guint size, gsize n_bytes)
{
  TpsRankMemory *memory;
  void *mapped;

  G_STATIC_ASSERT (sizeof (Header) <= HEADER_BYTES);
  mapped = mmap (NULL, HEADER_BYTES + n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED)
    return NULL;
  memory = g_new0 (TpsRankMemory, 1);
  memory->rank = rank;
  memory->size = size;
  memory->n_bytes = n_bytes;
  memory->fd = fd;
  /* This counts the machine's processors, not this process's, because each rank may be bound to a
   * core of its own. */
  memory->spin_ns = size <= tps_machine_get ()->n_processors ? SPIN_NS : 0;
  memory->header = mapped;
  memory->header->ranks[rank].pid = (guint32) getpid ();
  return memory;
}

TpsRankMemory *
tps_rank_memory_create (guint size, gsize n_bytes, TpsRankFileAddress *address)
{
  TpsRankMemory *memory;
  gint fd;

  if (size > TPS_RANK_MEMORY_MAX_RANKS)
    return NULL;
  fd = tps_rank_file_create (HEADER_BYTES + n_bytes, address);
  if (fd < 0)
    return NULL;
  memory = map (fd, 0, size, n_bytes);
  if (memory == NULL)
    close (fd);
  return memory;
}

TpsRankMemory *
tps_rank_memory_open (const TpsRankFileAddress *address, guint rank, guint size, gsize n_bytes)
{
  TpsRankMemory *memory;
  gint fd;

  if (size > TPS_RANK_MEMORY_MAX_RANKS)
    return NULL;
  fd = tps_rank_file_open (address, HEADER_BYTES + n_bytes);
  if (fd < 0)
    return NULL;
  memory = map (fd, rank, size, n_bytes);
  if (memory == NULL)
    close (fd);
  return memory;
}

static void
close_fd (gint *fd)
{
  if (*fd >= 0)
    close (*fd);
  *fd = -1;
}

/* Reads the state and the start time of a process. Returns FALSE if the process does not exist or
 * cannot be read. */
static gboolean
read_process (guint32 pid, gboolean *has_ended, guint64 *started)
{
  g_autofree gchar *path = g_strdup_printf ("/proc/%u/stat", pid);
  g_autofree gchar *text = NULL;
  g_auto (GStrv) fields = NULL;
  const gchar *at;

  if (!g_file_get_contents (path, &text, NULL, NULL))
    return FALSE;
  at = strrchr (text, ')'); /* end of the name, which may contain any character */
  if (at == NULL || at[1] == '\0')
    return FALSE;
  /* `fields` begins with the third field of the file, see proc(5). Field 3 is the state, field 20
   * the number of threads, and field 22 the start time. */
  fields = g_strsplit (at + 2, " ", 21);
  if (g_strv_length (fields) < 21)
    return FALSE;
  /* The state is also Z if only the first thread of the process has exited. In this case, the
   * process has other threads. */
  *has_ended = strchr ("ZX", fields[0][0]) != NULL && g_ascii_strtoull (fields[17], NULL, 10) <= 1;
  *started = g_ascii_strtoull (fields[19], NULL, 10);
  return TRUE;
}

void
tps_rank_memory_close_door (TpsRankMemory *memory)
{
  gboolean has_ended;

  close_fd (&memory->fd);
  /* Every rank has opened the memory by now, so every pid is set. */
  for (guint r = 0; r < memory->size; r++)
    if (!read_process (memory->header->ranks[r].pid, &has_ended, &memory->started[r]))
      memory->started[r] = 0;
}

void
tps_rank_memory_free (TpsRankMemory *memory)
{
  close_fd (&memory->fd);
  munmap (memory->header, HEADER_BYTES + memory->n_bytes);
  g_free (memory);
}

guint
tps_rank_memory_get_rank (const TpsRankMemory *memory)
{
  return memory->rank;
}

guint
tps_rank_memory_get_size (const TpsRankMemory *memory)
{
  return memory->size;
}

gpointer
tps_rank_memory_get_data (TpsRankMemory *memory)
{
  return (guint8 *) memory->header + HEADER_BYTES;
}

/* -- meeting -- */

static void
wake_all (Header *header)
{
  if (header->n_sleeping > 0)
    syscall (SYS_futex, &header->generation, FUTEX_WAKE, G_MAXINT32, NULL, NULL, 0);
}

/* Sleeps until wake_all(), but at most for `span_ns`. wake_all() reads `n_sleeping` after the last
 * rank has incremented `generation`. If a rank increments `n_sleeping` too late for wake_all(), the
 * kernel finds another generation, and the rank does not sleep. */
static void
sleep_while (Header *header, guint32 generation, gint64 span_ns)
{
  struct timespec span = { .tv_sec = span_ns / 1000000000, .tv_nsec = span_ns % 1000000000 };

  atomic_fetch_add (&header->n_sleeping, 1);
  syscall (SYS_futex, &header->generation, FUTEX_WAIT, generation, &span, NULL, 0);
  atomic_fetch_sub (&header->n_sleeping, 1);
}

void
tps_rank_memory_break (TpsRankMemory *memory)
{
  guint32 whole = 0;

  atomic_compare_exchange_strong (&memory->header->broken_by, &whole, memory->rank + 1);
  wake_all (memory->header);
}

/* Returns the names of the ranks that have not arrived at the current meeting, owned by the caller.
 * The signed difference allows the counters to wrap around. */
static gchar *
name_missing (TpsRankMemory *memory)
{
  GString *names = g_string_new (NULL);
  guint32 n_meetings = memory->header->ranks[memory->rank].n_meetings;

  for (guint r = 0; r < memory->size; r++)
    if ((gint32) (memory->header->ranks[r].n_meetings - n_meetings) < 0)
      g_string_append_printf (names, "%srank %u", names->len > 0 ? ", " : "", r);
  return g_string_free (names, FALSE);
}

static gboolean
is_gone (const TpsRankMemory *memory, guint rank)
{
  guint32 pid = memory->header->ranks[rank].pid;
  gboolean has_ended;
  guint64 started;

  /* Without a start time, only the existence of the process can be checked. */
  if (memory->started[rank] == 0)
    return kill ((pid_t) pid, 0) != 0 && errno == ESRCH;
  return !read_process (pid, &has_ended, &started) || started != memory->started[rank] || has_ended;
}

/* Returns a rank whose process has exited, or `size` if there is none. */
static guint
find_gone (const TpsRankMemory *memory)
{
  guint r = 0;

  while (r < memory->size && !is_gone (memory, r))
    r++;
  return r;
}

/* Checks that all ranks are alive and that the deadline has not passed. */
static gboolean
check_ranks (TpsRankMemory *memory, gint64 deadline_ns, GError **error)
{
  guint32 broken_by = memory->header->broken_by;
  guint gone = find_gone (memory);
  g_autofree gchar *missing = NULL;

  if (broken_by != 0)
    return tps_fail (error, TPS_ERROR_GROUP_BROKEN, "rank %u: has left the group", broken_by - 1);
  if (gone < memory->size)
    return tps_fail (error, TPS_ERROR_GROUP_BROKEN, "rank %u: its process has ended", gone);
  if (tps_clock_now_ns () < deadline_ns)
    return TRUE;
  missing = name_missing (memory);
  return tps_fail (error, TPS_ERROR_GROUP_BROKEN, "%s: Timed out waiting", missing);
}

/* Returns TRUE if the meeting ended while this rank was spinning. */
static gboolean
spin (const TpsRankMemory *memory, guint32 generation)
{
  const Header *header = memory->header;
  gint64 began_ns = tps_clock_now_ns ();
  gint64 spun_ns = 0;

  while (spun_ns < memory->spin_ns)
    {
      for (guint i = 0; i < PAUSES_PER_LOOK; i++)
        {
          if (atomic_load_explicit (&header->generation, memory_order_acquire) != generation)
            return TRUE;
          RELAX ();
        }
      spun_ns = tps_clock_now_ns () - began_ns;
      if (spun_ns >= YIELD_NS)
        sched_yield ();
    }
  return FALSE;
}

static gboolean
wait_for_generation (TpsRankMemory *memory, guint32 generation, gint64 deadline_ns, GError **error)
{
  Header *header = memory->header;

  if (spin (memory, generation))
    return TRUE;
  while (atomic_load_explicit (&header->generation, memory_order_acquire) == generation)
    {
      gint64 left_ns = deadline_ns - tps_clock_now_ns ();

      if (left_ns > 0)
        sleep_while (header, generation, MIN (left_ns, LOOK_NS));
      if (atomic_load_explicit (&header->generation, memory_order_acquire) == generation
          && !check_ranks (memory, deadline_ns, error))
        return FALSE;
    }
  return TRUE;
}

gboolean
tps_rank_memory_meet (TpsRankMemory *memory, gint64 deadline_ns, GError **error)
{
  Header *header = memory->header;
  guint32 generation = header->generation;

  header->ranks[memory->rank].n_meetings++;
  if (header->broken_by != 0)
    return check_ranks (memory, deadline_ns, error);
  if (atomic_fetch_add (&header->n_arrived, 1) + 1 < memory->size)
    return wait_for_generation (memory, generation, deadline_ns, error);
  /* The counter must be reset first: a rank that sees the new generation may begin the next meeting
   * at once. */
  header->n_arrived = 0;
  atomic_fetch_add (&header->generation, 1);
  wake_all (header);
  return TRUE;
}
