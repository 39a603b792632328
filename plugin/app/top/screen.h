/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A terminal that shows one page after the other in the same place. It uses the sequences of
 * ECMA-48 and the alternate screen of xterm. A page is written at once and overwrites the previous
 * one line by line, so that nothing flickers. Thread: one. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct TpsScreen TpsScreen;

/* Switches the terminal to the alternate screen. `in` and `out` are borrowed; keys are then
 * readable from `in` without Enter, and are not shown, and the suspend key has no effect. The
 * caller owns the result. NULL: `in` or `out` is not a terminal. */
TpsScreen *tps_screen_new (gint in, gint out);

/* Restores the terminal, and frees the screen. */
void tps_screen_free (TpsScreen *screen);

/* Gets the current size of the terminal; 80 columns and 24 rows if it is unknown. */
void tps_screen_get_size (TpsScreen *screen, guint *n_columns, guint *n_rows);

/* Shows a page. `lines`, ended by NULL, must be printable ASCII, and must fit into the terminal. */
void tps_screen_show (TpsScreen *screen, gchar *const *lines);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsScreen, tps_screen_free)

G_END_DECLS
