/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/growing_array.h"

#include <string.h>

#include "runtime/base/error.h"

#define MIN_ELEMS 4
/* GByteArray allocates up to this size, and aborts if there is no memory. A process without memory
 * for so small an array must end anyway. */
#define SMALL_BYTES ((guint) 16 << 10)

/* The array doubles when its length is a power of two, so its capacity need not be stored. */
static gboolean
is_full (guint n_elems)
{
  return n_elems == 0 || (n_elems >= MIN_ELEMS && (n_elems & (n_elems - 1)) == 0);
}

static gboolean
double_room (gpointer *elems, guint n_elems, gsize elem_size)
{
  gsize n_wanted = MAX (MIN_ELEMS, (gsize) n_elems * 2);
  gpointer moved = g_try_realloc_n (*elems, n_wanted, elem_size);

  if (moved == NULL)
    return FALSE;
  *elems = moved;
  return TRUE;
}

static void
set_error (GError **error, guint n_elems, gsize elem_size)
{
  g_set_error (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
               "no memory for more than %u elements of %" G_GSIZE_FORMAT " bytes", n_elems,
               elem_size);
}

gpointer
tps_growing_array_add (gpointer *elems, guint *n_elems, gsize elem_size, GError **error)
{
  guint8 *elem;

  if (*n_elems == G_MAXUINT || (is_full (*n_elems) && !double_room (elems, *n_elems, elem_size)))
    {
      set_error (error, *n_elems, elem_size);
      return NULL;
    }
  elem = (guint8 *) *elems + *n_elems * elem_size;
  (*n_elems)++;
  return memset (elem, 0, elem_size);
}

gboolean
tps_growing_array_make_room (gpointer *elems, guint *n_room, guint n_elems, gsize elem_size,
                             GError **error)
{
  gsize n_wanted = MAX (MIN_ELEMS, *n_room);
  gpointer moved;

  if (n_elems <= *n_room)
    return TRUE;
  while (n_wanted < n_elems)
    n_wanted *= 2;
  n_wanted = MIN (n_wanted, G_MAXUINT);
  moved = g_try_realloc_n (*elems, n_wanted, elem_size);
  if (moved == NULL)
    {
      set_error (error, *n_room, elem_size);
      return FALSE;
    }
  *elems = moved;
  *n_room = (guint) n_wanted;
  return TRUE;
}

gboolean
tps_byte_array_try_set_size (GByteArray **bytes, guint n_bytes)
{
  gsize n_before;
  guint8 *data, *moved;

  if (n_bytes <= MAX (SMALL_BYTES, (*bytes)->len))
    {
      g_byte_array_set_size (*bytes, n_bytes);
      return TRUE;
    }
  /* GByteArray cannot report that there is no memory, so the bytes grow outside of it. */
  data = g_byte_array_steal (*bytes, &n_before);
  moved = g_try_realloc (data, n_bytes);
  g_byte_array_unref (*bytes);
  *bytes = moved != NULL ? g_byte_array_new_take (moved, n_bytes)
                         : g_byte_array_new_take (data, n_before);
  return moved != NULL;
}
