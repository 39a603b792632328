/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/trace_json.h"

#include "runtime/base/json_writer.h"

static void
add_time (TpsJsonWriter *json, gint64 time_us)
{
  g_autoptr (GDateTime) time = g_date_time_new_from_unix_utc (time_us / G_USEC_PER_SEC);
  g_autofree gchar *seconds = g_date_time_format (time, "%Y-%m-%dT%H:%M:%S");
  g_autofree gchar *text = g_strdup_printf ("%s.%06dZ", seconds, (gint) (time_us % G_USEC_PER_SEC));

  tps_json_add_text (json, "time", text);
}

/* Adds a member with a text; nothing if the text is NULL. */
static void
add_member (TpsJsonWriter *json, const gchar *key, const gchar *text)
{
  if (text != NULL)
    tps_json_add_text (json, key, text);
}

static void
add_origin (TpsJsonWriter *json, const TpsTraceOrigin *origin)
{
  add_member (json, "process", origin->process);
  if (origin->pid != 0)
    tps_json_add_int (json, "pid", origin->pid);
  add_member (json, "host", origin->host);
  add_member (json, "node", origin->node);
}

static void
add_field (TpsJsonWriter *json, const TpsTraceField *field)
{
  switch (field->kind)
    {
    case TPS_FIELD_TEXT:
      tps_json_add_text (json, field->key, field->value.text);
      break;
    case TPS_FIELD_INT:
      tps_json_add_int (json, field->key, field->value.integer);
      break;
    case TPS_FIELD_UINT:
      tps_json_add_uint (json, field->key, field->value.count);
      break;
    case TPS_FIELD_REAL:
      tps_json_add_double (json, field->key, field->value.real);
      break;
    case TPS_FIELD_BOOL:
      tps_json_add_bool (json, field->key, field->value.flag);
      break;
    }
}

void
tps_trace_append_json (const TpsTraceRecord *record, const TpsTraceOrigin *origin, GString *line)
{
  TpsJsonWriter json = { .text = line };
  /* The area of a record is the folder of its source file. */
  g_autofree gchar *area = record->file != NULL ? g_path_get_dirname (record->file) : NULL;

  tps_json_open (&json, NULL, '{');
  add_time (&json, record->time_us);
  tps_json_add_uint (&json, "sequence", record->sequence);
  add_member (&json, "level", tps_trace_level_name (record->level));
  add_member (&json, "event", record->event);
  add_member (&json, "area", area);
  if (origin != NULL)
    add_origin (&json, origin);
  tps_json_open (&json, "fields", '{');
  for (guint i = 0; i < record->n_fields; i++)
    add_field (&json, &record->fields[i]);
  tps_json_close (&json, '}');
  if (record->n_suppressed > 0)
    tps_json_add_uint (&json, "suppressed", record->n_suppressed);
  tps_json_close (&json, '}');
}
