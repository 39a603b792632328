/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The slowest calls of the last minutes: each of TPS_SLOW_CALLS_MINUTES minutes keeps its `n`
 * slowest. Any other call costs two atomic loads; only these take the lock. The object has no
 * clock. Thread: any. */

#pragma once

#include "plugin/tracing/trace_context.h"
#include "runtime/base/phases.h"

G_BEGIN_DECLS

#define TPS_SLOW_CALLS_MINUTES 5
#define TPS_SLOW_CALLS_MAX 256 /* of a minute */
#define TPS_CALL_TEXT 96       /* bytes of a name, with its NUL */

/* A call that has ended. Text is UTF-8 and cut to fit; "" where it is not known. */
typedef struct
{
  gchar method[TPS_CALL_TEXT];
  gchar table[TPS_CALL_TEXT];
  gchar peer[TPS_CALL_TEXT];
  gchar principal[TPS_CALL_TEXT];
  const gchar *code;                 /* of the error, static; NULL = success */
  gchar trace_id[TPS_TRACE_ID_TEXT]; /* in hex */
  gint64 began_ns;                   /* monotonic clock */
  gint64 total_ns;
  gint64 phases_ns[TPS_N_PHASES];
} TpsSlowCall;

typedef struct TpsSlowCalls TpsSlowCalls;

/* Keeps `n` calls of each minute, 1 to TPS_SLOW_CALLS_MAX. The caller owns the object. */
TpsSlowCalls *tps_slow_calls_new (guint n);
void tps_slow_calls_free (TpsSlowCalls *slow);

/* Returns TRUE if a call of `total_ns` that ends at `now_ns` would be kept. */
gboolean tps_slow_calls_wants (TpsSlowCalls *slow, gint64 total_ns, gint64 now_ns);

/* Keeps a copy of `call`, which ends at `now_ns`, if it is still among the slowest. */
void tps_slow_calls_add (TpsSlowCalls *slow, const TpsSlowCall *call, gint64 now_ns);

/* Copies up to `n_max` slowest calls until `now_ns`, the slowest first. Returns their number. */
guint tps_slow_calls_list (TpsSlowCalls *slow, gint64 now_ns, TpsSlowCall *calls, guint n_max);

TpsPhase tps_slow_call_find_phase (const TpsSlowCall *call);

/* Copies `text` (NULL = "") to `field`, cut at a whole character. */
void tps_call_text_set (gchar field[TPS_CALL_TEXT], const gchar *text);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsSlowCalls, tps_slow_calls_free)

G_END_DECLS
