/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* thrift/memory.thrift: the methods as TpsRpcs (rpc.h), with their arguments and results. */

#pragma once

#include "plugin/memory/segment.h"
#include "plugin/wire/rpc.h"

G_BEGIN_DECLS

typedef struct
{
  TpsSegmentKind kind;
  TpsSegmentUse use;
  gint64 n_bytes; /* above 0 */
} TpsOpenSegmentArguments;

/* The struct Segment. */
typedef struct
{
  gint64 id;      /* above 0 */
  gint64 n_bytes; /* above 0 */
  gboolean has_handle;
  guint8 handle[TPS_EXPORT_HANDLE_BYTES];
} TpsSegmentInfo;

typedef struct
{
  guint n_ids;
  gint64 *ids; /* owned; a writer only reads them */
} TpsSegmentIds;

/* Frees the ids. */
static inline void
tps_segment_ids_clear (TpsSegmentIds *ids)
{
  g_free (ids->ids);
  *ids = (TpsSegmentIds) { 0 };
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsSegmentIds, tps_segment_ids_clear)

extern const TpsRpc tps_open_segment_rpc;        /* TpsOpenSegmentArguments -> TpsSegmentInfo */
extern const TpsRpc tps_release_segments_rpc;    /* TpsSegmentIds */
extern const TpsRpc tps_close_segments_rpc;      /* TpsSegmentIds */
extern const TpsRpc tps_open_lookup_segment_rpc; /* gint64 above 0 -> TpsSegmentInfo */

G_END_DECLS
