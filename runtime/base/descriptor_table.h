/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The process's table of file descriptors: its size, and the share of it that peers may use.
 *
 * When the table must grow in a process with several threads, the system call that needs the
 * descriptor, such as accept(), waits for a grace period of RCU: up to seconds on a busy machine.
 * The kernel always assigns the lowest free number, so a high number shows that few descriptors are
 * left, and no count is needed. */

#pragma once

#include <glib.h>

/* The uses of descriptors that peers can cause, from the largest reserve to the smallest. The
 * reserve of HTTP lets an operator look at a server whose connections are all taken. */
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

/* Enlarges the table to `n_descriptors`, at most RLIMIT_NOFILE or 2^20. May block for a grace
 * period. Without a free descriptor, nothing changes. Thread: any. */
void tps_descriptor_table_enlarge (gsize n_descriptors);

/* Returns TRUE if `fd`, which the kernel has just assigned, leaves the reserve of others alone. If
 * not, the caller must close it and refuse the peer. Thread: any. */
gboolean tps_descriptor_table_may_keep (gint fd, TpsDescriptorUse use);
