/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Lines on stderr that never block and cannot flood.
 *
 * A line that stderr does not take at once (a full pipe, a stopped terminal) is dropped, as is one beyond the rate; the
 * next one that gets through says how many were lost. Thread: any.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef enum
{
  TPS_LOG_ERROR = 1,
  TPS_LOG_WARNING = 2,
  TPS_LOG_INFO = 3,
  TPS_LOG_DEBUG = 4,
} TpsLogLevel;

#define TPS_LOG_BURST 100     /* lines at once */
#define TPS_LOG_PER_SECOND 20 /* and then so many */

/* What is below is not written. At first TPS_LOG_WARNING: a host's stderr is the host's. */
void tps_log_set_level (TpsLogLevel level);

/* "error", "warning", "info", "debug"; FALSE for anything else. */
gboolean tps_log_parse_level (const gchar *text, TpsLogLevel *level);

/* One line; the newline is added, control characters become '?'. */
void tps_log (TpsLogLevel level, const gchar *format, ...) G_GNUC_PRINTF (2, 3);

/* ---- the parts, for tests ------------------------------------------------------------------- */

/* A bucket of tokens; all zero = full. Not thread-safe. */
typedef struct
{
  gint64 last_ns;
  gdouble n_used;
  guint64 n_dropped;
} TpsLogRate;

/* Whether a line may be written now; counts those that may not. */
gboolean tps_log_rate_take (TpsLogRate *rate, gint64 now_ns);

/* Writes to `fd` if it takes `n_bytes` (at most 4096) without blocking, whatever mode it is in. */
gboolean tps_log_write_some (gint fd, const gchar *line, gsize n_bytes);

G_END_DECLS
