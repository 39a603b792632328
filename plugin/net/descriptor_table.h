/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The size of the process's table of file descriptors.
 *
 * The kernel enlarges the table when a descriptor does not fit. In a process with several threads
 * it then waits for a grace period of RCU, in accept() or in any other call that opens a file. On a
 * busy machine this takes up to seconds, during which the thread does nothing else.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Enlarges the table for `n_descriptors`, or for as many as the process may have open
 * (RLIMIT_NOFILE), at most 2^20. May block for a grace period. The table never shrinks. It stays as
 * it is if no descriptor is free. Thread: any. */
void tps_descriptor_table_enlarge (gsize n_descriptors);

G_END_DECLS
