/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/error.h"

#define KIB ((gsize) 1 << 10)
#define MIB ((gsize) 1 << 20)

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

static gboolean
read_all (gint fd, gsize max_bytes, GString *text)
{
  gchar chunk[4096];
  gssize n;

  while (text->len <= max_bytes && (n = read (fd, chunk, sizeof chunk)) != 0)
    {
      if (n < 0)
        return FALSE;
      g_string_append_len (text, chunk, n);
    }
  return TRUE;
}

static gboolean
read_file (const gchar *path, gsize max_bytes, GString *text, GError **error)
{
  gint fd = tps_regular_file_open (path, error);
  gboolean ok;

  if (fd < 0)
    return FALSE;
  ok = read_all (fd, max_bytes, text);
  if (!ok)
    g_set_error_literal (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, g_strerror (errno));
  close (fd);
  return ok;
}

static void
refuse_size (gsize max_bytes, GError **error)
{
  gboolean mebibytes = max_bytes % MIB == 0;

  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "it is larger than %" G_GSIZE_FORMAT " %s", max_bytes / (mebibytes ? MIB : KIB),
               mebibytes ? "MiB" : "KiB");
}

gchar *
tps_text_file_read (const gchar *path, gsize max_bytes, GError **error)
{
  g_autoptr (GString) text = g_string_new (NULL);

  if (!read_file (path, max_bytes, text, error))
    return NULL;
  if (text->len > max_bytes)
    refuse_size (max_bytes, error);
  else if (strlen (text->str) != text->len)
    g_set_error_literal (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "it contains NUL bytes");
  else if (strstr (text->str, "\\u0000") != NULL) /* C would cut the JSON string there */
    g_set_error_literal (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "it contains \\u0000");
  else
    return g_string_free (g_steal_pointer (&text), FALSE);
  return NULL;
}
