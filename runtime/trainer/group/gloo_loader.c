/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/group/gloo_library.h"

#include <dlfcn.h>

#include "runtime/base/error.h"
#include "runtime/base/module.h"
#include "runtime/base/sync.h"
#include "runtime/trainer/group/process_groups.h"

#define LIBRARY_NAME "libtps_gloo.so"

static struct
{
  const TpsGlooLibrary *library; /* NULL: not usable, for the reasons in `reasons` */
  GString *reasons;
} loaded;

static const TpsGlooLibrary *
check_library (const TpsGlooLibrary *library, GString *reasons)
{
  if (library == NULL)
    g_string_append (reasons, "it has no symbol " TPS_GLOO_LIBRARY_SYMBOL);
  else if (library->abi != TPS_GLOO_LIBRARY_ABI)
    g_string_append_printf (reasons, "it has ABI %u, this program %d", library->abi,
                            TPS_GLOO_LIBRARY_ABI);
  else if (!g_str_equal (library->version, TPS_VERSION))
    g_string_append_printf (reasons, "it is version %s, this program " TPS_VERSION,
                            library->version);
  else
    return library;
  return NULL;
}

static void
load (void)
{
  g_auto (GStrv) paths = tps_module_list_paths (LIBRARY_NAME, "THRIFTPS_GLOO_LIBRARY");
  void *module;

  (void) TPS_ERROR; /* registers the error domain, which the library then finds, see error.c */
  loaded.reasons = g_string_new (NULL);
  module = tps_module_open ((const gchar *const *) paths, loaded.reasons);
  if (module != NULL)
    loaded.library = check_library (dlsym (module, TPS_GLOO_LIBRARY_SYMBOL), loaded.reasons);
}

TpsProcessGroup *
tps_gloo_process_group_new (const TpsProcessGroupOptions *options, GError **error)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;

  tps_sync_check (pthread_once (&once, load));
  if (loaded.library != NULL)
    return loaded.library->group_new (options, error);
  return tps_fail_null (error, TPS_ERROR_UNAVAILABLE,
                        "backend 'gloo': " LIBRARY_NAME " cannot be loaded: %s",
                        loaded.reasons->len > 0 ? loaded.reasons->str : "turned off");
}
