/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A call begins in three steps: it counts as in flight, the level of every bucket is checked, and
 * then the buckets are charged. A different call may empty a bucket between the last two steps. The
 * call is then refused, and the tokens that it took from other buckets are lost. A race may thus
 * cost a tenant a few tokens, but never gives it any.
 *
 * Limits are immutable objects behind an atomic pointer, so a call uses either the old or the new
 * limits. Calls may still use old objects, which are therefore freed only with the tenant. Every
 * change of the limits thus costs about 200 bytes.
 */

#include "runtime/server/quota/tenant.h"

#include <stdint.h>
#include <string.h>

#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/server/quota/token_charge.h"

#define NS_PER_MS 1000000
#define NS_PER_S G_GINT64_CONSTANT (1000000000)
/* Bursts of at least this length are counted with the coarse clock, because reading it takes only a
 * fifth of the time. Its resolution of a few milliseconds does not matter for such bursts. */
#define LONG_BURST_NS (100 * NS_PER_MS)
/* The retry delay after a refusal for too many calls in flight. The end of a call cannot be
 * predicted, but most calls are short. */
#define IN_FLIGHT_WAIT_MS 10
/* The maximum delay of a refused caller, counted from the time at which the bucket has the tokens
 * for its call. Refused callers that never retry must not delay others for longer. */
#define MAX_TURNS_NS NS_PER_S

typedef struct
{
  TpsTenantLimits said; /* as they were set */
  TpsTokenRate rates[TPS_N_RATES];
  gboolean has_rates; /* for calls or bytes, not for rows */
  clockid_t clock;
} Limits;

struct TpsTenant
{
  gchar *name;
  gint64 (*get_now_ns) (void); /* NULL = a system clock */
  TpsBudget *tables;           /* in host memory */
  TpsBudget *table_quota;      /* in the host and on devices */
  TpsJobGroup *jobs;
  gboolean enforces_table_bytes; /* only the thread that sets limits reads or changes it */
  GPtrArray *all_limits;         /* of Limits; owns them */

  _Atomic (const Limits *) limits;
  TpsTokenBucket buckets[TPS_N_RATES];
  _Atomic gint64 turns_ns[TPS_N_RATES]; /* when the last refused caller retries; G_MININT64: none */
  atomic_uint_fast64_t n_calls_in_flight;
  atomic_uint_fast64_t n_refused[TPS_N_QUOTAS]; /* except for tables, which `table_quota` counts */
  atomic_uint_fast64_t throttled_ms;
};

const gchar *
tps_quota_kind_name (TpsQuotaKind kind)
{
  static const gchar *const names[TPS_N_QUOTAS] = {
    [TPS_QUOTA_CALLS] = "calls_per_s",
    [TPS_QUOTA_ROWS] = "rows_per_s",
    [TPS_QUOTA_BYTES_IN] = "bytes_in_per_s",
    [TPS_QUOTA_BYTES_OUT] = "bytes_out_per_s",
    [TPS_QUOTA_CALLS_IN_FLIGHT] = "calls_in_flight",
    [TPS_QUOTA_TABLE_BYTES] = "table_bytes",
  };

  return names[kind];
}

/* ---- life ------------------------------------------------------------------------------------ */

TpsTenant *
tps_tenant_new (const gchar *name, const TpsTenantOptions *options)
{
  static const Limits none = { .clock = CLOCK_MONOTONIC };
  TpsTenant *tenant = g_new0 (TpsTenant, 1);
  g_autofree gchar *budget = g_strdup_printf ("tables of tenant %s", name);

  tenant->name = g_strdup (name);
  tenant->get_now_ns = options->get_now_ns;
  tenant->all_limits = g_ptr_array_new_with_free_func (g_free);
  atomic_init (&tenant->limits, &none);
  for (guint i = 0; i < TPS_N_RATES; i++)
    atomic_init (&tenant->turns_ns[i], G_MININT64);
  if (options->tables != NULL)
    {
      tenant->tables = tps_budget_new (options->tables, budget, 0);
      tenant->table_quota = tps_budget_new (NULL, budget, 0);
      tps_budget_set_flag (tenant->table_quota, tps_quota_kind_name (TPS_QUOTA_TABLE_BYTES));
    }
  if (options->workers != NULL)
    tenant->jobs = tps_job_group_new (options->workers);
  return tenant;
}

void
tps_tenant_free (TpsTenant *tenant)
{
  g_clear_pointer (&tenant->jobs, tps_job_group_unref);
  tps_budget_unref (tenant->table_quota);
  tps_budget_unref (tenant->tables);
  g_ptr_array_unref (tenant->all_limits);
  g_free (tenant->name);
  g_free (tenant);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static const Limits *
get_limits (TpsTenant *tenant)
{
  return atomic_load_explicit (&tenant->limits, memory_order_acquire);
}

static gint64
get_now_ns (const TpsTenant *tenant, const Limits *limits)
{
  struct timespec now;

  if (tenant->get_now_ns != NULL)
    return tenant->get_now_ns ();
  clock_gettime (limits->clock, &now);
  return (gint64) now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* Returns the time of a decision. This is the time of the caller, unless that is 0 or a test has
 * set a clock. Otherwise, it is the time of the tenant's clock. */
static gint64
find_now_ns (const TpsTenant *tenant, const Limits *limits, gint64 callers_ns)
{
  return callers_ns != 0 && tenant->get_now_ns == NULL ? callers_ns : get_now_ns (tenant, limits);
}

/* Returns the present time, but at least `now_ns`, because the coarse clock may lag behind the
 * caller's clock. */
static gint64
find_present_ns (const TpsTenant *tenant, const Limits *limits, gint64 now_ns)
{
  return MAX (now_ns, get_now_ns (tenant, limits));
}

/* Bursts of only a few ticks of the coarse clock need the exact clock. */
static clockid_t
choose_clock (const Limits *limits)
{
  for (guint i = 0; i < TPS_N_RATES; i++)
    if (tps_token_rate_is_limited (&limits->rates[i])
        && limits->rates[i].tolerance_ns < LONG_BURST_NS)
      return CLOCK_MONOTONIC;
  return CLOCK_MONOTONIC_COARSE;
}

static void
limit_tables (TpsTenant *tenant)
{
  if (tenant->enforces_table_bytes)
    tps_budget_set_max (tenant->table_quota, get_limits (tenant)->said.table_bytes);
}

void
tps_tenant_set_limits (TpsTenant *tenant, const TpsTenantLimits *limits)
{
  const Limits *before = get_limits (tenant);
  gint64 now_ns = get_now_ns (tenant, before);
  Limits *after;

  if (memcmp (&before->said, limits, sizeof *limits) == 0)
    return;
  after = g_new0 (Limits, 1);
  after->said = *limits;
  for (guint i = 0; i < TPS_N_RATES; i++)
    {
      after->rates[i] = tps_token_rate (limits->rates[i].per_s, limits->rates[i].burst);
      after->has_rates |= i != TPS_QUOTA_ROWS && limits->rates[i].per_s > 0;
    }
  after->clock = choose_clock (after);
  g_ptr_array_add (tenant->all_limits, after);
  for (guint i = 0; i < TPS_N_RATES; i++)
    tps_token_bucket_change_rate (&tenant->buckets[i], &before->rates[i], &after->rates[i], now_ns);
  atomic_store_explicit (&tenant->limits, after, memory_order_release);
  limit_tables (tenant);
}

void
tps_tenant_enforce_table_bytes (TpsTenant *tenant)
{
  tenant->enforces_table_bytes = TRUE;
  limit_tables (tenant);
}

const gchar *
tps_tenant_get_name (const TpsTenant *tenant)
{
  return tenant->name;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Counts a refusal, and reports it with its retry delay. Always returns FALSE. */
static gboolean
refuse (TpsTenant *tenant, TpsQuotaKind kind, gint64 wait_ms, GError *refusal, GError **error)
{
  atomic_fetch_add_explicit (&tenant->n_refused[kind], 1, memory_order_relaxed);
  atomic_fetch_add_explicit (&tenant->throttled_ms, (guint64) wait_ms, memory_order_relaxed);
  tps_error_set_retry_after_ms (refusal, (gint) MIN (wait_ms, G_MAXINT));
  g_propagate_error (error, refusal);
  return FALSE;
}

/* Returns the delay after which a refused caller should retry. Each refused caller gets a later
 * time than the previous one, at which the bucket has the tokens for its call. If all callers
 * retried at the same time, all but one would be refused again. */
static gint64
find_turn (TpsTenant *tenant, TpsQuotaKind kind, const TpsTokenCharge *charge, gint64 now_ns,
           gint64 wait_ns)
{
  _Atomic gint64 *turns_ns = &tenant->turns_ns[kind];
  gint64 first_ns = now_ns + wait_ns;
  gint64 before_ns = atomic_load_explicit (turns_ns, memory_order_relaxed);
  gint64 turn_ns;

  do
    turn_ns = CLAMP (before_ns + charge->ns, first_ns, first_ns + MAX_TURNS_NS);
  while (!atomic_compare_exchange_weak_explicit (turns_ns, &before_ns, turn_ns,
                                                 memory_order_relaxed, memory_order_relaxed));
  return turn_ns - now_ns;
}

static gboolean
refuse_tokens (TpsTenant *tenant, const Limits *limits, TpsQuotaKind kind,
               const TpsTokenCharge *charge, gint64 now_ns, gint64 wait_ns, GError **error)
{
  gint64 turn_ns = find_turn (tenant, kind, charge, now_ns, wait_ns);
  gint64 wait_ms = (turn_ns + NS_PER_MS - 1) / NS_PER_MS;
  GError *refusal = g_error_new (
      TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
      "tenant %s: the limit %s is reached, %" G_GUINT64_FORMAT " with a burst of %" G_GUINT64_FORMAT
      "; try again in %" G_GINT64_FORMAT " ms",
      tenant->name, tps_quota_kind_name (kind), limits->said.rates[kind].per_s,
      limits->rates[kind].burst, wait_ms);

  return refuse (tenant, kind, wait_ms, refusal, error);
}

/* Counts a call as in flight. FALSE: the limit is reached. If a refused call were added and then
 * subtracted, it could make a different call fail. Therefore, a compare-and-swap is used. */
static gboolean
enter (TpsTenant *tenant, guint64 limit)
{
  uint_fast64_t n = atomic_load_explicit (&tenant->n_calls_in_flight, memory_order_relaxed);

  if (limit == 0)
    {
      atomic_fetch_add_explicit (&tenant->n_calls_in_flight, 1, memory_order_relaxed);
      return TRUE;
    }
  do
    if (n >= limit)
      return FALSE;
  while (!atomic_compare_exchange_weak_explicit (&tenant->n_calls_in_flight, &n, n + 1,
                                                 memory_order_relaxed, memory_order_relaxed));
  return TRUE;
}

static void
leave (TpsTenant *tenant)
{
  atomic_fetch_sub_explicit (&tenant->n_calls_in_flight, 1, memory_order_relaxed);
}

/* Checks again, at the present time, a charge that does not conform at the caller's time. If the
 * charge conforms now, the bucket is still charged at the caller's time. */
static gboolean
check_at_present (TpsTenant *tenant, const Limits *limits, TpsQuotaKind kind,
                  const TpsTokenCharge *charge, gint64 now_ns, GError **error)
{
  gint64 present_ns = find_present_ns (tenant, limits, now_ns);
  gint64 wait_ns = tps_token_charge_wait (charge, &limits->rates[kind], present_ns);

  return wait_ns == 0 || refuse_tokens (tenant, limits, kind, charge, present_ns, wait_ns, error);
}

/* Charges a bucket that has changed since it was checked, at the present time, if the charge still
 * conforms. */
static gboolean
take_at_present (TpsTenant *tenant, const Limits *limits, TpsQuotaKind kind, TpsTokenCharge *charge,
                 gint64 now_ns, GError **error)
{
  gint64 present_ns = find_present_ns (tenant, limits, now_ns);
  gint64 wait_ns;

  return tps_token_charge_take (charge, &tenant->buckets[kind], &limits->rates[kind], present_ns,
                                &wait_ns)
         || refuse_tokens (tenant, limits, kind, charge, present_ns, wait_ns, error);
}

/* The first of two steps: prepares a charge, and returns TRUE if the bucket has the tokens. */
static inline gboolean
check_tokens (TpsTenant *tenant, const Limits *limits, TpsQuotaKind kind, guint64 n_tokens,
              gint64 now_ns, TpsTokenCharge *charge, GError **error)
{
  const TpsTokenRate *rate = &limits->rates[kind];
  gint64 wait_ns = 0;

  *charge = tps_token_charge (&tenant->buckets[kind], rate, n_tokens);
  if (tps_token_rate_is_limited (rate))
    wait_ns = tps_token_charge_wait (charge, rate, now_ns);
  return wait_ns == 0 || check_at_present (tenant, limits, kind, charge, now_ns, error);
}

/* The second step: charges the bucket. Usually, the bucket has not changed since the first step. */
static inline gboolean
take_tokens (TpsTenant *tenant, const Limits *limits, TpsQuotaKind kind, gint64 now_ns,
             TpsTokenCharge *charge, GError **error)
{
  return charge->ns == 0
         || tps_token_charge_try (charge, &tenant->buckets[kind], &limits->rates[kind], now_ns)
         || take_at_present (tenant, limits, kind, charge, now_ns, error);
}

/* Charges the buckets for a call that begins. The bucket of sent bytes is not charged, but must not
 * be in debt. */
static gboolean
charge_begin (TpsTenant *tenant, const Limits *limits, gsize n_bytes_in, gint64 now_ns,
              GError **error)
{
  TpsTokenCharge out, calls, in;

  return check_tokens (tenant, limits, TPS_QUOTA_BYTES_OUT, 0, now_ns, &out, error)
         && check_tokens (tenant, limits, TPS_QUOTA_CALLS, 1, now_ns, &calls, error)
         && check_tokens (tenant, limits, TPS_QUOTA_BYTES_IN, n_bytes_in, now_ns, &in, error)
         && take_tokens (tenant, limits, TPS_QUOTA_CALLS, now_ns, &calls, error)
         && take_tokens (tenant, limits, TPS_QUOTA_BYTES_IN, now_ns, &in, error);
}

gboolean
tps_tenant_begin_call (TpsTenant *tenant, gsize n_bytes_in, gint64 now_ns, GError **error)
{
  const Limits *limits = get_limits (tenant);

  if (!enter (tenant, limits->said.calls_in_flight))
    {
      GError *refusal = g_error_new (
          TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
          "tenant %s: the limit %s is reached, %" G_GUINT64_FORMAT " calls at a time", tenant->name,
          tps_quota_kind_name (TPS_QUOTA_CALLS_IN_FLIGHT), limits->said.calls_in_flight);

      return refuse (tenant, TPS_QUOTA_CALLS_IN_FLIGHT, IN_FLIGHT_WAIT_MS, refusal, error);
    }
  if (!limits->has_rates
      || charge_begin (tenant, limits, n_bytes_in, find_now_ns (tenant, limits, now_ns), error))
    return TRUE;
  leave (tenant);
  return FALSE;
}

gboolean
tps_tenant_add_rows (TpsTenant *tenant, guint64 n_rows, gint64 now_ns, GError **error)
{
  const Limits *limits = get_limits (tenant);
  TpsTokenCharge charge;

  if (!tps_token_rate_is_limited (&limits->rates[TPS_QUOTA_ROWS]))
    return TRUE;
  now_ns = find_now_ns (tenant, limits, now_ns);
  return check_tokens (tenant, limits, TPS_QUOTA_ROWS, n_rows, now_ns, &charge, error)
         && take_tokens (tenant, limits, TPS_QUOTA_ROWS, now_ns, &charge, error);
}

void
tps_tenant_end_call (TpsTenant *tenant, gsize n_bytes_out, gint64 now_ns)
{
  const Limits *limits = get_limits (tenant);
  const TpsTokenRate *rate = &limits->rates[TPS_QUOTA_BYTES_OUT];

  leave (tenant);
  if (tps_token_rate_is_limited (rate))
    tps_token_bucket_charge (&tenant->buckets[TPS_QUOTA_BYTES_OUT], rate, n_bytes_out,
                             find_now_ns (tenant, limits, now_ns));
}

/* ---- usage ----------------------------------------------------------------------------------- */

TpsBudget *
tps_tenant_get_table_budget (TpsTenant *tenant)
{
  return tenant->tables;
}

TpsBudget *
tps_tenant_get_table_quota (TpsTenant *tenant)
{
  return tenant->table_quota;
}

TpsJobGroup *
tps_tenant_get_job_group (TpsTenant *tenant)
{
  return tenant->jobs;
}

void
tps_tenant_get_status (TpsTenant *tenant, TpsTenantStatus *status)
{
  const Limits *limits = get_limits (tenant);
  gint64 now_ns = get_now_ns (tenant, limits);

  *status = (TpsTenantStatus) { .name = tenant->name, .limits = limits->said };
  for (guint i = 0; i < TPS_N_RATES; i++)
    status->levels[i] = tps_token_bucket_get_level (&tenant->buckets[i], &limits->rates[i], now_ns);
  status->n_calls_in_flight = atomic_load_explicit (&tenant->n_calls_in_flight,
                                                    memory_order_relaxed);
  status->n_table_bytes = tps_budget_get_held (tenant->table_quota);
  for (guint i = 0; i < TPS_N_QUOTAS; i++)
    status->n_refused[i] = atomic_load_explicit (&tenant->n_refused[i], memory_order_relaxed);
  status->n_refused[TPS_QUOTA_TABLE_BYTES] = tps_budget_get_n_refused (tenant->table_quota);
  status->throttled_ms = atomic_load_explicit (&tenant->throttled_ms, memory_order_relaxed);
}
