/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Lookups in tables that devices work on. */

#pragma once

#include "runtime/server/tables/device/device_rows.h"

G_BEGIN_DECLS

typedef struct
{
  TpsDeviceBags bags;
  gfloat *output; /* [n_bags, dim], in the host's memory */
} TpsDeviceQuery;

typedef struct TpsDeviceLookup TpsDeviceLookup;

/* Enqueues queries on all their tables and devices, so that they work at the same time and beside
 * the caller. `queries`, and what they point to, are borrowed until the end. NULL: nothing is under
 * way. Errors: DEVICE_LOST, RESOURCE_EXHAUSTED. */
TpsDeviceLookup *tps_device_lookup_begin (const TpsDeviceQuery *queries, guint n_queries,
                                          GError **error);

/* Waits for the outputs, which have the bits of tps_cpu_embedding_pool(); frees `lookup` in any
 * case. Errors: as above. */
gboolean tps_device_lookup_end (TpsDeviceLookup *lookup, GError **error);

G_END_DECLS
