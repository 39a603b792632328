/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/memory/slice_search.h"

#include <string.h>

#include "plugin/frame/reader.h"

/* The limit of the sum of slice lengths, because the lengths are unchecked. */
#define MAX_ROOM (G_MAXINT64 / 2)

typedef struct
{
  TpsSliceSearch *found;
  gboolean wants_all; /* else the search ends with the first slice */
} Search;

/* Bits for the fields of a struct. */
enum
{
  HAS_SLICE_FIELDS = 7, /* one bit for each of the i64 fields 1, 2 and 3 */
  HAS_OTHERS = 1 << 3,
  HAS_NUMBER_1 = 1 << 4,
  HAS_LIST_2 = 1 << 5,
};

static void search_struct (TpsReader *in, Search *search);

static gboolean
is_done (const TpsReader *in, const Search *search)
{
  return in->bad || (search->found->has_slice && !search->wants_all);
}

/* Searches the elements of a list of structs. All other lists are skipped, because they contain no
 * tensors. */
static void
search_list (TpsReader *in, TpsWireType list_type, Search *search)
{
  TpsReader ahead = *in;
  TpsWireType type;
  guint32 n_elems;

  tps_reader_list_begin (&ahead, &type, &n_elems);
  if (type != TPS_WIRE_STRUCT)
    {
      tps_reader_skip (in, list_type);
      return;
    }
  *in = ahead;
  for (guint32 i = 0; i < n_elems && !is_done (in, search); i++)
    search_struct (in, search);
}

static void
search_value (TpsReader *in, TpsWireType type, Search *search)
{
  if (type == TPS_WIRE_STRUCT)
    search_struct (in, search);
  else if (type == TPS_WIRE_LIST || type == TPS_WIRE_SET)
    search_list (in, type, search);
  else
    tps_reader_skip (in, type);
}

static void
count_inline (TpsSliceSearch *found, guint has, gsize n_bytes)
{
  if ((has & (HAS_NUMBER_1 | HAS_LIST_2)) != (HAS_NUMBER_1 | HAS_LIST_2)
      || n_bytes < TPS_SHARING_MIN_BYTES)
    return;
  found->n_inline++;
  found->n_inline_bytes += n_bytes;
  found->n_inline_room += tps_sharing_round (n_bytes);
}

static void
count_slice (TpsSliceSearch *found, const gint64 *values)
{
  gsize n_bytes = (gsize) CLAMP (values[2], 0, MAX_ROOM - (gint64) found->n_shared_room);

  found->n_shared_room = MIN (found->n_shared_room + tps_sharing_round (n_bytes), MAX_ROOM);
  if (found->has_slice)
    return;
  found->has_slice = TRUE;
  found->slice = (TpsSharedSlice) { .segment = values[0],
                                    .offset = values[1],
                                    .length = values[2] };
}

/* The recursion is limited, because the scanner accepts at most TPS_MESSAGE_MAX_DEPTH levels. */
static void
search_struct (TpsReader *in, Search *search)
{
  gint64 values[3] = { 0 };
  gsize n_binary = 0;
  guint has = 0;
  TpsWireType type;
  gint16 id;

  tps_reader_struct_begin (in);
  while (!is_done (in, search) && tps_reader_field (in, &id, &type))
    if (type == TPS_WIRE_I64 && id >= 1 && id <= 3)
      {
        values[id - 1] = tps_reader_i64 (in);
        has |= 1u << (id - 1);
      }
    else
      {
        has |= HAS_OTHERS;
        has |= type == TPS_WIRE_I32 && id == 1 ? HAS_NUMBER_1 : 0;
        has |= type == TPS_WIRE_LIST && id == 2 ? HAS_LIST_2 : 0;
        if (type == TPS_WIRE_BINARY && id == 3)
          n_binary = tps_reader_binary (in).n_bytes;
        else
          search_value (in, type, search);
      }
  tps_reader_struct_end (in);
  if (is_done (in, search))
    return;
  count_inline (search->found, has, n_binary);
  if (has == HAS_SLICE_FIELDS)
    count_slice (search->found, values);
}

static gboolean
has_large_body (const TpsMessage *message)
{
  for (guint i = 0; i < message->n_bodies; i++)
    if (message->bodies[i].n_bytes >= TPS_SHARING_MIN_BYTES)
      return TRUE;
  return FALSE;
}

void
tps_slice_search (const TpsMessage *message, gboolean wants_all, TpsSliceSearch *found)
{
  Search search = { found, wants_all || has_large_body (message) };
  TpsReader in;

  memset (found, 0, sizeof *found);
  tps_reader_init (&in, message);
  search_struct (&in, &search);
}
