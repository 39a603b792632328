/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The budgets of one server. All memory that a peer can make the server hold is charged to one of
 * these budgets.
 *
 *   process
 *   ├── pending       requests as they were received, from the first byte until the request is
 *                     forgotten: tensors, heads
 *   │   └── shared    memory segments shared with clients
 *   ├── strangers     requests, as in `pending`, of peers without any right, without the first 16
 *   │                 KiB of each, which the number of connections limits
 *   ├── averages      sums in progress and averages kept for repeats; waiting contributions,
 *                     not counting their tensors
 *   ├── replies       replies from the moment they are encoded until they are sent; results of
 *                     lookups; temporary space
 *   ├── transfers     chunked requests and replies
 *   ├── tables        rows, optimizer state and bookkeeping of embedding tables
 *   ├── windows       push windows, which recognise repeated pushes; at most half for
 *   │                 table_windows, a quarter for model_windows and rendezvous_windows each, so
 *   │                 that none of them depends on the others
 *   ├── rendezvous    keys, values and waiters of the rendezvous store
 *   ├── channels      buffers and keys of encrypted connections
 *   │   └── handshakes   TLS handshakes in progress, which any peer can begin
 *   ├── passes        models of the updating server; in thriftps_server all memory from the default
 *                     pool, including training passes: models, gradients, buckets, replies
 *   └── kept          buffers that pools keep for reuse; freed when a charge to another budget
 *                     would be refused
 */

#pragma once

#include "runtime/base/budget.h"
#include "runtime/base/counters.h"

G_BEGIN_DECLS

typedef struct
{
  TpsBudget *process;
  TpsBudget *pending;
  TpsBudget *shared;
  TpsBudget *strangers;
  TpsBudget *averages;
  TpsBudget *replies;
  TpsBudget *transfers;
  TpsBudget *tables;
  TpsBudget *windows;
  TpsBudget *table_windows;
  TpsBudget *model_windows;
  TpsBudget *rendezvous_windows;
  TpsBudget *rendezvous;
  TpsBudget *channels;
  TpsBudget *handshakes;
  TpsBudget *passes;
  TpsBudget *kept;

  TpsCounters *counters; /* private: see tps_budgets_add_gauges() */
  guint collector;
} TpsBudgets;

/* Limits in bytes. All zero = the defaults, which are shares of tps_host_memory_get_total(). If the
 * total is below 960 MiB, all defaults shrink in proportion to that of `max_memory_bytes`. */
typedef struct
{
  /* Of the process; 0 = the memory less a tenth, but at least 96 MiB and at most half, of it. */
  gsize max_memory_bytes;
  /* 0 = a quarter of the memory; also the limit of averages, and 16 times that of strangers */
  gsize max_pending_bytes;
  gsize max_table_bytes; /* 0 = 0.8 of the memory */
} TpsBudgetLimits;

/* Returns the default of `max_memory_bytes` for a machine or group with `memory` bytes. */
gsize tps_budgets_get_default_process_bytes (gsize memory);

/* Makes the budgets. The caller owns the struct. `limits` NULL = the defaults. A user that may
 * outlive the struct must keep its own reference to each budget that it charges. */
TpsBudgets *tps_budgets_new (const TpsBudgetLimits *limits);

/* Returns `budgets`, or, if it is NULL, a static struct of NULLs, which limit nothing. */
const TpsBudgets *tps_budgets_or_none (const TpsBudgets *budgets);

/* Adds the gauges memory_held_bytes, memory_peak_bytes and memory_limit_bytes, and the counter
 * memory_refused_total, to the readings of `counters`. Every budget of the tree has the label
 * budget=NAME. They are removed when the budgets are freed. Must be called at most once. */
void tps_budgets_add_gauges (TpsBudgets *budgets, TpsCounters *counters);

/* Drops the references to the budgets and frees the struct. NULL is fine. */
void tps_budgets_free (TpsBudgets *budgets);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsBudgets, tps_budgets_free)

G_END_DECLS
