/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Ctrl-C and SIGTERM as a flag that long work looks at. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* From now on SIGINT and SIGTERM set the flag; a second one ends the process at once. SIGPIPE is
 * ignored. */
void tps_interrupt_install (void);

gboolean tps_interrupt_is_set (void);

/* TPS_ERROR_ABORTED "interrupted" when the flag is set, else TRUE. */
gboolean tps_interrupt_check (GError **error);

G_END_DECLS
