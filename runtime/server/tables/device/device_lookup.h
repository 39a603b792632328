/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Lookups in tables on devices. */

#pragma once

#include "runtime/server/tables/device/device_rows.h"

typedef struct
{
  TpsDeviceBags bags;
  TpsDType dtype;        /* of the output: FLOAT32, or that of the table if each index is a bag */
  gpointer output;       /* [n_bags, dim] */
  gboolean is_on_device; /* `output` is in memory of the table's device; else of the host */
} TpsDeviceQuery;

typedef struct TpsDeviceLookup TpsDeviceLookup;

/* Enqueues queries on all their tables and devices, in parallel. `queries`, and the memory to which
 * they refer, are borrowed until tps_device_lookup_end(). Errors: DEVICE_LOST, RESOURCE_EXHAUSTED
 * (NULL: no work is in progress). */
TpsDeviceLookup *tps_device_lookup_begin (const TpsDeviceQuery *queries, guint n_queries,
                                          GError **error);

/* Waits for the outputs, which have the same bits as those of embedding_pool
 * (runtime/device/backend.h) on the CPU. Frees `lookup`, even after an error. Errors: as above. */
gboolean tps_device_lookup_end (TpsDeviceLookup *lookup, GError **error);
