/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The log of thriftps_server, as its options say. */

#pragma once

#include "plugin/app/flags.h"
#include "runtime/base/trace_stream.h"

G_BEGIN_DECLS

/* Makes the log of the process go where `flags` say, with their levels and format, and under their
 * name. The caller's; it must live until the last event. Errors: INVALID_ARGUMENT, naming the file.
 */
TpsTraceStream *tps_server_log_open (const TpsServerFlags *flags, GError **error);

/* Opens the file of the log again. A failure is an event of the log, which goes on in the old
 * file. */
void tps_server_log_reopen (TpsTraceStream *log);

G_END_DECLS
