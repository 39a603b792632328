/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The start and the end of a server process of the transfer benchmark. Peers do the same. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Prints "listening on ADDRESS". */
void tps_transfer_announce (const gchar *address);

/* Waits for the end of the standard input. */
void tps_transfer_wait_for_end (void);

/* Prints the error to stderr. Returns the exit status 1. */
gint tps_transfer_fail (const GError *error);

G_END_DECLS
