/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/python/native/json_text.h"

#include <math.h>

#include "plugin/wire/wire_tensor.h"
#include "runtime/base/json_writer.h"

static void add_fields (TpsJsonWriter *json, const TpsStruct *type, gconstpointer object);

static void
add_enum (TpsJsonWriter *json, const gchar *name, const TpsEnum *type, gint32 value)
{
  const TpsEnumValue *each = type->values;

  while (each->name != NULL && each->value != value)
    each++;
  tps_json_add_text (json, name, each->name != NULL ? each->name : "UNKNOWN");
}

static void
add_list (TpsJsonWriter *json, const gchar *name, const TpsList *list, gconstpointer value)
{
  tps_json_open (json, name, '[');
  if (list->form == TPS_LIST_STRV)
    {
      for (gchar *const *each = value; each != NULL && *each != NULL; each++)
        tps_json_add_text (json, NULL, *each);
    }
  else if (list->form == TPS_LIST_PTR_ARRAY && value != NULL)
    {
      const GPtrArray *elems = value;

      for (guint i = 0; i < elems->len; i++)
        {
          tps_json_open (json, NULL, '{');
          add_fields (json, list->elem.of, elems->pdata[i]);
          tps_json_close (json, '}');
        }
    }
  tps_json_close (json, ']');
}

/* Adds the value of a field. Kinds without a form in JSON, such as binaries, are left out. */
static void
add_value (TpsJsonWriter *json, const TpsField *field, const gchar *name, gconstpointer object)
{
  gconstpointer value = TPS_FIELD_CONST_VALUE (field, object);
  const TpsValueKind *kind = field->kind;

  if (kind == &tps_kind_bool)
    tps_json_add_bool (json, name, *(const gboolean *) value);
  else if (kind == &tps_kind_i32)
    tps_json_add_int (json, name, *(const gint32 *) value);
  else if (kind == &tps_kind_i64)
    tps_json_add_int (json, name, *(const gint64 *) value);
  else if (kind->type == TPS_WIRE_DOUBLE && !isnan (*(const gdouble *) value))
    tps_json_add_unbounded (json, name, *(const gdouble *) value);
  else if (kind == &tps_kind_enum || kind == &tps_kind_open_enum)
    add_enum (json, name, field->of, *(const gint32 *) value);
  else if (kind == &tps_kind_string || kind == &tps_kind_name)
    tps_json_add_text (json, name, *(gchar *const *) value);
  else if (kind == &tps_kind_list)
    add_list (json, name, field->of, *(const gconstpointer *) value);
  else if (kind == &tps_kind_struct)
    {
      tps_json_open (json, name, '{');
      add_fields (json, field->of, value);
      tps_json_close (json, '}');
    }
}

static void
add_fields (TpsJsonWriter *json, const TpsStruct *type, gconstpointer object)
{
  for (const TpsField *field = type->fields; field->name != NULL; field++)
    if (field->has == 0 || *(const gboolean *) ((const guint8 *) object + field->has))
      add_value (json, field, field->name, object);
}

GString *
tps_python_to_json (const TpsField *field, gconstpointer value)
{
  TpsJsonWriter json;

  tps_json_writer_init (&json);
  add_value (&json, field, NULL, value);
  return tps_json_writer_take (&json);
}

static void
add_table (TpsJsonWriter *json, const TpsRemoteTable *table)
{
  tps_json_open (json, NULL, '{');
  tps_json_add_text (json, "name", table->name);
  tps_json_add_int (json, "rows", table->rows);
  tps_json_add_int (json, "dim", table->dim);
  tps_json_add_int (json, "dtype", table->dtype);
  tps_json_add_int (json, "rounding", table->rounding);
  tps_json_add_int (json, "bytes", table->bytes);
  tps_json_add_text (json, "device", table->place);
  tps_json_add_int (json, "durability", table->durability);
  tps_json_open (json, "optimizer", '{');
  add_fields (json, &tps_optimizer_struct, &table->optimizer);
  tps_json_close (json, '}');
  tps_json_close (json, '}');
}

GString *
tps_python_tables_to_json (const GPtrArray *tables)
{
  TpsJsonWriter json;

  tps_json_writer_init (&json);
  tps_json_open (&json, NULL, '[');
  for (guint i = 0; i < tables->len; i++)
    add_table (&json, tables->pdata[i]);
  tps_json_close (&json, ']');
  return tps_json_writer_take (&json);
}
