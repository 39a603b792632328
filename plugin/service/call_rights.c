/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/service/call_private.h"

void
tps_call_set_method (TpsCall *call, const TpsGuardedMethod *method)
{
  call->method = method;
  call->is_admin = method->right == TPS_RIGHT_ADMIN;
}

gboolean
tps_call_may_see_table (TpsCall *call, const gchar *table, TpsRight right)
{
  return call->grant == NULL || tps_grant_allows_table (call->grant, call->method, table, right);
}

gboolean
tps_call_check_table (TpsCall *call, const gchar *table, TpsRight right, GError **error)
{
  g_autoptr (GError) refusal = NULL;

  tps_call_span_set_table (call->span, table);
  if (call->is_admin && call->object == NULL)
    call->object = g_strdup (table);
  if (call->grant == NULL
      || tps_grant_check_table (call->grant, call->method, table, right, &refusal))
    return TRUE;
  tps_call_record_refusal (call, table, refusal);
  g_propagate_error (error, g_steal_pointer (&refusal));
  return FALSE;
}

void
tps_call_refuse (TpsCall *call, const GError *error)
{
  tps_call_record_refusal (call, NULL, error);
  call->is_admin = FALSE; /* the refusal has been logged */
  tps_call_record_error (call, error);
  tps_call_end (call, tps_call_wants_reply (call) ? tps_call_write_refusal (call, error) : NULL);
}
