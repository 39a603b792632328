/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/value_kinds.h"

#include <math.h>
#include <string.h>

#define MAX_NAME_BYTES 255

/* ---- numbers -------------------------------------------------------------------------------- */

const TpsLimit tps_limit_not_negative = { 0, ">= 0" };

static gboolean
check_limit (const TpsFieldPath *path, const TpsLimit *limit, gint64 value, GError **error)
{
  return limit == NULL || value >= limit->min
         || tps_field_refuse (path, error, "is %" G_GINT64_FORMAT ", expected %s", value,
                              limit->expected);
}

static gboolean
read_bool (TpsReader *in, const TpsFieldPath *path, const TpsField *field, gpointer object,
           GError **error)
{
  *(gboolean *) TPS_FIELD_VALUE (field, object) = tps_reader_bool (in);
  return TRUE;
}

static void
write_bool (TpsWriter *out, const TpsField *field, gconstpointer object)
{
  tps_writer_bool (out, *(const gboolean *) TPS_FIELD_CONST_VALUE (field, object));
}

static gboolean
read_i32 (TpsReader *in, const TpsFieldPath *path, const TpsField *field, gpointer object,
          GError **error)
{
  gint32 value = tps_reader_i32 (in);

  *(gint32 *) TPS_FIELD_VALUE (field, object) = value;
  return check_limit (path, field->of, value, error);
}

static void
write_i32 (TpsWriter *out, const TpsField *field, gconstpointer object)
{
  tps_writer_i32 (out, *(const gint32 *) TPS_FIELD_CONST_VALUE (field, object));
}

static gboolean
is_i32_set (const TpsField *field, gconstpointer object)
{
  return *(const gint32 *) TPS_FIELD_CONST_VALUE (field, object) != 0;
}

static gboolean
read_i64 (TpsReader *in, const TpsFieldPath *path, const TpsField *field, gpointer object,
          GError **error)
{
  gint64 value = tps_reader_i64 (in);

  *(gint64 *) TPS_FIELD_VALUE (field, object) = value;
  return check_limit (path, field->of, value, error);
}

static void
write_i64 (TpsWriter *out, const TpsField *field, gconstpointer object)
{
  tps_writer_i64 (out, *(const gint64 *) TPS_FIELD_CONST_VALUE (field, object));
}

static gboolean
is_i64_set (const TpsField *field, gconstpointer object)
{
  return *(const gint64 *) TPS_FIELD_CONST_VALUE (field, object) != 0;
}

static gboolean
read_double (TpsReader *in, const TpsFieldPath *path, const TpsField *field, gpointer object,
             GError **error)
{
  *(gdouble *) TPS_FIELD_VALUE (field, object) = tps_reader_double (in);
  return TRUE;
}

static void
write_double (TpsWriter *out, const TpsField *field, gconstpointer object)
{
  tps_writer_double (out, *(const gdouble *) TPS_FIELD_CONST_VALUE (field, object));
}

static gboolean
read_finite (TpsReader *in, const TpsFieldPath *path, const TpsField *field, gpointer object,
             GError **error)
{
  gdouble value = tps_reader_double (in);

  if (!isfinite (value))
    return tps_field_refuse (path, error, "is %g, expected a finite number", value);
  *(gdouble *) TPS_FIELD_VALUE (field, object) = value;
  return TRUE;
}

static gboolean
is_number_set (const TpsField *field, gconstpointer object)
{
  return !isnan (*(const gdouble *) TPS_FIELD_CONST_VALUE (field, object));
}

static void
set_nan (const TpsField *field, gpointer object)
{
  *(gdouble *) TPS_FIELD_VALUE (field, object) = NAN;
}

const TpsValueKind tps_kind_bool = { TPS_WIRE_BOOL, "bool", read_bool, write_bool, is_i32_set };
const TpsValueKind tps_kind_i32 = { TPS_WIRE_I32, "i32", read_i32, write_i32, is_i32_set };
const TpsValueKind tps_kind_i64 = { TPS_WIRE_I64, "i64", read_i64, write_i64, is_i64_set };
const TpsValueKind tps_kind_double = { TPS_WIRE_DOUBLE, "double", read_double, write_double };
const TpsValueKind tps_kind_number = { TPS_WIRE_DOUBLE, "double",      read_double,
                                       write_double,    is_number_set, set_nan };
const TpsValueKind tps_kind_finite = { TPS_WIRE_DOUBLE, "double",      read_finite,
                                       write_double,    is_number_set, set_nan };

/* ---- enums ---------------------------------------------------------------------------------- */

static const TpsEnumValue *
find_value (const TpsEnum *type, gint32 value)
{
  for (const TpsEnumValue *each = type->values; each->name != NULL; each++)
    if (each->value == value)
      return each;
  return NULL;
}

/* If there are two values, the error lists both. */
static gboolean
refuse_value (const TpsFieldPath *path, const TpsEnum *type, gint32 value, GError **error)
{
  const TpsEnumValue *values = type->values;

  if (values[1].name == NULL || values[2].name != NULL)
    return tps_field_refuse (path, error, "is %d, which is not a valid %s", value, type->name);
  return tps_field_refuse (path, error, "is %d, expected %d (%s) or %d (%s)", value,
                           values[0].value, values[0].name, values[1].value, values[1].name);
}

static gboolean
read_enum (TpsReader *in, const TpsFieldPath *path, const TpsField *field, gpointer object,
           GError **error)
{
  gint32 value = tps_reader_i32 (in);

  if (find_value (field->of, value) == NULL)
    return refuse_value (path, field->of, value, error);
  *(gint32 *) TPS_FIELD_VALUE (field, object) = value;
  return TRUE;
}

static gboolean
read_open_enum (TpsReader *in, const TpsFieldPath *path, const TpsField *field, gpointer object,
                GError **error)
{
  *(gint32 *) TPS_FIELD_VALUE (field, object) = tps_reader_i32 (in);
  return TRUE;
}

const TpsValueKind tps_kind_enum = { TPS_WIRE_I32, NULL, read_enum, write_i32, is_i32_set };
const TpsValueKind tps_kind_open_enum = { TPS_WIRE_I32, NULL, read_open_enum, write_i32,
                                          is_i32_set };

/* ---- texts and bytes ------------------------------------------------------------------------ */

static void
set_string (const TpsField *field, gpointer object, TpsBytesView view)
{
  gchar **value = TPS_FIELD_VALUE (field, object);

  g_free (*value);
  *value = g_strndup ((const gchar *) view.data, view.n_bytes);
}

static gboolean
read_string (TpsReader *in, const TpsFieldPath *path, const TpsField *field, gpointer object,
             GError **error)
{
  TpsBytesView view = tps_reader_binary (in);

  if (!g_utf8_validate_len (view.n_bytes > 0 ? (const gchar *) view.data : "", view.n_bytes, NULL))
    return tps_field_refuse (path, error, "is not UTF-8 without NUL");
  set_string (field, object, view);
  return TRUE;
}

static void
write_string (TpsWriter *out, const TpsField *field, gconstpointer object)
{
  tps_writer_string (out, *(const gchar *const *) TPS_FIELD_CONST_VALUE (field, object));
}

static gboolean
is_pointer_set (const TpsField *field, gconstpointer object)
{
  return *(const gconstpointer *) TPS_FIELD_CONST_VALUE (field, object) != NULL;
}

gboolean
tps_name_is_valid (const gchar *name, gsize n_bytes)
{
  for (gsize i = 0; i < n_bytes; i++)
    if (!g_ascii_isalnum (name[i]) && (name[i] == '\0' || strchr ("_.:/-", name[i]) == NULL))
      return FALSE;
  return n_bytes >= 1 && n_bytes <= MAX_NAME_BYTES;
}

static gboolean
read_name (TpsReader *in, const TpsFieldPath *path, const TpsField *field, gpointer object,
           GError **error)
{
  TpsBytesView view = tps_reader_binary (in);

  if (!tps_name_is_valid ((const gchar *) view.data, view.n_bytes))
    return tps_field_refuse (
        path, error, "is not a name: 1 to %d characters of A-Z a-z 0-9 _ . : / -", MAX_NAME_BYTES);
  set_string (field, object, view);
  return TRUE;
}

static gboolean
read_bytes (TpsReader *in, const TpsFieldPath *path, const TpsField *field, gpointer object,
            GError **error)
{
  TpsBytesView view = tps_reader_binary (in);
  GBytes **value = TPS_FIELD_VALUE (field, object);

  g_clear_pointer (value, g_bytes_unref);
  if (view.buffer == NULL)
    *value = g_bytes_new (view.data, view.n_bytes);
  else
    *value = g_bytes_new_with_free_func (view.data, view.n_bytes, (GDestroyNotify) tps_buffer_unref,
                                         tps_buffer_ref (view.buffer));
  return TRUE;
}

static void
write_bytes (TpsWriter *out, const TpsField *field, gconstpointer object)
{
  GBytes *value = *(GBytes *const *) TPS_FIELD_CONST_VALUE (field, object);
  gsize n_bytes;
  gconstpointer bytes = g_bytes_get_data (value, &n_bytes);

  tps_writer_binary_borrowed (out, bytes, n_bytes);
}

static gboolean
read_array (TpsReader *in, const TpsFieldPath *path, const TpsField *field, gpointer object,
            GError **error)
{
  const gsize n_bytes = *(const gsize *) field->of;
  TpsBytesView view = tps_reader_binary (in);

  if (view.n_bytes != n_bytes)
    return tps_field_refuse (path, error,
                             "has %" G_GSIZE_FORMAT " bytes, expected %" G_GSIZE_FORMAT,
                             view.n_bytes, n_bytes);
  memcpy (TPS_FIELD_VALUE (field, object), view.data, n_bytes);
  return TRUE;
}

static void
write_array (TpsWriter *out, const TpsField *field, gconstpointer object)
{
  tps_writer_binary (out, TPS_FIELD_CONST_VALUE (field, object), *(const gsize *) field->of);
}

const TpsValueKind tps_kind_string = { TPS_WIRE_BINARY, "string", read_string, write_string,
                                       is_pointer_set };
const TpsValueKind tps_kind_name = { TPS_WIRE_BINARY, "string", read_name, write_string,
                                     is_pointer_set };
const TpsValueKind tps_kind_bytes = { TPS_WIRE_BINARY, "binary", read_bytes, write_bytes,
                                      is_pointer_set };
const TpsValueKind tps_kind_array = { TPS_WIRE_BINARY, "binary", read_array, write_array };

/* ---- structs -------------------------------------------------------------------------------- */

static gboolean
read_struct (TpsReader *in, const TpsFieldPath *path, const TpsField *field, gpointer object,
             GError **error)
{
  return tps_struct_read (field->of, in, path, TPS_FIELD_VALUE (field, object), error);
}

static void
write_struct (TpsWriter *out, const TpsField *field, gconstpointer object)
{
  tps_struct_write (field->of, out, TPS_FIELD_CONST_VALUE (field, object));
}

static gboolean
is_struct_set (const TpsField *field, gconstpointer object)
{
  const TpsStruct *type = field->of;

  return type->is_set == NULL || type->is_set (TPS_FIELD_CONST_VALUE (field, object));
}

const TpsValueKind tps_kind_struct = { TPS_WIRE_STRUCT, NULL, read_struct, write_struct,
                                       is_struct_set };
