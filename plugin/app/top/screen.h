/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A terminal that shows pages in place of each other, by the sequences of ECMA-48 and the second
 * screen of xterm. A page is one write, which overwrites the former one line by line, so that
 * nothing flickers. Thread: one.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct TpsScreen TpsScreen;

/* NULL if `in` or `out` is no terminal. Keys come without Enter and are not shown; the suspend key
 * has no effect. */
TpsScreen *tps_screen_new (gint in, gint out);

/* Restores the terminal. */
void tps_screen_free (TpsScreen *screen);

/* As the terminal is now. */
void tps_screen_get_size (TpsScreen *screen, guint *n_columns, guint *n_rows);

/* Lines of printable ASCII, no longer and no more than the terminal has. */
void tps_screen_show (TpsScreen *screen, gchar *const *lines);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsScreen, tps_screen_free)

G_END_DECLS
