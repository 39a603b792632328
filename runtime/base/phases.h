/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The time that a piece of work, such as a call, spends in each of its phases. A phase ends where
 * the next one begins, so all times add up to the total. Most work is short and has no phase that
 * justifies a clock read: all of its time counts as APPLY. Work is timed in detail from the
 * beginning if `is_detailed`, otherwise from the first tps_phases_enter_long(). NULL phases are
 * valid and measure nothing. Thread: one at a time. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef enum
{
  TPS_PHASE_DECODE = 0, /* arguments are read */
  TPS_PHASE_QUEUE = 1,  /* the work waits for a thread */
  TPS_PHASE_APPLY = 2,  /* the work is done */
  TPS_PHASE_WAIT = 3,   /* for other calls: their turn, a round, a log */
  TPS_PHASE_REPLY = 4,  /* the result is written */
  TPS_N_PHASES,
} TpsPhase;

/* The number of separate phases. The time of further phases counts for the last one. */
#define TPS_PHASES_MAX 10

typedef gint64 (*TpsPhasesClock) (void); /* monotonic, in nanoseconds; tps_clock_now_ns() */

typedef struct
{
  TpsPhasesClock get_now_ns;
  gboolean is_detailed;
  gint64 began_ns;
  guint n; /* phases that have ended */
  struct
  {
    TpsPhase phase;
    gint64 end_ns;
  } ended[TPS_PHASES_MAX];
  TpsPhase current;
} TpsPhases;

/* Begins at `began_ns`, a time of the clock `get_now_ns`, with `phase` if the work is timed in
 * detail, otherwise with APPLY. */
void tps_phases_begin (TpsPhases *phases, TpsPhase phase, TpsPhasesClock get_now_ns,
                       gint64 began_ns, gboolean is_detailed);

/* Ends the current phase and begins `phase`, with one clock read. Has no effect unless the work is
 * timed in detail. */
void tps_phases_enter (TpsPhases *phases, TpsPhase phase);

/* As tps_phases_enter(), for phases that may be long: the work is timed in detail from now on. */
void tps_phases_enter_long (TpsPhases *phases, TpsPhase phase);

/* Counts the current phase, from its beginning, as `phase`. Does not read the clock. */
void tps_phases_rename (TpsPhases *phases, TpsPhase phase);

void tps_phases_end (TpsPhases *phases, gint64 end_ns);

/* Return the time from the beginning to the end, and the sum of each phase, in nanoseconds. Must
 * not be called before the end. */
gint64 tps_phases_get_total_ns (const TpsPhases *phases);
void tps_phases_sum (const TpsPhases *phases, gint64 sums_ns[TPS_N_PHASES]);

/* Returns "decode", "queue", "apply", "wait" or "reply"; static. */
const gchar *tps_phase_name (TpsPhase phase);

G_END_DECLS
