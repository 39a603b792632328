/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/server/connection_report.h"

#include "plugin/server/session.h"

/* The number of sessions that are referenced under one lock of the list. Connections cannot begin
 * or end while the list is locked, so the number is limited. */
#define TURN_SESSIONS 256

static void
clear_info (gpointer data)
{
  TpsConnectionInfo *info = data;

  g_free (info->peer);
  tps_principal_unref (info->principal);
}

static void
ref_session (gpointer session)
{
  tps_session_ref (session);
}

GArray *
tps_connection_report_new (TpsServerCore *core, guint64 after, guint n_max)
{
  GArray *infos = g_array_new (FALSE, FALSE, sizeof (TpsConnectionInfo));
  gint64 now_ns = tps_clock_now_ns ();
  gpointer sessions[TURN_SESSIONS];
  guint n_asked = 1, n = 1;

  g_array_set_clear_func (infos, clear_info);
  while (infos->len < n_max && n == n_asked)
    {
      n_asked = MIN (n_max - infos->len, TURN_SESSIONS);
      n = tps_session_list_ref_next (&core->sessions, after, sessions, n_asked, ref_session);
      for (guint i = 0; i < n; i++)
        {
          TpsConnectionInfo info;

          tps_session_describe (sessions[i], now_ns, &info);
          after = info.id;
          g_array_append_val (infos, info);
          tps_session_unref (sessions[i]);
        }
    }
  return infos;
}
