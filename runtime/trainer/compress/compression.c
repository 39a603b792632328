/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/compress/compression.h"

#include <string.h>

#include "runtime/trainer/compress/built_in_compressions.h"
#include "runtime/base/error.h"
#include "runtime/base/registry.h"

static const gconstpointer built_in[] = {
  &tps_no_compression,
  &tps_fp16_compression,
  &tps_bf16_compression,
  &tps_top_k_compression,
};

static TpsRegistry registry = TPS_REGISTRY_INIT ("compression", built_in);

static gboolean
parse_argument (const TpsCompressionClass *klass, const gchar *argument, gdouble *parameter,
                GError **error)
{
  *parameter = 0;
  if (klass->parse != NULL)
    return klass->parse (argument, parameter, error);
  if (argument == NULL)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "compression \"%s\" takes no argument, got \"%s\"", klass->name, argument);
  return FALSE;
}

gboolean
tps_compression_parse (const gchar *text, TpsCompression *compression, GError **error)
{
  const gchar *colon = strchr (text, ':');
  g_autofree gchar *name = colon == NULL ? g_strdup (text)
                                         : g_strndup (text, (gsize) (colon - text));
  const TpsCompressionClass *klass = tps_registry_find (&registry, name, error);
  gdouble parameter;

  if (klass == NULL || !parse_argument (klass, colon == NULL ? NULL : colon + 1, &parameter, error))
    return FALSE;
  *compression = (TpsCompression) { .klass = klass, .parameter = parameter };
  return TRUE;
}

static const TpsCompressionClass *
get_class (const TpsCompression *compression)
{
  return compression->klass != NULL ? compression->klass : &tps_no_compression;
}

gboolean
tps_compression_is_none (const TpsCompression *compression)
{
  return get_class (compression) == &tps_no_compression;
}

gchar *
tps_compression_to_string (const TpsCompression *compression)
{
  const TpsCompressionClass *klass = get_class (compression);

  if (klass->parse == NULL)
    return g_strdup (klass->name);
  return g_strdup_printf ("%s:%.17g", klass->name, compression->parameter);
}

TpsCompressor *
tps_compression_begin (const TpsCompression *compression, TpsBucketCall *call)
{
  return get_class (compression)->begin (call, compression->parameter);
}

void
tps_compression_register (const TpsCompressionClass *klass)
{
  tps_registry_add (&registry, klass);
}

const gchar **
tps_compression_list (void)
{
  return tps_registry_list (&registry);
}
