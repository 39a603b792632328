/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/machine/machine.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

/* More cores are not plausible. */
#define MAX_CORES 65536

/* The vendor in /proc/cpuinfo whose processors fetch both cache lines of an aligned pair together.
 * AMD's processors do so only after accesses with a pattern, so they need a prefetch of each line.
 * On an EPYC, prefetches of all lines were compared with prefetches of every other line, in sums of
 * random rows of a table of 256 MiB (tps_cpu_add_rows()). With prefetches of all lines, the sums
 * took 0.53 times as long for rows of 128 bytes, 0.76 for 256 bytes, 0.95 for 512 bytes, and 0.98
 * for 1 KiB. */
#define PAIRS_VENDOR "GenuineIntel"

/* ---- control groups -------------------------------------------------------------------------- */

/* Receives one group: `version` is 1 or 2; `folder` is borrowed, and may not exist: in a container,
 * the path of the process's group may be a path of the host. */
typedef void (*ControlGroupFunc) (const gchar *folder, guint version, gpointer user_data);

typedef struct
{
  ControlGroupFunc func;
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

/* Calls `func` for each group of this process that `controller` ("memory", "cpu") may limit,
 * including the mount. `root` precedes "/proc" and "/sys" in tests, and is "" otherwise. Thread:
 * any. */
static void
visit_control_groups (const gchar *root, const gchar *controller, ControlGroupFunc func,
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

/* ---- files ----------------------------------------------------------------------------------- */

/* Returns the text of a file without white space at its ends, owned by the caller. Returns NULL if
 * the file cannot be read. */
static gchar *
read_text (const gchar *folder, const gchar *file)
{
  g_autofree gchar *path = g_build_filename (folder, file, NULL);
  gchar *text = NULL;

  return g_file_get_contents (path, &text, NULL, NULL) ? g_strstrip (text) : NULL;
}

/* Returns 0 if `text` is NULL or not a number. */
static guint64
parse_number (const gchar *text)
{
  guint64 number;

  return text != NULL && g_ascii_string_to_unsigned (text, 10, 0, G_MAXINT64, &number, NULL)
             ? number
             : 0;
}

static gboolean
is_vendor (const gchar *root, const gchar *vendor)
{
  g_autofree gchar *folder = g_strconcat (root, "/proc", NULL);
  g_autofree gchar *text = read_text (folder, "cpuinfo");
  const gchar *line = text != NULL ? strstr (text, "vendor_id") : NULL;
  const gchar *end = line != NULL ? strchr (line, '\n') : NULL;
  const gchar *name = line != NULL ? strstr (line, vendor) : NULL;

  return name != NULL && (end == NULL || name < end);
}

/* ---- cores ----------------------------------------------------------------------------------- */

/* Reads the CPU time that the group may use in each period. Both are in microseconds. Returns FALSE
 * if there is no quota. */
static gboolean
read_quota (const gchar *folder, guint version, guint64 *quota, guint64 *period)
{
  g_autofree gchar *text = read_text (folder, version == 2 ? "cpu.max" : "cpu.cfs_quota_us");
  g_autofree gchar *period_text = version == 2 ? NULL : read_text (folder, "cpu.cfs_period_us");
  g_auto (GStrv) words = text != NULL ? g_strsplit (text, " ", 2) : NULL;

  if (words == NULL || words[0] == NULL)
    return FALSE;
  *quota = parse_number (words[0]); /* 0 for "max" and "-1", which mean no quota */
  *period = parse_number (version == 2 ? words[1] : period_text);
  return *quota > 0 && *period > 0;
}

static void
apply_quota (const gchar *folder, guint version, gpointer user_data)
{
  guint *least = user_data;
  guint64 quota, period;

  if (!read_quota (folder, version, &quota, &period))
    return;
  quota = quota / period + (quota % period != 0);
  if (quota < MAX_CORES && (*least == 0 || quota < *least))
    *least = (guint) quota;
}

void
tps_machine_read (const TpsMachineSource *source, TpsMachine *machine)
{
  *machine = (TpsMachine) { .n_processors = source->n_processors, .n_allowed = source->n_allowed };
  visit_control_groups (source->root, "cpu", apply_quota, &machine->n_quota);
  machine->n_cores = machine->n_allowed;
  if (machine->n_quota > 0)
    machine->n_cores = MIN (machine->n_cores, machine->n_quota);
  machine->fetches_pairs = is_vendor (source->root, PAIRS_VENDOR);
}

/* ---- this machine ---------------------------------------------------------------------------- */

/* Returns the number of processors on which a thread may run; 0 = this thread. sched_getaffinity()
 * fails if the machine has more processors than the set can hold. */
static guint
count_allowed (pid_t thread)
{
  cpu_set_t allowed;

  if (sched_getaffinity (thread, sizeof allowed, &allowed) == 0)
    return (guint) CPU_COUNT (&allowed);
  return g_get_num_processors ();
}

const TpsMachine *
tps_machine_get (void)
{
  static TpsMachine *found;
  TpsMachine *machine = __atomic_load_n (&found, __ATOMIC_ACQUIRE);
  TpsMachine *none = NULL;
  TpsMachineSource source = { .root = "" };

  if (machine != NULL)
    return machine;
  machine = g_new (TpsMachine, 1);
  source.n_allowed = count_allowed (getpid ()); /* of the main thread */
  source.n_processors = (guint) MAX (sysconf (_SC_NPROCESSORS_ONLN), 1);
  tps_machine_read (&source, machine);
  if (__atomic_compare_exchange_n (&found, &none, machine, FALSE, __ATOMIC_ACQ_REL,
                                   __ATOMIC_ACQUIRE))
    return machine;
  g_free (machine); /* another thread was first */
  return none;
}

guint
tps_cores_count (void)
{
  guint n_allowed = count_allowed (0);
  guint n_quota = tps_machine_get ()->n_quota;

  return n_quota > 0 ? MIN (n_allowed, n_quota) : n_allowed;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Lowers `*user_data` to the limit of a group. Without a limit, version 2 has the word "max", which
 * is not a number and is ignored. Version 1 has a number near 2^63. */
static void
apply_limit (const gchar *folder, guint version, gpointer user_data)
{
  g_autofree gchar *text = read_text (folder,
                                      version == 2 ? "memory.max" : "memory.limit_in_bytes");
  gsize *least = user_data;
  guint64 n_bytes;

  if (text != NULL && g_ascii_string_to_unsigned (text, 10, 1, G_MAXSIZE, &n_bytes, NULL))
    *least = MIN (*least, (gsize) n_bytes);
}

gsize
tps_host_memory_get_group_limit (const gchar *root)
{
  gsize least = G_MAXSIZE;

  visit_control_groups (root, "memory", apply_limit, &least);
  return least;
}

gsize
tps_host_memory_get_total (void)
{
  gsize total = (gsize) sysconf (_SC_PHYS_PAGES) * (gsize) sysconf (_SC_PAGESIZE);

  return MIN (total, tps_host_memory_get_group_limit (""));
}
