/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/memory/segment_budget.h"

#include "runtime/base/error.h"
#include "runtime/base/sync.h"

#define DEFAULT_MAX_SEGMENTS 256
/* Each segment is a mapping. Linux allows a process 65530 mappings (vm.max_map_count), and its
 * threads and its heap need some of them. */
#define DEFAULT_MAX_IN_PROCESS 16384

static atomic_uint n_in_process;

struct TpsSegmentBudget
{
  TpsRefcount refcount;
  gsize max_bytes;
  guint max_segments;
  guint max_in_process;
  TpsBufferPool *copies; /* `copies` and `all` may be NULL */
  TpsBudget *all;
  TpsMutex lock; /* guards all fields below */
  gsize n_bytes;
  guint n_segments;
};

struct TpsSegmentCharge
{
  TpsRefcount refcount;
  TpsSegmentBudget *budget;
  gsize n_bytes;
};

TpsSegmentBudget *
tps_segment_budget_new (const TpsSegmentLimits *limits)
{
  TpsSegmentBudget *budget = g_new0 (TpsSegmentBudget, 1);

  tps_refcount_init (&budget->refcount);
  tps_mutex_init (&budget->lock);
  budget->max_bytes = limits->max_bytes;
  budget->max_segments = limits->max_segments > 0 ? limits->max_segments : DEFAULT_MAX_SEGMENTS;
  budget->max_in_process = limits->max_in_process > 0 ? limits->max_in_process
                                                      : DEFAULT_MAX_IN_PROCESS;
  budget->copies = limits->copies != NULL ? tps_buffer_pool_ref (limits->copies) : NULL;
  budget->all = tps_budget_ref (limits->all);
  return budget;
}

TpsBufferPool *
tps_segment_budget_get_copies (const TpsSegmentBudget *budget)
{
  return budget->copies;
}

gsize
tps_segment_budget_get_bytes (TpsSegmentBudget *budget)
{
  gsize n_bytes;

  tps_mutex_lock (&budget->lock);
  n_bytes = budget->n_bytes;
  tps_mutex_unlock (&budget->lock);
  return n_bytes;
}

gsize
tps_segment_budget_get_max_bytes (const TpsSegmentBudget *budget)
{
  return budget->max_bytes;
}

void
tps_segment_budget_unref (TpsSegmentBudget *budget)
{
  if (!tps_refcount_dec (&budget->refcount))
    return;
  g_clear_pointer (&budget->copies, tps_buffer_pool_unref);
  tps_budget_unref (budget->all);
  tps_mutex_clear (&budget->lock);
  g_free (budget);
}

guint
tps_segments_get_n_in_process (void)
{
  return atomic_load_explicit (&n_in_process, memory_order_relaxed);
}

static gboolean
take_one_in_process (guint max, GError **error)
{
  if (atomic_fetch_add_explicit (&n_in_process, 1, memory_order_relaxed) < max)
    return TRUE;
  atomic_fetch_sub_explicit (&n_in_process, 1, memory_order_relaxed);
  g_set_error (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
               "all connections together have %u segments, which is the limit", max);
  return FALSE;
}

static void
give_back_one_in_process (void)
{
  atomic_fetch_sub_explicit (&n_in_process, 1, memory_order_relaxed);
}

static gboolean
reserve_in_server (TpsSegmentBudget *budget, gsize n_bytes, GError **error)
{
  if (!take_one_in_process (budget->max_in_process, error))
    return FALSE;
  if (tps_budget_charge (budget->all, n_bytes, error))
    return TRUE;
  g_prefix_error (error, "a segment of %" G_GSIZE_FORMAT " bytes: ", n_bytes);
  give_back_one_in_process ();
  return FALSE;
}

static void
release_in_server (TpsSegmentBudget *budget, gsize n_bytes)
{
  tps_budget_release (budget->all, n_bytes);
  give_back_one_in_process ();
}

/* Must be called with the lock held. */
static gboolean
check_connection (const TpsSegmentBudget *budget, gsize n_bytes, GError **error)
{
  if (budget->n_segments >= budget->max_segments)
    g_set_error (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                 "this connection has %u segments, which is the limit", budget->n_segments);
  else if (n_bytes > budget->max_bytes - budget->n_bytes)
    g_set_error (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                 "no room for a segment of %" G_GSIZE_FORMAT
                 " bytes: the connection shares %" G_GSIZE_FORMAT " of at most %" G_GSIZE_FORMAT
                 " bytes (--max-shared-mib)",
                 n_bytes, budget->n_bytes, budget->max_bytes);
  else
    return TRUE;
  return FALSE;
}

static TpsSegmentCharge *
charge_new (TpsSegmentBudget *budget, gsize n_bytes)
{
  TpsSegmentCharge *charge = g_new0 (TpsSegmentCharge, 1);

  tps_refcount_init (&charge->refcount);
  tps_refcount_inc (&budget->refcount);
  charge->budget = budget;
  charge->n_bytes = n_bytes;
  return charge;
}

TpsSegmentCharge *
tps_segment_budget_take (TpsSegmentBudget *budget, gsize n_bytes, GError **error)
{
  gboolean allowed;

  tps_mutex_lock (&budget->lock);
  allowed = check_connection (budget, n_bytes, error) && reserve_in_server (budget, n_bytes, error);
  if (allowed)
    {
      budget->n_bytes += n_bytes;
      budget->n_segments++;
    }
  tps_mutex_unlock (&budget->lock);
  return allowed ? charge_new (budget, n_bytes) : NULL;
}

static void
give_back (TpsSegmentBudget *budget, gsize n_bytes)
{
  tps_mutex_lock (&budget->lock);
  budget->n_bytes -= n_bytes;
  budget->n_segments--;
  tps_mutex_unlock (&budget->lock);
  release_in_server (budget, n_bytes);
}

TpsSegmentCharge *
tps_segment_charge_ref (TpsSegmentCharge *charge)
{
  tps_refcount_inc (&charge->refcount);
  return charge;
}

void
tps_segment_charge_unref (TpsSegmentCharge *charge)
{
  if (!tps_refcount_dec (&charge->refcount))
    return;
  give_back (charge->budget, charge->n_bytes);
  tps_segment_budget_unref (charge->budget);
  g_free (charge);
}
