/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A line on stderr that says how far something is: rewritten in place on a terminal, a new line
 * every few seconds elsewhere. */

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

/* Whether it is time to show something. */
gboolean tps_status_line_is_due (TpsStatusLine *line);

/* `text`: without an end. */
void tps_status_line_show (TpsStatusLine *line, const gchar *text);

/* Takes it off a terminal. */
void tps_status_line_end (TpsStatusLine *line);

G_END_DECLS
