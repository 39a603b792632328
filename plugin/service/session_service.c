/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/service/session_service.h"

#include <string.h>

#include "plugin/service/methods.h"
#include "plugin/tracing/trace_context.h"
#include "plugin/wire/wire_session.h"
#include "runtime/base/error.h"

static void
handle_authenticate (TpsCall *call, gpointer unused)
{
  gchar *token = NULL;
  g_autoptr (GError) error = NULL;

  if (tps_call_read_arguments (call, &token, &error))
    tps_call_authenticate (call, token, &error);
  if (token != NULL)
    explicit_bzero (token, strlen (token)); /* it must not remain in freed memory */
  g_free (token);
  tps_call_reply_done (call, error);
}

static const gchar *const known_keys[] = { TPS_TRACEPARENT, TPS_TRACESTATE };

static void
handle_set_context (TpsCall *call, gpointer unused)
{
  g_autoptr (GHashTable) context = NULL;
  g_autoptr (GHashTable) known = NULL;
  g_autoptr (GError) error = NULL;

  if (tps_call_read_arguments (call, &context, &error))
    {
      for (guint i = 0; i < G_N_ELEMENTS (known_keys); i++)
        {
          const gchar *value = g_hash_table_lookup (context, known_keys[i]);

          if (value == NULL)
            continue;
          if (known == NULL)
            known = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, g_free);
          g_hash_table_insert (known, (gpointer) (gsize) known_keys[i], g_strdup (value));
        }
      tps_call_set_context (call, known, &error);
    }
  tps_call_reply_done (call, error);
}

static const TpsMethod methods[] = { TPS_SESSION_METHODS (handle_), { 0 } };

TpsService
tps_session_service (void)
{
  return (TpsService) { .name = "Session", .methods = methods };
}
