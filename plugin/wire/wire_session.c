/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/wire_session.h"

#include <string.h>

#include "plugin/wire/value_kinds.h"

#define SERVICE "Session"

/* ---- authenticate --------------------------------------------------------------------------- */

static const TpsField authenticate_arguments[] = {
  { "token", 1, TPS_FIELD_REQUIRED, &tps_kind_string },
  { NULL },
};

const TpsRpc tps_authenticate_rpc = { SERVICE, "authenticate", authenticate_arguments };

/* ---- set_context ---------------------------------------------------------------------------- */

static const TpsField text_field = { .kind = &tps_kind_string };

static gboolean
read_entry (TpsReader *in, const TpsFieldPath *path, GHashTable *context, gsize *n_bytes,
            GError **error)
{
  g_autofree gchar *key = NULL;
  g_autofree gchar *value = NULL;

  if (!tps_kind_string.read (in, path, &text_field, &key, error)
      || !tps_kind_string.read (in, path, &text_field, &value, error))
    return FALSE;
  *n_bytes += strlen (key) + strlen (value);
  if (*n_bytes > TPS_CONTEXT_MAX_BYTES)
    return tps_field_refuse (path->parent, error, "is larger than %d bytes", TPS_CONTEXT_MAX_BYTES);
  g_hash_table_replace (context, g_steal_pointer (&key), g_steal_pointer (&value));
  return TRUE;
}

static gboolean
read_context (TpsReader *in, const TpsFieldPath *path, const TpsField *field, gpointer object,
              GError **error)
{
  GHashTable **context = TPS_FIELD_VALUE (field, object);
  TpsWireType key_type, value_type;
  guint32 n_entries;
  gsize n_bytes = 0;

  tps_reader_map_begin (in, &key_type, &value_type, &n_entries);
  if (!tps_field_check_reader (in, path, error))
    return FALSE;
  if (n_entries > TPS_CONTEXT_MAX_ENTRIES)
    return tps_field_refuse (path, error, "has %u entries, expected at most %d", n_entries,
                             TPS_CONTEXT_MAX_ENTRIES);
  if (n_entries > 0 && (key_type != TPS_WIRE_BINARY || value_type != TPS_WIRE_BINARY))
    return tps_field_refuse (path, error, "must be a map from string to string");
  if (*context == NULL)
    *context = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  for (guint32 i = 0; i < n_entries; i++)
    {
      TpsFieldPath at = { .parent = path, .index = i };

      if (!read_entry (in, &at, *context, &n_bytes, error))
        return FALSE;
    }
  return TRUE;
}

static void
write_context (TpsWriter *out, const TpsField *field, gconstpointer object)
{
  GHashTable *context = *(GHashTable *const *) TPS_FIELD_CONST_VALUE (field, object);
  GHashTableIter iter;
  gpointer key, value;

  tps_writer_map_begin (out, TPS_WIRE_BINARY, TPS_WIRE_BINARY, g_hash_table_size (context));
  g_hash_table_iter_init (&iter, context);
  while (g_hash_table_iter_next (&iter, &key, &value))
    {
      tps_kind_string.write (out, &text_field, &key);
      tps_kind_string.write (out, &text_field, &value);
    }
}

static const TpsValueKind context_kind = { TPS_WIRE_MAP, "map<string,string>", read_context,
                                           write_context };

static const TpsField set_context_arguments[] = {
  { "context", 1, TPS_FIELD_REQUIRED, &context_kind },
  { NULL },
};

const TpsRpc tps_set_context_rpc = { SERVICE, "set_context", set_context_arguments };
