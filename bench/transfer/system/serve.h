/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* How a server process of the transfer benchmark begins and ends; peers do the same. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Prints "listening on ADDRESS". */
void tps_transfer_announce (const gchar *address);

/* Until the end of standard input. */
void tps_transfer_wait_for_end (void);

/* Says it on stderr; the exit status. */
gint tps_transfer_fail (const GError *error);

G_END_DECLS
