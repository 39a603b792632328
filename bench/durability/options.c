/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/durability/options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "runtime/base/error.h"

#define DEFAULT_DISK "/var/tmp"
#define MAX_DEFAULT_BYTES ((gint64) 2 << 30)
#define MIN_BYTES ((gint64) 1 << 20)

/* The disk space of a run, apart from copies of the table: logs at the speed of a fast disk, and
 * reserved segments. */
#define LOG_BYTES_PER_S 2e9
#define RESERVED_BYTES ((gdouble) (1 << 30))
/* copies of the table: two complete snapshots, one in progress, and fio's file */
#define N_COPIES 4

/* -- disk space and memory -- */

static gdouble
count_disk_bytes (const TpsDurabilityOptions *o, gint64 n_bytes)
{
  /* logs of the current run, and of an earlier run whose files are being removed */
  gdouble log_s = 3 * o->seconds;

  return N_COPIES * (gdouble) n_bytes + log_s * LOG_BYTES_PER_S + RESERVED_BYTES;
}

/* Returns the memory of the servers with both tables, and of the peers, which have copies of the
 * tables. */
static gdouble
count_memory_bytes (const TpsDurabilityOptions *o, gint64 n_bytes)
{
  gdouble pushed = (gdouble) (o->n_rows * o->dim) * sizeof (gfloat);

  return 2 * ((gdouble) n_bytes + pushed) * 1.1 + RESERVED_BYTES / 4;
}

static gdouble
to_gib (gdouble n_bytes)
{
  return n_bytes / (gdouble) (1 << 30);
}

gboolean
tps_durability_options_fit_into (TpsDurabilityOptions *o, guint64 free_bytes, guint64 memory_bytes,
                                 GError **error)
{
  gint64 n_bytes = o->n_bytes > 0 ? o->n_bytes : MAX_DEFAULT_BYTES;
  gdouble disk, memory;

  for (;; n_bytes /= 2)
    {
      disk = count_disk_bytes (o, n_bytes);
      memory = count_memory_bytes (o, n_bytes);
      if (disk <= (gdouble) free_bytes && memory <= (gdouble) memory_bytes)
        {
          o->n_bytes = n_bytes;
          return TRUE;
        }
      if (o->n_bytes > 0 || n_bytes / 2 < MIN_BYTES)
        break;
    }
  if (disk > (gdouble) free_bytes)
    g_set_error (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                 "--disk=%s: %.1f GiB are free, and the run needs about %.1f GiB; choose another "
                 "folder, or smaller --bytes and --seconds",
                 o->disk, to_gib ((gdouble) free_bytes), to_gib (disk));
  else
    g_set_error (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                 "%.1f GiB of memory are available, and the run needs about %.1f GiB; choose "
                 "smaller --bytes or --rows",
                 to_gib ((gdouble) memory_bytes), to_gib (memory));
  return FALSE;
}

static guint64
read_available_memory (void)
{
  g_autofree gchar *text = NULL;
  const gchar *line;
  guint64 n_kib = G_MAXUINT64 / 1024;

  if (g_file_get_contents ("/proc/meminfo", &text, NULL, NULL)
      && (line = strstr (text, "MemAvailable:")) != NULL)
    sscanf (line, "MemAvailable: %" G_GUINT64_FORMAT, &n_kib);
  return n_kib * 1024;
}

gboolean
tps_durability_options_fit (TpsDurabilityOptions *o, GError **error)
{
  struct statvfs room;

  if (statvfs (o->disk, &room) != 0 || access (o->disk, W_OK) != 0)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                   "--disk=%s: cannot write there: %s", o->disk, g_strerror (errno));
      return FALSE;
    }
  return tps_durability_options_fit_into (o, (guint64) room.f_bavail * room.f_frsize,
                                          read_available_memory (), error);
}

/* -- flags -- */

static void
make_small (TpsDurabilityOptions *o)
{
  o->n_rows = MIN (o->n_rows, 5000);
  o->n_ids = MIN (o->n_ids, 200);
  o->seconds = MIN (o->seconds, 0.05);
  if (o->n_bytes == 0)
    o->n_bytes = (gint64) 4 << 20;
}

static gboolean
check (TpsDurabilityOptions *o, GError **error)
{
  static const gchar *const parts[] = { "push", "snapshot", "lookup", "restart", NULL };
  static const gchar *const none[] = { NULL };

  if (o->run.repeats == TPS_FLAGS_NOT_GIVEN)
    o->run.repeats = o->run.smoke ? 1 : 5;
  if (o->run.smoke)
    make_small (o);
  tps_flags_default_to (&o->disk, DEFAULT_DISK);
  tps_flags_resolve_path (&o->disk);
  tps_flags_resolve_path (&o->server_binary);
  return tps_run_flags_finish (&o->run, none, error)
         && (o->only == NULL || tps_flags_check_word ("only", o->only, parts, error))
         && tps_flags_check_number ("rows", o->n_rows, MAX (o->n_clients, 1), 100000000, error)
         && tps_flags_check_number ("dim", o->dim, 1, 4096, error)
         && tps_flags_check_number ("ids", o->n_ids, 1, 1000000, error)
         && tps_flags_check_number ("clients", o->n_clients, 1, 64, error)
         && (o->n_bytes == 0
             || tps_flags_check_number ("bytes", o->n_bytes, MIN_BYTES, (gint64) 1 << 40, error))
         && tps_flags_check_factor ("seconds", o->seconds, FALSE, error);
}

static void
add_entries (GOptionContext *context, TpsDurabilityOptions *o)
{
  const GOptionEntry entries[] = {
    { "disk", 0, 0, G_OPTION_ARG_FILENAME, &o->disk,
      "a folder on the measured disk; all files are removed at the end (" DEFAULT_DISK ")", "DIR" },
    { "rows", 0, 0, G_OPTION_ARG_INT64, &o->n_rows, "rows of the table of pushes (1000000)", "N" },
    { "dim", 0, 0, G_OPTION_ARG_INT64, &o->dim, "floats of a row (64)", "N" },
    { "ids", 0, 0, G_OPTION_ARG_INT64, &o->n_ids, "rows of a push or a lookup (2000)", "N" },
    { "clients", 0, 0, G_OPTION_ARG_INT, &o->n_clients, "clients that push (4)", "N" },
    { "seconds", 0, 0, G_OPTION_ARG_DOUBLE, &o->seconds, "length of a run of pushes or lookups (2)",
      "S" },
    { "bytes", 0, 0, G_OPTION_ARG_INT64, &o->n_bytes,
      "size of the table of snapshots (2 GiB, or less if it does not fit)", "N" },
    { "no-peers", 0, 0, G_OPTION_ARG_NONE, &o->no_peers,
      "only ThriftPS, without RocksDB and torch.save", NULL },
    { "only", 0, 0, G_OPTION_ARG_STRING, &o->only, "one part: push, snapshot, lookup or restart",
      "PART" },
    { "server-binary", 0, 0, G_OPTION_ARG_FILENAME, &o->server_binary,
      "the thriftps_server to measure (ours)", "FILE" },
    { NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL },
  };

  g_option_context_add_main_entries (context, entries, NULL);
}

gboolean
tps_durability_options_parse (TpsDurabilityOptions *o, gint argc, gchar **argv, GError **error)
{
  g_auto (GStrv) given = NULL;
  g_autoptr (GOptionContext) context = g_option_context_new (NULL);

  *o = (TpsDurabilityOptions) {
    .n_rows = 1000000, .dim = 64, .n_ids = 2000, .n_clients = 4, .seconds = 2
  };
  g_option_context_set_summary (
      context,
      "Measures the cost of durability: pushes with and without a log, snapshots, restarts, and\n"
      "lookups during them, compared with the limits of the disk (fio) and with peers.");
  g_option_context_set_description (context, TPS_FLAGS_EXIT_STATUS);
  add_entries (context, o);
  tps_run_flags_add (context, &o->run, NULL);
  return tps_flags_parse (context, argc, argv, &given, error) && check (o, error);
}

void
tps_durability_options_clear (TpsDurabilityOptions *o)
{
  g_free (o->disk);
  g_free (o->only);
  g_free (o->server_binary);
  tps_run_flags_clear (&o->run);
}

GPtrArray *
tps_durability_options_describe (const TpsDurabilityOptions *o)
{
  GPtrArray *described = g_ptr_array_new_with_free_func (g_free);

  tps_flags_add_text (described, "disk", o->disk);
  tps_flags_add_number (described, "rows", (gdouble) o->n_rows);
  tps_flags_add_number (described, "dim", (gdouble) o->dim);
  tps_flags_add_number (described, "ids", (gdouble) o->n_ids);
  tps_flags_add_number (described, "clients", o->n_clients);
  tps_flags_add_number (described, "seconds", o->seconds);
  tps_flags_add_number (described, "bytes", (gdouble) o->n_bytes);
  tps_flags_add_text (described, "only", o->only);
  tps_flags_add_number (described, "repeats", o->run.repeats);
  return described;
}

gboolean
tps_durability_options_has_part (const TpsDurabilityOptions *o, const gchar *part)
{
  return o->only == NULL || g_str_equal (o->only, part);
}
