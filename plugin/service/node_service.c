/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/service/node_service.h"

#include <string.h>

#include "plugin/service/methods.h"
#include "plugin/wire/wire_node.h"
#include "runtime/base/error.h"
#include "runtime/base/trace.h"

#define NS_PER_MS G_GINT64_CONSTANT (1000000)

static TpsTraceEvent log_level_changed = TPS_TRACE_EVENT ("log_level_changed", TPS_TRACE_INFO);

static void
handle_describe (TpsCall *call, gpointer service)
{
  const TpsNode *node = service;
  const TpsSegmentRegistry *segments = tps_call_get_segments (call, NULL);
  gboolean may_see_totals = tps_call_may_see_table (call, NULL, TPS_RIGHT_READ);
  TpsNodeInfo info = {
    .name = (gchar *) (gsize) node->name,
    .version = (gchar *) (gsize) TPS_VERSION,
    .max_frame_bytes = node->max_frame_bytes,
    .services = (gchar **) (gsize) node->services,
    .devices = (gchar **) (gsize) node->devices,
  };

  if (segments != NULL)
    {
      TpsDevice *device = tps_segment_registry_get_device (segments);

      info.max_shared_bytes = (gint64) tps_segment_registry_get_max_bytes (segments);
      info.has_lookup_device = device != NULL;
      info.has_shared_device = device != NULL
                               && !tps_segment_registry_is_for_lookups_only (segments);
      if (info.has_lookup_device)
        device->ops->get_uuid (device, info.lookup_device);
      if (info.has_shared_device)
        memcpy (info.shared_device, info.lookup_device, sizeof info.shared_device);
    }
  if (node->get_table_bytes != NULL && may_see_totals)
    node->get_table_bytes (node->tables, &info.table_bytes, &info.max_table_bytes);
  if (node->durable != NULL)
    {
      TpsDurableStatus status;

      /* The numbers of bytes are totals of all tenants. */
      tps_durable_get_status (node->durable, &status);
      info.has_durability = TRUE;
      info.durability = (TpsDurabilityInfo) {
        .phase = status.phase,
        .lsn = status.lsn,
        .end_lsn = status.end_lsn,
        .bytes = may_see_totals ? status.n_bytes_done : 0,
        .end_bytes = may_see_totals ? status.n_bytes : 0,
        .has_remaining_ms = status.remaining_ms >= 0,
        .remaining_ms = status.remaining_ms,
      };
    }
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

  if (!tps_call_read_arguments (call, &with_samples, &error)
      || (node->metrics != NULL
          && !tps_call_charge (call, tps_metrics_get_summary_bytes (node->metrics), &error)))
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

static void
handle_reload_access (TpsCall *call, gpointer service)
{
  const TpsNode *node = service;
  g_autoptr (GError) error = NULL;

  if (node->access == NULL)
    g_set_error_literal (&error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                         "this server has neither rules nor tokens");
  else
    tps_access_reload (node->access, &error);
  tps_call_reply_done (call, error);
}

static void
handle_set_log_level (TpsCall *call, gpointer service)
{
  g_autofree gchar *levels = NULL;
  g_autofree gchar *before = tps_trace_dup_levels ();
  g_autoptr (GError) error = NULL;

  if (!tps_call_read_arguments (call, &levels, &error) || !tps_trace_set_levels (levels, &error))
    {
      tps_call_reply_error (call, error);
      return;
    }
  tps_trace (&log_level_changed, tps_field_text ("peer", tps_call_get_peer (call)),
             tps_field_text ("levels", levels), tps_field_text ("before", before));
  tps_call_reply_value (call, &before);
}

static void
handle_forget_push_clients (TpsCall *call, gpointer service)
{
  const TpsNode *node = service;
  TpsForgetPushClientsArguments arguments = { NULL, 0 };
  g_autoptr (GError) error = NULL;
  gint64 n_clients = 0;

  if (tps_call_read_arguments (call, &arguments, &error)
      && (arguments.idle_ms < 0 || arguments.idle_ms > G_MAXINT64 / NS_PER_MS))
    g_set_error (&error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                 "idle_ms: %" G_GINT64_FORMAT " is not in [0, %" G_GINT64_FORMAT "]",
                 arguments.idle_ms, G_MAXINT64 / NS_PER_MS);
  /* The clients of a tenant may push to any table. */
  if (error == NULL && tps_call_check_table (call, NULL, TPS_RIGHT_ADMIN, &error)
      && node->forget_push_clients != NULL)
    n_clients = node->forget_push_clients (node->plugin,
                                           *arguments.tenant != '\0' ? arguments.tenant : NULL,
                                           arguments.idle_ms * NS_PER_MS);
  g_free (arguments.tenant);
  if (error == NULL)
    tps_call_reply_value (call, &n_clients);
  else
    tps_call_reply_error (call, error);
}

/* In the long lane: get_metrics sorts up to 65,536 samples of every metric, the reloads read files,
 * and forget_push_clients visits up to a million clients. */
static const TpsMethod methods[] = { TPS_NODE_METHODS (handle_), { 0 } };

TpsService
tps_node_service (TpsNode *node)
{
  return (TpsService) { .name = "Node", .methods = methods, .object = node };
}
