/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/exposition.h"

#include <string.h>

#include "runtime/base/exposition_private.h"

#define PREFIX "thriftps_"
#define FIRST_BYTES 16384 /* the initial capacity of the body */

/* ---- choice of a format ---------------------------------------------------------------------- */

/* Media types with the values that their parameters must have, if the parameters are present. */
static const struct
{
  const gchar *type;
  const gchar *parameters[2][2]; /* name, value */
  TpsExpositionFormat format;
} media_types[] = {
  { "application/openmetrics-text", { { "version", "1.0.0" } }, TPS_EXPOSITION_OPENMETRICS },
  { "application/vnd.google.protobuf",
    { { "proto", "io.prometheus.client.MetricFamily" }, { "encoding", "delimited" } },
    TPS_EXPOSITION_PROTOBUF },
  { "text/plain", { { "version", "0.0.4" } }, TPS_EXPOSITION_TEXT },
  { "text/*", { { NULL } }, TPS_EXPOSITION_TEXT },
  { "*/*", { { NULL } }, TPS_EXPOSITION_TEXT },
};

/* Returns the value of the parameter `name`; NULL if there is none. The first part is the media
 * type, the others are parameters of the form "name=value". */
static const gchar *
find_parameter (gchar *const *parts, const gchar *name)
{
  gsize n_bytes = strlen (name);

  for (guint i = 1; parts[i] != NULL; i++)
    if (g_ascii_strncasecmp (parts[i], name, n_bytes) == 0 && parts[i][n_bytes] == '=')
      return parts[i] + n_bytes + 1;
  return NULL;
}

static gboolean
matches (gchar *const *parts, guint i)
{
  if (g_ascii_strcasecmp (parts[0], media_types[i].type) != 0)
    return FALSE;
  for (guint j = 0; j < G_N_ELEMENTS (media_types[i].parameters); j++)
    {
      const gchar *name = media_types[i].parameters[j][0];
      const gchar *value = name != NULL ? find_parameter (parts, name) : NULL;

      if (value != NULL && strcmp (value, media_types[i].parameters[j][1]) != 0)
        return FALSE;
    }
  return TRUE;
}

/* Returns the weight of one element of the header, and sets `format`. The weight is 0 if the format
 * is unknown or not acceptable. */
static gdouble
weigh (const gchar *element, TpsExpositionFormat *format)
{
  g_auto (GStrv) parts = g_strsplit (element, ";", -1);
  const gchar *weight;

  if (parts[0] == NULL)
    return 0;
  for (guint i = 0; parts[i] != NULL; i++)
    g_strstrip (parts[i]);
  weight = find_parameter (parts, "q");
  for (guint i = 0; i < G_N_ELEMENTS (media_types); i++)
    if (matches (parts, i))
      {
        *format = media_types[i].format;
        return weight != NULL ? g_ascii_strtod (weight, NULL) : 1;
      }
  return 0;
}

TpsExpositionFormat
tps_exposition_choose (const gchar *accept)
{
  g_auto (GStrv) elements = g_strsplit (accept != NULL ? accept : "", ",", -1);
  TpsExpositionFormat chosen = TPS_EXPOSITION_TEXT;
  gdouble best = 0;

  for (guint i = 0; elements[i] != NULL; i++)
    {
      TpsExpositionFormat format = TPS_EXPOSITION_TEXT;
      gdouble weight = weigh (elements[i], &format);

      if (weight > best)
        {
          best = weight;
          chosen = format;
        }
    }
  return chosen;
}

const gchar *
tps_exposition_get_content_type (TpsExpositionFormat format)
{
  switch (format)
    {
    case TPS_EXPOSITION_OPENMETRICS:
      return "application/openmetrics-text; version=1.0.0; charset=utf-8";
    case TPS_EXPOSITION_PROTOBUF:
      return "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; "
             "encoding=delimited";
    case TPS_EXPOSITION_TEXT:
    default:
      return "text/plain; version=0.0.4; charset=utf-8";
    }
}

/* ---- the body -------------------------------------------------------------------------------- */

gchar *
tps_exposition_dup_name (const TpsFamily *family)
{
  return g_strconcat (g_str_has_prefix (family->name, "process_") ? "" : PREFIX, family->name,
                      NULL);
}

GString *
tps_exposition_write (TpsCounters *counters, TpsExpositionFormat format)
{
  g_autoptr (TpsReading) reading = tps_counters_read (counters);
  GString *body = g_string_sized_new (FIRST_BYTES);

  if (format == TPS_EXPOSITION_PROTOBUF)
    tps_exposition_write_protobuf (body, counters, reading);
  else
    tps_exposition_write_text (body, counters, reading, format == TPS_EXPOSITION_OPENMETRICS);
  return body;
}
