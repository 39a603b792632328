/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/machine/control_groups.h"

#include <string.h>

typedef struct
{
  TpsControlGroupFunc func;
  gpointer user_data;
  guint version;
} Visit;

/* Visits the mount, then all groups from `path` up to the mount. In a container, `path` may be a
 * path of the host that does not exist in the container. The mount itself is then the container's
 * group. */
static void
visit_path (const Visit *visit, const gchar *mount, const gchar *path)
{
  g_autofree gchar *rest = g_strdup (path);

  visit->func (mount, visit->version, visit->user_data);
  for (gchar *slash; (slash = strrchr (rest, '/')) != NULL; *slash = '\0')
    {
      g_autofree gchar *folder = g_build_filename (mount, rest, NULL);

      visit->func (folder, visit->version, visit->user_data);
    }
}

/* Visits the groups of one line: "0::/path" (version 2) or "4:memory:/path" (version 1). */
static void
visit_line (Visit *visit, const gchar *root, const gchar *controller, const gchar *line)
{
  g_auto (GStrv) fields = g_strsplit (line, ":", 3);
  g_auto (GStrv) controllers = NULL;
  g_autofree gchar *mount = NULL;

  if (g_strv_length (fields) != 3)
    return;
  controllers = g_strsplit (fields[1], ",", 0);
  visit->version = fields[1][0] == '\0' ? 2 : 1;
  if (visit->version == 2)
    mount = g_strconcat (root, "/sys/fs/cgroup", NULL);
  else if (g_strv_contains ((const gchar *const *) controllers, controller))
    mount = g_strconcat (root, "/sys/fs/cgroup/", controller, NULL);
  if (mount != NULL)
    visit_path (visit, mount, fields[2]);
}

void
tps_control_groups_visit (const gchar *root, const gchar *controller, TpsControlGroupFunc func,
                          gpointer user_data)
{
  g_autofree gchar *path = g_strconcat (root, "/proc/self/cgroup", NULL);
  g_autofree gchar *text = NULL;
  g_auto (GStrv) lines = NULL;
  Visit visit = { .func = func, .user_data = user_data };

  if (!g_file_get_contents (path, &text, NULL, NULL))
    return;
  lines = g_strsplit (text, "\n", 0);
  for (gsize i = 0; lines[i] != NULL; i++)
    visit_line (&visit, root, controller, lines[i]);
}
