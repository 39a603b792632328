/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The queries of one lookup of bags. Internal to this folder. */

#pragma once

#include "runtime/server/tables/device/device_lookup.h"
#include "runtime/server/tables/host/scratch.h"
#include "runtime/server/tables/table_calls.h"

/* One query. Parts [first_part, first_part + n_parts) of the lookup are equal shares of its bags. A
 * query on a device has no parts. */
typedef struct
{
  TpsOpenQuery open;
  gfloat *output;        /* [n_bags, dim] */
  gboolean is_on_device; /* the output is in memory of the table's device */
  gsize first_part, n_parts;
  gsize stages; /* an offset in the scratch, for wide rows */
} TpsLookupQuery;

typedef struct
{
  TpsTableStore *store;
  const TpsLookupPlace *place; /* the caller's; NULL = results are in memory of the store */
  TpsScratch scratch;
  TpsLookupQuery *queries; /* [n_queries] */
  guint n_queries;
  guint n_in[TPS_N_ROW_STORES]; /* the number of queries of each row store */
  /* of the host */
  TpsScratch stages; /* of each part of queries for wide rows */
  gsize n_parts;
  gboolean is_shared; /* workers take parts, too */
  /* of devices */
  TpsDeviceQuery *on_devices; /* [n_queries] */
  TpsDeviceLookup *running;
} TpsLookup;
