/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/registry.h"

#include "runtime/base/error.h"

/* Returns the name of an entry, which is its first member. */
static const gchar *
entry_name (gconstpointer entry)
{
  return *(const gchar *const *) entry;
}

/* Searches added entries before built-in ones, the last added entry first. An added entry thus
 * replaces earlier entries of the same name. The lock is held. */
static gconstpointer
find_locked (TpsRegistry *registry, const gchar *name)
{
  for (guint i = registry->added == NULL ? 0 : registry->added->len; i > 0; i--)
    if (g_str_equal (entry_name (registry->added->pdata[i - 1]), name))
      return registry->added->pdata[i - 1];
  for (guint i = 0; i < registry->n_built_in; i++)
    if (g_str_equal (entry_name (registry->built_in[i]), name))
      return registry->built_in[i];
  return NULL;
}

gconstpointer
tps_registry_find (TpsRegistry *registry, const gchar *name, GError **error)
{
  g_autofree const gchar **names = NULL;
  g_autofree gchar *known = NULL;
  gconstpointer entry;

  tps_mutex_lock (&registry->lock);
  entry = name == NULL ? NULL : find_locked (registry, name);
  tps_mutex_unlock (&registry->lock);
  if (entry != NULL)
    return entry;

  names = tps_registry_list (registry);
  known = g_strjoinv (", ", (gchar **) (gpointer) names);
  return tps_fail_null (error, TPS_ERROR_NOT_FOUND, "unknown %s \"%s\"; known: %s", registry->what,
                        name == NULL ? "" : name, known);
}

void
tps_registry_add (TpsRegistry *registry, gconstpointer entry)
{
  TPS_LOCK_SCOPE (&registry->lock);
  if (registry->added == NULL)
    registry->added = g_ptr_array_new ();
  g_ptr_array_add (registry->added, (gpointer) (guintptr) entry);
}

const gchar **
tps_registry_list (TpsRegistry *registry)
{
  GPtrArray *names = g_ptr_array_new ();

  for (guint i = 0; i < registry->n_built_in; i++)
    g_ptr_array_add (names, (gpointer) (guintptr) entry_name (registry->built_in[i]));
  tps_mutex_lock (&registry->lock);
  for (guint i = 0; registry->added != NULL && i < registry->added->len; i++)
    {
      const gchar *name = entry_name (registry->added->pdata[i]);

      if (!g_ptr_array_find_with_equal_func (names, name, g_str_equal, NULL))
        g_ptr_array_add (names, (gpointer) (guintptr) name);
    }
  tps_mutex_unlock (&registry->lock);
  g_ptr_array_add (names, NULL);
  return (const gchar **) (gpointer) g_ptr_array_free (names, FALSE);
}
