/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Files that an operator names, and small text files: options, rules, tokens. A name may lead to a
 * FIFO, a device or a socket by mistake, and a program must not wait for one of these. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Reads a regular file to its end and returns its text, which belongs to the caller. `max_bytes`
 * must be a multiple of 1 KiB; at most 4 KiB more are read, so that a file that grows while it is
 * read cannot exhaust memory. Errors: INVALID_ARGUMENT if the file cannot be read, is not a regular
 * file, is larger than `max_bytes`, or contains bytes of value 0 or the JSON escape of one. The
 * message is the reason alone; the caller must add the name of the file. A signal during the read
 * is an error, so that a program that reads from a slow file system can be stopped. Thread: any;
 * blocks. */
gchar *tps_text_file_read (const gchar *path, gsize max_bytes, GError **error);

/* Opens a regular file for reading, and returns its descriptor, which the caller must close.
 * Symbolic links are followed, so that /dev/stdin is a regular file if stdin is one.
 * Errors: -1 with INVALID_ARGUMENT (the file cannot be opened, or is not a regular file).
 * The message is the reason alone; the caller must add the name of the file.
 * Thread: any; never waits for another process. */
gint tps_regular_file_open (const gchar *path, GError **error);

G_END_DECLS
