/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The answers in JSON, whose shapes are in API.md. Reports read the state of the server and must
 * not change it; they hold a lock that calls take for some 100 us at most.
 *
 *   report_node.c      /healthz /readyz /version /status
 *   report_lists.c     /connections /tables
 *   report_rounds.c    /rounds
 *   report_slow.c      /slow
 *   report_metrics.c   /metrics
 *   report_state.c     parts that several of them share; report_quotas.c one of /status
 *
 * Thread: the HTTP thread alone.
 */

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
  gint64 stuck_ns;   /* after which a thread is stuck */
  const TpsHttpConnections *connections;
} TpsReports;

/* All of them, ended by a NULL path; their `user_data` must become the TpsReports. */
const TpsHttpEndpoint *tps_reports_get_endpoints (void);

/* ---- parts that answers share --------------------------------------------------------------- */

/* Whether the server is ready, and the reasons if it is not: the members "state" (`name`),
 * "reasons", and "warnings". */
gboolean tps_reports_add_state (const TpsReports *reports, TpsJsonWriter *json, const gchar *name);

/* The member "durability"; `is_brief` leaves out the members that seldom change. */
void tps_reports_add_durability (const TpsReports *reports, TpsJsonWriter *json, gboolean is_brief);

/* The member "quotas". */
void tps_reports_add_quotas (const TpsReports *reports, TpsJsonWriter *json);

/* Answers call the root "process"; borrowed from the budget. */
const gchar *tps_reports_get_budget_name (TpsBudget *budget);

/* The oldest open rounds, and the model's. */
#define TPS_REPORTS_MAX_ROUNDS 100

typedef struct
{
  gboolean has_averaging, has_model;
  TpsAveragingStatus averaging;
  TpsUpdatingStatus model;
  TpsOpenRound rounds[TPS_REPORTS_MAX_ROUNDS];
} TpsRoundsReport;

/* Owned by the caller; g_free(). */
TpsRoundsReport *tps_reports_get_rounds (const TpsReports *reports);

/* The handlers of the paths of API.md, for TpsHttpEndpoint; `data` is the TpsReports. Each answers
 * `request` before it returns. */
void tps_report_healthz (TpsHttpRequest *request, gpointer data);
void tps_report_readyz (TpsHttpRequest *request, gpointer data);
void tps_report_version (TpsHttpRequest *request, gpointer data);
void tps_report_status (TpsHttpRequest *request, gpointer data);
void tps_report_connections (TpsHttpRequest *request, gpointer data);
void tps_report_tables (TpsHttpRequest *request, gpointer data);
void tps_report_rounds (TpsHttpRequest *request, gpointer data);
void tps_report_slow (TpsHttpRequest *request, gpointer data);
void tps_report_metrics (TpsHttpRequest *request, gpointer data);

G_END_DECLS
