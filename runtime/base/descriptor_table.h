/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The process's table of file descriptors: its size, and the share of it that peers may use.
 *
 * The kernel enlarges the table when a descriptor does not fit. If the process has several threads,
 * the system call that needs the descriptor, such as accept(), then waits for a grace period of
 * RCU. On a busy machine this blocks the thread for up to seconds.
 *
 * The kernel always assigns the lowest free number. The number of a new descriptor is therefore at
 * most the number of open ones, whoever has opened them, and a descriptor with a high number shows
 * that few are left. No count is needed.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The uses of descriptors that peers can cause, from the largest reserve to the smallest. The
 * reserve of HTTP lets an operator look at a server whose connections are all taken. Files of the
 * log, of snapshots and of imports have no reserve above them. */
typedef enum
{
  TPS_DESCRIPTOR_OF_PEER, /* a connection, or shared memory */
  TPS_DESCRIPTOR_OF_HTTP,
} TpsDescriptorUse;

/* The reason to refuse a peer, with the remedy. */
#define TPS_DESCRIPTORS_LACK \
  "the remaining descriptors are reserved for files; raise the limit of open files (ulimit -n)"

/* Makes the limit of the process (RLIMIT_NOFILE) as high as the system allows. Only for programs,
 * not for libraries: the limit belongs to the process. */
void tps_descriptor_table_raise_limit (void);

/* Enlarges the table to `n_descriptors`, but not beyond the limit of the process (RLIMIT_NOFILE) or
 * 2^20. May block for a grace period. The table never shrinks. If no descriptor is free, the table
 * stays unchanged. Thread: any. */
void tps_descriptor_table_enlarge (gsize n_descriptors);

/* Returns TRUE if `fd`, which the kernel has just assigned, leaves the reserve of others alone. If
 * not, the caller must close it and refuse the peer. Thread: any. */
gboolean tps_descriptor_table_may_keep (gint fd, TpsDescriptorUse use);

G_END_DECLS
