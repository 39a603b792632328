/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/error.h"

static gint
refuse (const gchar *reason, GError **error)
{
  g_set_error_literal (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, reason);
  return -1;
}

/* Without O_NONBLOCK, open() of a FIFO waits for a writer. The flag does not change reads of
 * regular files. */
gint
tps_regular_file_open (const gchar *path, GError **error)
{
  gint fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  struct stat status;

  if (fd < 0) /* ENXIO: a socket, or a device that does not exist */
    return refuse (errno == ENXIO ? "it is not a regular file" : g_strerror (errno), error);
  if (fstat (fd, &status) == 0 && S_ISREG (status.st_mode))
    return fd;
  close (fd);
  return refuse ("it is not a regular file", error);
}
