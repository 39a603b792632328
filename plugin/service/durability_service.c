/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/service/durability_service.h"

#include "plugin/wire/wire_durability.h"
#include "runtime/base/error.h"

/* One connection's calls must not wait for a disk under a host that serves one connection at a time. */
static gboolean
may_wait (TpsCall *call, GError **error)
{
  if (tps_call_may_wait (call))
    return TRUE;
  g_set_error_literal (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
                       "this server cannot wait for its disk: it serves one connection at a time");
  return FALSE;
}

static void
answer_flush (gpointer user_data, gint64 lsn, const GError *error)
{
  TpsCall *call = user_data;

  if (error != NULL)
    tps_call_reply_error (call, error);
  else
    tps_call_reply_value (call, &lsn);
}

static void
handle_flush (TpsCall *call, gpointer durable)
{
  g_autoptr (GError) error = NULL;

  if (may_wait (call, &error) && tps_durable_check (durable, &error))
    tps_durable_flush (durable, answer_flush, call);
  else
    tps_call_reply_error (call, error);
}

static void
answer_snapshot (gpointer user_data, const TpsSnapshotInfo *info, const GError *error)
{
  TpsCall *call = user_data;

  if (error != NULL)
    tps_call_reply_error (call, error);
  else
    {
      TpsWireSnapshotInfo value = {
        .name = (gchar *) (gsize) info->name,
        .lsn = info->lsn,
        .end_lsn = info->end_lsn,
        .n_tables = (gint32) info->n_tables,
        .has_model = info->has_model,
        .n_bytes = (gint64) info->n_bytes,
      };

      tps_call_reply_value (call, &value);
    }
}

static void
handle_snapshot (TpsCall *call, gpointer durable)
{
  g_autoptr (GError) error = NULL;

  if (may_wait (call, &error))
    tps_durable_snapshot (durable, answer_snapshot, call);
  else
    tps_call_reply_error (call, error);
}

static const TpsMethod methods[] = {
  { &tps_flush_rpc, handle_flush, TPS_METHOD_INLINE },
  { &tps_snapshot_rpc, handle_snapshot, TPS_METHOD_INLINE },
  { NULL },
};

TpsService
tps_durability_service (TpsDurable *durable)
{
  return (TpsService) { .name = "Durability", .methods = methods, .object = durable };
}
