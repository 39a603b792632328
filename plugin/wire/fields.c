/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/fields.h"

#include <math.h>
#include <string.h>

#include "runtime/base/error.h"

#define MAX_NAME_BYTES 255
/* What a struct of a list takes when it is decoded, at most, with a name and without its tensors. */
#define DECODED_STRUCT_BYTES ((gsize) 1024)

const gchar *
tps_wire_type_name (TpsWireType type)
{
  static const gchar *const names[16] = {
    [TPS_WIRE_BOOL] = "bool",     [TPS_WIRE_BYTE] = "byte",     [TPS_WIRE_DOUBLE] = "double",
    [TPS_WIRE_I16] = "i16",       [TPS_WIRE_I32] = "i32",       [TPS_WIRE_I64] = "i64",
    [TPS_WIRE_BINARY] = "string", [TPS_WIRE_STRUCT] = "struct", [TPS_WIRE_MAP] = "map",
    [TPS_WIRE_SET] = "set",       [TPS_WIRE_LIST] = "list",
  };

  return type < 16 && names[type] != NULL ? names[type] : "unknown";
}

static void
append_path (GString *text, const TpsFieldPath *path)
{
  if (path->parent != NULL)
    append_path (text, path->parent);
  if (path->name == NULL)
    g_string_append_printf (text, "[%u]", path->index);
  else
    g_string_append_printf (text, "%s%s", text->len > 0 ? "." : "", path->name);
}

gchar *
tps_field_path_to_string (const TpsFieldPath *path)
{
  GString *text = g_string_new (NULL);

  if (path == NULL)
    g_string_append (text, "arguments");
  else
    append_path (text, path);
  return g_string_free (text, FALSE);
}

gboolean
tps_field_refuse (const TpsFieldPath *path, GError **error, const gchar *format, ...)
{
  g_autofree gchar *where = tps_field_path_to_string (path);
  g_autofree gchar *text = NULL;
  va_list args;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "%s %s", where, text);
  return FALSE;
}

gboolean
tps_field_read_exactly (TpsReader *in, const TpsFieldPath *path, gpointer to, gsize n_bytes,
                        GError **error)
{
  TpsBytesView view = tps_reader_binary (in);

  if (view.n_bytes != n_bytes)
    return tps_field_refuse (path, error,
                             "has %" G_GSIZE_FORMAT " bytes, expected %" G_GSIZE_FORMAT,
                             view.n_bytes, n_bytes);
  memcpy (to, view.data, n_bytes);
  return TRUE;
}

gboolean
tps_name_is_valid (const gchar *name, gsize n_bytes)
{
  for (gsize i = 0; i < n_bytes; i++)
    if (!g_ascii_isalnum (name[i]) && (name[i] == '\0' || strchr ("_.:/-", name[i]) == NULL))
      return FALSE;
  return n_bytes >= 1 && n_bytes <= MAX_NAME_BYTES;
}

gboolean
tps_field_read_name (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  TpsBytesView view = tps_reader_binary (in);
  const gchar *name = (const gchar *) view.data;

  if (!tps_name_is_valid (name, view.n_bytes))
    return tps_field_refuse (
        path, error, "is not a name: 1 to %d characters of A-Z a-z 0-9 _ . : / -", MAX_NAME_BYTES);
  g_free (*(gchar **) target);
  *(gchar **) target = g_strndup (name, view.n_bytes);
  return TRUE;
}

gboolean
tps_field_read_string (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  TpsBytesView view = tps_reader_binary (in);
  const gchar *text = (const gchar *) view.data;

  if (!g_utf8_validate_len (view.n_bytes > 0 ? text : "", view.n_bytes, NULL))
    return tps_field_refuse (path, error, "is not UTF-8 without NUL");
  g_free (*(gchar **) target);
  *(gchar **) target = g_strndup (text, view.n_bytes);
  return TRUE;
}

gboolean
tps_field_read_bytes (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  TpsBytesView view = tps_reader_binary (in);
  GBytes **value = target;

  g_clear_pointer (value, g_bytes_unref);
  if (view.buffer == NULL)
    *value = g_bytes_new (view.data, view.n_bytes);
  else
    *value = g_bytes_new_with_free_func (view.data, view.n_bytes, (GDestroyNotify) tps_buffer_unref,
                                         tps_buffer_ref (view.buffer));
  return TRUE;
}

gboolean
tps_field_read_finite (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  gdouble value = tps_reader_double (in);

  if (!isfinite (value))
    return tps_field_refuse (path, error, "is %g, expected a finite number", value);
  *(gdouble *) target = value;
  return TRUE;
}

static gboolean
read_value (TpsReader *in, const TpsFieldPath *path, const TpsFieldSpec *spec, gpointer target,
            GError **error)
{
  if (spec->read != NULL)
    return spec->read (in, path, target, error);
  switch (spec->type)
    {
    case TPS_WIRE_BOOL:
      *(gboolean *) target = tps_reader_bool (in);
      return TRUE;
    case TPS_WIRE_I32:
      *(gint32 *) target = tps_reader_i32 (in);
      return TRUE;
    case TPS_WIRE_I64:
      *(gint64 *) target = tps_reader_i64 (in);
      return TRUE;
    case TPS_WIRE_DOUBLE:
      *(gdouble *) target = tps_reader_double (in);
      return TRUE;
    case TPS_WIRE_BINARY:
      return tps_field_read_string (in, path, target, error);
    default:
      g_assert_not_reached (); /* a table of ours that lacks its `read` */
    }
}

static const TpsFieldSpec *
find_spec (const TpsFieldSpec *specs, gint16 id)
{
  for (; specs->name != NULL; specs++)
    if (specs->id == id)
      return specs;
  return NULL;
}

static gboolean
check_required (const TpsFieldPath *path, const TpsFieldSpec *specs, guint64 seen, GError **error)
{
  for (guint i = 0; specs[i].name != NULL; i++)
    if (specs[i].required && (seen & ((guint64) 1 << i)) == 0)
      {
        TpsFieldPath at = { .parent = path, .name = specs[i].name };

        return tps_field_refuse (&at, error, "is missing");
      }
  return TRUE;
}

gboolean
tps_field_check_type (const TpsFieldPath *path, TpsWireType type, TpsWireType expected,
                      GError **error)
{
  if (type == TPS_WIRE_STOP)
    return tps_field_refuse (path, error, "is missing");
  return type == expected
         || tps_field_refuse (path, error, "is of type %s, expected %s", tps_wire_type_name (type),
                              tps_wire_type_name (expected));
}

gboolean
tps_field_check_reader (const TpsReader *in, const TpsFieldPath *path, GError **error)
{
  return !in->bad || tps_field_refuse (path, error, "cannot be read");
}

gboolean
tps_fields_read (TpsReader *in, const TpsFieldPath *path, const TpsFieldSpec *specs,
                 gpointer target, guint64 *seen, GError **error)
{
  guint64 seen_here = 0;
  TpsWireType type;
  gint16 id;

  tps_reader_struct_begin (in);
  while (tps_reader_field (in, &id, &type))
    {
      const TpsFieldSpec *spec = find_spec (specs, id);
      TpsFieldPath at = { .parent = path };

      if (spec == NULL)
        {
          tps_reader_skip (in, type);
          continue;
        }
      at.name = spec->name;
      if (!tps_field_check_type (&at, type, spec->type, error)
          || !read_value (in, &at, spec, (guint8 *) target + spec->offset, error))
        return FALSE;
      seen_here |= (guint64) 1 << (spec - specs);
    }
  tps_reader_struct_end (in);
  if (seen != NULL)
    *seen = seen_here;
  return tps_field_check_reader (in, path, error) && check_required (path, specs, seen_here, error);
}

gboolean
tps_field_list_begin (TpsReader *in, const TpsFieldPath *path, TpsWireType type, guint32 *n_elems,
                      GError **error)
{
  TpsWireType got;

  tps_reader_list_begin (in, &got, n_elems);
  if (*n_elems > 0 && got != type)
    return tps_field_refuse (path, error, "is a list of %s, expected a list of %s",
                             tps_wire_type_name (got), tps_wire_type_name (type));
  if (!tps_field_check_reader (in, path, error))
    return FALSE;
  return type != TPS_WIRE_STRUCT || *n_elems == 0
         || tps_reader_charge (in, *n_elems * DECODED_STRUCT_BYTES, error);
}

void
tps_field_write_i32 (TpsWriter *out, gint16 id, gint32 value)
{
  tps_writer_field (out, id, TPS_WIRE_I32);
  tps_writer_i32 (out, value);
}

void
tps_field_write_i64 (TpsWriter *out, gint16 id, gint64 value)
{
  tps_writer_field (out, id, TPS_WIRE_I64);
  tps_writer_i64 (out, value);
}

void
tps_field_write_double (TpsWriter *out, gint16 id, gdouble value)
{
  tps_writer_field (out, id, TPS_WIRE_DOUBLE);
  tps_writer_double (out, value);
}

void
tps_field_write_string (TpsWriter *out, gint16 id, const gchar *value)
{
  tps_writer_field (out, id, TPS_WIRE_BINARY);
  tps_writer_string (out, value);
}
