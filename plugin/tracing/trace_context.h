/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* W3C Trace Context (https://www.w3.org/TR/trace-context/), which callers send as `traceparent` and
 * `tracestate`, in the header of a THeader frame or with Session.set_context. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define TPS_TRACE_ID_BYTES 16
#define TPS_SPAN_ID_BYTES 8
#define TPS_TRACE_ID_TEXT (2 * TPS_TRACE_ID_BYTES + 1) /* in hex, with its NUL */
#define TPS_TRACEPARENT_TEXT 56                        /* of version 00, with its NUL */
#define TPS_TRACESTATE_MAX_BYTES 512

#define TPS_TRACEPARENT "traceparent"
#define TPS_TRACESTATE "tracestate"

typedef struct
{
  guint8 trace_id[TPS_TRACE_ID_BYTES];
  guint8 parent_id[TPS_SPAN_ID_BYTES]; /* the caller's span; zeros = none */
  gboolean is_sampled;                 /* the caller records its part of the trace */
} TpsTraceContext;

/* Parses a traceparent strictly: lower-case hex, no ids of zeros, not version ff. Of later versions
 * only the parts of version 00 are read. `text` may be NULL. Returns FALSE if `text` is no
 * traceparent; `context` is then not changed. */
gboolean tps_trace_context_parse (const gchar *text, TpsTraceContext *context);

void tps_trace_context_format (const TpsTraceContext *context, gchar text[TPS_TRACEPARENT_TEXT]);
void tps_trace_id_format (const guint8 id[TPS_TRACE_ID_BYTES], gchar text[TPS_TRACE_ID_TEXT]);

/* Returns TRUE if a tracestate may be passed on: printable ASCII, not empty, at most
 * TPS_TRACESTATE_MAX_BYTES. */
gboolean tps_tracestate_is_valid (const gchar *text);

/* Writes `n_bytes` bytes in hex: 2 * `n_bytes` digits and a NUL. */
void tps_hex_format (const guint8 *bytes, gsize n_bytes, gchar *text);

G_END_DECLS
