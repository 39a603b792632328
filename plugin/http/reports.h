/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The JSON responses (API.md) and /metrics. They must not change the state of the server, nor hold
 * a lock that calls need for longer than about 100 us. Thread: the HTTP thread. */

#pragma once

#include "plugin/http/http.h"
#include "plugin/http/http_connections.h"
#include "runtime/base/counters.h"

/* -- numbers in a reading -- */

/* Access to the numbers in a reading of the server's counters, by the names of their families. */

/* Returns the family with this name, borrowed from `reading`; NULL: there is none. */
const TpsFamilyReading *tps_readings_find (const TpsReading *reading, const gchar *name);

/* A family that is counted for each method or each table, and the name of its member in JSON
 * responses. */
typedef struct
{
  const gchar *family;
  const gchar *member;
} TpsCountName;

typedef enum
{
  TPS_COUNT_CALLS,
  TPS_COUNT_FAILURES,
  TPS_N_METHOD_COUNTS
} TpsMethodCount;

typedef enum
{
  TPS_COUNT_LOOKUPS,
  TPS_COUNT_LOOKUP_ROWS,
  TPS_COUNT_PUSHES,
  TPS_COUNT_PUSH_ROWS,
  TPS_N_TABLE_COUNTS
} TpsTableCount;

extern const TpsCountName tps_method_counts[TPS_N_METHOD_COUNTS];
extern const TpsCountName tps_table_counts[TPS_N_TABLE_COUNTS];

/* Returns the sum over all series of a family of counters or gauges; 0 if it is negative, or if the
 * reading has no such family. */
guint64 tps_readings_sum (const TpsReading *reading, const gchar *name);

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

/* Returns the name of a budget in responses, borrowed from it; "process" for the root. */
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
