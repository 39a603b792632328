/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Ctrl-C and SIGTERM as a flag, which long work must check. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* After this call, SIGINT and SIGTERM set the flag; a second signal ends the process at once.
 * SIGPIPE is ignored. */
void tps_interrupt_install (void);

gboolean tps_interrupt_is_set (void);

/* Returns TRUE unless the flag is set. Errors: TPS_ERROR_ABORTED "interrupted". */
gboolean tps_interrupt_check (GError **error);

G_END_DECLS
