/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A line on stderr that shows progress. A terminal rewrites the line in place; otherwise a new line
 * appears every few seconds. Thread: one thread at a time. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The state of the line. */
typedef struct
{
  gboolean is_terminal;
  gboolean shown; /* a text has been shown */
  gint64 next_ns; /* the time from which a new text is due */
} TpsStatusLine;

/* Initialises the line. The first text is due after one interval. */
void tps_status_line_init (TpsStatusLine *line);

/* Returns TRUE if a new text is due. */
gboolean tps_status_line_is_due (TpsStatusLine *line);

/* Shows `text`, which must not end with a newline, and starts the next interval. */
void tps_status_line_show (TpsStatusLine *line, const gchar *text);

/* Clears the line if stderr is a terminal. */
void tps_status_line_end (TpsStatusLine *line);

G_END_DECLS
