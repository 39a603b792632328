/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/service/node_service.h"

#include "plugin/wire/wire_node.h"
#include "runtime/base/error.h"
#include "runtime/base/version.h"

static void
describe_sharing (TpsNodeInfo *info, const TpsSegmentRegistry *segments)
{
  TpsDevice *device = tps_segment_registry_get_device (segments);

  info->max_shared_bytes = (gint64) tps_segment_registry_get_max_bytes (segments);
  info->has_shared_device = device != NULL;
  if (device != NULL)
    device->ops->get_uuid (device, info->shared_device);
}

static void
describe_durability (TpsNodeInfo *info, TpsDurable *durable)
{
  TpsDurableStatus status;

  tps_durable_get_status (durable, &status);
  info->has_durability = TRUE;
  info->durability = (TpsDurabilityInfo) {
    .phase = status.phase,
    .lsn = status.lsn,
    .end_lsn = status.end_lsn,
    .bytes = status.n_bytes_done,
    .end_bytes = status.n_bytes,
    .has_remaining_ms = status.remaining_ms >= 0,
    .remaining_ms = status.remaining_ms,
  };
}

static void
handle_describe (TpsCall *call, gpointer service)
{
  const TpsNode *node = service;
  const TpsSegmentRegistry *segments = tps_call_get_segments (call, NULL);
  TpsNodeInfo info = {
    .name = (gchar *) (gsize) node->name,
    .version = (gchar *) (gsize) TPS_VERSION,
    .max_frame_bytes = node->max_frame_bytes,
    .services = (gchar **) (gsize) node->services,
    .devices = (gchar **) (gsize) node->devices,
  };

  if (segments != NULL)
    describe_sharing (&info, segments);
  if (node->get_table_bytes != NULL)
    node->get_table_bytes (node->tables, &info.table_bytes, &info.max_table_bytes);
  if (node->durable != NULL)
    describe_durability (&info, node->durable);
  info.has_table_bytes = info.max_table_bytes > 0;
  tps_call_reply_value (call, &info);
}

static gpointer
ref_summaries (gpointer summaries)
{
  return g_ptr_array_ref (summaries);
}

static void
unref_summaries (gpointer summaries)
{
  g_ptr_array_unref (summaries);
}

static void
handle_get_metrics (TpsCall *call, gpointer service)
{
  const TpsNode *node = service;
  g_autoptr (GPtrArray) summaries = NULL;
  g_autoptr (GError) error = NULL;
  gboolean with_samples = FALSE;
  TpsLender lender = { .ref = ref_summaries, .unref = unref_summaries };

  if (!tps_call_read_arguments (call, &with_samples, &error))
    {
      tps_call_reply_error (call, error);
      return;
    }
  summaries = node->metrics != NULL ? tps_metrics_summarize (node->metrics, with_samples)
                                    : g_ptr_array_new ();
  lender.object = summaries;
  tps_call_reply_value_of (call, &summaries, &lender);
}

static void
handle_clear_metrics (TpsCall *call, gpointer service)
{
  const TpsNode *node = service;

  if (node->metrics != NULL)
    tps_metrics_clear (node->metrics);
  tps_call_reply (call, NULL, NULL);
}

static void
handle_reload_certificates (TpsCall *call, gpointer service)
{
  const TpsNode *node = service;
  g_autoptr (GError) error = NULL;

  if (node->tls == NULL)
    g_set_error_literal (&error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                         "this server has no certificate: it does not encrypt");
  if (error == NULL && tps_tls_reload (node->tls, &error))
    tps_call_reply (call, NULL, NULL);
  else
    tps_call_reply_error (call, error);
}

static const TpsMethod methods[] = {
  { &tps_describe_rpc, handle_describe, TPS_METHOD_INLINE },
  { &tps_get_metrics_rpc, handle_get_metrics,
    TPS_METHOD_LONG }, /* sorts up to 65,536 samples of every metric */
  { &tps_clear_metrics_rpc, handle_clear_metrics, TPS_METHOD_INLINE },
  { &tps_reload_certificates_rpc, handle_reload_certificates, TPS_METHOD_LONG }, /* reads files */
  { NULL },
};

TpsService
tps_node_service (TpsNode *node)
{
  return (TpsService) { .name = "Node", .methods = methods, .object = node };
}
