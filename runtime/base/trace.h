/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Trace points: structured log lines that never block and cannot flood.
 *
 *   static TpsTraceEvent round_expired = TPS_TRACE_EVENT ("round_expired", TPS_TRACE_WARNING);
 *   ...
 *   tps_trace (&round_expired, tps_field_int ("batch", batch), tps_field_text ("missing", ids));
 *
 *   emit -> level -> rate of the event -> bounded queue -> one writer thread -> the sink
 *
 * Emitting an event copies its fields into the queue. If the queue is full, records are dropped and
 * counted. Each event has a rate of its own; records above it are suppressed, and the next one
 * contains their number. Text of a field may come from a peer: it is copied up to
 * TPS_TRACE_MAX_TEXT bytes and escaped by the formatter. Names of events and keys are static, in
 * snake_case.
 *
 * The process has one sink, and a level for each area of the source tree. By default, warnings and
 * errors go to GLib's structured log, as suits a library inside a host. Thread: any. */

#pragma once

#include <thriftps/error.h>

G_BEGIN_DECLS

typedef enum
{
  TPS_TRACE_ERROR = 1,   /* the server is at fault or impaired */
  TPS_TRACE_WARNING = 2, /* needs attention: a limit is reached, a peer misbehaves */
  TPS_TRACE_INFO = 3,    /* changes of state, and errors that are reported to callers */
  TPS_TRACE_DEBUG = 4,   /* the course of normal work */
} TpsTraceLevel;

#define TPS_TRACE_BURST 50      /* records of one event that may come at once */
#define TPS_TRACE_PER_SECOND 10 /* the rate after that */
#define TPS_TRACE_MAX_QUEUED_BYTES ((gsize) 512 << 10)
#define TPS_TRACE_MAX_FIELDS 16
#define TPS_TRACE_MAX_TEXT 1024 /* bytes of one field */

/* An event, static: its name, its level, its area, and the state of its rate. */
typedef struct
{
  const gchar *name;
  TpsTraceLevel level;
  const gchar *file; /* the source file that declares it; its folder is the area */

  /* Private. */
  guint limit; /* the level of its area, with the generation of the levels in which it was found */
  gint64 used_until_ns;
  guint64 n_suppressed;
} TpsTraceEvent;

#define TPS_TRACE_EVENT(event_name, event_level) \
  {                                              \
    event_name, event_level, __FILE__, 0, 0, 0   \
  }

typedef enum
{
  TPS_FIELD_TEXT = 1,
  TPS_FIELD_INT = 2,
  TPS_FIELD_UINT = 3,
  TPS_FIELD_REAL = 4,
  TPS_FIELD_BOOL = 5,
} TpsFieldKind;

typedef struct
{
  const gchar *key; /* static */
  TpsFieldKind kind;
  union
  {
    const gchar *text; /* borrowed until tps_trace() returns; NULL = the field is left out */
    gint64 integer;
    guint64 count;
    gdouble real;
    gboolean flag;
  } value;
} TpsTraceField;

/* tps_field_text() and so on return a field with a value. `key` is static. Thread: any. */
#define TPS_DEFINE_FIELD(name, KIND, Type, member)                            \
  static inline TpsTraceField tps_field_##name (const gchar *key, Type value) \
  {                                                                           \
    TpsTraceField field = { key, TPS_FIELD_##KIND, { NULL } };                \
                                                                              \
    field.value.member = value;                                               \
    return field;                                                             \
  }

TPS_DEFINE_FIELD (text, TEXT, const gchar *, text)
TPS_DEFINE_FIELD (int, INT, gint64, integer)
TPS_DEFINE_FIELD (uint, UINT, guint64, count)
TPS_DEFINE_FIELD (real, REAL, gdouble, real)
TPS_DEFINE_FIELD (bool, BOOL, gboolean, flag)

/* Emits `event` with one or more fields, which are evaluated only if records of the event reach the
 * sink. Never blocks. */
#define tps_trace(event, ...)                                                          \
  G_STMT_START                                                                         \
  {                                                                                    \
    if (tps_trace_is_wanted (event))                                                   \
      {                                                                                \
        const TpsTraceField tps_trace_fields_[] = { __VA_ARGS__ };                     \
                                                                                       \
        tps_trace_emit ((event), tps_trace_fields_, G_N_ELEMENTS (tps_trace_fields_)); \
      }                                                                                \
  }                                                                                    \
  G_STMT_END

/* Returns TRUE if records of `event` reach the sink: its level is enabled in its area. */
gboolean tps_trace_is_wanted (TpsTraceEvent *event);

/* Emits `event` for tps_trace(), without a check of its level. At most TPS_TRACE_MAX_FIELDS fields;
 * `fields` may be NULL if there are none. */
void tps_trace_emit (TpsTraceEvent *event, const TpsTraceField *fields, guint n_fields);

/* Returns the levels as in tps_trace_set_levels(), by default "warning". The caller owns them. */
gchar *tps_trace_dup_levels (void);

/* A record, as a sink receives it; valid during the call. */
typedef struct
{
  gint64 time_us; /* since 1970, UTC */
  TpsTraceLevel level;
  const gchar *event;
  /* The number of records of this event that its rate has suppressed since the previous record. */
  guint64 n_suppressed;
  const TpsTraceField *fields; /* no text is NULL; it need not be UTF-8 */
  guint n_fields;
  const gchar *file; /* the source file that declares the event */
  guint64 sequence;  /* 1, 2, 3, ... for the records that were passed to sinks */
} TpsTraceRecord;

/* Writes one record. The writer thread calls the sink for one record at a time. The sink may block;
 * it must not emit events or set the sink. */
typedef void (*TpsTraceSink) (const TpsTraceRecord *record, gpointer user_data);

/* Replaces the sink; NULL = tps_trace_glib_sink() (runtime/base/trace_sinks.h). The call waits if
 * the former sink is running. After it returns, the former sink is not called again. */
void tps_trace_set_sink (TpsTraceSink sink, gpointer user_data);

/* Waits until the sink has taken every record emitted before the call. Returns FALSE if
 * `deadline_ns` (monotonic clock) passes first. Must not be called from a sink. */
gboolean tps_trace_flush (gint64 deadline_ns);

typedef struct
{
  guint64 n_written;
  guint64 n_suppressed; /* by the rate of their event */
  guint64 n_dropped;    /* the queue was full, or no writer thread could be started */
} TpsTraceStats;

void tps_trace_get_stats (TpsTraceStats *stats);

/* ---- levels of areas ------------------------------------------------------------------------- */

/* Levels by area, as operators write them: "info,net=debug,log=warning". Immutable.
 *
 * The area of an event is the folder of its source file. "net" applies to plugin/net and
 * plugin/net/tls; the item that names the innermost folder wins. An item without a name is the
 * level of all other areas; default "info". */
#define TPS_TRACE_MAX_AREAS 32      /* items with a name */
#define TPS_TRACE_MAX_AREA_BYTES 32 /* of a name */
#define TPS_TRACE_MAX_LEVELS_BYTES 2048

typedef struct TpsTraceLevels TpsTraceLevels;

/* Parses levels, which the caller owns. Errors: INVALID_ARGUMENT, which names the item: an unknown
 * level; a name that is empty, too long, given twice, or not of a-z, 0-9 and _; too many or too
 * long. */
TpsTraceLevels *tps_trace_levels_parse (const gchar *text, GError **error);
/* Frees levels, which may be NULL. */
void tps_trace_levels_free (TpsTraceLevels *levels);

/* Returns the level of the area of `file`, a path with slashes. */
TpsTraceLevel tps_trace_levels_find (const TpsTraceLevels *levels, const gchar *file);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsTraceLevels, tps_trace_levels_free)

G_END_DECLS
