/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/group/rank_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/sync.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* The limit of file sizes (`ulimit -f`) also applies to memory files, and a process that exceeds it
 * is ended by SIGXFSZ. */
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

/* Checks that the file was created by a rank and is sealed, so that it cannot shrink while it is
 * mapped. The system may have added a seal of its own (F_SEAL_EXEC, if vm.memfd_noexec is set). */
static gboolean
is_sealed (gint fd, gsize n_bytes)
{
  gint seals = fcntl (fd, F_GET_SEALS);
  struct stat status;

  return seals >= 0 && (seals & (SEALS | F_SEAL_WRITE)) == SEALS && fstat (fd, &status) == 0
         && (gsize) status.st_size == n_bytes;
}

/* Checks the token before anything is written to the file. */
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
  fd = open (path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0)
    return -1;
  if (is_sealed (fd, n_bytes) && has_token (fd, address->token))
    return fd;
  close (fd);
  return -1;
}
