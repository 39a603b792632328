/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/json_config.h"

#include <json-glib/json-glib.h>
#include <math.h>
#include <string.h>

#include "runtime/base/error.h"
#include "runtime/base/json_writer.h"

#define MAX_TEXT_BYTES 65536

#define MAX_BRACKETS 64 /* a configuration needs at most two */

static gboolean
refuse (GError **error, const gchar *text, const gchar *detail)
{
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s%s", text, detail);
}

static gboolean
check_text (const gchar *text, GError **error)
{
  if (strlen (text) > MAX_TEXT_BYTES)
    return refuse (error, "the JSON text is longer than 65536 bytes", "");
  if (strstr (text, "\\u0000") != NULL)
    return refuse (error, "the JSON text contains \\u0000", "");
  return !tps_json_has_more_brackets (text, MAX_BRACKETS)
         || refuse (error, "the JSON text has more than 64 brackets", "");
}

/* Returns the object of `text`, which `parser` owns. */
static JsonObject *
parse_object (JsonParser *parser, const gchar *text, GError **error)
{
  g_autoptr (GError) cause = NULL;
  JsonNode *root;

  if (!check_text (text, error))
    return NULL;
  if (!json_parser_load_from_data (parser, text, -1, &cause))
    {
      refuse (error, "not JSON: ", cause->message);
      return NULL;
    }
  root = json_parser_get_root (parser);
  if (root == NULL || !JSON_NODE_HOLDS_OBJECT (root))
    {
      refuse (error, "not a JSON object", "");
      return NULL;
    }
  return json_node_get_object (root);
}

/* Returns a floating reference; NULL on error. */
static GVariant *
variant_of (const gchar *key, JsonNode *node, GError **error)
{
  if (JSON_NODE_HOLDS_VALUE (node))
    switch (json_node_get_value_type (node))
      {
      case G_TYPE_INT64:
        return g_variant_new_int64 (json_node_get_int (node));
      case G_TYPE_DOUBLE:
        if (isfinite (json_node_get_double (node))) /* 1e999 is parsed as infinity */
          return g_variant_new_double (json_node_get_double (node));
        break;
      case G_TYPE_BOOLEAN:
        return g_variant_new_boolean (json_node_get_boolean (node));
      case G_TYPE_STRING:
        if (g_utf8_validate (json_node_get_string (node), -1, NULL))
          return g_variant_new_string (json_node_get_string (node));
        break;
      default:
        break;
      }
  refuse (error, key, ": expected a finite number, a boolean or a string");
  return NULL;
}

static GVariant *
dictionary_of (JsonObject *object, GError **error)
{
  g_auto (GVariantBuilder) values = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE_VARDICT);
  JsonObjectIter iter;
  const gchar *key;
  JsonNode *node;

  json_object_iter_init_ordered (&iter, object);
  while (json_object_iter_next_ordered (&iter, &key, &node))
    {
      GVariant *value;

      /* A key may contain an escaped half of a surrogate pair, which is not valid UTF-8. */
      if (!g_utf8_validate (key, -1, NULL))
        {
          refuse (error, "a key is not UTF-8", "");
          return NULL;
        }
      value = variant_of (key, node, error);
      if (value == NULL)
        return NULL;
      g_variant_builder_add (&values, "{sv}", key, value);
    }
  return g_variant_ref_sink (g_variant_builder_end (&values));
}

GVariant *
tps_json_config_parse (const gchar *text, GError **error)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  JsonObject *object = parse_object (parser, *text == '\0' ? "{}" : text, error);

  return object == NULL ? NULL : dictionary_of (object, error);
}

static gboolean
check_model_keys (JsonObject *object, GError **error)
{
  JsonObjectIter iter;
  const gchar *key;
  JsonNode *node;

  json_object_iter_init_ordered (&iter, object);
  while (json_object_iter_next_ordered (&iter, &key, &node))
    if (strcmp (key, "model_class") != 0 && strcmp (key, "configurations") != 0)
      {
        g_autofree gchar *shown = g_utf8_make_valid (key, -1);

        return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                         "unknown key \"%s\", expected model_class and configurations", shown);
      }
  return TRUE;
}

/* Returns the string with this name, borrowed; NULL = there is none. */
static const gchar *
get_string (JsonObject *object, const gchar *key)
{
  JsonNode *node = json_object_get_member (object, key);

  return node != NULL && JSON_NODE_HOLDS_VALUE (node) ? json_node_get_string (node) : NULL;
}

GVariant *
tps_json_model_config_parse (const gchar *text, gchar **class_name, GError **error)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_autoptr (JsonObject) empty = json_object_new ();
  JsonObject *object = parse_object (parser, text, error);
  JsonNode *configurations;
  GVariant *values;
  const gchar *name;

  if (object == NULL || !check_model_keys (object, error))
    return NULL;
  name = get_string (object, "model_class");
  configurations = json_object_get_member (object, "configurations");
  if (name == NULL || !g_utf8_validate (name, -1, NULL)
      || (configurations != NULL && !JSON_NODE_HOLDS_OBJECT (configurations)))
    {
      refuse (error, "expected {\"model_class\": \"NAME\", \"configurations\": {...}}", "");
      return NULL;
    }
  values = dictionary_of (configurations == NULL ? empty : json_node_get_object (configurations),
                          error);
  if (values != NULL)
    *class_name = g_strdup (name);
  return values;
}

static JsonObject *
object_of (GVariant *values)
{
  JsonObject *object = json_object_new ();
  GVariantIter iter;
  const gchar *key;
  GVariant *value;

  g_variant_iter_init (&iter, values);
  while (g_variant_iter_loop (&iter, "{&sv}", &key, &value))
    if (g_variant_is_of_type (value, G_VARIANT_TYPE_INT64))
      json_object_set_int_member (object, key, g_variant_get_int64 (value));
    else if (g_variant_is_of_type (value, G_VARIANT_TYPE_DOUBLE))
      json_object_set_double_member (object, key, g_variant_get_double (value));
    else if (g_variant_is_of_type (value, G_VARIANT_TYPE_BOOLEAN))
      json_object_set_boolean_member (object, key, g_variant_get_boolean (value));
    else if (g_variant_is_of_type (value, G_VARIANT_TYPE_STRING))
      json_object_set_string_member (object, key, g_variant_get_string (value, NULL));
    else
      g_warn_if_reached (); /* JSON cannot contain such a value, see runtime/base/config.h */
  return object;
}

/* Takes ownership of `object`. */
static gchar *
text_of (JsonObject *object)
{
  g_autoptr (JsonNode) root = json_node_new (JSON_NODE_OBJECT);

  json_node_take_object (root, object);
  return json_to_string (root, FALSE);
}

gchar *
tps_json_config_to_string (GVariant *values)
{
  return text_of (object_of (values));
}

gchar *
tps_json_model_config_to_string (const gchar *class_name, GVariant *values)
{
  JsonObject *object = json_object_new ();

  json_object_set_string_member (object, "model_class", class_name);
  json_object_set_object_member (object, "configurations", object_of (values));
  return text_of (object);
}
