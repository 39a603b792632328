/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/ports/process_group.h"

#include "runtime/trainer/group/process_groups.h"
#include "runtime/base/error.h"

typedef TpsProcessGroup *(*GroupConstructor) (const TpsProcessGroupOptions *options,
                                              GError **error);

static const struct
{
  const gchar *name;
  GroupConstructor construct;
} backends[] = {
  { "gloo", tps_gloo_process_group_new },
  { "multi", tps_multi_process_group_new },
  { "nccl", tps_device_process_group_new },
};

static gint
find_backend (const gchar *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (backends); i++)
    if (g_strcmp0 (backends[i].name, name) == 0)
      return (gint) i;
  return -1;
}

gboolean
tps_process_group_check_backend (const gchar *backend, GError **error)
{
  if (find_backend (backend) >= 0)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_NOT_FOUND,
               "unknown backend \"%s\"; known: gloo, multi, nccl", backend == NULL ? "" : backend);
  return FALSE;
}

gboolean
tps_process_group_check_usable (const gchar *backend, GError **error)
{
  const TpsDeviceGroups *groups;

  if (!tps_process_group_check_backend (backend, error))
    return FALSE;
  if (!g_str_equal (backend, "nccl"))
    return TRUE;
  groups = tps_device_groups_find (error);
  return groups != NULL && groups->check_usable (error);
}

static gboolean
check_options (const TpsProcessGroupOptions *options, GError **error)
{
  if (options->rank < options->size && (options->size == 1 || options->store != NULL)
      && options->timeout_ns > 0)
    return TRUE;
  g_set_error (
      error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
      "process group: rank %u of %u, timeout %" G_GINT64_FORMAT
      " ns: expected a rank below the size, a positive timeout, and a store if the size is not 1",
      options->rank, options->size, options->timeout_ns);
  return FALSE;
}

/* Creates the group of a single rank. With a device, the rank uses the device group. If there is no
 * usable device group, "multi" uses the group without a device, and other backends fail. */
static TpsProcessGroup *
new_alone (const gchar *backend, const TpsProcessGroupOptions *options, GError **error)
{
  const TpsDeviceGroups *devices;

  if (options->device == NULL)
    return tps_single_process_group_new ();
  devices = tps_device_groups_find (error);
  if (g_strcmp0 (backend, "multi") == 0 && (devices == NULL || !devices->check_usable (NULL)))
    {
      g_clear_error (error);
      return tps_single_process_group_new ();
    }
  return devices != NULL ? tps_device_process_group_new (options, error) : NULL;
}

TpsProcessGroup *
tps_process_group_new (const gchar *backend, const TpsProcessGroupOptions *options, GError **error)
{
  if (!check_options (options, error))
    return NULL;
  if (options->size == 1)
    return new_alone (backend, options, error);
  if (!tps_process_group_check_backend (backend, error))
    return NULL;
  return backends[find_backend (backend)].construct (options, error);
}
