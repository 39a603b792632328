/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/client/tables/plan_sender.h"

#include "plugin/wire/wire_embedding_table.h"

typedef struct
{
  TpsLookupPlan *plan;
  guint server;
  TpsLookupBagsArguments arguments; /* borrows from the plan */
} ServerPart;

typedef struct
{
  TpsServers *servers;
  guint n_parts;
  ServerPart *parts;
  TpsServerRequest *requests;
  TpsPlanAnswered answered;
  gpointer user_data;
} Sending;

static gboolean
read_answer (TpsReader *in, TpsWireType type, gpointer user_data, GError **error)
{
  ServerPart *part = user_data;
  g_auto (TpsTensorList) list = { 0 };

  return tps_rpc_read_result (&tps_lookup_bags_rpc, in, type, &list, error)
         && tps_lookup_plan_take_answer (part->plan, part->server, list.tensors, list.n_tensors,
                                         error);
}

static void
on_answered (gpointer user_data, GError *const *errors)
{
  Sending *sending = user_data;
  g_autoptr (GError) error = tps_servers_dup_error (sending->servers, sending->requests,
                                                    sending->n_parts, errors, FALSE);

  sending->answered (sending->user_data, error);
  g_free (sending->parts);
  g_free (sending->requests);
  g_free (sending);
}

static void
add_part (Sending *sending, TpsLookupPlan *plan, guint server)
{
  const GArray *queries = plan->requests[server].queries;
  ServerPart *part = &sending->parts[sending->n_parts];

  if (queries->len == 0)
    return;
  part->plan = plan;
  part->server = server;
  part->arguments.n_queries = queries->len;
  part->arguments.queries = &g_array_index (queries, TpsBagQuery, 0);
  sending->requests[sending->n_parts++] = (TpsServerRequest) {
    .server = server,
    .arguments = &part->arguments,
    .read = read_answer,
    .result = part,
  };
}

void
tps_lookup_plan_send (TpsLookupPlan *plan, TpsServers *servers, gint64 deadline_ns,
                      TpsPlanAnswered answered, gpointer user_data)
{
  Sending *sending = g_new0 (Sending, 1);

  sending->servers = servers;
  sending->parts = g_new0 (ServerPart, plan->n_servers);
  sending->requests = g_new0 (TpsServerRequest, plan->n_servers);
  sending->answered = answered;
  sending->user_data = user_data;
  for (guint server = 0; server < plan->n_servers; server++)
    add_part (sending, plan, server);
  tps_servers_call (servers, &tps_lookup_bags_rpc, sending->requests, sending->n_parts, deadline_ns,
                    on_answered, sending);
}
