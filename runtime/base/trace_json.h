/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A trace record as one line of JSON (RFC 8259), for collectors of logs:
 *
 *   {"time":"2026-11-20T12:00:00.000123Z","sequence":17,"level":"info","event":"request_failed",
 *    "area":"plugin/service","process":"thriftps_server","pid":4711,"host":"ps0","node":"server0",
 *    "fields":{"method":"EmbeddingTable:drop_table","code":"NOT_FOUND"},"suppressed":2}
 *
 * Fields of the event are in an object of their own, because their keys may equal those of other
 * members. The line is always UTF-8, even if a peer has sent other bytes: invalid bytes become
 * U+FFFD, and characters that do not print are escaped. Numbers that JSON cannot represent
 * (infinite, not a number) are null.
 */

#pragma once

#include "runtime/base/trace.h"

G_BEGIN_DECLS

/* Members that all records of a process share. Texts that are NULL are left out. */
typedef struct
{
  const gchar *process;
  const gchar *host;
  const gchar *node; /* the name in Node.describe */
  gint64 pid;
} TpsTraceOrigin;

/* Appends the record as an object, without a newline. `origin` may be NULL. Thread: any. */
void tps_trace_append_json (const TpsTraceRecord *record, const TpsTraceOrigin *origin,
                            GString *line);

G_END_DECLS
