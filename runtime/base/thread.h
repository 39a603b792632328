/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The start of threads. Each thread blocks all signals, so that the program that embeds this code
 * handles them on threads of its own. */

#pragma once

#include "runtime/base/sync.h"

/* Starts a thread that runs `func (data)`, and sets `thread`, which the caller must join. The
 * system shows the first 15 bytes of `name`. Errors: RESOURCE_EXHAUSTED. Thread: any. */
gboolean tps_thread_start (TpsThread *thread, const gchar *name, void *(*func) (void *),
                           gpointer data, GError **error);

/* Starts a thread that is not joined. Otherwise like tps_thread_start(). */
gboolean tps_thread_start_detached (const gchar *name, void *(*func) (void *), gpointer data,
                                    GError **error);
