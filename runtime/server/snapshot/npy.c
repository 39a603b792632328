/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/snapshot/npy.h"

#include <string.h>

#define MAGIC "\x93NUMPY"
#define MAGIC_BYTES 6

gint64
tps_npy_get_data_begin (const guint8 *prefix)
{
  guint8 version = prefix[MAGIC_BYTES];

  if (memcmp (prefix, MAGIC, MAGIC_BYTES) != 0 || version < 1 || version > 3)
    return 0;
  if (version == 1)
    return 10 + (gint64) (prefix[8] | (guint) prefix[9] << 8);
  return 12
         + (gint64) (prefix[8] | (guint32) prefix[9] << 8 | (guint32) prefix[10] << 16
                     | (guint32) prefix[11] << 24);
}

/* Finds the value of a key in a Python dictionary, such as "{'descr': '<f4', 'fortran_order':
 * False, 'shape': (3, 4), }"; NULL = there is none. */
static const gchar *
find_value (const gchar *text, const gchar *key)
{
  g_autofree gchar *quoted = g_strdup_printf ("'%s':", key);
  const gchar *found = strstr (text, quoted);

  if (found == NULL)
    return NULL;
  found += strlen (quoted);
  return found + strspn (found, " ");
}

static gboolean
parse_dtype (const gchar *value, TpsSafetensor *tensor)
{
  static const struct
  {
    const gchar *npy, *name;
    gsize n_bytes;
  } types[] = { { "'<f4'", "F32", 4 }, { "'<f2'", "F16", 2 }, { "'<f8'", "F64", 8 } };

  for (guint i = 0; value != NULL && i < G_N_ELEMENTS (types); i++)
    if (g_str_has_prefix (value, types[i].npy))
      {
        tensor->dtype = types[i].name;
        tensor->element_bytes = types[i].n_bytes;
        return TRUE;
      }
  return FALSE;
}

static gboolean
parse_shape (const gchar *value, TpsSafetensor *tensor)
{
  tensor->n_dims = 0;
  if (value == NULL || *value++ != '(')
    return FALSE;
  for (;;)
    {
      gchar *end;
      gint64 dim;

      value += strspn (value, " ,");
      if (*value == ')')
        return TRUE;
      if (!g_ascii_isdigit (*value) || tensor->n_dims == TPS_TENSOR_MAX_DIMS)
        return FALSE;
      dim = g_ascii_strtoll (value, &end, 10);
      tensor->dims[tensor->n_dims++] = dim;
      value = end;
    }
}

gboolean
tps_npy_parse (const gchar *text, gsize n_bytes, TpsSafetensor *tensor)
{
  /* In versions 2 and 3, the last two bytes of the length come before the dictionary. */
  const gchar *brace = memchr (text, '{', n_bytes);
  g_autofree gchar *dictionary = brace != NULL ? g_strndup (brace, n_bytes - (gsize) (brace - text))
                                               : g_strdup ("");
  const gchar *order = find_value (dictionary, "fortran_order");

  return order != NULL && g_str_has_prefix (order, "False")
         && parse_dtype (find_value (dictionary, "descr"), tensor)
         && parse_shape (find_value (dictionary, "shape"), tensor);
}
