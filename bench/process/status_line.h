/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A line on stderr that shows progress: rewritten in place on a terminal, and a new line every few
 * seconds otherwise. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct
{
  gboolean is_terminal;
  gboolean shown;
  gint64 next_ns;
} TpsStatusLine;

void tps_status_line_init (TpsStatusLine *line);

/* Returns TRUE if a new text is due. */
gboolean tps_status_line_is_due (TpsStatusLine *line);

/* Shows `text`, which must not end with a newline. */
void tps_status_line_show (TpsStatusLine *line, const gchar *text);

/* Clears the line on a terminal. */
void tps_status_line_end (TpsStatusLine *line);

G_END_DECLS
