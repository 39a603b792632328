/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/service/durability_service.h"

#include "plugin/service/methods.h"
#include "plugin/wire/wire_durability.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

#define MAX_WAIT_MS (300 * 1000)

/* A server that serves one connection at a time must not wait for its disk. */
static gboolean
may_wait (TpsCall *call, GError **error)
{
  if (tps_call_may_wait (call))
    return TRUE;
  return tps_fail (error, TPS_ERROR_UNAVAILABLE,
                   "this server cannot wait for its disk: it serves one connection at a time");
}

static void
answer_flush (gpointer user_data, gint64 lsn, const GError *error)
{
  TpsCall *call = user_data;

  if (error != NULL)
    tps_call_reply_error (call, error);
  else
    tps_call_reply_value (call, &lsn);
}

static void
handle_flush (TpsCall *call, gpointer durable)
{
  g_autoptr (GError) error = NULL;

  if (may_wait (call, &error) && tps_durable_check (durable, &error))
    tps_durable_flush (durable, answer_flush, call);
  else
    tps_call_reply_error (call, error);
}

static void
answer_snapshot (gpointer user_data, const TpsSnapshotInfo *info, const GError *error)
{
  TpsCall *call = user_data;

  if (info == NULL)
    tps_call_reply_error (call, error);
  else
    {
      TpsWireSnapshotInfo value = {
        .name = (gchar *) (gsize) info->name,
        .lsn = info->lsn,
        .end_lsn = info->end_lsn,
      };

      if (tps_call_may_see_table (call, NULL, TPS_RIGHT_ADMIN))
        {
          value.n_tables = (gint32) info->n_tables;
          value.has_model = info->has_model;
          value.n_bytes = (gint64) info->n_bytes;
          value.n_increments = (gint32) info->n_increments;
        }
      tps_call_reply_value (call, &value);
    }
}

static void
handle_snapshot (TpsCall *call, gpointer durable)
{
  gboolean is_incremental = FALSE;
  g_autoptr (GError) error = NULL;

  if (may_wait (call, &error) && tps_call_read_arguments (call, &is_incremental, &error))
    tps_durable_snapshot (durable, is_incremental, answer_snapshot, call);
  else
    tps_call_reply_error (call, error);
}

/* ---- tables from files ----------------------------------------------------------------------- */

/* A call of restore or import_table, with its arguments, which must live until the reply. */
typedef struct
{
  TpsCall *call;
  TpsTableSource source;
  TpsRestoreArguments restore;
  TpsImportTableArguments import;
} Reading;

static void
answer_reading (gpointer user_data, const TpsSnapshotInfo *info, const GError *error)
{
  Reading *reading = user_data;

  answer_snapshot (reading->call, info, error);
  tps_restore_arguments_clear (&reading->restore);
  tps_import_table_arguments_clear (&reading->import);
  g_free (reading);
}

static void
set_paths (TpsTableSource *source, gchar **paths)
{
  source->paths = (const gchar *const *) paths;
  source->n_paths = paths != NULL ? g_strv_length (paths) : 0;
}

/* Reads the arguments into `arguments`, which must be the member of `reading` for the method of the
 * call. Returns FALSE if the call has been refused and `reading` has been freed. */
static gboolean
begin_reading (Reading *reading, TpsCall *call, gpointer arguments)
{
  g_autoptr (GError) error = NULL;

  reading->call = call;
  if (may_wait (call, &error) && tps_call_read_arguments (call, arguments, &error))
    return TRUE;
  answer_reading (reading, NULL, error);
  return FALSE;
}

/* Checks the rights to all tables of the call. A call without table names concerns all tables of
 * the snapshot. */
static gboolean
check_tables (TpsCall *call, const TpsTableSource *source, GError **error)
{
  if (source->n_specs == 0)
    return tps_call_check_table (call, NULL, TPS_RIGHT_ADMIN, error);
  for (guint i = 0; i < source->n_specs; i++)
    if (!tps_call_check_table (call, source->specs[i].name, TPS_RIGHT_ADMIN, error))
      return FALSE;
  return TRUE;
}

/* Checks the rights and begins the restoration. Called when the names of the tables are known. */
static void
go_on_reading (Reading *reading, TpsDurable *durable)
{
  g_autoptr (GError) error = NULL;

  reading->source.tenant = tps_call_get_tenant_name (reading->call);
  if (check_tables (reading->call, &reading->source, &error))
    tps_durable_restore (durable, &reading->source, answer_reading, reading);
  else
    answer_reading (reading, NULL, error);
}

static void
handle_restore (TpsCall *call, gpointer durable)
{
  Reading *reading = g_new0 (Reading, 1);
  TpsRestoreArguments *arguments = &reading->restore;
  TpsTableSource *source = &reading->source;

  if (!begin_reading (reading, call, arguments))
    return;
  set_paths (source, arguments->snapshots);
  source->are_snapshots = TRUE;
  source->n_specs = arguments->tables.n_specs;
  source->specs = arguments->tables.specs;
  go_on_reading (reading, durable);
}

static void
handle_import_table (TpsCall *call, gpointer durable)
{
  Reading *reading = g_new0 (Reading, 1);
  TpsImportTableArguments *arguments = &reading->import;
  TpsTableSource *source = &reading->source;

  if (!begin_reading (reading, call, arguments))
    return;
  set_paths (source, arguments->files);
  source->specs = &arguments->spec;
  source->n_specs = 1;
  if (arguments->tensor != NULL && arguments->tensor[0] != '\0')
    source->tensor = arguments->tensor;
  go_on_reading (reading, durable);
}

/* ---- followers ------------------------------------------------------------------------------- */

typedef struct
{
  TpsCall *call;
  const gchar *log; /* borrowed */
} ReadLog;

static gpointer
ref_records (gpointer records)
{
  return g_bytes_ref (records);
}

static void
unref_records (gpointer records)
{
  g_bytes_unref (records);
}

static void
unref_buffer (gpointer buffer)
{
  tps_buffer_unref (buffer);
}

static void
answer_read_log (gpointer user_data, const TpsLogBatch *batch, const GError *error)
{
  g_autofree ReadLog *read = user_data;
  g_autoptr (GBytes) records = NULL;

  if (error != NULL)
    {
      tps_call_reply_error (read->call, error);
      return;
    }
  /* Without a copy: the result holds a reference to the buffer. */
  records = batch->buffer == NULL
                ? g_bytes_new_static ("", 0)
                : g_bytes_new_with_free_func (tps_buffer_get_data (batch->buffer) + batch->offset,
                                              batch->n_bytes, unref_buffer,
                                              tps_buffer_ref (batch->buffer));
  tps_call_reply_value_of (read->call,
                           &(TpsWireLogBatch) { .log = (gchar *) (gsize) read->log,
                                                .records = records,
                                                .next_lsn = batch->next_lsn,
                                                .durable_lsn = batch->durable_lsn,
                                                .oldest_lsn = batch->oldest_lsn },
                           &(TpsLender) { records, ref_records, unref_records });
}

static gboolean
is_connected (gpointer read)
{
  return tps_call_is_connected (((const ReadLog *) read)->call);
}

static void
handle_read_log (TpsCall *call, gpointer durable)
{
  TpsReadLogArguments arguments = { 0 };
  g_autoptr (GError) error = NULL;
  ReadLog *read;

  if (!may_wait (call, &error) || !tps_call_read_arguments (call, &arguments, &error)
      || !tps_call_check_table (call, NULL, TPS_RIGHT_READ, &error)) /* records of all tables */
    {
      tps_call_reply_error (call, error);
      return;
    }
  read = g_new (ReadLog, 1);
  *read = (ReadLog) { call, tps_durable_get_log_id (durable) };
  tps_call_enter_phase (call, TPS_PHASE_WAIT);
  tps_durable_read_log (
      durable, &(TpsLogFeedRequest) {
                   .lsn = arguments.cursor,
                   .max_bytes = (gsize) arguments.max_bytes,
                   .deadline_ns = tps_clock_now_ns ()
                                  + (gint64) MIN (arguments.wait_ms, MAX_WAIT_MS) * 1000000,
                   .owner = tps_call_get_connection (call),
                   .is_connected = is_connected,
                   .done = answer_read_log,
                   .user_data = read,
               });
}

static void
connection_closed (gpointer durable, gconstpointer connection)
{
  tps_durable_drop_follower (durable, connection);
}

static void
shut_down (gpointer durable)
{
  tps_durable_drop_followers (durable);
}

/* ---- table of methods ------------------------------------------------------------------------ */

static const TpsMethod methods[] = { TPS_DURABILITY_METHODS (handle_), { 0 } };

TpsService
tps_durability_service (TpsDurable *durable)
{
  return (TpsService) { .name = "Durability",
                        .methods = methods,
                        .object = durable,
                        .shut_down = shut_down,
                        .connection_closed = connection_closed };
}
