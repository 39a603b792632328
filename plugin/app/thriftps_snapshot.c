/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The tool for snapshots: show, export. The server that wrote the snapshots may be running.
 *
 * Exit codes: 0 done; 1 a snapshot is damaged or missing, or cannot be read or written; 2 the
 * arguments are invalid.
 */

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/error.h"
#include "runtime/base/options.h"
#include "runtime/server/snapshot/snapshot_tables.h"

typedef struct
{
  gboolean help;
} Flags;

static const TpsOption options[] = {
  { "help", TPS_OPTION_FLAG, offsetof (Flags, help), .help = "Print this help and exit" },
  { NULL },
};

static gint
fail (gint status, const gchar *text)
{
  fprintf (stderr, "thriftps_snapshot: %s\n", text);
  return status;
}

/* ---- show ------------------------------------------------------------------------------------ */

static gboolean
show_snapshot (TpsDisk *disk, const gchar *path, GError **error)
{
  TpsSnapshotInfo info;
  g_autofree gchar *folder = tps_snapshot_locate (disk, path, &info, error);
  g_autoptr (TpsSnapshotTables) tables = NULL;

  if (folder == NULL)
    return FALSE;
  tables = tps_snapshot_tables_new (disk, &path, 1, NULL, error);
  if (tables == NULL)
    return FALSE;
  printf ("%s history=%s epoch=%u time_ms=%" G_GINT64_FORMAT " lsn=%" G_GINT64_FORMAT
          " end_lsn=%" G_GINT64_FORMAT " tables=%u increments=%u model=%s bytes=%" G_GUINT64_FORMAT
          "\n",
          folder, info.history, info.moment.epoch, info.moment.time_ms, info.lsn, info.end_lsn,
          info.n_tables, info.n_increments, info.has_model ? "yes" : "no", info.n_bytes);
  for (guint i = 0; i < tps_snapshot_tables_get_n_specs (tables); i++)
    {
      const TpsTableSpec *spec = tps_snapshot_tables_get_spec (tables, i);

      printf ("table %s rows=%" G_GINT64_FORMAT " of %" G_GINT64_FORMAT " dim=%d dtype=%s\n",
              spec->name, spec->shard.n_rows, spec->shard.rows, spec->dim,
              tps_dtype_name (spec->dtype));
    }
  return TRUE;
}

static gboolean
show (TpsDisk *disk, const gchar *const *paths, guint n_paths, GError **error)
{
  for (guint i = 0; i < n_paths; i++)
    if (!show_snapshot (disk, paths[i], error))
      return FALSE;
  return TRUE;
}

/* ---- export ---------------------------------------------------------------------------------- */

static gboolean export(TpsDisk *disk, const gchar *const *paths, guint n_paths, GError **error)
{
  TpsSnapshotInfo info;

  if (!tps_snapshot_export (disk, paths + 1, n_paths - 1, paths[0], &info, error))
    return FALSE;
  printf ("%s/%s tables=%u bytes=%" G_GUINT64_FORMAT "\n", paths[0], info.name, info.n_tables,
          info.n_bytes);
  return TRUE;
}

/* ---- arguments ------------------------------------------------------------------------------- */

static const struct
{
  const gchar *name;
  guint min_paths;
  gboolean (*run) (TpsDisk *disk, const gchar *const *paths, guint n_paths, GError **error);
} commands[] = {
  { "show", 1, show },
  { "export", 2, export },
};

static void
print_help (void)
{
  g_autofree gchar *text = tps_options_to_help (options);

  printf (
      "Usage: thriftps_snapshot COMMAND PATH...\n"
      "Works on snapshots, including those of a running server. PATH is the folder of a snapshot,\n"
      "a folder of snapshots, or a data directory. Of several snapshots, the newest is used.\n\n"
      "  show PATH...       Print the contents of snapshots\n"
      "  export TO PATH...  Write the tables of the snapshots into folder TO: one safetensors\n"
      "                     file for each table, with the rows of all shards in the order of\n"
      "                     their ids\n\n%s\n"
      "Exit status: 0 on success, 1 if a snapshot is damaged or missing, or cannot be read or "
      "written,\n2 for bad arguments.\n",
      text);
}

static gint
run (const gchar *command, const gchar *const *paths, guint n_paths)
{
  g_autoptr (TpsDisk) disk = tps_disk_new_posix ();
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (commands); i++)
    {
      if (strcmp (command, commands[i].name) != 0)
        continue;
      if (n_paths < commands[i].min_paths)
        return fail (2, "a path is missing; see --help");
      if (!commands[i].run (disk, paths, n_paths, &error))
        return fail (1, error->message);
      return fflush (stdout) == 0 ? 0 : fail (1, "standard output cannot be written");
    }
  return fail (2, "expected a command: show or export; see --help");
}

int
main (int argc, char **argv)
{
  g_autoptr (TpsArguments) arguments = tps_arguments_new (options);
  g_autoptr (GError) error = NULL;
  Flags flags = { 0 };
  gint n_named = 0; /* the command and its paths */
  const gchar *const *named = (const gchar *const *) argv + 1;

  signal (SIGXFSZ, SIG_IGN); /* so that a write beyond the limit of a file fails */
  while (n_named + 1 < argc && argv[n_named + 1][0] != '-')
    n_named++;
  if (n_named + 1 < argc
      && (!tps_arguments_add_line (arguments, named + n_named - 1, &error)
          || !tps_arguments_apply (arguments, &flags, &error)))
    return fail (2, error->message);
  if (flags.help)
    {
      print_help ();
      return 0;
    }
  if (n_named == 0)
    return fail (2, "expected a command: show or export; see --help");
  return run (named[0], named + 1, (guint) n_named - 1);
}
