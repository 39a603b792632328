/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/access/rules.h"

#include <json-glib/json-glib.h>
#include <string.h>

#include "runtime/base/error.h"
#include "runtime/base/json_writer.h"
#include "runtime/base/sync.h"
#include "runtime/base/text_file.h"

/* -- tenants -- */

/* A limit of an entry: its name in the file, and its offset in TpsTenantLimits. */
typedef struct
{
  const gchar *name;
  gsize offset;
} Limit;

#define RATE(name, kind)                                                   \
  { name "_per_s", G_STRUCT_OFFSET (TpsTenantLimits, rates[kind].per_s) }, \
  {                                                                        \
    name "_burst", G_STRUCT_OFFSET (TpsTenantLimits, rates[kind].burst)    \
  }

static const Limit limits[] = {
  RATE ("calls", TPS_QUOTA_CALLS),
  RATE ("rows", TPS_QUOTA_ROWS),
  RATE ("bytes_in", TPS_QUOTA_BYTES_IN),
  RATE ("bytes_out", TPS_QUOTA_BYTES_OUT),
  { "calls_in_flight", G_STRUCT_OFFSET (TpsTenantLimits, calls_in_flight) },
  { "table_bytes", G_STRUCT_OFFSET (TpsTenantLimits, table_bytes) },
};

/* The state of a parse. */
typedef struct
{
  const gchar *tenant; /* the entry that is being read; NULL = none yet */
  JsonNode *culprit;   /* the node with the error; NULL = no error */
  GError **error;
} TenantReading;

/* Sets the error; always returns FALSE. If `limit` is NULL, the error does not concern a single
 * limit. */
static gboolean
refuse (TenantReading *reading, JsonNode *culprit, const gchar *limit, const gchar *reason)
{
  reading->culprit = culprit;
  g_set_error (reading->error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "tenants%s%.*s%s%s: %s",
               reading->tenant != NULL ? "." : "", TPS_TENANT_MAX_NAME,
               reading->tenant != NULL ? reading->tenant : "", limit != NULL ? "." : "",
               limit != NULL ? limit : "", reason);
  return FALSE;
}

static gboolean
read_limit (TenantReading *reading, TpsTenantLimits *entry, const gchar *name, JsonNode *node)
{
  guint i = 0;

  while (i < G_N_ELEMENTS (limits) && strcmp (limits[i].name, name) != 0)
    i++;
  if (i == G_N_ELEMENTS (limits))
    return refuse (reading, node, name,
                   "there is no such limit; expected "
                   "*_per_s, *_burst, calls_in_flight or table_bytes");
  if (!JSON_NODE_HOLDS_VALUE (node) || json_node_get_value_type (node) != G_TYPE_INT64
      || json_node_get_int (node) < 1)
    return refuse (reading, node, name, "expected a whole number from 1");
  G_STRUCT_MEMBER (guint64, entry, limits[i].offset) = (guint64) json_node_get_int (node);
  return TRUE;
}

static gboolean
read_entry (TenantReading *reading, JsonNode *node, TpsTenantLimits *entry)
{
  gsize length = strlen (reading->tenant);
  JsonObjectIter iter;
  const gchar *name;
  JsonNode *value;

  if (length == 0 || length > TPS_TENANT_MAX_NAME)
    return refuse (reading, node, NULL, "a name has 1 to 128 bytes");
  if (!JSON_NODE_HOLDS_OBJECT (node))
    return refuse (reading, node, NULL, "expected an object of limits");
  json_object_iter_init_ordered (&iter, json_node_get_object (node));
  while (json_object_iter_next_ordered (&iter, &name, &value))
    if (!read_limit (reading, entry, name, value))
      return FALSE;
  for (guint i = 0; i < TPS_N_RATES; i++)
    if (entry->rates[i].burst > 0 && entry->rates[i].per_s == 0)
      return refuse (reading, node, tps_quota_kind_name ((TpsQuotaKind) i),
                     "the rate is missing, but there is a burst");
  return TRUE;
}

static gboolean
read_entries (TenantReading *reading, JsonNode *node, GArray *entries)
{
  JsonObjectIter iter;
  JsonNode *value;

  if (!JSON_NODE_HOLDS_OBJECT (node))
    return refuse (reading, node, NULL, "expected an object of tenants");
  json_object_iter_init_ordered (&iter, json_node_get_object (node));
  while (json_object_iter_next_ordered (&iter, &reading->tenant, &value))
    {
      TpsTenantEntry entry = { 0 };

      if (!read_entry (reading, value, &entry.limits))
        return FALSE;
      entry.name = g_strdup (reading->tenant);
      g_array_append_val (entries, entry);
    }
  return TRUE;
}

static void
clear_entry (gpointer data)
{
  TpsTenantEntry *entry = data;

  g_free ((gchar *) (gsize) entry->name);
}

GArray *
tps_tenants_parse (JsonNode *node, JsonNode **culprit, GError **error)
{
  g_autoptr (GArray) entries = g_array_new (FALSE, FALSE, sizeof (TpsTenantEntry));
  TenantReading reading = { .error = error };
  gboolean ok;

  g_array_set_clear_func (entries, clear_entry);
  ok = node == NULL || read_entries (&reading, node, entries);
  if (culprit != NULL)
    *culprit = reading.culprit;
  return ok ? g_steal_pointer (&entries) : NULL;
}

struct TpsRules
{
  TpsRefcount refcount;
  GPtrArray *rules; /* of TpsRule */
  GArray *tenants;  /* of TpsTenantEntry; NULL until the entries have been read */
};

/* The state of a parse. json-glib does not store line numbers, but it reports the current line
 * during the parse. */
typedef struct
{
  const gchar *file;
  GHashTable *lines;   /* from a JsonNode to its line number */
  GHashTable *members; /* set of "ADDRESS/NAME": the members of all objects */
  gchar *twice;        /* the first duplicate member of an object */
  gint twice_line;
} Reading;

static void
free_rule (gpointer data)
{
  TpsRule *rule = data;

  g_strfreev (rule->principals);
  g_strfreev (rule->methods);
  g_strfreev (rule->tables);
  g_free (rule->tenant);
  g_free (rule);
}

/* ---- lines ---------------------------------------------------------------------------------- */

static void
note_line (Reading *reading, JsonParser *parser, JsonNode *node)
{
  g_hash_table_insert (reading->lines, node,
                       GINT_TO_POINTER (json_parser_get_current_line (parser)));
}

/* json-glib silently keeps the last of two members with the same name, so duplicates are recorded
 * here. */
static void
on_member (JsonParser *parser, JsonObject *object, const gchar *name, gpointer data)
{
  Reading *reading = data;
  gchar *key = g_strdup_printf ("%p/%s", (gpointer) object, name);

  note_line (reading, parser, json_object_get_member (object, name));
  if (g_hash_table_add (reading->members, key) || reading->twice != NULL)
    return;
  reading->twice = g_strdup (name);
  reading->twice_line = json_parser_get_current_line (parser);
}

static void
on_element (JsonParser *parser, JsonArray *array, gint index, gpointer data)
{
  note_line (data, parser, json_array_get_element (array, (guint) index));
}

G_GNUC_PRINTF (4, 5)
static gboolean
refuse_line (const Reading *reading, gint line, GError **error, const gchar *format, ...)
{
  g_autofree gchar *reason = NULL;
  va_list arguments;

  va_start (arguments, format);
  reason = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s:%d: %s", reading->file, line, reason);
}

static gint
get_line (const Reading *reading, JsonNode *node)
{
  return GPOINTER_TO_INT (g_hash_table_lookup (reading->lines, node));
}

/* ---- values --------------------------------------------------------------------------------- */

static const gchar *
get_text (JsonNode *node)
{
  if (!JSON_NODE_HOLDS_VALUE (node) || json_node_get_value_type (node) != G_TYPE_STRING
      || json_node_get_string (node)[0] == '\0')
    return NULL;
  return json_node_get_string (node);
}

/* Returns the strings of an array, terminated by NULL. The caller owns them. Errors (NULL):
 * INVALID_ARGUMENT. */
static gchar **
read_texts (const Reading *reading, const gchar *name, JsonNode *node, GError **error)
{
  g_autoptr (GPtrArray) texts = g_ptr_array_new_with_free_func (g_free);
  JsonArray *array = JSON_NODE_HOLDS_ARRAY (node) ? json_node_get_array (node) : NULL;

  if (array == NULL || json_array_get_length (array) == 0)
    {
      refuse_line (reading, get_line (reading, node), error,
                   "\"%s\" must be a non-empty array of strings", name);
      return NULL;
    }
  for (guint i = 0; i < json_array_get_length (array); i++)
    {
      JsonNode *element = json_array_get_element (array, i);

      if (get_text (element) == NULL)
        {
          refuse_line (reading, get_line (reading, element), error,
                       "\"%s\" has an element that is not a string", name);
          return NULL;
        }
      g_ptr_array_add (texts, g_strdup (get_text (element)));
    }
  g_ptr_array_add (texts, NULL);
  return (gchar **) g_ptr_array_steal (texts, NULL);
}

static gboolean
read_rights (const Reading *reading, JsonNode *node, guint *rights, GError **error)
{
  static const struct
  {
    const gchar *name;
    TpsRight right;
  } known[] = { { "read", TPS_RIGHT_READ },
                { "push", TPS_RIGHT_PUSH },
                { "admin", TPS_RIGHT_ADMIN } };
  g_auto (GStrv) names = read_texts (reading, "rights", node, error);

  for (guint i = 0; names != NULL && names[i] != NULL; i++)
    {
      guint k = 0;

      while (k < G_N_ELEMENTS (known) && strcmp (known[k].name, names[i]) != 0)
        k++;
      if (k == G_N_ELEMENTS (known))
        return refuse_line (reading, get_line (reading, node), error,
                            "\"%s\" is not a right, expected read, push or admin", names[i]);
      *rights |= known[k].right;
    }
  return names != NULL;
}

static gboolean
read_member (const Reading *reading, TpsRule *rule, const gchar *name, JsonNode *node,
             GError **error)
{
  gchar ***list = strcmp (name, "principals") == 0 ? &rule->principals
                  : strcmp (name, "methods") == 0  ? &rule->methods
                  : strcmp (name, "tables") == 0   ? &rule->tables
                                                   : NULL;

  if (list != NULL)
    {
      *list = read_texts (reading, name, node, error);
      return *list != NULL;
    }
  if (strcmp (name, "rights") == 0)
    return read_rights (reading, node, &rule->rights, error);
  if (strcmp (name, "tenant") != 0)
    return refuse_line (reading, get_line (reading, node), error,
                        "\"%s\" is unknown: a rule has principals, rights, methods, tables, tenant",
                        name);
  rule->tenant = g_strdup (get_text (node));
  return rule->tenant != NULL
         || refuse_line (reading, get_line (reading, node), error, "\"tenant\" must be a string");
}

static gboolean
read_rule (const Reading *reading, JsonNode *node, TpsRule *rule, GError **error)
{
  JsonObjectIter iter;
  const gchar *name;
  JsonNode *member;
  static const gchar *const all[] = { "*", NULL };
  static const gchar *const none[] = { NULL };

  if (!JSON_NODE_HOLDS_OBJECT (node))
    return refuse_line (reading, get_line (reading, node), error, "a rule must be an object");
  json_object_iter_init (&iter, json_node_get_object (node));
  while (json_object_iter_next (&iter, &name, &member))
    if (!read_member (reading, rule, name, member, error))
      return FALSE;
  if (rule->principals == NULL || rule->rights == 0)
    return refuse_line (reading, get_line (reading, node), error,
                        "a rule must have \"principals\" and \"rights\"");
  if (rule->methods == NULL)
    rule->methods = g_strdupv ((gchar **) (gsize) all);
  if (rule->tables == NULL)
    rule->tables = g_strdupv ((gchar **) (gsize) none);
  /* "Service" becomes "Service:*"; "*" stays. */
  for (gchar **method = rule->methods; *method != NULL; method++)
    if (strchr (*method, ':') == NULL && strcmp (*method, "*") != 0)
      {
        gchar *whole = g_strconcat (*method, ":*", NULL);

        g_free (*method);
        *method = whole;
      }
  return TRUE;
}

static gboolean
read_rules (const Reading *reading, JsonNode *root, TpsRules *rules, GError **error)
{
  JsonObject *object = root != NULL && JSON_NODE_HOLDS_OBJECT (root) ? json_node_get_object (root)
                                                                     : NULL;
  JsonNode *list = object != NULL ? json_object_get_member (object, "rules") : NULL;
  JsonNode *tenants = object != NULL ? json_object_get_member (object, "tenants") : NULL;
  JsonArray *array;
  g_autoptr (GError) cause = NULL;
  JsonNode *culprit = NULL;

  if (list == NULL || !JSON_NODE_HOLDS_ARRAY (list)
      || json_object_get_size (object) != (tenants != NULL ? 2 : 1))
    return refuse_line (reading, 1, error,
                        "expected an object with the array \"rules\", and at most \"tenants\" "
                        "beside it");
  if (reading->twice != NULL)
    return refuse_line (reading, reading->twice_line, error, "\"%s\" occurs twice", reading->twice);
  array = json_node_get_array (list);
  for (guint i = 0; i < json_array_get_length (array); i++)
    {
      TpsRule *rule = g_new0 (TpsRule, 1);

      g_ptr_array_add (rules->rules, rule);
      if (!read_rule (reading, json_array_get_element (array, i), rule, error))
        return FALSE;
    }
  rules->tenants = tps_tenants_parse (tenants, &culprit, &cause);
  return rules->tenants != NULL
         || refuse_line (reading, get_line (reading, culprit), error, "%s", cause->message);
}

/* ---- file of rules -------------------------------------------------------------------------- */

static gboolean
parse (Reading *reading, JsonParser *parser, const gchar *text, GError **error)
{
  g_autoptr (GError) cause = NULL;
  g_auto (GStrv) parts = NULL;

  if (tps_json_has_more_brackets (text, TPS_JSON_MAX_BRACKETS))
    return refuse_line (reading, 0, error, "it has more than %d brackets", TPS_JSON_MAX_BRACKETS);
  g_signal_connect (parser, "object-member", G_CALLBACK (on_member), reading);
  g_signal_connect (parser, "array-element", G_CALLBACK (on_element), reading);
  if (json_parser_load_from_data (parser, text, -1, &cause))
    return TRUE;
  /* A message of json-glib has the form "<data>:LINE:COLUMN: reason". */
  parts = g_strsplit (cause->message, ":", 4);
  if (g_strv_length (parts) < 4)
    return refuse_line (reading, 0, error, "it is not JSON: %s", cause->message);
  return refuse_line (reading, (gint) g_ascii_strtoll (parts[1], NULL, 10), error,
                      "it is not JSON:%s", parts[3]);
}

TpsRules *
tps_rules_parse (const gchar *file, const gchar *text, GError **error)
{
  g_autoptr (TpsRules) rules = g_new0 (TpsRules, 1);
  g_autoptr (JsonParser) parser = json_parser_new ();
  Reading reading = { .file = file };
  gboolean ok;

  tps_refcount_init (&rules->refcount);
  rules->rules = g_ptr_array_new_with_free_func (free_rule);
  reading.lines = g_hash_table_new (NULL, NULL);
  reading.members = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  ok = parse (&reading, parser, text, error)
       && read_rules (&reading, json_parser_get_root (parser), rules, error);
  g_hash_table_unref (reading.lines);
  g_hash_table_unref (reading.members);
  g_free (reading.twice);
  return ok ? g_steal_pointer (&rules) : NULL;
}

TpsRules *
tps_rules_read (const gchar *file, GError **error)
{
  g_autoptr (GError) cause = NULL;
  g_autofree gchar *text = tps_text_file_read (file, TPS_RULES_MAX_BYTES, &cause);
  const Reading reading = { .file = file };

  if (text != NULL)
    return tps_rules_parse (file, text, error);
  refuse_line (&reading, 0, error, "%s", cause->message);
  return NULL;
}

TPS_DEFINE_REF (TpsRules, tps_rules)

void
tps_rules_unref (TpsRules *rules)
{
  if (!tps_refcount_dec (&rules->refcount))
    return;
  g_ptr_array_unref (rules->rules);
  g_clear_pointer (&rules->tenants, g_array_unref);
  g_free (rules);
}

GArray *
tps_rules_get_tenants (const TpsRules *rules)
{
  return rules->tenants;
}

const TpsRule *const *
tps_rules_get (const TpsRules *rules, guint *n_rules)
{
  *n_rules = rules->rules->len;
  return (const TpsRule *const *) (gpointer) rules->rules->pdata;
}
