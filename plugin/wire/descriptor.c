/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/descriptor.h"

#include <math.h>
#include <string.h>

#include "runtime/base/error.h"
#include "runtime/base/growing_array.h"
#include "runtime/base/json_writer.h"

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

#define MAX_NAME_BYTES 255

/* ---- numbers -------------------------------------------------------------------------------- */

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

const TpsValueKind tps_kind_bool = { TPS_WIRE_BOOL, read_bool, write_bool, is_i32_set };
const TpsValueKind tps_kind_i32 = { TPS_WIRE_I32, read_i32, write_i32, is_i32_set };
const TpsValueKind tps_kind_i64 = { TPS_WIRE_I64, read_i64, write_i64, is_i64_set };
const TpsValueKind tps_kind_double = { TPS_WIRE_DOUBLE, read_double, write_double };
const TpsValueKind tps_kind_number = { TPS_WIRE_DOUBLE, read_double, write_double, is_number_set,
                                       set_nan };
const TpsValueKind tps_kind_finite = { TPS_WIRE_DOUBLE, read_finite, write_double, is_number_set,
                                       set_nan };

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

const TpsValueKind tps_kind_enum = { TPS_WIRE_I32, read_enum, write_i32, is_i32_set };
const TpsValueKind tps_kind_open_enum = { TPS_WIRE_I32, read_open_enum, write_i32, is_i32_set };

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

const TpsValueKind tps_kind_string = { TPS_WIRE_BINARY, read_string, write_string, is_pointer_set };
const TpsValueKind tps_kind_name = { TPS_WIRE_BINARY, read_name, write_string, is_pointer_set };
const TpsValueKind tps_kind_bytes = { TPS_WIRE_BINARY, read_bytes, write_bytes, is_pointer_set };
const TpsValueKind tps_kind_array = { TPS_WIRE_BINARY, read_array, write_array };

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

const TpsValueKind tps_kind_struct = { TPS_WIRE_STRUCT, read_struct, write_struct, is_struct_set };

/* ---- pieces of messages --------------------------------------------------------------------- */

static gboolean
read_chunk_data (TpsReader *in, const TpsFieldPath *path, const TpsField *field, gpointer object,
                 GError **error)
{
  /* tps_kind_bytes reads into the first member. */
  G_STATIC_ASSERT (G_STRUCT_OFFSET (TpsChunkData, received) == 0);
  return tps_kind_bytes.read (in, path, field, object, error);
}

static void
write_chunk_data (TpsWriter *out, const TpsField *field, gconstpointer object)
{
  const TpsChunkData *data = TPS_FIELD_CONST_VALUE (field, object);

  if (data->received != NULL)
    tps_kind_bytes.write (out, field, object);
  else
    tps_writer_binary_pieces (out, data->pieces, data->n_pieces);
}

static gboolean
is_chunk_data_set (const TpsField *field, gconstpointer object)
{
  const TpsChunkData *data = TPS_FIELD_CONST_VALUE (field, object);

  return data->received != NULL || data->pieces != NULL;
}

const TpsValueKind tps_kind_chunk_data = { TPS_WIRE_BINARY, read_chunk_data, write_chunk_data,
                                           is_chunk_data_set };

void
tps_chunk_data_clear (TpsChunkData *data)
{
  g_clear_pointer (&data->received, g_bytes_unref);
}

/* ---- lists ---------------------------------------------------------------------------------- */

/* Upper bound of the memory of one decoded number or short text of a list, while the list grows.
 * Structs are charged by tps_field_list_begin(). */
#define DECODED_VALUE_BYTES ((gsize) 64)

/* The layout of TPS_LIST_COUNTED. */
typedef struct
{
  guint n_elems;
  gpointer elems;
} Counted;

static gboolean
read_elem (const TpsList *list, TpsReader *in, const TpsFieldPath *path, guint32 index,
           gpointer elem, GError **error)
{
  TpsFieldPath at = { .parent = path, .index = index };

  return list->elem.kind->read (in, &at, &list->elem, elem, error);
}

static gboolean
read_counted (const TpsList *list, TpsReader *in, const TpsFieldPath *path, guint32 n_elems,
              Counted *value, GError **error)
{
  for (guint32 i = 0; i < n_elems; i++)
    {
      gpointer elem = tps_growing_array_add (&value->elems, &value->n_elems, list->elem_size,
                                             error);

      if (elem == NULL || !read_elem (list, in, path, i, elem, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
read_ptr_array (const TpsList *list, TpsReader *in, const TpsFieldPath *path, guint32 n_elems,
                GPtrArray **value, GError **error)
{
  if (*value == NULL)
    *value = g_ptr_array_new_with_free_func (list->clear);
  for (guint32 i = 0; i < n_elems; i++)
    {
      gpointer elem = g_malloc0 (list->elem_size);

      g_ptr_array_add (*value, elem);
      if (!read_elem (list, in, path, i, elem, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
read_strv (const TpsList *list, TpsReader *in, const TpsFieldPath *path, guint32 n_elems,
           gchar ***value, GError **error)
{
  Counted texts = { 0 };
  gboolean ok = read_counted (list, in, path, n_elems, &texts, error)
                && tps_growing_array_add (&texts.elems, &texts.n_elems, sizeof (gchar *), error);

  if (ok)
    *value = texts.elems; /* the last element is NULL */
  else
    {
      for (guint i = 0; i < texts.n_elems; i++)
        g_free (((gchar **) texts.elems)[i]);
      g_free (texts.elems);
    }
  return ok;
}

static gboolean
read_list (TpsReader *in, const TpsFieldPath *path, const TpsField *field, gpointer object,
           GError **error)
{
  const TpsList *list = field->of;
  gpointer value = TPS_FIELD_VALUE (field, object);
  guint32 n_elems;

  if (!tps_field_list_begin (in, path, list->elem.kind->type, &n_elems, error))
    return FALSE;
  if (n_elems > 0 && list->elem.kind->type != TPS_WIRE_STRUCT
      && !tps_reader_charge (in, n_elems * DECODED_VALUE_BYTES, error))
    return FALSE;
  switch (list->form)
    {
    case TPS_LIST_COUNTED:
      return read_counted (list, in, path, n_elems, value, error);
    case TPS_LIST_PTR_ARRAY:
      return read_ptr_array (list, in, path, n_elems, value, error);
    case TPS_LIST_STRV:
      return read_strv (list, in, path, n_elems, value, error);
    }
  g_assert_not_reached ();
}

/* Returns the elements, which are `elem_size` bytes apart; for TPS_LIST_PTR_ARRAY, returns pointers
 * to the elements. */
static gconstpointer
get_elems (const TpsList *list, const TpsField *field, gconstpointer object, guint *n_elems)
{
  gconstpointer at = TPS_FIELD_CONST_VALUE (field, object);
  gconstpointer value = *(const gconstpointer *) at;

  switch (list->form)
    {
    case TPS_LIST_COUNTED:
      *n_elems = ((const Counted *) at)->n_elems;
      return ((const Counted *) at)->elems;
    case TPS_LIST_PTR_ARRAY:
      *n_elems = ((const GPtrArray *) value)->len;
      return ((const GPtrArray *) value)->pdata;
    case TPS_LIST_STRV:
      *n_elems = g_strv_length ((gchar **) (gsize) value);
      return value;
    }
  g_assert_not_reached ();
}

static void
write_list (TpsWriter *out, const TpsField *field, gconstpointer object)
{
  const TpsList *list = field->of;
  const TpsField *elem = &list->elem;
  guint n_elems;
  const guint8 *elems = get_elems (list, field, object, &n_elems);

  tps_writer_list_begin (out, elem->kind->type, n_elems);
  for (guint i = 0; i < n_elems; i++)
    if (list->form == TPS_LIST_PTR_ARRAY)
      elem->kind->write (out, elem, ((const gpointer *) (gconstpointer) elems)[i]);
    else
      elem->kind->write (out, elem, elems + i * list->elem_size);
}

static gboolean
is_list_set (const TpsField *field, gconstpointer object)
{
  return *(const gconstpointer *) TPS_FIELD_CONST_VALUE (field, object) != NULL;
}

const TpsValueKind tps_kind_list = { TPS_WIRE_LIST, read_list, write_list, is_list_set };

/* ---- maps ----------------------------------------------------------------------------------- */

static const TpsField text_field = { .kind = &tps_kind_string };

static gboolean
read_entry (TpsReader *in, const TpsFieldPath *path, GHashTable *texts, gsize *n_bytes,
            gsize max_bytes, GError **error)
{
  g_autofree gchar *key = NULL;
  g_autofree gchar *value = NULL;

  if (!tps_kind_string.read (in, path, &text_field, &key, error)
      || !tps_kind_string.read (in, path, &text_field, &value, error))
    return FALSE;
  *n_bytes += strlen (key) + strlen (value);
  if (*n_bytes > max_bytes)
    return tps_field_refuse (path->parent, error, "is larger than %" G_GSIZE_FORMAT " bytes",
                             max_bytes);
  g_hash_table_replace (texts, g_steal_pointer (&key), g_steal_pointer (&value));
  return TRUE;
}

static gboolean
read_texts (TpsReader *in, const TpsFieldPath *path, const TpsField *field, gpointer object,
            GError **error)
{
  const TpsTextsLimits *limits = field->of;
  GHashTable **texts = TPS_FIELD_VALUE (field, object);
  TpsWireType key_type, value_type;
  guint32 n_entries;
  gsize n_bytes = 0;

  tps_reader_map_begin (in, &key_type, &value_type, &n_entries);
  if (!tps_field_check_reader (in, path, error))
    return FALSE;
  if (n_entries > limits->max_entries)
    return tps_field_refuse (path, error, "has %u entries, expected at most %u", n_entries,
                             limits->max_entries);
  if (n_entries > 0 && (key_type != TPS_WIRE_BINARY || value_type != TPS_WIRE_BINARY))
    return tps_field_refuse (path, error, "must be a map from string to string");
  if (*texts == NULL)
    *texts = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  for (guint32 i = 0; i < n_entries; i++)
    {
      TpsFieldPath at = { .parent = path, .index = i };

      if (!read_entry (in, &at, *texts, &n_bytes, limits->max_bytes, error))
        return FALSE;
    }
  return TRUE;
}

static void
write_texts (TpsWriter *out, const TpsField *field, gconstpointer object)
{
  GHashTable *texts = *(GHashTable *const *) TPS_FIELD_CONST_VALUE (field, object);
  GHashTableIter iter;
  gpointer key, value;

  tps_writer_map_begin (out, TPS_WIRE_BINARY, TPS_WIRE_BINARY, g_hash_table_size (texts));
  g_hash_table_iter_init (&iter, texts);
  while (g_hash_table_iter_next (&iter, &key, &value))
    {
      tps_kind_string.write (out, &text_field, &key);
      tps_kind_string.write (out, &text_field, &value);
    }
}

const TpsValueKind tps_kind_texts = { TPS_WIRE_MAP, read_texts, write_texts, is_pointer_set };

/* ---- JSON ----------------------------------------------------------------------------------- */

static void add_fields (TpsJsonWriter *json, const TpsStruct *type, gconstpointer object);

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
    {
      const TpsEnumValue *known = find_value (field->of, *(const gint32 *) value);

      tps_json_add_text (json, name, known != NULL ? known->name : "UNKNOWN");
    }
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
tps_field_to_json (const TpsField *field, gconstpointer value)
{
  TpsJsonWriter json;

  tps_json_writer_init (&json);
  add_value (&json, field, NULL, value);
  return tps_json_writer_take (&json);
}

/* ---- methods --------------------------------------------------------------------------------- */

static const TpsField no_fields[] = { { NULL } };

gboolean
tps_rpc_read_arguments (const TpsRpc *rpc, TpsReader *in, gpointer arguments, GError **error)
{
  return tps_fields_read (rpc->arguments != NULL ? rpc->arguments : no_fields, in, NULL, arguments,
                          NULL, error);
}

void
tps_rpc_write_arguments (const TpsRpc *rpc, TpsWriter *out, gconstpointer arguments)
{
  if (rpc->arguments != NULL)
    tps_fields_write (rpc->arguments, out, arguments);
}

void
tps_rpc_value_write_arguments (TpsWriter *out, gconstpointer rpc_value)
{
  const TpsRpcValue *arguments = rpc_value;

  tps_rpc_write_arguments (arguments->rpc, out, arguments->value);
}

gboolean
tps_rpc_read_result (const TpsRpc *rpc, TpsReader *in, TpsWireType type, gpointer result,
                     GError **error)
{
  const TpsField *field = rpc->result;
  TpsFieldPath path = { .name = field != NULL ? field->name : NULL };

  return field == NULL
         || (tps_field_check_type (&path, type, field->kind->type, error)
             && field->kind->read (in, &path, field, result, error)
             && tps_field_check_reader (in, &path, error));
}

gboolean
tps_rpc_read_answer (const TpsRpc *rpc, TpsReader *in, TpsWireType type, gpointer result,
                     GError **error)
{
  g_autoptr (GError) why = NULL;

  if (tps_rpc_read_result (rpc, in, type, result, &why))
    return TRUE;
  return tps_fail (error, TPS_ERROR_INTERNAL, "the reply to %s:%s cannot be decoded: %s",
                   rpc->service, rpc->name, why->message);
}

void
tps_rpc_write_result (const TpsRpc *rpc, TpsWriter *out, gconstpointer result)
{
  if (rpc->result != NULL)
    tps_field_write (rpc->result, out, result);
}
