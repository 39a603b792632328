/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A copy into memory that another core will read next: memory shared between processes. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Copies as memcpy(). Copies of `stream_bytes` and more bypass the caches, and idle cores help with
 * `shared_stream_bytes` and more (runtime/machine/tuning.h). A reader that is notified after the
 * call has returned sees the bytes. Thread: any. */
void tps_stream_copy (gpointer to, gconstpointer from, gsize n_bytes);

G_END_DECLS
