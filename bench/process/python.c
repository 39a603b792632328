/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/process/python.h"

#include <string.h>

#define DEBIANS "/usr/bin/python3"

static gpointer
find (gpointer unused)
{
  const gchar *named = g_getenv ("THRIFTPS_PYTHON");
  gchar *installed;

  if (named != NULL)
    return g_strdup (named);
  installed = g_build_filename (g_get_user_cache_dir (), "thriftps-peers", "bin", "python", NULL);
  if (g_file_test (installed, G_FILE_TEST_IS_EXECUTABLE))
    return installed;
  g_free (installed);
  return g_strdup (DEBIANS);
}

const gchar *
tps_bench_find_python (void)
{
  static GOnce once = G_ONCE_INIT;

  return g_once (&once, find, NULL);
}

const gchar *
tps_bench_describe_python (void)
{
  if (strcmp (tps_bench_find_python (), DEBIANS) != 0)
    return "";
  return "The peer is Debian's PyTorch, which is old; bench/peers/install installs a new one.\n";
}
