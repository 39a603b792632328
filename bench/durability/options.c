/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/durability/options.h"

#include <errno.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "bench/report/json_output.h"
#include "runtime/base/error.h"

#define DEFAULT_DISK "/var/tmp"
#define MAX_DEFAULT_BYTES ((gint64) 2 << 30)
#define MIN_BYTES ((gint64) 1 << 20)

/* The disk space of a run besides the table: logs of a fast disk, reserved segments. */
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

/* Returns the memory of the servers with both tables, and of the peers, which copy them. */
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
                                          tps_bench_get_available_bytes (), error);
}

/* -- flags -- */

#define FIELD(name) G_STRUCT_OFFSET (TpsDurabilityOptions, name)

static const TpsFlag flags[] = {
  { "disk", G_OPTION_ARG_FILENAME, FIELD (disk),
    "a folder on the measured disk; all files are removed at the end (" DEFAULT_DISK ")", "DIR",
    .text = DEFAULT_DISK },
  { "rows", G_OPTION_ARG_INT64, FIELD (n_rows), "rows of the table of pushes (1000000)", "N",
    1000000, 1, 1e8 },
  { "dim", G_OPTION_ARG_INT64, FIELD (dim), "floats of a row (64)", "N", 64, 1, 4096 },
  { "ids", G_OPTION_ARG_INT64, FIELD (n_ids), "rows of a push or a lookup (2000)", "N", 2000, 1,
    1000000 },
  { "clients", G_OPTION_ARG_INT, FIELD (n_clients), "clients that push (4)", "N", 4, 1, 64 },
  { "seconds", G_OPTION_ARG_DOUBLE, FIELD (seconds), "length of a run of pushes or lookups (2)",
    "S", 2, TPS_FLAGS_ABOVE_0 },
  { "bytes", G_OPTION_ARG_INT64, FIELD (n_bytes),
    "size of the table of snapshots (2 GiB, or less if it does not fit)", "N", 0, MIN_BYTES,
    (gint64) 1 << 40 },
  { "no-peers", G_OPTION_ARG_NONE, FIELD (no_peers),
    "only ThriftPS, without RocksDB and torch.save" },
  { "only", G_OPTION_ARG_STRING, FIELD (only), "one part: push, snapshot, lookup or restart",
    "PART", .words = "push snapshot lookup restart" },
  { "server-binary", G_OPTION_ARG_FILENAME, FIELD (server_binary),
    "the thriftps_server to measure (ours)", "FILE" },
  { NULL },
};

const TpsCommandLine tps_durability_command_line = {
  "durability",
  "Measures the cost of durability: pushes with and without a log, snapshots, restarts, and\n"
  "lookups during them, compared with the limits of the disk (fio) and with peers.",
  { { flags, 0 }, { tps_run_flags, FIELD (run) } },
};

gboolean
tps_durability_options_parse (TpsDurabilityOptions *o, gint argc, gchar **argv, GError **error)
{
  if (!tps_command_line_parse (&tps_durability_command_line, o, argc, argv, NULL, error))
    return FALSE;
  tps_flags_default_number (&o->run.repeats, o->run.smoke ? 1 : 5);
  if (o->run.smoke)
    {
      o->n_rows = MIN (o->n_rows, 5000);
      o->n_ids = MIN (o->n_ids, 200);
      o->seconds = MIN (o->seconds, 0.05);
      if (o->n_bytes == 0)
        o->n_bytes = (gint64) 4 << 20;
    }
  return tps_flags_check_number ("rows", o->n_rows, o->n_clients, 1e8, error);
}

void
tps_durability_options_clear (TpsDurabilityOptions *o)
{
  tps_command_line_clear (&tps_durability_command_line, o);
}

gboolean
tps_durability_options_has_part (const TpsDurabilityOptions *o, const gchar *part)
{
  return o->only == NULL || g_str_equal (o->only, part);
}
