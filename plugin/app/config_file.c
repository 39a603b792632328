/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/app/config_file.h"

#include <json-glib/json-glib.h>
#include <string.h>

#include "runtime/base/error.h"

gchar *
tps_config_normalize_flag (const gchar *argument)
{
  gchar *flag = g_strdup (argument);

  if (!g_str_has_prefix (flag, "--"))
    return flag;
  for (gchar *c = flag; *c != '\0' && *c != '='; c++)
    if (*c == '_')
      *c = '-';
  return flag;
}

gboolean
tps_config_has_flag (const gchar *const *argv, const gchar *name)
{
  gsize n_bytes = strlen (name);

  for (; *argv != NULL; argv++)
    if (g_str_has_prefix (*argv, "--") && strncmp (*argv + 2, name, n_bytes) == 0
        && ((*argv)[2 + n_bytes] == '\0' || (*argv)[2 + n_bytes] == '='))
      return TRUE;
  return FALSE;
}

/* "--name=value"; NULL for a value that is neither text nor a number. */
static gchar *
make_flag (const gchar *name, JsonNode *node)
{
  gchar number[G_ASCII_DTOSTR_BUF_SIZE];

  if (!JSON_NODE_HOLDS_VALUE (node))
    return NULL;
  switch (json_node_get_value_type (node))
    {
    case G_TYPE_STRING:
      return g_strdup_printf ("--%s=%s", name, json_node_get_string (node));
    case G_TYPE_INT64:
      return g_strdup_printf ("--%s=%" G_GINT64_FORMAT, name, json_node_get_int (node));
    case G_TYPE_DOUBLE:
      return g_strdup_printf ("--%s=%s", name,
                              g_ascii_dtostr (number, sizeof number, json_node_get_double (node)));
    default:
      return NULL;
    }
}

static gboolean
add_flag (GPtrArray *flags, const gchar *name, JsonNode *node)
{
  gchar *flag = make_flag (name, node);

  if (flag != NULL)
    g_ptr_array_add (flags, flag);
  return flag != NULL;
}

static gboolean
add_flags (GPtrArray *flags, const gchar *name, JsonNode *node)
{
  JsonArray *array;

  if (!JSON_NODE_HOLDS_ARRAY (node))
    return add_flag (flags, name, node);
  array = json_node_get_array (node);
  for (guint i = 0; i < json_array_get_length (array); i++)
    if (!add_flag (flags, name, json_array_get_element (array, i)))
      return FALSE;
  return TRUE;
}

static gboolean
add_object (const gchar *path, JsonObject *object, const gchar *const *argv, GPtrArray *flags,
            GError **error)
{
  JsonObjectIter iter;
  const gchar *key;
  JsonNode *node;

  json_object_iter_init (&iter, object);
  while (json_object_iter_next (&iter, &key, &node))
    {
      g_autofree gchar *argument = g_strconcat ("--", key, NULL);
      g_autofree gchar *flag = tps_config_normalize_flag (argument);

      if (tps_config_has_flag (argv, flag + 2) || add_flags (flags, flag + 2, node))
        continue;
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                   "%s: \"%s\" must be a string, a number, or an array of them", path, key);
      return FALSE;
    }
  return TRUE;
}

gboolean
tps_config_file_read (const gchar *path, const gchar *const *argv, GPtrArray *flags, GError **error)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_autoptr (GError) cause = NULL;
  JsonNode *root;

  if (!json_parser_load_from_file (parser, path, &cause))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "cannot read %s: %s", path,
                   cause->message);
      return FALSE;
    }
  root = json_parser_get_root (parser);
  if (root != NULL && JSON_NODE_HOLDS_OBJECT (root))
    return add_object (path, json_node_get_object (root), argv, flags, error);
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "%s: expected a JSON object of flags",
               path);
  return FALSE;
}
