/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/wire_memory.h"

#include "plugin/wire/value_kinds.h"

#define SERVICE "Memory"

static const TpsLimit above_zero = { 1, "above 0" };

/* ---- open_segment --------------------------------------------------------------------------- */

static const TpsEnumValue kinds[] = {
  { "MEMFD", TPS_SEGMENT_MEMFD },
  { "CUDA_IPC", TPS_SEGMENT_CUDA_IPC },
  { NULL },
};

static const TpsEnumValue uses[] = {
  { "REQUESTS", TPS_SEGMENT_REQUESTS },
  { "ANSWERS", TPS_SEGMENT_ANSWERS },
  { "COMMON_ANSWERS", TPS_SEGMENT_COMMON_ANSWERS },
  { NULL },
};

static const TpsEnum kind_enum = { "SegmentKind", kinds };
static const TpsEnum use_enum = { "SegmentUse", uses };

static const TpsField open_arguments[] = {
  { "kind", 1, TPS_FIELD_REQUIRED, &tps_kind_enum, &kind_enum,
    G_STRUCT_OFFSET (TpsOpenSegmentArguments, kind) },
  { "segment_use", 2, TPS_FIELD_REQUIRED, &tps_kind_enum, &use_enum,
    G_STRUCT_OFFSET (TpsOpenSegmentArguments, use) },
  { "bytes", 3, TPS_FIELD_REQUIRED, &tps_kind_i64, &above_zero,
    G_STRUCT_OFFSET (TpsOpenSegmentArguments, n_bytes) },
  { NULL },
};

static const gsize handle_bytes = TPS_EXPORT_HANDLE_BYTES;

static const TpsField segment_fields[] = {
  { "id", 1, TPS_FIELD_REQUIRED, &tps_kind_i64, &above_zero, G_STRUCT_OFFSET (TpsSegmentInfo, id) },
  { "bytes", 2, TPS_FIELD_REQUIRED, &tps_kind_i64, &above_zero,
    G_STRUCT_OFFSET (TpsSegmentInfo, n_bytes) },
  { "handle", 3, TPS_FIELD_OPTIONAL, &tps_kind_array, &handle_bytes,
    G_STRUCT_OFFSET (TpsSegmentInfo, handle), G_STRUCT_OFFSET (TpsSegmentInfo, has_handle) },
  { NULL },
};

static const TpsStruct segment_struct = { "Segment", segment_fields };

static const TpsField segment_result = { "segment", .kind = &tps_kind_struct,
                                         .of = &segment_struct };

const TpsRpc tps_open_segment_rpc = { SERVICE, "open_segment", open_arguments, &segment_result };

static const TpsField open_lookup_arguments[] = {
  { "bytes", 1, TPS_FIELD_REQUIRED, &tps_kind_i64, &above_zero },
  { NULL },
};

const TpsRpc tps_open_lookup_segment_rpc = { SERVICE, "open_lookup_segment", open_lookup_arguments,
                                             &segment_result };

/* ---- release_segments, close_segments ------------------------------------------------------- */

static const TpsList ids = {
  .elem = { .kind = &tps_kind_i64 },
  .form = TPS_LIST_COUNTED,
  .elem_size = sizeof (gint64),
};

static const TpsField ids_arguments[] = {
  { "segments", 1, TPS_FIELD_REQUIRED, &tps_kind_list, &ids },
  { NULL },
};

const TpsRpc tps_release_segments_rpc = { SERVICE, "release_segments", ids_arguments };
const TpsRpc tps_close_segments_rpc = { SERVICE, "close_segments", ids_arguments };
