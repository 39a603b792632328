/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/app/server_log.h"

#include <unistd.h>

static TpsTraceEvent log_not_reopened = TPS_TRACE_EVENT ("log_not_reopened", TPS_TRACE_ERROR);

/* Returns TRUE if each line must begin with its priority. This includes lines of JSON if stderr is
 * connected to the journal, which removes the priority. */
static gboolean
is_journal (const TpsServerFlags *flags)
{
  if (flags->log_format == TPS_LOG_JOURNAL)
    return TRUE;
  return flags->log_format != TPS_LOG_TEXT && flags->log_file == NULL
         && tps_trace_stream_is_journal (STDERR_FILENO, g_getenv ("JOURNAL_STREAM"));
}

TpsTraceStream *
tps_server_log_open (const TpsServerFlags *flags, GError **error)
{
  TpsTraceStreamOptions options = {
    .format = flags->log_format == TPS_LOG_JSON ? TPS_TRACE_JSON : TPS_TRACE_TEXT,
    .is_journal = is_journal (flags),
    .path = flags->log_file,
    .origin = { .process = "thriftps_server",
                .host = g_get_host_name (),
                .node = flags->plugin.name,
                .pid = getpid () },
  };
  TpsTraceStream *log = tps_trace_stream_new (&options, error);

  if (log == NULL)
    return NULL;
  tps_trace_set_sink (tps_trace_stream_sink, log);
  tps_trace_set_levels (flags->log_level, NULL);
  return log;
}

void
tps_server_log_reopen (TpsTraceStream *log)
{
  g_autoptr (GError) error = NULL;

  if (!tps_trace_stream_reopen (log, &error))
    tps_trace (&log_not_reopened, tps_field_text ("reason", error->message));
}
