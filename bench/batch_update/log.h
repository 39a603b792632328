/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The original's log lines, "HH:MM:SS text", on stderr. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Writes each line at once, because all roles write to the same terminal. Thread: any. */
void tps_batch_update_log (const gchar *format, ...) G_GNUC_PRINTF (1, 2);

G_END_DECLS
