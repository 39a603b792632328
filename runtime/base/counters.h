/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The numbers of a server: counters, gauges and histograms in families, which an exporter may read
 * at any time (exposition.h). The series of a family differ in the values of up to two labels. A
 * series is found once and then changed through its pointer, without a lock:
 *
 *   rows = tps_counters_use_counter (counters, &rows_pushed, table->name, NULL);
 *   tps_counter_add (rows, n_rows);                        about a nanosecond (cells.h)
 *   tps_counters_end_use (counters, rows);
 *
 * Bounds. A family has at most `max_series` series; for further values of the first label there is
 * one series whose value is TPS_OTHER_VALUES. A value is truncated to TPS_LABEL_MAX_BYTES. A series
 * ends with its last use.
 *
 * NULL counters, gauges, histograms and TpsCounters are valid and count nothing. Threads: any.
 * Finding and ending a series takes a lock; changing one takes none. */

#pragma once

#include <glib.h>

#include "runtime/base/histogram.h"

G_BEGIN_DECLS

#define TPS_MAX_LABELS 2
#define TPS_LABEL_MAX_BYTES 128
#define TPS_FAMILY_MAX_SERIES 1000
/* The parentheses distinguish this value from values that peers choose: names of tables, principals
 * and methods have none. */
#define TPS_OTHER_VALUES "(other)"

typedef struct TpsCounters TpsCounters;
typedef struct TpsCounter TpsCounter;
typedef struct TpsGauge TpsGauge;

typedef enum
{
  TPS_FAMILY_COUNTER = 0,
  TPS_FAMILY_GAUGE = 1,
  TPS_FAMILY_HISTOGRAM = 2,
} TpsFamilyKind;

/* Static data, borrowed for ever. */
typedef struct
{
  /* In snake_case, without the prefix "thriftps_", which exporters add. The unit comes last
   * (_seconds, _bytes), and "_total" after it for a counter. */
  const gchar *name;
  const gchar *help; /* one sentence */
  TpsFamilyKind kind;
  /* NULL = none. Peers may choose values of the first label; the second has few values. */
  const gchar *labels[TPS_MAX_LABELS];
  guint n_decimals; /* numbers are in units of 10^-n_decimals: 9 for nanoseconds as seconds */
  guint max_series; /* 0 = TPS_FAMILY_MAX_SERIES */
} TpsFamily;

/* A TpsFamily of a kind (COUNTER, GAUGE, HISTOGRAM), with its name, its help, and further members
 * by their names: first `.labels`, if there are any. */
#define TPS_FAMILY(KIND, ...)                      \
  {                                                \
    .kind = TPS_FAMILY_##KIND, .name = __VA_ARGS__ \
  }

/* Creates an empty set, to which the caller owns a reference. Thread of all three: any. */
TpsCounters *tps_counters_new (void);
TpsCounters *tps_counters_ref (TpsCounters *counters);
void tps_counters_unref (TpsCounters *counters);

/* ---- series ---------------------------------------------------------------------------------- */

/* Begin a use of the series with these label values (NULL: the family has no such label), which is
 * made if needed. The series of TPS_OTHER_VALUES does not count towards the bound. Borrowed until
 * the use has ended; without an end, it lives as long as `counters`. */
TpsCounter *tps_counters_use_counter (TpsCounters *counters, const TpsFamily *family,
                                      const gchar *value, const gchar *value2);
TpsGauge *tps_counters_use_gauge (TpsCounters *counters, const TpsFamily *family,
                                  const gchar *value, const gchar *value2);
TpsHistogram *tps_counters_use_histogram (TpsCounters *counters, const TpsFamily *family,
                                          const gchar *value, const gchar *value2);

/* Ends one use of a counter, gauge or histogram that one of the functions above returned. */
void tps_counters_end_use (TpsCounters *counters, gconstpointer number);

/* Adds to a counter, and returns its number. Readers may see the changes of one call at different
 * times. Thread: any. */
void tps_counter_add (TpsCounter *counter, guint64 n);
guint64 tps_counter_get (const TpsCounter *counter);

/* As above, for a gauge, which may also be set to a level. */
void tps_gauge_add (TpsGauge *gauge, gint64 delta);
void tps_gauge_set (TpsGauge *gauge, gint64 level);
gint64 tps_gauge_get (const TpsGauge *gauge);

/* ---- numbers that are computed at each reading ----------------------------------------------- */

/* Adds a gauge or counter that `read` computes at each reading, on the reading thread: it must not
 * block, nor take a lock that is held for long, nor use `counters`. It replaces an existing
 * function; in a full family nothing is added. `release` (may be NULL) is called with `user_data`
 * when `counters` are freed or the function is replaced, or at once if nothing was added. */
typedef gint64 (*TpsGaugeRead) (gpointer user_data);
void tps_counters_add_reader (TpsCounters *counters, const TpsFamily *family, const gchar *value,
                              const gchar *value2, TpsGaugeRead read, gpointer user_data,
                              GDestroyNotify release);

/* Computes many numbers of one object at each reading, and adds each with tps_reading_add(). The
 * rules for a TpsGaugeRead apply. */
typedef struct TpsReading TpsReading;
typedef void (*TpsCollect) (TpsReading *reading, gpointer user_data);

/* Adds a sample; its values of labels are copied. Beyond the bound of the family, numbers are added
 * up in the sample of TPS_OTHER_VALUES. */
void tps_reading_add (TpsReading *reading, const TpsFamily *family, const gchar *value,
                      const gchar *value2, gint64 number);

/* Adds a collector, and returns a number (possibly 0) for tps_counters_remove_collector(), after
 * which `collect` is not running. `counters` may be NULL. */
guint tps_counters_add_collector (TpsCounters *counters, TpsCollect collect, gpointer user_data);
void tps_counters_remove_collector (TpsCounters *counters, guint id);

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct
{
  const gchar *values[TPS_MAX_LABELS]; /* of the labels; NULL = the family does not have it */
  const gchar *labels; /* as in the text formats, escaped: method="Node:describe",code="STALE" */
  gint64 number;       /* unless it is a histogram */
  const TpsHistogram *histogram;
} TpsSample;

typedef struct
{
  const TpsFamily *family;
  GArray *samples; /* of TpsSample, at least one; in the order of their creation */
} TpsFamilyReading;

/* Reads all numbers, by families in the order of their names. The caller owns the reading, and the
 * families are borrowed from it. Series that end meanwhile live until the reading is freed. */
TpsReading *tps_counters_read (TpsCounters *counters);
void tps_reading_free (TpsReading *reading);
const TpsFamilyReading *tps_reading_get_families (const TpsReading *reading, guint *n_families);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsCounters, tps_counters_unref)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsReading, tps_reading_free)

G_END_DECLS
