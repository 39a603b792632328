/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A tenant: callers that share limits. It holds the limits and their present use, and decides about
 * each call.
 *
 *   if (!tps_tenant_begin_call (tenant, n_bytes_in, now_ns, &error))      before the work
 *     refuse
 *   tps_tenant_add_rows (tenant, n_rows, now_ns, &error)          once the number is known
 *   tps_tenant_end_call (tenant, n_bytes_out, now_ns);            once the reply is encoded
 *
 * `now_ns` is a time of the monotonic clock that the caller has read for a different purpose, such
 * as the arrival of the call. It must not lie in the future. If it is 0, the tenant reads a clock.
 * Tokens are counted at `now_ns`. Before the tenant refuses a call, it counts the tokens again at
 * the present time, so an old `now_ns` never causes a refusal.
 *
 * Tokens for calls, rows and received bytes must be available before the work. Sent bytes are
 * charged when they are known, and may leave a debt; the calls of a tenant in debt are refused. A
 * refusal charges no tokens, except that concurrent calls may lose a few. Tokens that begin_call()
 * has already charged to the call are not returned. The host memory of tables has a budget, whose
 * parent is the budget of all tables.
 *
 * A refusal is the error RESOURCE_EXHAUSTED. The error names the tenant, the limit and its value,
 * and has retry_after_ms. After this time the same limit admits the call, if the tenant makes no
 * other calls meanwhile; for calls in flight, the time is an estimate.
 *
 * Thread: any, unless stated otherwise. The functions for calls take no lock. Tenants are owned by
 * a TpsQuotas (quotas.h) and live as long as their owner.
 */

#pragma once

#include "runtime/base/budget.h"
#include "runtime/base/worker_pool.h"
#include "runtime/server/quota/token_bucket.h"

G_BEGIN_DECLS

/* Kinds before TPS_N_RATES are token buckets. */
typedef enum
{
  TPS_QUOTA_CALLS = 0,
  TPS_QUOTA_ROWS = 1,
  TPS_QUOTA_BYTES_IN = 2,
  TPS_QUOTA_BYTES_OUT = 3,
  TPS_QUOTA_CALLS_IN_FLIGHT = 4,
  TPS_QUOTA_TABLE_BYTES = 5,
} TpsQuotaKind;
#define TPS_N_RATES 4
#define TPS_N_QUOTAS 6

/* Returns the name of a limit: "calls_per_s", ..., "calls_in_flight", "table_bytes". Static. */
const gchar *tps_quota_kind_name (TpsQuotaKind kind);

typedef struct
{
  guint64 per_s; /* 0 = no limit */
  guint64 burst; /* 0 = the tokens of one second */
} TpsRateLimit;

/* All zero = no limits. */
typedef struct
{
  TpsRateLimit rates[TPS_N_RATES];
  guint64 calls_in_flight; /* 0 = no limit */
  guint64 table_bytes;     /* in the host and on devices; 0 = no limit */
} TpsTenantLimits;

typedef struct TpsTenant TpsTenant;

typedef struct
{
  TpsBudget *tables;      /* in host memory, of all tenants; NULL = there is none */
  TpsWorkerPool *workers; /* borrowed; NULL = jobs of tenants are not grouped */
  /* NULL = the system's monotonic clock. A test's clock also replaces the `now_ns` of callers. */
  gint64 (*get_now_ns) (void);
} TpsTenantOptions;

/* Create and free a tenant, only for TpsQuotas. A new tenant has no limits. A tenant must not be
 * freed while one of its calls is in progress. */
TpsTenant *tps_tenant_new (const gchar *name, const TpsTenantOptions *options);
void tps_tenant_free (TpsTenant *tenant);

/* Replaces the limits. Buckets keep the number of missing tokens, and admitted calls stay admitted.
 * Thread: one at a time. */
void tps_tenant_set_limits (TpsTenant *tenant, const TpsTenantLimits *limits);

/* Begins to enforce the limit of the tenant's tables. Before this call, while a server reads its
 * data directory, tables are only counted, because a lowered limit must not prevent a server from
 * starting. Thread: one at a time. */
void tps_tenant_enforce_table_bytes (TpsTenant *tenant);

const gchar *tps_tenant_get_name (const TpsTenant *tenant);

/* Admits a call whose request has `n_bytes_in` bytes. end_call() must follow for every admitted
 * call. Errors: RESOURCE_EXHAUSTED. */
gboolean tps_tenant_begin_call (TpsTenant *tenant, gsize n_bytes_in, gint64 now_ns, GError **error);

/* Charges an admitted call for rows that it will read or change. Errors: RESOURCE_EXHAUSTED. */
gboolean tps_tenant_add_rows (TpsTenant *tenant, guint64 n_rows, gint64 now_ns, GError **error);

/* Ends an admitted call, whose reply has `n_bytes_out` bytes, and charges these bytes. */
void tps_tenant_end_call (TpsTenant *tenant, gsize n_bytes_out, gint64 now_ns);

/* Returns the budget of the tenant's tables in host memory, a part of the budget of all tables.
 * Tables must be charged to this budget and to the quota below. Borrowed; NULL if
 * TpsTenantOptions.tables is NULL. */
TpsBudget *tps_tenant_get_table_budget (TpsTenant *tenant);

/* Returns the budget of all memory of the tenant's tables, in host memory and on devices. Its limit
 * is TpsTenantLimits.table_bytes. Borrowed; NULL if TpsTenantOptions.tables is NULL. */
TpsBudget *tps_tenant_get_table_quota (TpsTenant *tenant);

/* Returns the group of the tenant's jobs on the worker pool, on which tenants take turns. Borrowed;
 * NULL if jobs are not grouped. */
TpsJobGroup *tps_tenant_get_job_group (TpsTenant *tenant);

/* The limits of a tenant and their use, at one moment. */
typedef struct
{
  const gchar *name; /* borrowed from the tenant */
  TpsTenantLimits limits;
  gint64 levels[TPS_N_RATES]; /* tokens left; negative = a debt; 0 without a limit */
  guint64 n_calls_in_flight;
  gsize n_table_bytes;
  guint64 n_refused[TPS_N_QUOTAS];
  guint64 throttled_ms; /* sum of the retry_after_ms of all refusals */
} TpsTenantStatus;

void tps_tenant_get_status (TpsTenant *tenant, TpsTenantStatus *status);

G_END_DECLS
