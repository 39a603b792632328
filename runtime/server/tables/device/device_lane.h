/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The resources of a call on a device: a stream of its own, memory on both sides, and events, kept
 * for later calls; as many as there were concurrent calls. The host's memory of a lane is charged
 * even while it is idle, and then freed when a charge would be refused. The device's memory has no
 * budget: idle lanes give theirs when it is full. Thread: a lane: one at a time; TpsDeviceLanes:
 * any. Functions may block. */

#pragma once

#include "runtime/base/sync.h"
#include "runtime/device/device_memory.h"

G_BEGIN_DECLS

typedef struct TpsDeviceLane TpsDeviceLane;

/* The lanes of a device. */
typedef struct
{
  TpsDevice *device;
  /* Host memory that receives large copies from the device without staging. */
  TpsBufferPool *answers;
  TpsBudget *scratch;        /* of staged memory; a reference, NULL = no limit */
  guint reclaimer;           /* of the staged memory of idle lanes */
  TpsIdleMemory idle_memory; /* memory of the device that idle lanes hold */
  TpsMutex lock;
  TpsDeviceLane *idle; /* under the lock */
} TpsDeviceLanes;

struct TpsDeviceLane
{
  TpsDeviceLanes *lanes;
  TpsDeviceLane *next; /* in the list of idle lanes */
  TpsStream *stream;
  TpsBuffer *staged; /* page-locked memory of the host */
  TpsCharge charge;  /* of `staged` */
  TpsBuffer *memory; /* the device's */
  GPtrArray *events; /* of TpsEvent */
};

/* Creates an empty set of lanes, which the caller owns. Large replies are charged to `answers`,
 * staged memory to `scratch`, and memory of replies that is kept for reuse to `kept`; each may be
 * NULL, which means no limit. All lanes must have been freed before the set is freed. */
TpsDeviceLanes *tps_device_lanes_new (TpsDevice *device, TpsBudget *answers, TpsBudget *scratch,
                                      TpsBudget *kept);
void tps_device_lanes_free (TpsDeviceLanes *lanes);

/* Returns an idle or new lane, owned by the caller. Errors: DEVICE_LOST, RESOURCE_EXHAUSTED. */
TpsDeviceLane *tps_device_lane_new (TpsDeviceLanes *lanes, GError **error);
/* Waits for the work on the lane's stream, and keeps the lane for reuse unless the work failed. */
void tps_device_lane_free (TpsDeviceLane *lane);

/* Provides at least `n_staged_bytes` of staged memory, `n_memory_bytes` of the device's memory and
 * `n_events` events. Previous contents are lost. No work may be in progress. Errors: DEVICE_LOST,
 * RESOURCE_EXHAUSTED. */
gboolean tps_device_lane_provide (TpsDeviceLane *lane, gsize n_staged_bytes, gsize n_memory_bytes,
                                  guint n_events, GError **error);

/* Appends `n_bytes` to the planned size `*n_block_bytes` of a block, and returns their offset. */
static inline gsize
tps_device_lane_reserve (gsize *n_block_bytes, gsize n_bytes)
{
  gsize begin = *n_block_bytes;

  *n_block_bytes += (n_bytes + TPS_BUFFER_ALIGNMENT - 1) / TPS_BUFFER_ALIGNMENT
                    * TPS_BUFFER_ALIGNMENT;
  return begin;
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsDeviceLane, tps_device_lane_free)

G_END_DECLS
