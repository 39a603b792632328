/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/nn/entries.h"

#include <string.h>

#include "runtime/error.h"

static const gchar *
name_of (gconstpointer entry)
{
  return *(const gchar *const *) entry;
}

/* Newest first; NULL at the end. The caller holds the lock. */
static gconstpointer
get_entry (TpsNnEntries *entries, guint i)
{
  guint n_registered = entries->registered != NULL ? entries->registered->len : 0;

  if (i < n_registered)
    return g_array_index (entries->registered, gconstpointer, n_registered - 1 - i);
  i -= n_registered;
  return i < entries->n_built_in ? entries->built_in[i] : NULL;
}

static gconstpointer
lookup (TpsNnEntries *entries, const gchar *name)
{
  gconstpointer entry;

  tps_mutex_lock (&entries->lock);
  for (guint i = 0; (entry = get_entry (entries, i)) != NULL; i++)
    if (g_str_equal (name_of (entry), name))
      break;
  tps_mutex_unlock (&entries->lock);
  return entry;
}

gconstpointer
tps_nn_entries_find (TpsNnEntries *entries, const gchar *name, GError **error)
{
  gconstpointer entry = lookup (entries, name);
  g_autofree const gchar **names = NULL;
  g_autoptr (GString) known = NULL;

  if (entry != NULL)
    return entry;
  names = tps_nn_entries_list (entries);
  known = g_string_new (NULL);
  for (guint i = 0; names[i] != NULL; i++)
    g_string_append_printf (known, "%s%s", i > 0 ? ", " : "", names[i]);
  g_set_error (error, TPS_ERROR, TPS_ERROR_NOT_FOUND, "unknown %s \"%s\"; known: %s", entries->what,
               name, known->str);
  return NULL;
}

void
tps_nn_entries_register (TpsNnEntries *entries, gconstpointer entry)
{
  tps_mutex_lock (&entries->lock);
  if (entries->registered == NULL)
    entries->registered = g_array_new (FALSE, FALSE, sizeof (gconstpointer));
  g_array_append_val (entries->registered, entry);
  tps_mutex_unlock (&entries->lock);
}

static gint
compare_names (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const gchar *const *) a, *(const gchar *const *) b);
}

/* Whether an entry before number `i` has its name. The caller holds the lock. */
static gboolean
is_repeated (TpsNnEntries *entries, guint i)
{
  for (guint j = 0; j < i; j++)
    if (g_str_equal (name_of (get_entry (entries, j)), name_of (get_entry (entries, i))))
      return TRUE;
  return FALSE;
}

const gchar **
tps_nn_entries_list (TpsNnEntries *entries)
{
  GArray *names = g_array_new (TRUE, FALSE, sizeof (const gchar *));
  gconstpointer entry;

  tps_mutex_lock (&entries->lock);
  for (guint i = 0; (entry = get_entry (entries, i)) != NULL; i++)
    if (!is_repeated (entries, i))
      {
        const gchar *name = name_of (entry);

        g_array_append_val (names, name);
      }
  tps_mutex_unlock (&entries->lock);
  g_array_sort (names, compare_names);
  return (const gchar **) (gpointer) g_array_free (names, FALSE);
}
