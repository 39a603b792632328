/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/descriptor_table.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#define MAX_DESCRIPTORS ((gsize) 1 << 20)
/* The reserves, and the parts of a low limit that they take at most. */
#define N_FOR_FILES 128
#define N_FOR_HTTP 64
#define FILES_PART 4
#define HTTP_PART 8

void
tps_descriptor_table_raise_limit (void)
{
  struct rlimit limit;

  if (getrlimit (RLIMIT_NOFILE, &limit) != 0)
    return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit (RLIMIT_NOFILE, &limit); /* a failure leaves the old limit, which also works */
}

gboolean
tps_descriptor_table_may_keep (gint fd, TpsDescriptorUse use)
{
  struct rlimit limit;
  rlim_t n_reserved;

  if (getrlimit (RLIMIT_NOFILE, &limit) != 0)
    return TRUE;
  n_reserved = MIN (N_FOR_FILES, limit.rlim_cur / FILES_PART);
  if (use == TPS_DESCRIPTOR_OF_PEER)
    n_reserved += MIN (N_FOR_HTTP, limit.rlim_cur / HTTP_PART);
  return (rlim_t) fd < limit.rlim_cur - n_reserved;
}

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
