/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/net/descriptor_table.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#define MAX_DESCRIPTORS ((gsize) 1 << 20)

void
tps_descriptor_table_enlarge (gsize n_descriptors)
{
  struct rlimit limit;
  gsize n_reserved = MIN (n_descriptors, MAX_DESCRIPTORS);
  gint any, last;

  if (getrlimit (RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == 0 || n_reserved == 0)
    return;
  any = eventfd (0, EFD_CLOEXEC);
  if (any < 0)
    return;
  /* A duplicate with the highest number makes the kernel enlarge the table. */
  last = fcntl (any, F_DUPFD_CLOEXEC, (gint) MIN (n_reserved, limit.rlim_cur) - 1);
  if (last >= 0)
    close (last);
  close (any);
}
