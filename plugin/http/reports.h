/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The JSON responses (API.md) and /metrics. They must not change the state of the server, nor hold
 * a lock that calls need for longer than about 100 us. Thread: the HTTP thread. */

#pragma once

#include "plugin/http/http.h"
#include "plugin/http/http_connections.h"

G_BEGIN_DECLS

typedef struct
{
  TpsPlugin *plugin;
  TpsServer *server; /* NULL = none */
  TpsTracer *tracer; /* NULL = none */
  gint64 started_us; /* since 1970 */
  gint64 stuck_ns;   /* time after which a thread is reported as stuck */
  const TpsHttpConnections *connections;
} TpsReports;

/* Returns the endpoints of all reports, ended by a NULL path; static. In its copies, the caller
 * must set `user_data` to the TpsReports. */
const TpsHttpEndpoint *tps_reports_get_endpoints (void);

/* ---- parts that events have, too ------------------------------------------------------------ */

/* Adds the state of the server: the members `name` ("ready" or "not ready"), "reasons" (why it is
 * not ready), and "warnings". Returns TRUE if the server is ready. */
gboolean tps_reports_add_state (const TpsReports *reports, TpsJsonWriter *json, const gchar *name);

/* Adds the member "durability". If `is_brief` is TRUE, members that seldom change are omitted. */
void tps_reports_add_durability (const TpsReports *reports, TpsJsonWriter *json, gboolean is_brief);

/* Returns the name of a budget in responses, borrowed from the budget. The root is called
 * "process". */
const gchar *tps_reports_get_budget_name (TpsBudget *budget);

/* The state of averaging, with its oldest open rounds, and of the model. */
#define TPS_REPORTS_MAX_ROUNDS 100

typedef struct
{
  gboolean has_averaging, has_model;
  TpsAveragingStatus averaging;
  TpsUpdatingStatus model;
  TpsOpenRound rounds[TPS_REPORTS_MAX_ROUNDS];
} TpsRoundsReport;

/* Returns the current state of all rounds. The caller owns the result (g_free()). */
TpsRoundsReport *tps_reports_get_rounds (const TpsReports *reports);

G_END_DECLS
