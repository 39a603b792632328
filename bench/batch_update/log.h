/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The log lines of the original, "HH:MM:SS text", on stderr. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Writes one line with a single write(), because all roles write to the same terminal. Errors are
 * ignored. Thread: any. */
void tps_batch_update_log (const gchar *format, ...) G_GNUC_PRINTF (1, 2);

G_END_DECLS
