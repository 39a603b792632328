/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* This file is compiled only in builds with --//third_party:planted_bugs. */

#include "runtime/base/planted_bug.h"

#include <stdlib.h>
#include <string.h>

gboolean
tps_planted_bug_is (const gchar *name)
{
  const gchar *planted = getenv ("TPS_PLANTED_BUG");

  return planted != NULL && strcmp (planted, name) == 0;
}
