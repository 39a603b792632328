/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/access/tenants.h"

#include <string.h>

#include "runtime/base/error.h"

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
} Reading;

/* Sets the error; always returns FALSE. If `limit` is NULL, the error does not concern a single
 * limit. */
static gboolean
refuse (Reading *reading, JsonNode *culprit, const gchar *limit, const gchar *reason)
{
  reading->culprit = culprit;
  g_set_error (reading->error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "tenants%s%.*s%s%s: %s",
               reading->tenant != NULL ? "." : "", TPS_TENANT_MAX_NAME,
               reading->tenant != NULL ? reading->tenant : "", limit != NULL ? "." : "",
               limit != NULL ? limit : "", reason);
  return FALSE;
}

static gboolean
read_limit (Reading *reading, TpsTenantLimits *entry, const gchar *name, JsonNode *node)
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
check_bursts (Reading *reading, const TpsTenantLimits *entry, JsonNode *node)
{
  for (guint i = 0; i < TPS_N_RATES; i++)
    if (entry->rates[i].burst > 0 && entry->rates[i].per_s == 0)
      return refuse (reading, node, tps_quota_kind_name ((TpsQuotaKind) i),
                     "the rate is missing, but there is a burst");
  return TRUE;
}

static gboolean
read_entry (Reading *reading, JsonNode *node, TpsTenantLimits *entry)
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
  return check_bursts (reading, entry, node);
}

static gboolean
read_entries (Reading *reading, JsonNode *node, GArray *entries)
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
  Reading reading = { .error = error };
  gboolean ok;

  g_array_set_clear_func (entries, clear_entry);
  ok = node == NULL || read_entries (&reading, node, entries);
  if (culprit != NULL)
    *culprit = reading.culprit;
  return ok ? g_steal_pointer (&entries) : NULL;
}
