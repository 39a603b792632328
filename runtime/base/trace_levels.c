/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/trace_levels.h"

#include <string.h>

#include "runtime/base/error.h"

#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyz0123456789_"

typedef struct
{
  gchar name[TPS_TRACE_MAX_AREA_BYTES + 1];
  TpsTraceLevel level;
} Area;

struct TpsTraceLevels
{
  TpsTraceLevel others; /* of areas without an item; 0 = not set yet */
  guint n_areas;
  Area areas[TPS_TRACE_MAX_AREAS];
};

static gboolean
refuse (const gchar *item, const gchar *problem, GError **error)
{
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "log level \"%s\": %s; expected LEVEL or AREA=LEVEL with error, warning, info or "
               "debug, separated by commas",
               item, problem);
  return FALSE;
}

/* Returns the area `name`; NULL if there is none. */
static Area *
find_area (TpsTraceLevels *levels, const gchar *name, gsize n_bytes)
{
  for (guint i = 0; i < levels->n_areas; i++)
    if (strncmp (levels->areas[i].name, name, n_bytes) == 0
        && levels->areas[i].name[n_bytes] == '\0')
      return &levels->areas[i];
  return NULL;
}

/* Adds an area, whose name is the first `n_bytes` of `item`. */
static gboolean
add_area (TpsTraceLevels *levels, const gchar *item, gsize n_bytes, TpsTraceLevel level,
          GError **error)
{
  Area *area;

  if (n_bytes == 0 || n_bytes > TPS_TRACE_MAX_AREA_BYTES
      || strspn (item, NAME_CHARACTERS) != n_bytes)
    return refuse (item, "the area is not the name of a folder", error);
  if (find_area (levels, item, n_bytes) != NULL)
    return refuse (item, "the area is given twice", error);
  if (levels->n_areas == TPS_TRACE_MAX_AREAS)
    return refuse (item, "there are more than " G_STRINGIFY (TPS_TRACE_MAX_AREAS) " areas", error);
  area = &levels->areas[levels->n_areas++];
  memcpy (area->name, item, n_bytes);
  area->level = level;
  return TRUE;
}

/* Adds one item, LEVEL or AREA=LEVEL. */
static gboolean
add_item (TpsTraceLevels *levels, const gchar *item, GError **error)
{
  const gchar *equals = strchr (item, '=');
  TpsTraceLevel level;

  if (!tps_trace_parse_level (equals != NULL ? equals + 1 : item, &level))
    return refuse (item, "unknown level", error);
  if (equals != NULL)
    return add_area (levels, item, (gsize) (equals - item), level, error);
  if (levels->others != 0)
    return refuse (item, "the level of all other areas is given twice", error);
  levels->others = level;
  return TRUE;
}

TpsTraceLevels *
tps_trace_levels_parse (const gchar *text, GError **error)
{
  g_autoptr (TpsTraceLevels) levels = g_new0 (TpsTraceLevels, 1);
  g_auto (GStrv) items = NULL;
  gsize n_bytes = strnlen (text, TPS_TRACE_MAX_LEVELS_BYTES + 1);

  if (n_bytes == 0 || n_bytes > TPS_TRACE_MAX_LEVELS_BYTES)
    {
      refuse ("", n_bytes == 0 ? "it is empty" : "it is too long", error);
      return NULL;
    }
  items = g_strsplit (text, ",", -1);
  for (guint i = 0; items[i] != NULL; i++)
    if (!add_item (levels, g_strstrip (items[i]), error))
      return NULL;
  if (levels->others == 0)
    levels->others = TPS_TRACE_INFO;
  return g_steal_pointer (&levels);
}

TpsTraceLevels *
tps_trace_levels_new (TpsTraceLevel level)
{
  TpsTraceLevels *levels = g_new0 (TpsTraceLevels, 1);

  levels->others = level;
  return levels;
}

void
tps_trace_levels_free (TpsTraceLevels *levels)
{
  g_free (levels);
}

/* The innermost folder with a level decides. */
TpsTraceLevel
tps_trace_levels_find (const TpsTraceLevels *levels, const gchar *file)
{
  const gchar *end = strrchr (file, '/');

  while (end != NULL)
    {
      const gchar *slash = g_strrstr_len (file, end - file, "/");
      const gchar *name = slash != NULL ? slash + 1 : file;
      const Area *area = find_area ((TpsTraceLevels *) (gsize) levels, name, (gsize) (end - name));

      if (area != NULL)
        return area->level;
      end = slash;
    }
  return levels->others;
}

TpsTraceLevel
tps_trace_levels_get_max (const TpsTraceLevels *levels)
{
  TpsTraceLevel max = levels->others;

  for (guint i = 0; i < levels->n_areas; i++)
    max = MAX (max, levels->areas[i].level);
  return max;
}

gchar *
tps_trace_levels_to_text (const TpsTraceLevels *levels)
{
  GString *text = g_string_new (tps_trace_level_name (levels->others));

  for (guint i = 0; i < levels->n_areas; i++)
    g_string_append_printf (text, ",%s=%s", levels->areas[i].name,
                            tps_trace_level_name (levels->areas[i].level));
  return g_string_free (text, FALSE);
}
