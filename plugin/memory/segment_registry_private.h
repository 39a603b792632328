/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The state that segment_registry.c and segment_sharing.c share. Private to them. */

#pragma once

#include "plugin/memory/segment_budget.h"
#include "runtime/base/sync.h"

G_BEGIN_DECLS

/* A segment for REQUESTS is written by the client, which alone decides which of its calls uses the
 * segment, so it has a single state here. A segment for ANSWERS is free, then filled by one reply,
 * then lent to the client until the client returns it. */
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

/* Limit of the number of common segments that a registry records as missed: a reply had a tensor in
 * them, but the client has not opened them. */
#define TPS_SEGMENT_MAX_MISSED 8

typedef struct
{
  TpsRefcount refcount;
  gint64 id;
  TpsSegment *segment;      /* borrowed from `common`, if that is set */
  TpsCommonSegment *common; /* a reference; NULL: not a common segment */
  /* Of a common segment: the buffer that the last reply refers to. Guarded by the lock. */
  TpsBuffer *lent;
  TpsSegmentCharge *charge;
  gboolean takes_lookups; /* results of lookups may be placed in it */
  TpsSegmentState state;  /* guarded by the lock, as is `is_known` */
  gboolean is_known;      /* the reply that names it to the client has been queued */
} TpsSegmentEntry;

struct TpsSegmentRegistry
{
  TpsRefcount refcount;
  TpsDevice *device;            /* NULL: no segments of kind CUDA_IPC */
  gboolean is_for_lookups_only; /* segments of kind CUDA_IPC are for lookups only */
  TpsCommonSegments *common;    /* a reference; NULL: there are none */
  TpsSegmentBudget *budgets[TPS_SEGMENT_N_KINDS]; /* by kind; NULL for a kind that is not offered */

  TpsMutex lock;       /* guards all fields below, and the states of entries */
  GHashTable *entries; /* gint64 in the entry, to TpsSegmentEntry */
  guint n_opening;     /* replies to open_segment that are not queued yet */
  guint n_free;        /* in TPS_SEGMENT_STATE_FREE */
  gboolean is_shut_down;
  gboolean opens_common;                  /* the client has requested COMMON_ANSWERS */
  guint64 missed[TPS_SEGMENT_MAX_MISSED]; /* numbers of common segments, oldest first */
  guint n_missed;
};

/* Releases a reference; the last one unmaps the segment. */
void tps_segment_entry_unref (TpsSegmentEntry *entry);

/* Changes the state of the entry; no other function does. The lock must be held. Returns FALSE, and
 * changes nothing, if the event is not allowed in the current state. */
gboolean tps_segment_registry_move (TpsSegmentRegistry *registry, TpsSegmentEntry *entry,
                                    TpsSegmentEvent event);

G_END_DECLS
