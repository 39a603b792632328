/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/wire_memory.h"

/* ---- open_segment --------------------------------------------------------------------------- */

static gboolean
read_kind (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  gint32 kind = tps_reader_i32 (in);

  if (kind != TPS_SEGMENT_MEMFD && kind != TPS_SEGMENT_CUDA_IPC)
    return tps_field_refuse (path, error, "is %d, expected %d (MEMFD) or %d (CUDA_IPC)", kind,
                             TPS_SEGMENT_MEMFD, TPS_SEGMENT_CUDA_IPC);
  *(TpsSegmentKind *) target = (TpsSegmentKind) kind;
  return TRUE;
}

static gboolean
read_use (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  gint32 use = tps_reader_i32 (in);

  if (use != TPS_SEGMENT_REQUESTS && use != TPS_SEGMENT_ANSWERS)
    return tps_field_refuse (path, error, "is %d, expected %d (REQUESTS) or %d (ANSWERS)", use,
                             TPS_SEGMENT_REQUESTS, TPS_SEGMENT_ANSWERS);
  *(TpsSegmentUse *) target = (TpsSegmentUse) use;
  return TRUE;
}

static gboolean
read_positive (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  gint64 number = tps_reader_i64 (in);

  if (number <= 0)
    return tps_field_refuse (path, error, "is %" G_GINT64_FORMAT ", expected above 0", number);
  *(gint64 *) target = number;
  return TRUE;
}

static const TpsFieldSpec open_fields[] = {
  { "kind", 1, TPS_WIRE_I32, .required = TRUE,
    .offset = G_STRUCT_OFFSET (TpsOpenSegmentArguments, kind), .read = read_kind },
  { "segment_use", 2, TPS_WIRE_I32, .required = TRUE,
    .offset = G_STRUCT_OFFSET (TpsOpenSegmentArguments, use), .read = read_use },
  { "bytes", 3, TPS_WIRE_I64, .required = TRUE,
    .offset = G_STRUCT_OFFSET (TpsOpenSegmentArguments, n_bytes), .read = read_positive },
  { NULL },
};

gboolean
tps_open_segment_arguments_decode (TpsReader *in, TpsOpenSegmentArguments *arguments,
                                   GError **error)
{
  return tps_fields_read (in, NULL, open_fields, arguments, NULL, error);
}

void
tps_open_segment_arguments_encode (TpsWriter *out, gconstpointer data)
{
  const TpsOpenSegmentArguments *arguments = data;

  tps_field_write_i32 (out, 1, (gint32) arguments->kind);
  tps_field_write_i32 (out, 2, (gint32) arguments->use);
  tps_field_write_i64 (out, 3, arguments->n_bytes);
}

/* ---- Segment -------------------------------------------------------------------------------- */

static gboolean
read_handle (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  TpsSegmentInfo *info = target;

  info->has_handle = tps_field_read_exactly (in, path, info->handle, sizeof info->handle, error);
  return info->has_handle;
}

static const TpsFieldSpec info_fields[] = {
  { "id", 1, TPS_WIRE_I64, .required = TRUE, .offset = G_STRUCT_OFFSET (TpsSegmentInfo, id),
    .read = read_positive },
  { "bytes", 2, TPS_WIRE_I64, .required = TRUE, .offset = G_STRUCT_OFFSET (TpsSegmentInfo, n_bytes),
    .read = read_positive },
  { "handle", 3, TPS_WIRE_BINARY, .read = read_handle },
  { NULL },
};

void
tps_open_segment_result_encode (TpsWriter *out, gconstpointer data)
{
  const TpsSegmentInfo *info = data;

  tps_writer_field (out, 0, TPS_WIRE_STRUCT);
  tps_writer_struct_begin (out);
  tps_field_write_i64 (out, 1, info->id);
  tps_field_write_i64 (out, 2, info->n_bytes);
  if (info->has_handle)
    {
      tps_writer_field (out, 3, TPS_WIRE_BINARY);
      tps_writer_binary (out, info->handle, sizeof info->handle);
    }
  tps_writer_struct_end (out);
}

gboolean
tps_open_segment_result_decode (TpsReader *in, TpsWireType type, gpointer info, GError **error)
{
  TpsFieldPath path = { .name = "segment" };

  return tps_field_check_type (&path, type, TPS_WIRE_STRUCT, error)
         && tps_fields_read (in, &path, info_fields, info, NULL, error);
}

/* ---- release_segments, close_segments ------------------------------------------------------- */

static gboolean
read_ids (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  GArray *ids = *(GArray **) target;
  guint32 n_elems;

  if (!tps_field_list_begin (in, path, TPS_WIRE_I64, &n_elems, error))
    return FALSE;
  for (guint32 i = 0; i < n_elems; i++)
    {
      gint64 id = tps_reader_i64 (in);

      g_array_append_val (ids, id);
    }
  return TRUE;
}

static const TpsFieldSpec ids_fields[] = {
  { "segments", 1, TPS_WIRE_LIST, .required = TRUE, .read = read_ids },
  { NULL },
};

gboolean
tps_segment_ids_arguments_decode (TpsReader *in, GArray **ids, GError **error)
{
  *ids = g_array_new (FALSE, FALSE, sizeof (gint64));
  if (tps_fields_read (in, NULL, ids_fields, ids, NULL, error))
    return TRUE;
  g_clear_pointer (ids, g_array_unref);
  return FALSE;
}

void
tps_segment_ids_arguments_encode (TpsWriter *out, gconstpointer data)
{
  const GArray *ids = data;

  tps_writer_field (out, 1, TPS_WIRE_LIST);
  tps_writer_list_begin (out, TPS_WIRE_I64, ids->len);
  for (guint i = 0; i < ids->len; i++)
    tps_writer_i64 (out, g_array_index (ids, gint64, i));
}
