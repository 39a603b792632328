/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/memory/slice_search.h"

#include "plugin/frame/reader.h"

#define ALL_SLICE_FIELDS 7u /* a bit each */

static gboolean search_struct (TpsReader *in, TpsSharedSlice *slice);

/* Lists of numbers and of text, which are most, are stepped over in one go. */
static gboolean
search_list (TpsReader *in, TpsWireType list_type, TpsSharedSlice *slice)
{
  TpsReader ahead = *in;
  TpsWireType type;
  guint32 n_elems;

  tps_reader_list_begin (&ahead, &type, &n_elems);
  if (type != TPS_WIRE_STRUCT)
    {
      tps_reader_skip (in, list_type);
      return FALSE;
    }
  *in = ahead;
  for (guint32 i = 0; i < n_elems && !in->bad; i++)
    if (search_struct (in, slice))
      return TRUE;
  return FALSE;
}

static gboolean
search_value (TpsReader *in, TpsWireType type, TpsSharedSlice *slice)
{
  if (type == TPS_WIRE_STRUCT)
    return search_struct (in, slice);
  if (type == TPS_WIRE_LIST || type == TPS_WIRE_SET)
    return search_list (in, type, slice);
  tps_reader_skip (in, type);
  return FALSE;
}

/* As deep as the scanner lets a message be: TPS_MESSAGE_MAX_DEPTH. */
static gboolean
search_struct (TpsReader *in, TpsSharedSlice *slice)
{
  gint64 values[3] = { 0 };
  gboolean has_others = FALSE;
  guint seen = 0;
  TpsWireType type;
  gint16 id;

  tps_reader_struct_begin (in);
  while (tps_reader_field (in, &id, &type))
    if (type == TPS_WIRE_I64 && id >= 1 && id <= 3)
      {
        values[id - 1] = tps_reader_i64 (in);
        seen |= 1u << (id - 1);
      }
    else
      {
        has_others = TRUE;
        if (search_value (in, type, slice))
          return TRUE;
      }
  tps_reader_struct_end (in);
  if (seen != ALL_SLICE_FIELDS || has_others || in->bad)
    return FALSE;
  *slice = (TpsSharedSlice) { .segment = values[0], .offset = values[1], .length = values[2] };
  return TRUE;
}

gboolean
tps_slice_search (const TpsMessage *message, TpsSharedSlice *slice)
{
  TpsReader in;

  tps_reader_init (&in, message);
  return search_struct (&in, slice);
}
