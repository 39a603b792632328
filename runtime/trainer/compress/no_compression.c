/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/compress/built_in_compressions.h"

static TpsCompressor *
no_compression_begin (TpsBucketCall *call, gdouble parameter)
{
  TpsCompressor *self = g_new (TpsCompressor, 1);

  self->klass = &tps_no_compression;
  return self;
}

static void
no_compression_encode (TpsCompressor *self, TpsBucketCall *call)
{
}

static void
no_compression_decode (TpsCompressor *self, const TpsBucketCall *call, TpsGradient *reduced)
{
}

static void
no_compression_free (TpsCompressor *self)
{
  g_free (self);
}

const TpsCompressionClass tps_no_compression = {
  .name = "none",
  .begin = no_compression_begin,
  .encode = no_compression_encode,
  .decode = no_compression_decode,
  .free = no_compression_free,
};
