/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A copy into memory that another core will read next: memory shared between processes. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Like memcpy(): any alignment, any size, no overlap. Copies of `stream_bytes` and more bypass the
 * caches, and other cores help with `shared_stream_bytes` and more if they are idle
 * (runtime/machine/tuning.h). Any reader that is notified after this has
 * returned sees the bytes, by any means of notification. Thread: any. */
void tps_stream_copy (gpointer to, gconstpointer from, gsize n_bytes);

G_END_DECLS
