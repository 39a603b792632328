/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The tool for the log of a server that is not running: verify, dump, truncate.
 *
 * Exit codes: 0 done; 1 the log is damaged or cannot be read; 2 the arguments are invalid.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/error.h"
#include "runtime/base/options.h"
#include "runtime/base/sync.h"
#include "runtime/server/durable/data_folder.h"
#include "runtime/server/log/log_check.h"
#include "runtime/server/log/log_format.h"

#define PROGRESS_NS ((gint64) 1000 * 1000 * 1000) /* between two lines of progress */

typedef struct
{
  gint64 from, to; /* dump */
  gint64 last_lsn; /* truncate */
  gboolean force;  /* truncate */
  gboolean no_progress;
  gboolean help;
} Flags;

static const TpsOption options[] = {
  { "from", TPS_OPTION_INT, offsetof (Flags, from), "LSN", "1", .min = 1,
    .help = "dump: the first record to show" },
  { "to", TPS_OPTION_INT, offsetof (Flags, to), "LSN", NULL, "the last one", .min = 0,
    .help = "dump: the last record to show" },
  { "last-lsn", TPS_OPTION_INT, offsetof (Flags, last_lsn), "LSN", "-1", "none", .min = -1,
    .help = "truncate: the LSN of the last record to keep; 0 removes all records" },
  { "force", TPS_OPTION_FLAG, offsetof (Flags, force),
    .help = "truncate: remove the records; without it, the program only reports its plan" },
  { "no-progress", TPS_OPTION_FLAG, offsetof (Flags, no_progress),
    .help = "Print no lines of progress on stderr" },
  { "help", TPS_OPTION_FLAG, offsetof (Flags, help), .help = "Print this help and exit" },
  { NULL },
};

typedef struct
{
  Flags flags;
  const gchar *command;
  gchar *folder;
  gint64 shown_ns; /* time of the last line of progress */
} Program;

static gint
fail (gint status, const gchar *text)
{
  fprintf (stderr, "thriftps_log: %s\n", text);
  return status;
}

/* ---- progress -------------------------------------------------------------------------------- */

static void
show_progress (Program *program, const TpsLogReport *report)
{
  gint64 now_ns = tps_clock_now_ns ();

  if (program->flags.no_progress || now_ns < program->shown_ns + PROGRESS_NS)
    return;
  program->shown_ns = now_ns;
  fprintf (stderr, "%s: LSN %" G_GINT64_FORMAT ", %" G_GINT64_FORMAT " MiB read\n",
           program->command, report->last_lsn, report->n_bytes >> 20);
}

static gint
end_check (const TpsLogReport *report, gboolean is_whole, const GError *error)
{
  g_autofree gchar *text = NULL;

  fflush (stdout);
  if (is_whole)
    return 0;
  text = report->last_lsn != 0 && error->code != TPS_ERROR_INVALID_ARGUMENT
             ? g_strdup_printf ("%s; records are intact up to LSN %" G_GINT64_FORMAT
                                ": restore a copy of the directory, or keep only these records "
                                "with truncate --last-lsn",
                                error->message, report->last_lsn)
             : g_strdup (error->message);
  return fail (1, text);
}

/* ---- verify ---------------------------------------------------------------------------------- */

static gboolean
visit_verified (gpointer user_data, const TpsLogRecord *record, const TpsLogReport *report)
{
  show_progress (user_data, report);
  return TRUE;
}

static gint
verify (Program *program, TpsDisk *disk)
{
  g_auto (TpsLogReport) report = { 0 };
  g_autoptr (GError) error = NULL;
  gboolean is_whole = tps_log_check (disk, program->folder, visit_verified, program, &report,
                                     &error);

  if (is_whole)
    {
      if (report.first_lsn == 0)
        printf ("no records\n");
      else
        printf ("LSN %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT ": intact, %" G_GINT64_FORMAT
                " bytes, epoch %u\n",
                report.first_lsn, report.last_lsn, report.n_bytes, report.moment.epoch);
      if (report.torn_position != NULL)
        printf ("%s: %" G_GINT64_FORMAT
                " bytes of a torn tail, which were never acknowledged; the server "
                "removes them when it next starts\n",
                report.torn_position, report.n_torn_bytes);
    }
  return end_check (&report, is_whole, error);
}

/* ---- dump ------------------------------------------------------------------------------------ */

static void
print_shape (const gchar *name, TpsTensorView view)
{
  g_autofree gchar *text = tps_shape_to_string (&view.shape);

  printf (" %s=%s", name, text);
}

static void
print_details (const TpsCommand *command)
{
  switch (command->kind)
    {
    case TPS_COMMAND_CREATE_TABLE:
      printf (" table=%s rows=%" G_GINT64_FORMAT " dim=%d", command->create->name,
              command->create->shard.n_rows, command->create->dim);
      break;
    case TPS_COMMAND_DROP_TABLE:
      printf (" table=%s", command->drop);
      break;
    case TPS_COMMAND_APPLY_ROWS:
    case TPS_COMMAND_ASSIGN_ROWS:
      print_shape ("values", command->rows.values);
      break;
    case TPS_COMMAND_APPLY_BAGS:
      for (guint i = 0; i < command->bags.n_gradients; i++)
        print_shape ("gradient", command->bags.gradients[i].gradient);
      break;
    case TPS_COMMAND_INIT_MODEL:
      printf (" parameters=%u", command->model.n_parameters);
      break;
    case TPS_COMMAND_UPDATE_MODEL:
      printf (" contributions=%u pushes=%u", command->update.n_contributions,
              command->update.n_ids);
      break;
    case TPS_COMMAND_RESET_MODEL:
      break;
    }
}

static void
print_record (const TpsLogRecord *record)
{
  const TpsCommand *command = record->command;

  printf ("%" G_GINT64_FORMAT " %s %" G_GSIZE_FORMAT " epoch=%u time_ms=%" G_GINT64_FORMAT,
          record->lsn, command != NULL ? tps_command_kind_name (command->kind) : "hole",
          record->n_bytes, record->moment.epoch, record->moment.time_ms);
  if (command != NULL)
    {
      if (command->id.client != NULL)
        printf (" push=%s/%" G_GINT64_FORMAT, command->id.client, command->id.sequence);
      for (guint i = 0; i < command->n_tables; i++)
        printf (" table=%s@%" G_GINT64_FORMAT "%s", command->tables[i].name,
                command->tables[i].incarnation, command->tables[i].is_skipped ? ",skipped" : "");
      print_details (command);
      if (command->has_failed)
        printf (" failed");
    }
  putchar ('\n');
}

static gboolean
visit_dumped (gpointer user_data, const TpsLogRecord *record, const TpsLogReport *report)
{
  Program *program = user_data;
  gint64 to = program->flags.to;

  show_progress (program, report);
  if (record->lsn >= program->flags.from && (to == 0 || record->lsn <= to))
    print_record (record);
  return (to == 0 || record->lsn < to) && ferror (stdout) == 0;
}

static gint
dump (Program *program, TpsDisk *disk)
{
  g_auto (TpsLogReport) report = { 0 };
  g_autoptr (GError) error = NULL;
  gboolean is_whole = tps_log_check (disk, program->folder, visit_dumped, program, &report, &error);

  return end_check (&report, is_whole, error);
}

/* ---- truncate -------------------------------------------------------------------------------- */

/* Removes the records. If the log is in a data directory, the directory must not require them any
 * more, unless they could not be removed. */
static gboolean
remove_records (const Program *program, TpsDisk *disk, gint64 last_lsn, GError **error)
{
  g_autofree gchar *path = g_canonicalize_filename (program->folder, NULL);
  g_autofree gchar *above = g_path_get_dirname (path);
  g_autofree gchar *format = g_build_filename (above, TPS_DATA_FOLDER_FORMAT, NULL);
  g_autoptr (TpsDataFolder) data = NULL;
  gint64 needed_lsn = 0;

  if (access (format, F_OK) == 0)
    {
      data = tps_data_folder_open (disk, above, error);
      if (data == NULL)
        return FALSE;
      needed_lsn = data->lsn;
      if (!tps_data_folder_lower (data, last_lsn, error))
        return FALSE;
    }
  if (tps_log_truncate (disk, program->folder, last_lsn, error))
    return TRUE;
  if (data != NULL)
    tps_data_folder_raise (data, needed_lsn, 0, NULL); /* a failure is traced */
  return FALSE;
}

static gint
truncate_log (Program *program, TpsDisk *disk)
{
  gint64 last_lsn = program->flags.last_lsn;
  g_autoptr (GError) error = NULL;

  if (last_lsn < 0)
    return fail (2, "truncate: --last-lsn is missing; it is the LSN of the last record to keep");
  if (!program->flags.force)
    {
      printf ("%s: all records after LSN %" G_GINT64_FORMAT
              " would be removed; add --force to remove them\n",
              program->folder, last_lsn);
      return 0;
    }
  if (!remove_records (program, disk, last_lsn, &error))
    return fail (1, error->message);
  printf ("%s: the log ends with LSN %" G_GINT64_FORMAT "\n", program->folder, last_lsn);
  return 0;
}

/* ---- arguments ------------------------------------------------------------------------------- */

static const struct
{
  const gchar *name;
  gint (*run) (Program *program, TpsDisk *disk);
} commands[] = {
  { "verify", verify },
  { "dump", dump },
  { "truncate", truncate_log },
};

static void
print_help (void)
{
  g_autofree gchar *text = tps_options_to_help (options);

  printf (
      "Usage: thriftps_log COMMAND DIR [OPTION]...\n"
      "Works on the log of a server that is not running. DIR is the data directory, or the folder "
      "of the log.\n\n"
      "  verify    Read all records and check them\n"
      "  dump      Print a line for each record: LSN, kind, bytes, epoch, time, contents\n"
      "  truncate  Remove the records after --last-lsn, even if they are damaged\n\n%s\n"
      "Exit status: 0 on success (even if the last write to the log was incomplete), 1 if the log "
      "is\ndamaged or cannot be read, 2 for bad arguments.\n",
      text);
}

/* Returns the folder of the log: `path`, or its folder "log" if `path` is a data directory. The
 * caller owns the result. */
static gchar *
find_folder (const gchar *path)
{
  g_autofree gchar *marker = g_build_filename (path, TPS_LOG_MARKER, NULL);
  g_autofree gchar *inner = g_build_filename (path, "log", TPS_LOG_MARKER, NULL);

  if (access (marker, F_OK) != 0 && access (inner, F_OK) == 0)
    return g_build_filename (path, "log", NULL);
  return g_strdup (path);
}

static gint
run (Program *program)
{
  for (guint i = 0; i < G_N_ELEMENTS (commands); i++)
    if (strcmp (program->command, commands[i].name) == 0)
      {
        g_autoptr (TpsDisk) disk = tps_disk_new_posix ();
        gint status = commands[i].run (program, disk);

        return fflush (stdout) == 0 ? status : fail (1, "standard output cannot be written");
      }
  return fail (2, "expected a command: verify, dump or truncate; see --help");
}

int
main (int argc, char **argv)
{
  Program program = { .shown_ns = tps_clock_now_ns () };
  g_autoptr (TpsArguments) arguments = tps_arguments_new (options);
  g_autoptr (GError) error = NULL;
  gint n_named = 0; /* the command and the folder */
  gint status;

  while (n_named < 2 && n_named + 1 < argc && argv[n_named + 1][0] != '-')
    n_named++;
  program.command = n_named > 0 ? argv[1] : "";
  program.folder = n_named > 1 ? find_folder (argv[2]) : NULL;
  argv[n_named] = argv[0]; /* the parser skips the name of the program */
  if (!tps_arguments_add_line (arguments, (const gchar *const *) argv + n_named, &error)
      || !tps_arguments_apply (arguments, &program.flags, &error))
    status = fail (2, error->message);
  else if (program.flags.help)
    {
      print_help ();
      status = 0;
    }
  else if (program.folder == NULL)
    status = fail (2, "expected a command and a folder: thriftps_log verify DIR; see --help");
  else
    status = run (&program);
  g_free (program.folder);
  return status;
}
