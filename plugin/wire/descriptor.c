/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/descriptor.h"

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

/* ---- reading -------------------------------------------------------------------------------- */

static const TpsField *
find_field (const TpsField *fields, gint16 id)
{
  for (; fields->name != NULL; fields++)
    if (fields->id == id)
      return fields;
  return NULL;
}

/* Reads a field; `path` is its path. Small calls spend much of their time here. */
static inline gboolean
read_field (const TpsField *field, TpsReader *in, const TpsFieldPath *path, TpsWireType type,
            gpointer object, GError **error)
{
  const TpsValueKind *kind = field->kind;

  if (G_UNLIKELY (type != kind->type))
    return tps_field_check_type (path, type, kind->type, error);
  if (!kind->read (in, path, field, object, error))
    return FALSE;
  if (field->has != 0)
    *(gboolean *) (gpointer) ((guint8 *) object + field->has) = TRUE;
  return TRUE;
}

/* Handles the fields that are not in `seen`: refuses a missing required field, and sets the values
 * of other missing fields. */
static gboolean
end_fields (const TpsField *fields, const TpsFieldPath *path, gpointer object, guint64 seen,
            GError **error)
{
  TpsFieldPath at = { .parent = path };

  for (const TpsField *field = fields; field->name != NULL; field++, seen >>= 1)
    {
      if (seen & 1)
        continue;
      if (field->presence == TPS_FIELD_REQUIRED)
        {
          at.name = field->name;
          return tps_field_refuse (&at, error, "is missing");
        }
      if (field->kind->set_missing != NULL)
        field->kind->set_missing (field, object);
    }
  return TRUE;
}

gboolean
tps_fields_read (const TpsField *fields, TpsReader *in, const TpsFieldPath *path, gpointer object,
                 guint64 *seen, GError **error)
{
  const TpsField *next = fields; /* writers mostly write fields in order */
  TpsFieldPath at = { .parent = path };
  guint64 seen_here = 0;
  TpsWireType type;
  gint16 id;

  tps_reader_struct_begin (in);
  while (tps_reader_field (in, &id, &type))
    {
      const TpsField *field = next->id == id && next->name != NULL ? next : find_field (fields, id);
      guint64 bit;

      if (G_UNLIKELY (field == NULL))
        {
          tps_reader_skip (in, type);
          continue;
        }
      at.name = field->name;
      bit = (guint64) 1 << (field - fields);
      if (G_UNLIKELY (seen_here & bit))
        return tps_field_refuse (&at, error, "occurs twice");
      if (!read_field (field, in, &at, type, object, error))
        return FALSE;
      seen_here |= bit;
      next = field + 1;
    }
  tps_reader_struct_end (in);
  if (seen != NULL)
    *seen = seen_here;
  return tps_field_check_reader (in, path, error)
         && end_fields (fields, path, object, seen_here, error);
}

gboolean
tps_struct_read (const TpsStruct *type, TpsReader *in, const TpsFieldPath *path, gpointer object,
                 GError **error)
{
  return type->read != NULL ? type->read (in, path, object, error)
                            : tps_fields_read (type->fields, in, path, object, NULL, error);
}

void
tps_fields_read_leniently (const TpsField *fields, TpsReader *in, gpointer object)
{
  TpsWireType type;
  gint16 id;

  tps_reader_struct_begin (in);
  while (tps_reader_field (in, &id, &type))
    {
      const TpsField *field = find_field (fields, id);

      if (field == NULL || field->kind->type != type)
        tps_reader_skip (in, type);
      else
        read_field (field, in, NULL, type, object, NULL);
    }
  tps_reader_struct_end (in);
}

/* ---- writing -------------------------------------------------------------------------------- */

static inline gboolean
is_written (const TpsField *field, gconstpointer object)
{
  if (G_LIKELY (field->presence != TPS_FIELD_OPTIONAL))
    return TRUE;
  if (field->has != 0)
    return *(const gboolean *) (gconstpointer) ((const guint8 *) object + field->has);
  return field->kind->is_set == NULL || field->kind->is_set (field, object);
}

static inline void
write_field (const TpsField *field, TpsWriter *out, gconstpointer object)
{
  tps_field_begin (field, out);
  field->kind->write (out, field, object);
}

void
tps_field_write (const TpsField *field, TpsWriter *out, gconstpointer object)
{
  write_field (field, out, object);
}

void
tps_fields_write (const TpsField *fields, TpsWriter *out, gconstpointer object)
{
  for (const TpsField *field = fields; field->name != NULL; field++)
    if (is_written (field, object))
      write_field (field, out, object);
}

void
tps_struct_write (const TpsStruct *type, TpsWriter *out, gconstpointer object)
{
  if (type->write != NULL)
    {
      type->write (out, object);
      return;
    }
  tps_writer_struct_begin (out);
  tps_fields_write (type->fields, out, object);
  tps_writer_struct_end (out);
}
