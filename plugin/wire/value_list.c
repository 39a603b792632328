/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/value_kinds.h"

#include "runtime/base/growing_array.h"

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

static void
free_texts (gchar **texts, guint n_texts)
{
  for (guint i = 0; i < n_texts; i++)
    g_free (texts[i]);
  g_free (texts);
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
    free_texts (texts.elems, texts.n_elems);
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

const TpsValueKind tps_kind_list = { TPS_WIRE_LIST, NULL, read_list, write_list, is_list_set };
