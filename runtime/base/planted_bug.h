/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Bugs that are planted into the product, to verify that tests find them.
 *
 *   TPS_PLANT ("write-without-sync", is_sync = FALSE);
 *
 * has no effect, unless the build has --//third_party:planted_bugs. Then the statements are
 * executed in a process with TPS_PLANTED_BUG=write-without-sync in its environment. Statements must
 * not use `break` or `continue`. Thread: any. */

#pragma once

#include <glib.h>

/* Returns TRUE if this process has the bug `name`. Defined only in builds with the flag. */
gboolean tps_planted_bug_is (const gchar *name);

#ifdef TPS_PLANTED_BUGS

#define TPS_PLANT(name, ...)         \
  do                                 \
    {                                \
      if (tps_planted_bug_is (name)) \
        {                            \
          __VA_ARGS__;               \
        }                            \
    }                                \
  while (0)

#else

#define TPS_PLANT(name, ...)

#endif
