/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The observer of the sequencer. It appends commands to the log, which releases them. */

#include "runtime/server/durable/durable_private.h"

#include "runtime/base/planted_bug.h"

/* While the server recovers, services admit no requests. All commands then come from the log, and
 * must not be refused. */
static gboolean
may_admit (gpointer user_data, gsize n_bytes, GError **error)
{
  TpsDurable *durable = user_data;

  switch (tps_durable_get_phase (durable))
    {
    case TPS_DURABLE_RECOVERING:
      return TRUE;
    case TPS_DURABLE_FAILED:
      return tps_durable_check (durable, error);
    case TPS_DURABLE_LIVE:
    case TPS_DURABLE_FULL:
    case TPS_DURABLE_READ_ONLY:
      break;
    }
  return tps_durable_check_log (durable, n_bytes, error);
}

static void
release (gpointer user_data, gint64 lsn, const GError *error)
{
  g_autoptr (GError) lost = error != NULL ? tps_durable_new_read_only_error (error) : NULL;

  TPS_PLANT ("log-error-ignored", g_clear_error (&lost));
  tps_ordered_release (user_data, lost);
}

/* While the server recovers, commands come from the log, and must not be appended to it again. */
static void
observe (gpointer user_data, TpsOrdered *ordered)
{
  TpsDurable *durable = user_data;
  TpsCommand *command = ordered->command;
  TpsDurability durability = command->durability != 0 ? command->durability : durable->durability;

  /* INTERVAL permits a crash to undo updates, but not the beginning or the end of a model. */
  if (durability == TPS_DURABILITY_INTERVAL
      && (command->kind == TPS_COMMAND_INIT_MODEL || command->kind == TPS_COMMAND_RESET_MODEL))
    durability = TPS_DURABILITY_COMMIT;
  TPS_PLANT ("commit-as-interval", durability = TPS_DURABILITY_INTERVAL);
  if (tps_durable_get_phase (durable) == TPS_DURABLE_RECOVERING)
    tps_ordered_release (ordered, NULL);
  else
    {
      command->time_ms = g_get_real_time () / 1000;
      tps_log_append (durable->log, command, durability, release, ordered);
    }
}

void
tps_durable_init_sequencer (TpsDurable *durable, TpsSequencerOptions *options)
{
  options->observe = observe;
  options->may_admit = may_admit;
  options->user_data = durable;
}
