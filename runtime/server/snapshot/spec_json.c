/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/snapshot/spec_json.h"

#include <math.h>

static void
append_numbers (GString *json, gconstpointer object, const TpsNumberField *numbers, guint n)
{
  for (guint i = 0; i < n; i++)
    {
      const guint8 *field = (const guint8 *) object + numbers[i].offset;
      gdouble value = *(const gdouble *) (gconstpointer) field;

      if (isnan (value))
        continue;
      g_string_append_printf (json, ",\"%s\":", numbers[i].name);
      tps_json_append_double (json, value);
    }
}

static void
clear_numbers (gpointer object, const TpsNumberField *numbers, guint n)
{
  for (guint i = 0; i < n; i++)
    G_STRUCT_MEMBER (gdouble, object, numbers[i].offset) = NAN;
}

static gboolean
read_number (TpsJsonReader *json, const gchar *key, gpointer object, const TpsNumberField *numbers,
             guint n)
{
  for (guint i = 0; i < n; i++)
    if (g_str_equal (key, numbers[i].name))
      {
        G_STRUCT_MEMBER (gdouble, object, numbers[i].offset) = tps_json_read_double (json);
        return TRUE;
      }
  return FALSE;
}

static gint32
read_i32 (TpsJsonReader *json)
{
  gint64 value = tps_json_read_i64 (json);

  if (value < G_MININT32 || value > G_MAXINT32)
    tps_json_fail (json, "expected an integer of 32 bits");
  return (gint32) value;
}

/* ---- optimizers ------------------------------------------------------------------------------ */

void
tps_optimizer_spec_append_json (GString *json, const TpsOptimizerSpec *spec)
{
  g_string_append_printf (json, "{\"kind\":%d", (gint) spec->kind);
  append_numbers (json, spec, tps_optimizer_numbers, TPS_OPTIMIZER_N_NUMBERS);
  g_string_append_c (json, '}');
}

void
tps_optimizer_spec_read_json (TpsJsonReader *json, TpsOptimizerSpec *spec)
{
  GString *key = g_string_new (NULL);

  clear_numbers (spec, tps_optimizer_numbers, TPS_OPTIMIZER_N_NUMBERS);
  tps_json_begin_object (json);
  while (tps_json_next_member (json, key))
    if (g_str_equal (key->str, "kind"))
      spec->kind = (TpsOptimizerKind) read_i32 (json);
    else if (!read_number (json, key->str, spec, tps_optimizer_numbers, TPS_OPTIMIZER_N_NUMBERS))
      tps_json_fail (json, "an optimizer with an unknown member");
  g_string_free (key, TRUE);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void
read_initializer (TpsJsonReader *json, GString *key, TpsInitializer *initializer)
{
  clear_numbers (initializer, tps_initializer_numbers, TPS_INITIALIZER_N_NUMBERS);
  tps_json_begin_object (json);
  while (tps_json_next_member (json, key))
    if (g_str_equal (key->str, "kind"))
      initializer->kind = (TpsInitializerKind) read_i32 (json);
    else if (g_str_equal (key->str, "seed"))
      initializer->seed = tps_json_read_i64 (json);
    else if (!read_number (json, key->str, initializer, tps_initializer_numbers,
                           TPS_INITIALIZER_N_NUMBERS))
      tps_json_fail (json, "an initializer with an unknown member");
}

static void
read_shard (TpsJsonReader *json, GString *key, TpsShard *shard)
{
  tps_json_begin_object (json);
  while (tps_json_next_member (json, key))
    if (g_str_equal (key->str, "kind"))
      shard->kind = (TpsShardKind) read_i32 (json);
    else if (g_str_equal (key->str, "rows"))
      shard->rows = tps_json_read_i64 (json);
    else if (g_str_equal (key->str, "first_row"))
      shard->first_row = tps_json_read_i64 (json);
    else if (g_str_equal (key->str, "n_rows"))
      shard->n_rows = tps_json_read_i64 (json);
    else if (g_str_equal (key->str, "index"))
      shard->index = read_i32 (json);
    else if (g_str_equal (key->str, "count"))
      shard->count = read_i32 (json);
    else
      tps_json_fail (json, "a shard with an unknown member");
}

void
tps_table_spec_append_json (GString *json, const TpsTableSpec *spec)
{
  g_autofree gchar *place = tps_table_place_to_string (&spec->place);

  g_string_append (json, "{\"name\":");
  tps_json_append_string (json, spec->name);
  g_string_append_printf (json, ",\"dim\":%d,\"dtype\":%d", spec->dim, (gint) spec->dtype);
  if (spec->rounding == TPS_ROUNDING_STOCHASTIC)
    g_string_append_printf (json, ",\"rounding\":%d", (gint) spec->rounding);
  g_string_append_printf (json,
                          ",\"shard\":{\"kind\":%d,\"rows\":%" G_GINT64_FORMAT
                          ",\"first_row\":%" G_GINT64_FORMAT ",\"n_rows\":%" G_GINT64_FORMAT
                          ",\"index\":%d,\"count\":%d}",
                          (gint) spec->shard.kind, spec->shard.rows, spec->shard.first_row,
                          spec->shard.n_rows, spec->shard.index, spec->shard.count);
  g_string_append_printf (json, ",\"initializer\":{\"kind\":%d,\"seed\":%" G_GINT64_FORMAT,
                          (gint) spec->initializer.kind, spec->initializer.seed);
  append_numbers (json, &spec->initializer, tps_initializer_numbers, TPS_INITIALIZER_N_NUMBERS);
  g_string_append (json, "},\"optimizer\":");
  tps_optimizer_spec_append_json (json, &spec->optimizer);
  g_string_append_printf (json, ",\"durability\":%d,\"place\":", (gint) spec->durability);
  tps_json_append_string (json, place);
  if (spec->tenant != NULL)
    {
      g_string_append (json, ",\"tenant\":");
      tps_json_append_string (json, spec->tenant);
    }
  g_string_append_c (json, '}');
}

static void
read_text (TpsJsonReader *json, GString *text, gchar **to)
{
  tps_json_read_string (json, text);
  g_free (*to);
  *to = g_strdup (text->str);
}

void
tps_table_spec_read_json (TpsJsonReader *json, TpsTableSpec *spec)
{
  GString *key = g_string_new (NULL);

  tps_json_begin_object (json);
  while (tps_json_next_member (json, key))
    if (g_str_equal (key->str, "name"))
      read_text (json, key, &spec->name);
    else if (g_str_equal (key->str, "tenant"))
      read_text (json, key, &spec->tenant);
    else if (g_str_equal (key->str, "dim"))
      spec->dim = read_i32 (json);
    else if (g_str_equal (key->str, "dtype"))
      spec->dtype = (TpsDType) read_i32 (json);
    else if (g_str_equal (key->str, "rounding"))
      spec->rounding = (TpsRounding) read_i32 (json);
    else if (g_str_equal (key->str, "durability"))
      spec->durability = (TpsDurability) read_i32 (json);
    else if (g_str_equal (key->str, "shard"))
      read_shard (json, key, &spec->shard);
    else if (g_str_equal (key->str, "initializer"))
      read_initializer (json, key, &spec->initializer);
    else if (g_str_equal (key->str, "optimizer"))
      tps_optimizer_spec_read_json (json, &spec->optimizer);
    else if (g_str_equal (key->str, "place"))
      {
        tps_json_read_string (json, key);
        if (json->problem == NULL && !tps_table_place_parse (key->str, &spec->place))
          tps_json_fail (json, "an invalid place");
      }
    else
      tps_json_fail (json, "a table with an unknown member");
  g_string_free (key, TRUE);
}
