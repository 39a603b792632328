/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/server/memory.h"

#include <unistd.h>

/* The limit in a file of the control group file system; G_MAXSIZE where there is none ("max", no such file). */
static gsize
read_limit (const gchar *path)
{
  g_autofree gchar *text = NULL;
  guint64 n_bytes;

  if (!g_file_get_contents (path, &text, NULL, NULL)
      || !g_ascii_string_to_unsigned (g_strstrip (text), 10, 1, G_MAXSIZE, &n_bytes, NULL))
    return G_MAXSIZE;
  return (gsize) n_bytes;
}

gsize
tps_memory_get_total (void)
{
  gsize total = (gsize) sysconf (_SC_PHYS_PAGES) * (gsize) sysconf (_SC_PAGESIZE);

  total = MIN (total, read_limit ("/sys/fs/cgroup/memory.max"));
  return MIN (total, read_limit ("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
}
