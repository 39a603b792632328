/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The list of devices. A backend exports one function; the list of them stands here and nowhere else. */

#include "runtime/backend.h"

#include "runtime/cpu/device.h"
#include "runtime/error.h"

typedef TpsDevice *(*DeviceGetter) (void);

static const DeviceGetter getters[] = { tps_cpu_device_get };

TpsDevice **
tps_device_list (void)
{
  TpsDevice **devices = g_new0 (TpsDevice *, G_N_ELEMENTS (getters) + 1);
  guint n = 0;

  for (guint i = 0; i < G_N_ELEMENTS (getters); i++)
    {
      TpsDevice *device = getters[i]();

      if (device != NULL)
        devices[n++] = device;
    }
  return devices;
}

TpsDevice *
tps_device_find (const gchar *name, GError **error)
{
  g_autofree TpsDevice **devices = tps_device_list ();
  g_autoptr (GString) known = g_string_new (NULL);

  for (guint i = 0; devices[i] != NULL; i++)
    {
      if (g_str_equal (devices[i]->name, name))
        return devices[i];
      g_string_append_printf (known, "%s%s", i > 0 ? ", " : "", devices[i]->name);
    }
  g_set_error (error, TPS_ERROR, TPS_ERROR_NOT_FOUND, "unknown device \"%s\"; known: %s", name,
               known->str);
  return NULL;
}
