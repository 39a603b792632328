/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/parameter_server/configuration.h"

#include <json-glib/json-glib.h>
#include <string.h>

#include "runtime/base/error.h"
#include "runtime/base/text_file.h"

#define MAX_FILE_BYTES (1 << 20)
/* The name that the parser gives to text without a file, as in "<data>:1:7: Parse error: …". */
#define PARSER_NAME "<data>"

static JsonObject *
parse (JsonParser *parser, const gchar *path, const gchar *built_in, GError **error)
{
  g_autoptr (GError) local = NULL;
  g_autofree gchar *text = path != NULL ? tps_text_file_read (path, MAX_FILE_BYTES, &local)
                                        : g_strdup (built_in);
  const gchar *name = path != NULL ? path : "built in";
  JsonNode *root;

  if (text == NULL || !json_parser_load_from_data (parser, text, -1, &local))
    {
      gboolean has_place = g_str_has_prefix (local->message, PARSER_NAME ":");

      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "%s%s%s", name,
                   has_place ? "" : ": ",
                   has_place ? local->message + strlen (PARSER_NAME) : local->message);
      return NULL;
    }
  root = json_parser_get_root (parser);
  if (root == NULL || !JSON_NODE_HOLDS_OBJECT (root))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "%s: expected a JSON object",
                   name);
      return NULL;
    }
  return json_node_get_object (root);
}

static gchar *
join_members (JsonObject *object)
{
  GList *names = json_object_get_members (object);
  GString *text = g_string_new (NULL);

  for (GList *at = names; at != NULL; at = at->next)
    g_string_append_printf (text, "%s%s", text->len > 0 ? ", " : "", (const gchar *) at->data);
  g_list_free (names);
  return g_string_free (text, FALSE);
}

static GVariant *
to_variant (JsonNode *node, const gchar *where, GError **error)
{
  g_autoptr (GError) local = NULL;
  GVariant *variant = json_gvariant_deserialize (node, "a{sv}", &local);

  if (variant == NULL)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "%s: %s", where, local->message);
      return NULL;
    }
  return g_variant_ref_sink (variant);
}

static gboolean
read_entry (JsonObject *entry, const gchar *where, const gchar *class_key,
            TpsBenchConfiguration *configuration, GError **error)
{
  JsonNode *class_node = json_object_get_member (entry, class_key);
  JsonNode *arguments = json_object_get_member (entry, "configurations");

  if (class_node == NULL || json_node_get_value_type (class_node) != G_TYPE_STRING
      || arguments == NULL)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                   "%s: expected {\"%s\": \"CLASS\", \"configurations\": {…}}", where, class_key);
      return FALSE;
    }
  configuration->arguments = to_variant (arguments, where, error);
  if (configuration->arguments == NULL)
    return FALSE;
  configuration->class_name = g_strdup (json_node_get_string (class_node));
  return TRUE;
}

gboolean
tps_bench_configuration_load (const gchar *path, const gchar *built_in, const gchar *id,
                              const gchar *class_key, TpsBenchConfiguration *configuration,
                              GError **error)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_autofree gchar *where = g_strdup_printf ("%s, \"%s\"", path != NULL ? path : "built in", id);
  JsonObject *root = parse (parser, path, built_in, error);
  JsonNode *node;

  if (root == NULL)
    return FALSE;
  node = json_object_get_member (root, id);
  if (node == NULL)
    {
      g_autofree gchar *known = join_members (root);

      g_set_error (error, TPS_ERROR, TPS_ERROR_NOT_FOUND, "%s: unknown id; known: %s", where,
                   known);
      return FALSE;
    }
  if (!JSON_NODE_HOLDS_OBJECT (node))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "%s: expected an object", where);
      return FALSE;
    }
  return read_entry (json_node_get_object (node), where, class_key, configuration, error);
}

static GVariant *
no_arguments (void)
{
  return g_variant_ref_sink (g_variant_new_array (G_VARIANT_TYPE ("{sv}"), NULL, 0));
}

static gboolean
check_known (JsonObject *root, const gchar *path, const gchar *const *known, GError **error)
{
  GList *names = json_object_get_members (root);
  gboolean ok = TRUE;

  for (GList *at = names; at != NULL && ok; at = at->next)
    if (!g_strv_contains (known, at->data))
      {
        g_autofree gchar *list = g_strjoinv (", ", (gchar **) (gsize) known);

        g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                     "%s: unknown class \"%s\" of a server or trainer; known: %s", path,
                     (const gchar *) at->data, list);
        ok = FALSE;
      }
  g_list_free (names);
  return ok;
}

GVariant *
tps_bench_arguments_load (const gchar *path, const gchar *class_name, const gchar *const *known,
                          GError **error)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  JsonObject *root;
  JsonNode *node;

  if (path == NULL)
    return no_arguments ();
  root = parse (parser, path, NULL, error);
  if (root == NULL || !check_known (root, path, known, error))
    return NULL;
  node = json_object_get_member (root, class_name);
  if (node == NULL)
    return no_arguments ();
  return to_variant (node, path, error);
}

void
tps_bench_configuration_clear (TpsBenchConfiguration *configuration)
{
  g_clear_pointer (&configuration->class_name, g_free);
  g_clear_pointer (&configuration->arguments, g_variant_unref);
}
