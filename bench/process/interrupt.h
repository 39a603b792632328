/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Ctrl-C and SIGTERM as a flag of the process. Long work must check the flag. */

#pragma once

#include <glib.h>

/* Installs the handlers: SIGINT and SIGTERM set the flag, and a second signal of the same kind
 * terminates the process at once. SIGPIPE is ignored. */
void tps_interrupt_install (void);

/* Returns TRUE if the flag is set. Thread: any. */
gboolean tps_interrupt_is_set (void);

/* Returns TRUE if the flag is not set. Errors: ABORTED "interrupted". Thread: any. */
gboolean tps_interrupt_check (GError **error);
