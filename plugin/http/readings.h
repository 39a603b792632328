/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Numbers of a reading of the server's counters, by the names of their families. */

#pragma once

#include "runtime/base/counters.h"

G_BEGIN_DECLS

/* NULL: nothing of this family has been counted. Borrowed. */
const TpsFamilyReading *tps_readings_find (const TpsReading *reading, const gchar *name);

/* A family that is counted for each method or each table, and its member in answers. */
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

/* The samples of a family by the value of its first label, borrowed from `reading`; owned by the
 * caller (g_hash_table_unref()). NULL: nothing of this family has been counted. */
GHashTable *tps_readings_index (const TpsReading *reading, const gchar *name);

/* Over all series of a family of counters or gauges. */
guint64 tps_readings_sum (const TpsReading *reading, const gchar *name);

G_END_DECLS
