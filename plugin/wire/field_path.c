/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/field_path.h"

#include "runtime/base/error.h"

/* Upper bound of the memory of one decoded struct of a list, with a name and without its
 * tensors. */
#define DECODED_STRUCT_BYTES ((gsize) 1024)

static const gchar *
type_name (TpsWireType type)
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
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s %s", where, text);
}

gboolean
tps_field_check_type (const TpsFieldPath *path, TpsWireType type, TpsWireType expected,
                      GError **error)
{
  if (type == TPS_WIRE_STOP)
    return tps_field_refuse (path, error, "is missing");
  return type == expected
         || tps_field_refuse (path, error, "is of type %s, expected %s", type_name (type),
                              type_name (expected));
}

gboolean
tps_field_check_reader (const TpsReader *in, const TpsFieldPath *path, GError **error)
{
  return !in->bad || tps_field_refuse (path, error, "cannot be read");
}

gboolean
tps_field_list_begin (TpsReader *in, const TpsFieldPath *path, TpsWireType type, guint32 *n_elems,
                      GError **error)
{
  TpsWireType got;

  tps_reader_list_begin (in, &got, n_elems);
  if (*n_elems > 0 && got != type)
    return tps_field_refuse (path, error, "is a list of %s, expected a list of %s", type_name (got),
                             type_name (type));
  if (!tps_field_check_reader (in, path, error))
    return FALSE;
  return type != TPS_WIRE_STRUCT || *n_elems == 0
         || tps_reader_charge (in, *n_elems * DECODED_STRUCT_BYTES, error);
}
