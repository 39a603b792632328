/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/group/rank_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/sync.h"

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
