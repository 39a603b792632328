/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/app/supervision.h"

#include <string.h>

#define NS_PER_S ((gint64) 1000000000)
#define NS_PER_US 1000
#define STATUS_NS NS_PER_S       /* between two statuses of a recovery */
#define EXTEND_US (30 * 1000000) /* each status extends the timeout of the start by this */
#define BEATS_PER_WATCHDOG 4     /* two may be lost */
#define LOOKS_PER_WATCHDOG 8     /* threads must answer a beat well before the next beat */

void
tps_supervision_init (TpsSupervision *supervision, const TpsSupervisionOps *ops, gpointer user_data,
                      const gchar *addresses, gint64 watchdog_ns)
{
  *supervision = (TpsSupervision) {
    .ops = ops, .user_data = user_data, .addresses = addresses, .watchdog_ns = watchdog_ns
  };
}

static gboolean
send_text (TpsSupervision *supervision, const gchar *message)
{
  return supervision->ops->send (supervision->user_data, message);
}

/* ---- starting ------------------------------------------------------------------------------- */

static void
tell_recovery (TpsSupervision *supervision, const TpsDurableStatus *status, gint64 now_ns)
{
  g_autofree gchar *remaining = NULL;
  g_autofree gchar *message = NULL;

  if (now_ns < supervision->next_status_ns)
    return;
  supervision->next_status_ns = now_ns + STATUS_NS;
  remaining = status->remaining_ms >= 0 ? g_strdup_printf (", about %" G_GINT64_FORMAT " s left",
                                                           status->remaining_ms / 1000 + 1)
                                        : g_strdup ("");
  message = g_strdup_printf ("STATUS=Recovering: LSN %" G_GINT64_FORMAT " of %" G_GINT64_FORMAT
                             "%s\nEXTEND_TIMEOUT_USEC=%d",
                             status->lsn, status->end_lsn, remaining, EXTEND_US);
  send_text (supervision, message);
}

static const gchar *
describe_phase (TpsDurablePhase phase)
{
  switch (phase)
    {
    case TPS_DURABLE_FULL:
      return ": changes are refused: ";
    case TPS_DURABLE_READ_ONLY:
      return ": changes are refused until a restart: ";
    default:
      return "";
    }
}

/* Sends the phase and its reason. `head` is "READY=1\n" or empty. */
static gboolean
tell_phase (TpsSupervision *supervision, const gchar *head, const TpsDurableStatus *status)
{
  g_autofree gchar *message = g_strdup_printf ("%sSTATUS=Serving on %s%s%s", head,
                                               supervision->addresses,
                                               describe_phase (status->phase), status->reason);

  if (!send_text (supervision, message))
    return FALSE;
  supervision->told = *status;
  return TRUE;
}

/* Sends a RELOADING=1 that is due. MONOTONIC_USEC is the time at which the reload began. */
static gboolean
tell_reload (TpsSupervision *supervision)
{
  g_autofree gchar *message = NULL;

  if (supervision->reload_ns == 0)
    return TRUE;
  message = g_strdup_printf ("RELOADING=1\nMONOTONIC_USEC=%" G_GINT64_FORMAT,
                             supervision->reload_ns / NS_PER_US);
  if (!send_text (supervision, message))
    return FALSE;
  supervision->reload_ns = 0;
  return TRUE;
}

/* A failed recovery needs no message: it ends the program, and the manager sees the exit status. */
static void
turn_starting (TpsSupervision *supervision, gint64 now_ns)
{
  TpsDurableStatus status = { .phase = TPS_DURABLE_LIVE };
  gboolean has_data = supervision->ops->get_durability (supervision->user_data, &status);

  if (has_data && status.phase == TPS_DURABLE_RECOVERING)
    tell_recovery (supervision, &status, now_ns);
  else if (status.phase != TPS_DURABLE_FAILED && tell_reload (supervision)
           && tell_phase (supervision, "READY=1\n", &status))
    supervision->state = TPS_SUPERVISION_READY;
}

/* ---- ready ---------------------------------------------------------------------------------- */

/* Sends a beat if one is due and all threads run. Otherwise each turn tries again. */
static void
beat (TpsSupervision *supervision, gint64 now_ns)
{
  g_autofree gchar *missing = NULL;

  if (supervision->watchdog_ns == 0 || now_ns < supervision->next_beat_ns)
    return;
  if (!supervision->ops->check_threads (supervision->user_data,
                                        supervision->watchdog_ns / LOOKS_PER_WATCHDOG, &missing))
    return;
  if (send_text (supervision, "WATCHDOG=1"))
    supervision->next_beat_ns = now_ns + supervision->watchdog_ns / BEATS_PER_WATCHDOG;
}

void
tps_supervision_turn (TpsSupervision *supervision, gint64 now_ns)
{
  TpsDurableStatus status;

  if (supervision->state == TPS_SUPERVISION_STARTING)
    turn_starting (supervision, now_ns);
  else if (supervision->state == TPS_SUPERVISION_READY
           && supervision->ops->get_durability (supervision->user_data, &status)
           && (status.phase != supervision->told.phase
               || strcmp (status.reason, supervision->told.reason) != 0))
    tell_phase (supervision, "", &status);
  if (supervision->state == TPS_SUPERVISION_READY)
    beat (supervision, now_ns);
}

/* After the first READY=1, the state STARTING means that the end of a reload is not told yet. */
void
tps_supervision_begin_reload (TpsSupervision *supervision, gint64 now_ns)
{
  if (supervision->told.phase == 0 || supervision->state == TPS_SUPERVISION_STOPPING)
    return;
  supervision->reload_ns = now_ns;
  tell_reload (supervision);
}

/* If a message cannot be sent, the state becomes STARTING, and the next turn sends RELOADING=1 and
 * READY=1 again. Without them, the manager would consider the reload unfinished for ever. */
void
tps_supervision_end_reload (TpsSupervision *supervision)
{
  if (supervision->state == TPS_SUPERVISION_READY
      && (!tell_reload (supervision) || !tell_phase (supervision, "READY=1\n", &supervision->told)))
    supervision->state = TPS_SUPERVISION_STARTING;
}

void
tps_supervision_stop (TpsSupervision *supervision)
{
  if (supervision->state != TPS_SUPERVISION_STOPPING
      && send_text (supervision, "STOPPING=1\nSTATUS=Answering in-flight calls"))
    supervision->state = TPS_SUPERVISION_STOPPING;
}

gint64
tps_supervision_parse_watchdog (const gchar *watchdog_usec, const gchar *watchdog_pid, gint64 pid)
{
  guint64 receiver, us;

  if (watchdog_usec == NULL
      || !g_ascii_string_to_unsigned (watchdog_usec, 10, 1, G_MAXINT64 / NS_PER_US, &us, NULL))
    return 0;
  if (watchdog_pid != NULL
      && (!g_ascii_string_to_unsigned (watchdog_pid, 10, 1, G_MAXINT32, &receiver, NULL)
          || (gint64) receiver != pid))
    return 0;
  return (gint64) us * NS_PER_US;
}
