/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/host_memory.h"

#include <string.h>
#include <unistd.h>

/* In version 2 "max" stands for no limit, in version 1 a number near 2^63. */
static gsize
read_limit (const gchar *folder, const gchar *file)
{
  g_autofree gchar *path = g_build_filename (folder, file, NULL);
  g_autofree gchar *text = NULL;
  guint64 n_bytes;

  if (!g_file_get_contents (path, &text, NULL, NULL)
      || !g_ascii_string_to_unsigned (g_strstrip (text), 10, 1, G_MAXSIZE, &n_bytes, NULL))
    return G_MAXSIZE;
  return (gsize) n_bytes;
}

/* The smallest limit on the way from `path` up to the mount. In a container the path may be the
 * host's and not exist; the mount itself is then the container's group. */
static gsize
least_on_the_way (const gchar *mount, const gchar *path, const gchar *file)
{
  gsize least = read_limit (mount, file);
  g_autofree gchar *rest = g_strdup (path);

  for (gchar *slash; (slash = strrchr (rest, '/')) != NULL; *slash = '\0')
    {
      g_autofree gchar *folder = g_build_filename (mount, rest, NULL);

      least = MIN (least, read_limit (folder, file));
    }
  return least;
}

/* "0::/path" is version 2, "4:memory:/path" version 1. */
static gsize
limit_of_line (const gchar *root, const gchar *line)
{
  g_auto (GStrv) fields = g_strsplit (line, ":", 3);
  g_autofree gchar *mount = NULL;
  g_auto (GStrv) controllers = NULL;

  if (g_strv_length (fields) != 3)
    return G_MAXSIZE;
  if (fields[1][0] == '\0')
    {
      mount = g_strconcat (root, "/sys/fs/cgroup", NULL);
      return least_on_the_way (mount, fields[2], "memory.max");
    }
  controllers = g_strsplit (fields[1], ",", 0);
  if (!g_strv_contains ((const gchar *const *) controllers, "memory"))
    return G_MAXSIZE;
  mount = g_strconcat (root, "/sys/fs/cgroup/memory", NULL);
  return least_on_the_way (mount, fields[2], "memory.limit_in_bytes");
}

gsize
tps_host_memory_get_group_limit (const gchar *root)
{
  g_autofree gchar *path = g_strconcat (root, "/proc/self/cgroup", NULL);
  g_autofree gchar *text = NULL;
  g_auto (GStrv) lines = NULL;
  gsize least = G_MAXSIZE;

  if (!g_file_get_contents (path, &text, NULL, NULL))
    return least;
  lines = g_strsplit (text, "\n", 0);
  for (gsize i = 0; lines[i] != NULL; i++)
    least = MIN (least, limit_of_line (root, lines[i]));
  return least;
}

gsize
tps_host_memory_get_total (void)
{
  gsize total = (gsize) sysconf (_SC_PHYS_PAGES) * (gsize) sysconf (_SC_PAGESIZE);

  return MIN (total, tps_host_memory_get_group_limit (""));
}
