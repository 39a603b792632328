/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The log of thriftps_server, according to its options. */

#pragma once

#include "plugin/app/flags.h"
#include "runtime/base/trace_sinks.h"

G_BEGIN_DECLS

/* Directs the log of the process to the destination of `flags`, with their levels, format and name.
 * The caller owns the result, which must live until the last event. Errors: INVALID_ARGUMENT, which
 * names the file. */
TpsTraceStream *tps_server_log_open (const TpsServerFlags *flags, GError **error);

/* Opens the file of the log again. A failure is logged to the old file, which stays in use. */
void tps_server_log_reopen (TpsTraceStream *log);

G_END_DECLS
