/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/machine/machine.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "runtime/machine/control_groups.h"
#include "runtime/machine/cpu_list.h"

#define CPU_FOLDER "/sys/devices/system/cpu"
#define N_LEVELS 3
#define MAX_CACHES 16 /* of one processor */

/* At most this number of processors and the last processor are examined, because each of them takes
 * about 50 us. They are spread over the whole list, because cores of the same kind have consecutive
 * numbers. */
#define MAX_LOOKS 16

/* The vendor in /proc/cpuinfo whose processors fetch both cache lines of an aligned pair together.
 * AMD's processors do so only after accesses with a pattern, so they need a prefetch of each line.
 * On an EPYC, prefetches of all lines were compared with prefetches of every other line, in sums of
 * random rows of a table of 256 MiB (tps_cpu_add_rows()). With prefetches of all lines, the sums
 * took 0.53 times as long for rows of 128 bytes, 0.76 for 256 bytes, 0.95 for 512 bytes, and 0.98
 * for 1 KiB. */
#define PAIRS_VENDOR "GenuineIntel"

#define MIN_LINE_BYTES 32
#define MAX_LINE_BYTES 256
#define USUAL_LINE_BYTES 64

#define ASSUMED_L1_BYTES ((gsize) 32 << 10)
#define ASSUMED_L2_BYTES ((gsize) 1 << 20)

/* The limits of plausible sizes, by level. */
static const struct
{
  gsize min, max;
} limits[N_LEVELS + 1] = {
  [1] = { (gsize) 4 << 10, (gsize) 1 << 20 },
  [2] = { (gsize) 32 << 10, (gsize) 256 << 20 },
  [3] = { (gsize) 256 << 10, (gsize) 64 << 30 },
};

/* One cache as the kernel reports it. */
typedef struct
{
  guint level;
  gsize n_bytes;
  guint n_cores; /* number of cores that share the cache */
} Cache;

/* The smallest shares of a core found so far, by level; 0 = none. `l3` is the cache of the smallest
 * share of the third level. */
typedef struct
{
  gsize shares[N_LEVELS + 1];
  Cache l3;
} Found;

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

/* Parses "48K", "32768K" or "32M", and changes `text`. Returns 0 if the text is not a size. */
static gsize
parse_size (gchar *text)
{
  gsize n = text != NULL ? strlen (text) : 0;
  guint shift = 0;
  guint64 number;

  if (n > 0 && g_ascii_isalpha (text[n - 1]))
    {
      shift = text[n - 1] == 'K' ? 10 : text[n - 1] == 'M' ? 20 : 64;
      text[n - 1] = '\0';
    }
  number = parse_number (text);
  return shift < 64 && number <= (G_MAXSIZE >> shift) ? (gsize) number << shift : 0;
}

/* Returns the length of the list in `file`, or 0 if there is no list. */
static guint
count_listed (const gchar *folder, const gchar *file)
{
  g_autofree gchar *text = read_text (folder, file);
  g_autoptr (GArray) list = text != NULL ? tps_cpu_list_parse (text) : NULL;

  return list != NULL ? list->len : 0;
}

/* ---- caches ---------------------------------------------------------------------------------- */

static gboolean
is_sensible (guint level, gsize n_bytes)
{
  return level >= 1 && level <= N_LEVELS && n_bytes >= limits[level].min
         && n_bytes <= limits[level].max;
}

/* Returns FALSE if `folder` does not describe a data cache of a plausible size. `n_siblings` is the
 * number of processors (hyperthreads) of a core. */
static gboolean
read_cache (const gchar *folder, guint n_siblings, Cache *cache)
{
  g_autofree gchar *level = read_text (folder, "level");
  g_autofree gchar *type = read_text (folder, "type");
  g_autofree gchar *size = read_text (folder, "size");
  guint n_sharing = count_listed (folder, "shared_cpu_list");

  if (type == NULL || (strcmp (type, "Data") != 0 && strcmp (type, "Unified") != 0))
    return FALSE;
  cache->level = (guint) MIN (parse_number (level), N_LEVELS + 1);
  cache->n_bytes = parse_size (size);
  cache->n_cores = MAX (1, (n_sharing + n_siblings - 1) / n_siblings);
  return is_sensible (cache->level, cache->n_bytes);
}

static void
add_cache (Found *found, const Cache *cache)
{
  gsize *share = &found->shares[cache->level];
  gsize n_bytes = cache->n_bytes / cache->n_cores;

  if (*share != 0 && *share <= n_bytes)
    return;
  *share = n_bytes;
  if (cache->level == 3)
    found->l3 = *cache;
}

static void
look_at_processor (const gchar *root, guint number, Found *found)
{
  g_autofree gchar *folder = g_strdup_printf ("%s" CPU_FOLDER "/cpu%u", root, number);
  guint n_siblings = MAX (1, count_listed (folder, "topology/thread_siblings_list"));

  for (guint i = 0; i < MAX_CACHES; i++)
    {
      g_autofree gchar *cache_folder = g_strdup_printf ("%s/cache/index%u", folder, i);
      Cache cache;

      if (read_cache (cache_folder, n_siblings, &cache))
        add_cache (found, &cache);
    }
}

static void
look_at_processors (const gchar *root, const GArray *online, Found *found)
{
  guint step = (online->len + MAX_LOOKS - 1) / MAX_LOOKS;

  for (guint i = 0; i < online->len; i += step)
    look_at_processor (root, g_array_index (online, guint, i), found);
  look_at_processor (root, g_array_index (online, guint, online->len - 1), found);
}

/* Asks the C library, which knows the sizes of caches but not the numbers of cores that share them.
 * All processors are assumed to share the third level. */
static void
ask_library (const TpsMachineSource *source, guint n_processors, Found *found)
{
  for (guint level = 1; level <= N_LEVELS; level++)
    {
      Cache cache = { .level = level, .n_bytes = source->get_cache_bytes (level), .n_cores = 1 };

      if (level == 3)
        cache.n_cores = n_processors;
      if (is_sensible (level, cache.n_bytes))
        add_cache (found, &cache);
    }
}

/* Returns TRUE if the first two levels are known. Many processors have no third level. */
static gboolean
is_complete (const Found *found)
{
  return found->shares[1] != 0 && found->shares[2] != 0;
}

static void
take_caches (const Found *found, TpsCacheOrigin origin, TpsMachine *machine)
{
  machine->origin = origin;
  machine->l1_bytes = found->shares[1] != 0 ? found->shares[1] : ASSUMED_L1_BYTES;
  machine->l2_bytes = found->shares[2] != 0 ? found->shares[2] : ASSUMED_L2_BYTES;
  machine->l3_bytes = MIN (found->shares[3], TPS_MACHINE_MAX_L3_PER_CORE);
  machine->l3_reported = found->l3.n_bytes;
  machine->l3_cores = found->l3.n_cores;
}

static void
find_caches (const TpsMachineSource *source, const GArray *online, TpsMachine *machine)
{
  Found by_kernel = { 0 };
  Found by_library = { 0 };

  if (online != NULL)
    look_at_processors (source->root, online, &by_kernel);
  if (is_complete (&by_kernel))
    {
      take_caches (&by_kernel, TPS_CACHES_FROM_KERNEL, machine);
      return;
    }
  ask_library (source, machine->n_processors, &by_library);
  if (is_complete (&by_library))
    take_caches (&by_library, TPS_CACHES_FROM_LIBRARY, machine);
  else
    take_caches (&(Found) { 0 }, TPS_CACHES_ASSUMED, machine);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static gsize
find_line_bytes (const gchar *root)
{
  g_autofree gchar *folder = g_strconcat (root, CPU_FOLDER "/cpu0/cache/index0", NULL);
  g_autofree gchar *text = read_text (folder, "coherency_line_size");
  guint64 n_bytes = parse_number (text);
  gboolean is_power_of_two = (n_bytes & (n_bytes - 1)) == 0;

  return is_power_of_two && n_bytes >= MIN_LINE_BYTES && n_bytes <= MAX_LINE_BYTES
             ? (gsize) n_bytes
             : USUAL_LINE_BYTES;
}

/* Returns TRUE if the first vendor_id line names `vendor`. Other architectures have no such
 * line. */
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
  if (quota < TPS_CPU_LIST_LIMIT && (*least == 0 || quota < *least))
    *least = (guint) quota;
}

void
tps_machine_read (const TpsMachineSource *source, TpsMachine *machine)
{
  g_autofree gchar *folder = g_strconcat (source->root, CPU_FOLDER, NULL);
  g_autofree gchar *text = read_text (folder, "online");
  g_autoptr (GArray) online = text != NULL ? tps_cpu_list_parse (text) : NULL;

  *machine = (TpsMachine) { .n_allowed = source->n_allowed };
  machine->n_processors = online != NULL ? online->len : source->n_allowed;
  tps_control_groups_visit (source->root, "cpu", apply_quota, &machine->n_quota);
  machine->n_cores = machine->n_allowed;
  if (machine->n_quota > 0)
    machine->n_cores = MIN (machine->n_cores, machine->n_quota);
  find_caches (source, online, machine);
  machine->line_bytes = find_line_bytes (source->root);
  machine->fetches_pairs = is_vendor (source->root, PAIRS_VENDOR);
}

/* ---- this machine ---------------------------------------------------------------------------- */

static gsize
ask_sysconf (guint level)
{
  static const gint names[N_LEVELS + 1] = {
    [1] = _SC_LEVEL1_DCACHE_SIZE,
    [2] = _SC_LEVEL2_CACHE_SIZE,
    [3] = _SC_LEVEL3_CACHE_SIZE,
  };

  return (gsize) MAX (sysconf (names[level]), 0);
}

/* Returns the number of processors on which the main thread may run: the number of the process is
 * also the number of its main thread. sched_getaffinity() fails if the machine has more processors
 * than the set can hold. */
static guint
count_allowed (void)
{
  cpu_set_t allowed;

  if (sched_getaffinity (getpid (), sizeof allowed, &allowed) == 0)
    return (guint) CPU_COUNT (&allowed);
  return g_get_num_processors ();
}

const TpsMachine *
tps_machine_get (void)
{
  static TpsMachine *found;
  TpsMachine *machine = __atomic_load_n (&found, __ATOMIC_ACQUIRE);
  TpsMachine *none = NULL;
  TpsMachineSource source = { .root = "", .get_cache_bytes = ask_sysconf };

  if (machine != NULL)
    return machine;
  machine = g_new (TpsMachine, 1);
  source.n_allowed = count_allowed ();
  tps_machine_read (&source, machine);
  if (__atomic_compare_exchange_n (&found, &none, machine, FALSE, __ATOMIC_ACQ_REL,
                                   __ATOMIC_ACQUIRE))
    return machine;
  g_free (machine); /* another thread was first */
  return none;
}
