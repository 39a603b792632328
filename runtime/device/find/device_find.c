/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Lists and finds devices: the CPU, and the devices of the loaded library
 * (runtime/device/device_library.h). */

#include "runtime/device/backend.h"

#include "runtime/device/device_library.h"
#include "runtime/base/error.h"

TpsDevice **
tps_device_list (void)
{
  const TpsLoadedLibrary *loaded = tps_device_library_get ();
  TpsDevice **devices = g_new0 (TpsDevice *, loaded->devices->len + 2);

  devices[0] = tps_cpu_device_get ();
  for (guint i = 0; i < loaded->devices->len; i++)
    devices[i + 1] = g_ptr_array_index (loaded->devices, i);
  return devices;
}

const gchar *
tps_device_list_summary (void)
{
  return tps_device_library_get ()->summary;
}

static void
set_not_found (const gchar *name, TpsDevice *const *devices, GError **error)
{
  g_autoptr (GString) known = g_string_new (NULL);
  gboolean is_cuda = g_str_has_prefix (name, "cuda");

  for (guint i = 0; devices[i] != NULL; i++)
    g_string_append_printf (known, "%s%s", i > 0 ? ", " : "", devices[i]->name);
  g_set_error (error, TPS_ERROR, TPS_ERROR_NOT_FOUND, "unknown device \"%s\"; known: %s%s%s", name,
               known->str, is_cuda ? "; " : "", is_cuda ? tps_device_list_summary () : "");
}

TpsDevice *
tps_device_find (const gchar *name, GError **error)
{
  g_autofree TpsDevice **devices = NULL;

  /* The CPU is found without loading drivers, which takes time and would keep the process from
   * forking. */
  if (g_str_equal (tps_cpu_device_get ()->name, name))
    return tps_cpu_device_get ();
  devices = tps_device_list ();
  for (guint i = 0; devices[i] != NULL; i++)
    if (g_str_equal (devices[i]->name, name))
      return devices[i];
  set_not_found (name, devices, error);
  return NULL;
}
