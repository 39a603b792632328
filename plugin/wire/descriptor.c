/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/descriptor.h"

/* ---- reading -------------------------------------------------------------------------------- */

static const TpsField *
find_field (const TpsField *fields, gint16 id)
{
  for (; fields->name != NULL; fields++)
    if (fields->id == id)
      return fields;
  return NULL;
}

static gboolean
read_field (const TpsField *field, TpsReader *in, const TpsFieldPath *path, TpsWireType type,
            gboolean is_repeated, gpointer object, GError **error)
{
  TpsFieldPath at = { .parent = path, .name = field->name };

  if (is_repeated)
    return tps_field_refuse (&at, error, "is there twice");
  if (!tps_field_check_type (&at, type, field->kind->type, error)
      || !field->kind->read (in, &at, field, object, error))
    return FALSE;
  if (field->has != 0)
    *(gboolean *) (gpointer) ((guint8 *) object + field->has) = TRUE;
  return TRUE;
}

static gboolean
end_fields (const TpsField *fields, const TpsFieldPath *path, gpointer object, guint64 seen,
            GError **error)
{
  for (const TpsField *field = fields; field->name != NULL; field++, seen >>= 1)
    {
      TpsFieldPath at = { .parent = path, .name = field->name };

      if (seen & 1)
        continue;
      if (field->presence == TPS_FIELD_REQUIRED)
        return tps_field_refuse (&at, error, "is missing");
      if (field->kind->set_missing != NULL)
        field->kind->set_missing (field, object);
    }
  return TRUE;
}

gboolean
tps_fields_read (const TpsField *fields, TpsReader *in, const TpsFieldPath *path, gpointer object,
                 guint64 *seen, GError **error)
{
  const TpsField *next = fields; /* writers keep to the order of the fields */
  guint64 seen_here = 0;
  TpsWireType type;
  gint16 id;

  tps_reader_struct_begin (in);
  while (tps_reader_field (in, &id, &type))
    {
      const TpsField *field = next->name != NULL && next->id == id ? next : find_field (fields, id);
      guint64 bit;

      if (field == NULL)
        {
          tps_reader_skip (in, type);
          continue;
        }
      bit = (guint64) 1 << (field - fields);
      if (!read_field (field, in, path, type, (seen_here & bit) != 0, object, error))
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
        read_field (field, in, NULL, type, FALSE, object, NULL);
    }
  tps_reader_struct_end (in);
}

/* ---- writing -------------------------------------------------------------------------------- */

static gboolean
is_written (const TpsField *field, gconstpointer object)
{
  if (field->presence != TPS_FIELD_OPTIONAL)
    return TRUE;
  if (field->has != 0)
    return *(const gboolean *) (gconstpointer) ((const guint8 *) object + field->has);
  return field->kind->is_set == NULL || field->kind->is_set (field, object);
}

void
tps_field_write (const TpsField *field, TpsWriter *out, gconstpointer object)
{
  tps_field_begin (field, out);
  field->kind->write (out, field, object);
}

void
tps_fields_write (const TpsField *fields, TpsWriter *out, gconstpointer object)
{
  for (const TpsField *field = fields; field->name != NULL; field++)
    if (is_written (field, object))
      tps_field_write (field, out, object);
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
