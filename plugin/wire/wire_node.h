/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* thrift/node.thrift: NodeInfo and MetricSummary; functions named as in wire_parameter_server.h. ServiceError is written in
 * one place (plugin/service/call.c) and read in one (plugin/client/reply.c). */

#pragma once

#include "plugin/frame/writer.h"
#include "plugin/wire/fields.h"
#include "runtime/device/backend.h"
#include "runtime/base/metrics.h"

G_BEGIN_DECLS

typedef struct
{
  gchar *name;
  gchar *version;
  gint64 max_frame_bytes;     /* 0 = not said */
  gchar **services;           /* NULL = not said */
  gchar **devices;            /* NULL = not said */
  gint64 table_bytes;         /* held by embedding tables */
  gint64 max_table_bytes;     /* 0 = not said, both */
  gint64 max_shared_bytes;    /* 0 = no shared memory is offered on this connection */
  gboolean has_shared_device; /* it may lie in memory of the device of that UUID */
  guint8 shared_device[TPS_DEVICE_UUID_BYTES];
} TpsNodeInfo;

void tps_node_info_clear (TpsNodeInfo *info);

/* `data`: const TpsNodeInfo *; TpsNodeInfo *, zero before. */
void tps_node_describe_result_encode (TpsWriter *out, gconstpointer data);
gboolean tps_node_describe_result_decode (TpsReader *in, TpsWireType type, gpointer info,
                                          GError **error);

gboolean tps_node_get_metrics_arguments_decode (TpsReader *in, gboolean *with_samples,
                                                GError **error);
/* `with_samples`: const gboolean *. */
void tps_node_get_metrics_arguments_encode (TpsWriter *out, gconstpointer with_samples);

/* `data`: const GPtrArray * of TpsMetricSummary; their samples are borrowed until the writer lets go of them. */
void tps_node_get_metrics_result_encode (TpsWriter *out, gconstpointer data);
/* `target`: GPtrArray **, new, frees its elements; NULL after a failure. */
gboolean tps_node_get_metrics_result_decode (TpsReader *in, TpsWireType type, gpointer target,
                                             GError **error);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsNodeInfo, tps_node_info_clear)

G_END_DECLS
