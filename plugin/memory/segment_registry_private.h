/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What segment_registry.c and segment_sharing.c have in common. */

#pragma once

#include "plugin/memory/segment_budget.h"
#include "runtime/base/sync.h"

G_BEGIN_DECLS

/* A segment for requests is written by the client: nothing here depends on whose turn it is. One
 * for answers is free, then filled by one answer, then lent to the client until that gives it
 * back. */
typedef enum
{
  TPS_SEGMENT_STATE_REQUESTS = 0,
  TPS_SEGMENT_STATE_FREE = 1,
  TPS_SEGMENT_STATE_FILLING = 2,
  TPS_SEGMENT_STATE_LENT = 3,
  TPS_SEGMENT_STATE_CLOSED = 4,
} TpsSegmentState;

typedef enum
{
  TPS_SEGMENT_EVENT_TAKE = 0,
  TPS_SEGMENT_EVENT_COMMIT = 1,
  TPS_SEGMENT_EVENT_ABANDON = 2,
  TPS_SEGMENT_EVENT_RELEASE = 3,
  TPS_SEGMENT_EVENT_CLOSE = 4,
} TpsSegmentEvent;

typedef struct
{
  TpsRefcount refcount;
  gint64 id;
  TpsSegment *segment;
  TpsSegmentCharge *charge;
  TpsSegmentState state; /* guarded by the registry's lock */
} TpsSegmentEntry;

struct TpsSegmentRegistry
{
  TpsRefcount refcount;
  TpsDevice *device;                              /* NULL: no segments of kind CUDA_IPC */
  TpsSegmentBudget *budgets[TPS_SEGMENT_N_KINDS]; /* by kind; NULL for what there is not */

  TpsMutex lock;       /* guards everything below, and the entries' states */
  GHashTable *entries; /* gint64 in the entry, to TpsSegmentEntry */
  guint n_opening; /* answers of open_segment that have no place in the connection's queue yet */
  guint n_free;    /* in TPS_SEGMENT_STATE_FREE */
  gboolean is_shut_down;
};

void tps_segment_entry_unref (TpsSegmentEntry *entry);

/* With the lock held: the one way to another state. FALSE: not in this state, nothing is
 * changed. */
gboolean tps_segment_registry_move (TpsSegmentRegistry *registry, TpsSegmentEntry *entry,
                                    TpsSegmentEvent event);

G_END_DECLS
