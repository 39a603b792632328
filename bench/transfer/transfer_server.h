/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The processes that the transfer benchmark talks to: each listens on loopback, prints "listening
 * on HOST:PORT" and ends with its standard input.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Ours: the services of a plugin, and Sink.push(1: Tensor), which answers with nothing. Returns the
 * exit status. */
gint tps_transfer_serve_ours (void);

/* The limit: a blocking socket that takes `n_bytes` and answers with one byte, again and again. */
gint tps_transfer_serve_raw (gsize n_bytes);

G_END_DECLS
