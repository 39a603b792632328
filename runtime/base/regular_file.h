/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Files that an operator names. A name may lead to a FIFO, a device or a socket by mistake, and a
 * program must not wait for one of these. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Opens a regular file for reading, and returns its descriptor, which the caller must close.
 * Symbolic links are followed, so that /dev/stdin is a regular file if stdin is one.
 * Errors: -1 with INVALID_ARGUMENT (the file cannot be opened, or is not a regular file).
 * The message is the reason alone; the caller must add the name of the file.
 * Thread: any; never waits for another process. */
gint tps_regular_file_open (const gchar *path, GError **error);

G_END_DECLS
