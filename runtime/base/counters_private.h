/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The structures of counters. Internal to counters.c (finding and changing series) and
 * counters_reading.c. */

#pragma once

#include "runtime/base/cells.h"
#include "runtime/base/counters.h"
#include "runtime/base/sync.h"

G_BEGIN_DECLS

struct TpsCounter
{
  TpsCell cell;
};

struct TpsGauge
{
  atomic_llong level;
};

typedef struct
{
  const TpsFamily *about; /* borrowed for ever */
  GHashTable *by_labels;  /* Series.labels -> Series, both borrowed */
  GPtrArray *series;      /* of Series, owned, in the order of their creation */
  guint n_named;          /* series without `is_other` */
} TpsNumberFamily;

typedef struct
{
  TpsNumberFamily *family;
  gchar *labels;
  gchar *values[TPS_MAX_LABELS];
  gboolean is_other;
  guint n_uses;

  /* One of these, by the kind of the family; `read` replaces the first two. */
  TpsCounter counter;
  TpsGauge gauge;
  TpsHistogram *histogram;
  TpsGaugeRead read;
  gpointer user_data;
  GDestroyNotify release;
} TpsSeries;

typedef struct
{
  guint id;
  TpsCollect collect;
  gpointer user_data;
} TpsCollector;

struct TpsCounters
{
  TpsRefcount refcount;
  GArray *bounds; /* of gdouble */

  /* Held while functions of the program (readers, collectors) are called or replaced, so that a
   * removed function is not running. Taken before `lock`. */
  TpsMutex call_lock;
  GArray *collectors; /* of TpsCollector */
  guint last_collector;

  TpsMutex lock;         /* guards everything below, and all families and series */
  GPtrArray *families;   /* of TpsNumberFamily, ordered by name; only added to */
  GHashTable *by_name;   /* name -> TpsNumberFamily, both borrowed */
  GHashTable *by_number; /* TpsCounter, TpsGauge or TpsHistogram -> TpsSeries, both borrowed */
};

/* Ends one use of a series, and frees the series with its last use. The lock must be held. */
void tps_series_end_use (TpsCounters *counters, TpsSeries *series);

G_END_DECLS
