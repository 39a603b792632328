/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The size of the process's table of file descriptors.
 *
 * The kernel enlarges the table when a descriptor does not fit. If the process has several threads,
 * the system call that needs the descriptor, such as accept(), then waits for a grace period of
 * RCU. On a busy machine this blocks the thread for up to seconds.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Enlarges the table to `n_descriptors`, but not beyond the limit of the process (RLIMIT_NOFILE) or
 * 2^20. May block for a grace period. The table never shrinks. If no descriptor is free, the table
 * stays unchanged. Thread: any. */
void tps_descriptor_table_enlarge (gsize n_descriptors);

G_END_DECLS
