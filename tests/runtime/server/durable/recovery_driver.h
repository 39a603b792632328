/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Runs the first steps of a recovery. C++17 cannot include its header, because it needs C11
 * atomics. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Begins a recovery of a snapshot of 80 bytes and a log of 20 bytes. Then notes that `n_restored`
 * bytes of the snapshot have been read, and that `age_ns` has passed since the beginning. */
void recovery_driver_run (guint64 n_restored, gint64 age_ns);

G_END_DECLS
