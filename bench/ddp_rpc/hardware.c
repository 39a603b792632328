/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/ddp_rpc/hardware.h"

#include <string.h>

/* The PCI classes of computing devices: VGA, 3D and other display controllers, and processing
 * accelerators. */
static const gchar *const gpu_classes[] = { "0x0300", "0x0302", "0x0380", "0x1200" };

/* Returns the contents of a file without leading and trailing white space; NULL on failure. The
 * caller owns the result. */
static gchar *
read_text (const gchar *folder, const gchar *name)
{
  g_autofree gchar *path = g_build_filename (folder, name, NULL);
  gchar *text;

  if (!g_file_get_contents (path, &text, NULL, NULL))
    return NULL;
  return g_strstrip (text);
}

/* Returns the value of the first line "key : value" whose key begins with `key`; NULL if there is
 * none. The caller owns the result. */
static gchar *
find_value (const gchar *text, const gchar *key)
{
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);

  for (gchar **line = lines; *line != NULL; line++)
    {
      gchar *colon = strchr (*line, ':');

      if (colon != NULL && g_str_has_prefix (*line, key))
        return g_strdup (g_strstrip (colon + 1));
    }
  return NULL;
}

static guint
count_lines (const gchar *text, const gchar *start)
{
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  guint n = 0;

  for (gchar **line = lines; *line != NULL; line++)
    n += g_str_has_prefix (*line, start);
  return n;
}

static void
append_cpu (GString *text, const gchar *root)
{
  g_autofree gchar *info = read_text (root, "proc/cpuinfo");
  g_autofree gchar *model = info != NULL ? find_value (info, "model name") : NULL;
  g_autofree gchar *cores = info != NULL ? find_value (info, "cpu cores") : NULL;

  g_string_append_printf (text, "* CPU: %s, %u processors", model != NULL ? model : "unknown",
                          info != NULL ? count_lines (info, "processor") : 0);
  if (cores != NULL)
    g_string_append_printf (text, ", %s cores a socket", cores);
  g_string_append_c (text, '\n');
}

static gint
compare_names (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const gchar *const *) a, *(const gchar *const *) b);
}

/* Returns the names of the entries in alphabetical order. The caller owns the result. */
static GPtrArray *
list_folder (const gchar *path)
{
  GPtrArray *names = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GDir) dir = g_dir_open (path, 0, NULL);
  const gchar *name;

  while (dir != NULL && (name = g_dir_read_name (dir)) != NULL)
    g_ptr_array_add (names, g_strdup (name));
  g_ptr_array_sort (names, compare_names);
  return names;
}

static void
append_numa_nodes (GString *text, const gchar *root)
{
  g_autofree gchar *folder = g_build_filename (root, "sys/devices/system/node", NULL);
  g_autoptr (GPtrArray) names = list_folder (folder);

  for (guint i = 0; i < names->len; i++)
    {
      const gchar *name = names->pdata[i];
      g_autofree gchar *node = g_build_filename (folder, name, NULL);
      g_autofree gchar *cpus = read_text (node, "cpulist");
      g_autofree gchar *distances = read_text (node, "distance");

      if (g_str_has_prefix (name, "node") && cpus != NULL)
        g_string_append_printf (text, "* NUMA node %s: CPUs %s, distances %s\n", name + 4, cpus,
                                distances != NULL ? distances : "unknown");
    }
}

static gboolean
is_gpu (const gchar *device)
{
  g_autofree gchar *class = read_text (device, "class");

  for (guint i = 0; class != NULL && i < G_N_ELEMENTS (gpu_classes); i++)
    if (g_str_has_prefix (class, gpu_classes[i]))
      return TRUE;
  return FALSE;
}

static void
append_gpu (GString *text, const gchar *root, const gchar *address, const gchar *device)
{
  g_autofree gchar *vendor = read_text (device, "vendor");
  g_autofree gchar *number = read_text (device, "device");
  g_autofree gchar *node = read_text (device, "numa_node");
  g_autofree gchar *driver = g_build_filename (root, "proc/driver/nvidia/gpus", address, NULL);
  g_autofree gchar *info = read_text (driver, "information");
  g_autofree gchar *model = info != NULL ? find_value (info, "Model") : NULL;

  g_string_append_printf (text, "* GPU %s: %s (vendor %s, device %s), NUMA node %s\n", address,
                          model != NULL ? model : "unknown model (no driver)",
                          vendor != NULL ? vendor : "unknown", number != NULL ? number : "unknown",
                          node == NULL || g_str_equal (node, "-1") ? "not said" : node);
}

static void
append_gpus (GString *text, const gchar *root)
{
  g_autofree gchar *folder = g_build_filename (root, "sys/bus/pci/devices", NULL);
  g_autoptr (GPtrArray) addresses = list_folder (folder);
  guint n_gpus = 0;

  for (guint i = 0; i < addresses->len; i++)
    {
      g_autofree gchar *device = g_build_filename (folder, addresses->pdata[i], NULL);

      if (!is_gpu (device))
        continue;
      append_gpu (text, root, addresses->pdata[i], device);
      n_gpus++;
    }
  if (n_gpus == 0)
    g_string_append (text, "* GPUs: none\n");
}

gchar *
tps_hardware_describe (const gchar *root)
{
  GString *text = g_string_new (NULL);

  append_cpu (text, root);
  append_numa_nodes (text, root);
  append_gpus (text, root);
  return g_string_free (text, FALSE);
}

/* Returns the output of nvidia-smi with up to two arguments; NULL if the program is missing or
 * fails. The caller owns the result. */
static gchar *
run_nvidia_smi (const gchar *first, const gchar *second)
{
  /* With a faulty driver, nvidia-smi may never end. */
  const gchar *argv[] = { "timeout", "10", "nvidia-smi", first, second, NULL };
  g_autofree gchar *program = g_find_program_in_path ("nvidia-smi");
  g_autofree gchar *output = NULL;
  gint status;

  if (program == NULL
      || !g_spawn_sync (NULL, (gchar **) (gsize) argv, NULL,
                        G_SPAWN_SEARCH_PATH | G_SPAWN_STDERR_TO_DEV_NULL, NULL, NULL, &output, NULL,
                        &status, NULL)
      || !g_spawn_check_wait_status (status, NULL))
    return NULL;
  return g_steal_pointer (&output);
}

gchar *
tps_hardware_get_gpu_topology (void)
{
  g_autofree gchar *output = run_nvidia_smi ("topo", "-m");

  return output != NULL
             ? g_strdup_printf ("------------ nvidia-smi topo -m -----------\n\n%s\n", output)
             : g_strdup ("");
}

gchar *
tps_hardware_find_cuda_version (const gchar *output)
{
  static const gchar key[] = "CUDA Version:";
  const gchar *found = strstr (output, key);
  const gchar *version;
  gsize n_bytes;

  if (found == NULL)
    return NULL;
  version = found + sizeof key - 1;
  version += strspn (version, " ");
  n_bytes = strspn (version, "0123456789.");
  return n_bytes > 0 ? g_strndup (version, n_bytes) : NULL;
}

gchar *
tps_hardware_get_cuda_version (void)
{
  g_autofree gchar *output = run_nvidia_smi (NULL, NULL);
  gchar *version = output != NULL ? tps_hardware_find_cuda_version (output) : NULL;

  return version != NULL ? version : g_strdup ("none");
}
