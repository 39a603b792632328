/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/host_memory.h"

#include <unistd.h>

#include "runtime/machine/control_groups.h"

/* Lowers `*user_data` to the limit of a group. Without a limit, version 2 has the word "max", which
 * is not a number and is ignored. Version 1 has a number near 2^63. */
static void
apply_limit (const gchar *folder, guint version, gpointer user_data)
{
  g_autofree gchar *path = g_build_filename (
      folder, version == 2 ? "memory.max" : "memory.limit_in_bytes", NULL);
  g_autofree gchar *text = NULL;
  gsize *least = user_data;
  guint64 n_bytes;

  if (g_file_get_contents (path, &text, NULL, NULL)
      && g_ascii_string_to_unsigned (g_strstrip (text), 10, 1, G_MAXSIZE, &n_bytes, NULL))
    *least = MIN (*least, (gsize) n_bytes);
}

gsize
tps_host_memory_get_group_limit (const gchar *root)
{
  gsize least = G_MAXSIZE;

  tps_control_groups_visit (root, "memory", apply_limit, &least);
  return least;
}

gsize
tps_host_memory_get_total (void)
{
  gsize total = (gsize) sysconf (_SC_PHYS_PAGES) * (gsize) sysconf (_SC_PAGESIZE);

  return MIN (total, tps_host_memory_get_group_limit (""));
}
