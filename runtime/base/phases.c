/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/phases.h"

void
tps_phases_begin (TpsPhases *phases, TpsPhase phase, TpsPhasesClock get_now_ns, gint64 began_ns,
                  gboolean is_detailed)
{
  if (phases == NULL)
    return;
  phases->get_now_ns = get_now_ns;
  phases->is_detailed = is_detailed;
  phases->n = 0;
  phases->current = is_detailed ? phase : TPS_PHASE_APPLY;
  phases->began_ns = began_ns;
}

/* Ends the current phase. If the array is full, the phase counts for the last element. */
static void
end_current (TpsPhases *phases, gint64 end_ns)
{
  guint i = phases->n;

  if (i == TPS_PHASES_MAX)
    i--;
  else
    {
      phases->n++;
      phases->ended[i].phase = phases->current;
    }
  phases->ended[i].end_ns = end_ns;
}

void
tps_phases_enter (TpsPhases *phases, TpsPhase phase)
{
  if (phases == NULL || !phases->is_detailed || phase == phases->current)
    return;
  end_current (phases, phases->get_now_ns ());
  phases->current = phase;
}

void
tps_phases_enter_long (TpsPhases *phases, TpsPhase phase)
{
  if (phases == NULL)
    return;
  phases->is_detailed = TRUE;
  tps_phases_enter (phases, phase);
}

void
tps_phases_rename (TpsPhases *phases, TpsPhase phase)
{
  if (phases != NULL)
    phases->current = phase;
}

void
tps_phases_end (TpsPhases *phases, gint64 end_ns)
{
  if (phases != NULL)
    end_current (phases, end_ns);
}

gint64
tps_phases_get_total_ns (const TpsPhases *phases)
{
  return phases->n > 0 ? phases->ended[phases->n - 1].end_ns - phases->began_ns : 0;
}

void
tps_phases_sum (const TpsPhases *phases, gint64 sums_ns[TPS_N_PHASES])
{
  gint64 begin_ns = phases->began_ns;

  for (guint i = 0; i < TPS_N_PHASES; i++)
    sums_ns[i] = 0;
  for (guint i = 0; i < phases->n; i++)
    {
      sums_ns[phases->ended[i].phase] += phases->ended[i].end_ns - begin_ns;
      begin_ns = phases->ended[i].end_ns;
    }
}

const gchar *
tps_phase_name (TpsPhase phase)
{
  static const gchar *const names[TPS_N_PHASES] = {
    [TPS_PHASE_DECODE] = "decode", [TPS_PHASE_QUEUE] = "queue", [TPS_PHASE_APPLY] = "apply",
    [TPS_PHASE_WAIT] = "wait",     [TPS_PHASE_REPLY] = "reply",
  };

  return names[phase];
}
