/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/cores.h"

#include <sched.h>

#include "runtime/machine/machine.h"

static guint
count_allowed (void)
{
  cpu_set_t cores;

  /* The call fails if the machine has more cores than the set can hold. */
  if (sched_getaffinity (0, sizeof cores, &cores) == 0)
    return (guint) CPU_COUNT (&cores);
  return g_get_num_processors ();
}

guint
tps_cores_count (void)
{
  guint n_allowed = count_allowed ();
  guint n_quota = tps_machine_get ()->n_quota;

  return n_quota > 0 ? MIN (n_allowed, n_quota) : n_allowed;
}
