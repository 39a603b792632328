/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* thrift/memory.thrift: arguments and results, named as in wire_parameter_server.h. */

#pragma once

#include "plugin/frame/writer.h"
#include "plugin/memory/segment.h"
#include "plugin/wire/fields.h"

G_BEGIN_DECLS

typedef struct
{
  TpsSegmentKind kind;
  TpsSegmentUse use;
  gint64 n_bytes; /* above 0 */
} TpsOpenSegmentArguments;

gboolean tps_open_segment_arguments_decode (TpsReader *in, TpsOpenSegmentArguments *arguments,
                                            GError **error);
/* `data`: const TpsOpenSegmentArguments *. */
void tps_open_segment_arguments_encode (TpsWriter *out, gconstpointer data);

/* The struct Segment. */
typedef struct
{
  gint64 id;
  gint64 n_bytes;
  gboolean has_handle;
  guint8 handle[TPS_EXPORT_HANDLE_BYTES];
} TpsSegmentInfo;

/* `data`: const TpsSegmentInfo *; TpsSegmentInfo *, positive numbers. */
void tps_open_segment_result_encode (TpsWriter *out, gconstpointer data);
gboolean tps_open_segment_result_decode (TpsReader *in, TpsWireType type, gpointer info,
                                         GError **error);

/* Of release_segments and close_segments. `ids`: a new GArray of gint64; NULL after a failure. */
gboolean tps_segment_ids_arguments_decode (TpsReader *in, GArray **ids, GError **error);
/* `data`: const GArray * of gint64. */
void tps_segment_ids_arguments_encode (TpsWriter *out, gconstpointer data);

G_END_DECLS
