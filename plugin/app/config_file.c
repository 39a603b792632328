/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/app/config_file.h"

#include <json-glib/json-glib.h>

#include "runtime/base/error.h"
#include "runtime/base/json_writer.h"
#include "runtime/base/text_file.h"

static gboolean
refuse (const gchar *path, const gchar *why, GError **error)
{
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "cannot read %s: %s", path, why);
  return FALSE;
}

/* Returns the value as text, or NULL if the node cannot be the value of an option. The caller owns
 * the text. */
static gchar *
to_text (JsonNode *node)
{
  gchar number[G_ASCII_DTOSTR_BUF_SIZE];

  if (!JSON_NODE_HOLDS_VALUE (node))
    return NULL;
  switch (json_node_get_value_type (node))
    {
    case G_TYPE_STRING:
      return json_node_dup_string (node);
    case G_TYPE_BOOLEAN:
      return g_strdup (json_node_get_boolean (node) ? "true" : "false");
    case G_TYPE_INT64:
      return g_strdup_printf ("%" G_GINT64_FORMAT, json_node_get_int (node));
    case G_TYPE_DOUBLE:
      return g_strdup (g_ascii_dtostr (number, sizeof number, json_node_get_double (node)));
    default:
      return NULL;
    }
}

static gboolean
add_value (TpsArguments *arguments, const gchar *path, const gchar *name, JsonNode *node,
           GError **error)
{
  g_autofree gchar *text = to_text (node);

  if (text != NULL)
    return tps_arguments_add (arguments, path, name, text, error);
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "%s: \"%s\" must be a string, a number, true, false, or an array of them", path,
               name);
  return FALSE;
}

static gboolean
add_member (TpsArguments *arguments, const gchar *path, const gchar *name, JsonNode *node,
            GError **error)
{
  JsonArray *array;

  if (!JSON_NODE_HOLDS_ARRAY (node))
    return add_value (arguments, path, name, node, error);
  array = json_node_get_array (node);
  for (guint i = 0; i < json_array_get_length (array); i++)
    if (!add_value (arguments, path, name, json_array_get_element (array, i), error))
      return FALSE;
  return TRUE;
}

static gboolean
add_object (TpsArguments *arguments, const gchar *path, JsonObject *object, GError **error)
{
  JsonObjectIter iter;
  const gchar *name;
  JsonNode *node;

  json_object_iter_init_ordered (&iter, object);
  while (json_object_iter_next_ordered (&iter, &name, &node))
    if (!add_member (arguments, path, name, node, error))
      return FALSE;
  return TRUE;
}

gboolean
tps_config_file_read (const gchar *path, TpsArguments *arguments, GError **error)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_autoptr (GError) cause = NULL;
  g_autofree gchar *text = tps_text_file_read (path, TPS_CONFIG_MAX_BYTES, &cause);
  JsonNode *root;

  if (text != NULL && tps_json_has_more_brackets (text, TPS_JSON_MAX_BRACKETS))
    return refuse (path, "it has more than 16384 brackets", error);
  if (text == NULL || !json_parser_load_from_data (parser, text, -1, &cause))
    return refuse (path, cause->message, error);
  root = json_parser_get_root (parser);
  if (root != NULL && JSON_NODE_HOLDS_OBJECT (root))
    return add_object (arguments, path, json_node_get_object (root), error);
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "%s: expected a JSON object of options", path);
  return FALSE;
}
