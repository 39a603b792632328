/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Access to the numbers in a reading of the server's counters, by the names of their families. */

#pragma once

#include "runtime/base/counters.h"

G_BEGIN_DECLS

/* Returns the family with this name, borrowed from `reading`. NULL = the reading has no such
 * family. */
const TpsFamilyReading *tps_readings_find (const TpsReading *reading, const gchar *name);

/* A family that is counted for each method or each table, and the name of its member in JSON
 * responses. */
typedef struct
{
  const gchar *family;
  const gchar *member;
} TpsCountName;

typedef enum
{
  TPS_COUNT_CALLS,
  TPS_COUNT_FAILURES,
  TPS_N_METHOD_COUNTS
} TpsMethodCount;

typedef enum
{
  TPS_COUNT_LOOKUPS,
  TPS_COUNT_LOOKUP_ROWS,
  TPS_COUNT_PUSHES,
  TPS_COUNT_PUSH_ROWS,
  TPS_N_TABLE_COUNTS
} TpsTableCount;

extern const TpsCountName tps_method_counts[TPS_N_METHOD_COUNTS];
extern const TpsCountName tps_table_counts[TPS_N_TABLE_COUNTS];

/* Returns a table from the values of the first label of a family to TpsSample, for families with a
 * single label. The caller owns the table (g_hash_table_unref()); its contents are borrowed from
 * `reading`. NULL = the reading has no such family. */
GHashTable *tps_readings_index (const TpsReading *reading, const gchar *name);

/* Returns the sum over all series of a family of counters or gauges; 0 if it is negative, or if the
 * reading has no such family. */
guint64 tps_readings_sum (const TpsReading *reading, const gchar *name);

G_END_DECLS
