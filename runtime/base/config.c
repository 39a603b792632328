/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/config.h"

#include "runtime/base/error.h"

#define MAX_ENTRIES 64 /* the number of bits in read_mask; any further entries count as unknown */
#define MAX_NAMED 8    /* the maximum number of unknown keys that a message lists */

void
tps_config_init (TpsConfig *config, GVariant *values, const gchar *what, GError **error)
{
  config->values = values;
  config->what = what;
  config->read_mask = 0;
  config->has_failed = FALSE;
  config->error = error;
}

/* Sets the error, and takes ownership of `reason`. Returns FALSE. */
static gboolean
fail (TpsConfig *config, const gchar *key, gchar *reason)
{
  g_set_error (config->error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "%s: %s: %s", config->what,
               key, reason);
  g_free (reason);
  config->has_failed = TRUE;
  return FALSE;
}

static gsize
n_entries (const TpsConfig *config)
{
  return config->values == NULL ? 0 : g_variant_n_children (config->values);
}

/* Returns the index of entry `key`, or -1 if there is none. `value` may be NULL; the caller owns
 * `*value`. */
static gint
find_entry (const TpsConfig *config, const gchar *key, GVariant **value)
{
  gsize n = MIN (n_entries (config), MAX_ENTRIES);

  for (gsize i = 0; i < n; i++)
    {
      const gchar *name;
      g_autoptr (GVariant) found = NULL;

      g_variant_get_child (config->values, i, "{&sv}", &name, &found);
      if (g_str_equal (name, key))
        {
          if (value != NULL)
            *value = g_steal_pointer (&found);
          return (gint) i;
        }
    }
  return -1;
}

static const gchar *
type_name (GVariant *value)
{
  if (g_variant_is_of_type (value, G_VARIANT_TYPE_INT64))
    return "an integer";
  if (g_variant_is_of_type (value, G_VARIANT_TYPE_DOUBLE))
    return "a number with a fraction";
  if (g_variant_is_of_type (value, G_VARIANT_TYPE_BOOLEAN))
    return "a boolean";
  if (g_variant_is_of_type (value, G_VARIANT_TYPE_STRING))
    return "a string";
  return "neither a number, a boolean nor a string";
}

/* Marks a key as read and returns its value, which the caller owns. Returns NULL after an error. */
static GVariant *
take_value (TpsConfig *config, const gchar *key)
{
  GVariant *value = NULL;
  gint i;

  if (config->has_failed)
    return NULL;
  i = find_entry (config, key, &value);
  if (i < 0)
    {
      fail (config, key, g_strdup ("missing"));
      return NULL;
    }
  config->read_mask |= (guint64) 1 << i;
  return value;
}

static gboolean
fail_type (TpsConfig *config, const gchar *key, const gchar *wanted, GVariant *value)
{
  return fail (config, key, g_strdup_printf ("expected %s, found %s", wanted, type_name (value)));
}

gboolean
tps_config_get_int (TpsConfig *config, const gchar *key, gint64 min, gint64 max, gint64 *value)
{
  g_autoptr (GVariant) found = take_value (config, key);
  gint64 number;

  if (found == NULL)
    return FALSE;
  if (!g_variant_is_of_type (found, G_VARIANT_TYPE_INT64))
    return fail_type (config, key, "an integer", found);
  number = g_variant_get_int64 (found);
  if (number < min || number > max)
    return fail (config, key,
                 g_strdup_printf ("%" G_GINT64_FORMAT " is outside [%" G_GINT64_FORMAT
                                  ", %" G_GINT64_FORMAT "]",
                                  number, min, max));
  *value = number;
  return TRUE;
}

gboolean
tps_config_get_bool (TpsConfig *config, const gchar *key, gboolean *value)
{
  g_autoptr (GVariant) found = take_value (config, key);

  if (found == NULL)
    return FALSE;
  if (!g_variant_is_of_type (found, G_VARIANT_TYPE_BOOLEAN))
    return fail_type (config, key, "a boolean", found);
  *value = g_variant_get_boolean (found);
  return TRUE;
}

gboolean
tps_config_get_double (TpsConfig *config, const gchar *key, gdouble min, gdouble max,
                       gdouble *value)
{
  g_autoptr (GVariant) found = take_value (config, key);
  gdouble number;

  if (found == NULL)
    return FALSE;
  if (g_variant_is_of_type (found, G_VARIANT_TYPE_INT64))
    number = (gdouble) g_variant_get_int64 (found);
  else if (g_variant_is_of_type (found, G_VARIANT_TYPE_DOUBLE))
    number = g_variant_get_double (found);
  else
    return fail_type (config, key, "a number", found);
  if (!(number >= min && number <= max))
    return fail (config, key, g_strdup_printf ("%g is outside [%g, %g]", number, min, max));
  *value = number;
  return TRUE;
}

gboolean
tps_config_get_string (TpsConfig *config, const gchar *key, gchar **value)
{
  g_autoptr (GVariant) found = take_value (config, key);

  if (found == NULL)
    return FALSE;
  if (!g_variant_is_of_type (found, G_VARIANT_TYPE_STRING))
    return fail_type (config, key, "a string", found);
  *value = g_variant_dup_string (found, NULL);
  return TRUE;
}

gboolean
tps_config_has (const TpsConfig *config, const gchar *key)
{
  return find_entry (config, key, NULL) >= 0;
}

gboolean
tps_config_finish (TpsConfig *config)
{
  g_autoptr (GString) unknown = g_string_new (NULL);
  guint n_unknown = 0;

  if (config->has_failed)
    return FALSE;
  for (gsize i = 0; i < n_entries (config); i++)
    {
      const gchar *name;

      if (i < MAX_ENTRIES && (config->read_mask >> i & 1) != 0)
        continue;
      if (++n_unknown > MAX_NAMED)
        continue;
      g_variant_get_child (config->values, i, "{&sv}", &name, NULL);
      g_string_append_printf (unknown, "%s%s", n_unknown > 1 ? ", " : "", name);
    }
  if (n_unknown == 0)
    return TRUE;
  if (n_unknown > MAX_NAMED)
    g_string_append_printf (unknown, " and %u more", n_unknown - MAX_NAMED);
  g_set_error (config->error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "%s: unknown argument%s: %s",
               config->what, n_unknown > 1 ? "s" : "", unknown->str);
  config->has_failed = TRUE;
  return FALSE;
}
