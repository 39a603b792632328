/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/app/top/figures.h"

#include <string.h>

#include "runtime/base/json_writer.h"

/* ---- members -------------------------------------------------------------------------------- */

static JsonNode *
get_member (JsonObject *object, const gchar *name)
{
  return object != NULL ? json_object_get_member (object, name) : NULL;
}

static gboolean
has_number (JsonObject *object, const gchar *name)
{
  JsonNode *node = get_member (object, name);

  return node != NULL && JSON_NODE_HOLDS_VALUE (node)
         && (json_node_get_value_type (node) == G_TYPE_INT64
             || json_node_get_value_type (node) == G_TYPE_DOUBLE);
}

gdouble
tps_json_number (JsonObject *object, const gchar *name)
{
  return has_number (object, name) ? json_node_get_double (get_member (object, name)) : 0;
}

const gchar *
tps_json_text (JsonObject *object, const gchar *name)
{
  JsonNode *node = get_member (object, name);

  return node != NULL && JSON_NODE_HOLDS_VALUE (node)
                 && json_node_get_value_type (node) == G_TYPE_STRING
             ? json_node_get_string (node)
             : "";
}

JsonObject *
tps_json_object (JsonObject *object, const gchar *name)
{
  JsonNode *node = get_member (object, name);

  return node != NULL && JSON_NODE_HOLDS_OBJECT (node) ? json_node_get_object (node) : NULL;
}

JsonArray *
tps_json_array (JsonObject *object, const gchar *name)
{
  JsonNode *node = get_member (object, name);

  return node != NULL && JSON_NODE_HOLDS_ARRAY (node) ? json_node_get_array (node) : NULL;
}

JsonObject *
tps_json_element (JsonArray *array, guint index)
{
  JsonNode *node = json_array_get_element (array, index);

  return JSON_NODE_HOLDS_OBJECT (node) ? json_node_get_object (node) : NULL;
}

/* ---- creation and release ------------------------------------------------------------------- */

static void
free_method (gpointer data)
{
  TpsMethodFigures *method = data;

  g_free (method->name);
  g_free (method);
}

static void
free_table (gpointer data)
{
  TpsTableFigures *table = data;

  g_free (table->name);
  g_free (table);
}

TpsFigures *
tps_figures_new (void)
{
  TpsFigures *figures = g_new0 (TpsFigures, 1);

  figures->methods = g_ptr_array_new_with_free_func (free_method);
  figures->tables = g_ptr_array_new_with_free_func (free_table);
  return figures;
}

void
tps_figures_free (TpsFigures *figures)
{
  g_ptr_array_unref (figures->methods);
  g_ptr_array_unref (figures->tables);
  g_clear_pointer (&figures->sample, json_object_unref);
  g_clear_pointer (&figures->status, json_object_unref);
  g_free (figures);
}

void
tps_figures_begin (TpsFigures *figures)
{
  g_ptr_array_set_size (figures->methods, 0);
  g_ptr_array_set_size (figures->tables, 0);
  figures->seconds = 0;
  figures->n_samples = 0;
  figures->calls = figures->failures = figures->received_bytes = figures->sent_bytes = 0;
}

/* ---- samples -------------------------------------------------------------------------------- */

static gint64
get_count (JsonObject *object, const gchar *name)
{
  return (gint64) CLAMP (tps_json_number (object, name), 0, 9e15);
}

/* Returns the element with this name, which is added if it is new; NULL = there are already
 * TPS_FIGURES_MAX_NAMES. `size` is the size of an element, whose first member must be the name. */
static gpointer
find_or_add (GPtrArray *array, const gchar *name, gsize size)
{
  gchar **added;

  for (guint i = 0; i < array->len; i++)
    if (strcmp (*(gchar **) g_ptr_array_index (array, i), name) == 0)
      return g_ptr_array_index (array, i);
  if (array->len == TPS_FIGURES_MAX_NAMES)
    return NULL;
  added = g_malloc0 (size);
  *added = g_strdup (name);
  g_ptr_array_add (array, added);
  return added;
}

static gdouble
get_worst (gdouble former, JsonObject *object, const gchar *name)
{
  return has_number (object, name) ? MAX (former, tps_json_number (object, name)) : former;
}

static void
add_method (TpsFigures *figures, JsonObject *object)
{
  guint n_before = figures->methods->len;
  TpsMethodFigures *method = find_or_add (figures->methods, tps_json_text (object, "name"),
                                          sizeof (TpsMethodFigures));

  if (method == NULL)
    return;
  if (figures->methods->len > n_before)
    method->p50_ms = method->p99_ms = -1;
  method->calls += get_count (object, "calls");
  method->failures += get_count (object, "failures");
  method->p50_ms = get_worst (method->p50_ms, object, "p50_ms");
  method->p99_ms = get_worst (method->p99_ms, object, "p99_ms");
}

static void
add_table (TpsFigures *figures, JsonObject *object)
{
  TpsTableFigures *table = find_or_add (figures->tables, tps_json_text (object, "name"),
                                        sizeof (TpsTableFigures));

  if (table == NULL)
    return;
  table->lookups += get_count (object, "lookups");
  table->lookup_rows += get_count (object, "lookup_rows");
  table->pushes += get_count (object, "pushes");
  table->push_rows += get_count (object, "push_rows");
}

static void
for_each (JsonObject *object, const gchar *name, TpsFigures *figures,
          void (*add) (TpsFigures *figures, JsonObject *object))
{
  JsonArray *array = tps_json_array (object, name);

  for (guint i = 0; array != NULL && i < json_array_get_length (array); i++)
    add (figures, tps_json_element (array, i));
}

/* Returns the object in `json`, or NULL if the text is not a JSON object. The caller owns it. */
static JsonObject *
parse (const gchar *json)
{
  g_autoptr (JsonParser) parser = json_parser_new_immutable ();
  JsonNode *root;

  if (tps_json_has_more_brackets (json, TPS_JSON_MAX_BRACKETS)
      || !json_parser_load_from_data (parser, json, -1, NULL))
    return NULL;
  root = json_parser_get_root (parser);
  return root != NULL && JSON_NODE_HOLDS_OBJECT (root) ? json_node_dup_object (root) : NULL;
}

void
tps_figures_add_sample (TpsFigures *figures, const gchar *json)
{
  JsonObject *sample = parse (json);

  if (sample == NULL)
    return;
  g_clear_pointer (&figures->sample, json_object_unref);
  figures->sample = sample;
  figures->n_samples++;
  figures->seconds += MAX (tps_json_number (sample, "interval_s"), 0);
  figures->calls += get_count (sample, "calls");
  figures->failures += get_count (sample, "failures");
  figures->received_bytes += get_count (sample, "received_bytes");
  figures->sent_bytes += get_count (sample, "sent_bytes");
  for_each (sample, "methods", figures, add_method);
  for_each (sample, "tables", figures, add_table);
}

void
tps_figures_set_status (TpsFigures *figures, const gchar *json)
{
  JsonObject *status = parse (json);

  if (status == NULL)
    return;
  g_clear_pointer (&figures->status, json_object_unref);
  figures->status = status;
}

static gint
compare_methods (gconstpointer a, gconstpointer b)
{
  const TpsMethodFigures *left = *(TpsMethodFigures *const *) a;
  const TpsMethodFigures *right = *(TpsMethodFigures *const *) b;

  if (left->calls != right->calls)
    return left->calls > right->calls ? -1 : 1;
  return strcmp (left->name, right->name);
}

static gint
compare_tables (gconstpointer a, gconstpointer b)
{
  const TpsTableFigures *left = *(TpsTableFigures *const *) a;
  const TpsTableFigures *right = *(TpsTableFigures *const *) b;
  gint64 n_left = left->lookup_rows + left->push_rows;
  gint64 n_right = right->lookup_rows + right->push_rows;

  if (n_left != n_right)
    return n_left > n_right ? -1 : 1;
  return strcmp (left->name, right->name);
}

void
tps_figures_end (TpsFigures *figures)
{
  g_ptr_array_sort (figures->methods, compare_methods);
  g_ptr_array_sort (figures->tables, compare_tables);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void
add_rate (JsonBuilder *builder, const gchar *name, gint64 count, gdouble seconds)
{
  json_builder_set_member_name (builder, name);
  json_builder_add_double_value (builder, seconds > 0 ? (gdouble) count / seconds : 0);
}

static void
add_latency (JsonBuilder *builder, const gchar *name, gdouble ms)
{
  json_builder_set_member_name (builder, name);
  if (ms < 0)
    json_builder_add_null_value (builder);
  else
    json_builder_add_double_value (builder, ms);
}

static void
build_method (JsonBuilder *builder, const TpsMethodFigures *method, gdouble seconds)
{
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "name");
  json_builder_add_string_value (builder, method->name);
  add_rate (builder, "calls_per_s", method->calls, seconds);
  add_rate (builder, "failures_per_s", method->failures, seconds);
  add_latency (builder, "p50_ms", method->p50_ms);
  add_latency (builder, "p99_ms", method->p99_ms);
  json_builder_end_object (builder);
}

static void
build_table (JsonBuilder *builder, const TpsTableFigures *table, gdouble seconds)
{
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "name");
  json_builder_add_string_value (builder, table->name);
  add_rate (builder, "lookups_per_s", table->lookups, seconds);
  add_rate (builder, "lookup_rows_per_s", table->lookup_rows, seconds);
  add_rate (builder, "pushes_per_s", table->pushes, seconds);
  add_rate (builder, "push_rows_per_s", table->push_rows, seconds);
  json_builder_end_object (builder);
}

/* Adds the newest status as the server has sent it. */
static void
build_status (JsonBuilder *builder, const TpsFigures *figures)
{
  JsonNode *node;

  json_builder_set_member_name (builder, "status");
  if (figures->status == NULL)
    {
      json_builder_add_null_value (builder);
      return;
    }
  node = json_node_new (JSON_NODE_OBJECT);
  json_node_set_object (node, figures->status);
  json_builder_add_value (builder, node);
}

gchar *
tps_figures_to_json (const TpsFigures *figures)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autoptr (JsonNode) root = NULL;

  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "time_s");
  json_builder_add_double_value (builder, tps_json_number (figures->sample, "time_s"));
  json_builder_set_member_name (builder, "interval_s");
  json_builder_add_double_value (builder, figures->seconds);
  add_rate (builder, "calls_per_s", figures->calls, figures->seconds);
  add_rate (builder, "failures_per_s", figures->failures, figures->seconds);
  add_rate (builder, "received_bytes_per_s", figures->received_bytes, figures->seconds);
  add_rate (builder, "sent_bytes_per_s", figures->sent_bytes, figures->seconds);
  json_builder_set_member_name (builder, "methods");
  json_builder_begin_array (builder);
  for (guint i = 0; i < figures->methods->len; i++)
    build_method (builder, g_ptr_array_index (figures->methods, i), figures->seconds);
  json_builder_end_array (builder);
  json_builder_set_member_name (builder, "tables");
  json_builder_begin_array (builder);
  for (guint i = 0; i < figures->tables->len; i++)
    build_table (builder, g_ptr_array_index (figures->tables, i), figures->seconds);
  json_builder_end_array (builder);
  build_status (builder, figures);
  json_builder_end_object (builder);
  root = json_builder_get_root (builder);
  return json_to_string (root, FALSE);
}
