/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/http/console/console_files.h"

#include "plugin/http/console/embedded.h"

#include <stdlib.h>
#include <string.h>

static int
compare_path (const void *path, const void *file)
{
  return strcmp (path, ((const TpsConsoleFile *) file)->path);
}

const TpsConsoleFile *
tps_console_find_file (const gchar *path)
{
  return bsearch (path, tps_console_embedded, tps_n_console_embedded, sizeof *tps_console_embedded,
                  compare_path);
}

const TpsConsoleFile *
tps_console_list_files (gsize *n_files)
{
  *n_files = tps_n_console_embedded;
  return tps_console_embedded;
}
