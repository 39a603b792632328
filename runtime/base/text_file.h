/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Files that an operator names, and small text files: options, rules, tokens. A name may lead to a
 * FIFO, a device or a socket by mistake, and a program must not wait for one of these. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Reads a regular file and returns its text, owned by the caller. `max_bytes` must be a multiple of
 * 1 KiB. Errors: INVALID_ARGUMENT if the file cannot be read, is not regular, is larger, or
 * contains NUL bytes or the JSON escape of one; the message is the reason alone. A signal is an
 * error, so that a program that reads slowly can be stopped. Thread: any; blocks. */
gchar *tps_text_file_read (const gchar *path, gsize max_bytes, GError **error);

/* Opens a regular file, or what a link leads to, for reading; the caller must close the descriptor.
 * Errors: -1 with INVALID_ARGUMENT; the message is the reason alone. Thread: any; never waits for
 * another process. */
gint tps_regular_file_open (const gchar *path, GError **error);

G_END_DECLS
