/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Compression to FLOAT16 and BFLOAT16. Each trainer rounds its values once, before they are sent.
 * The average is rounded once, when it is computed. */

#include "runtime/device/cpu/kernels/elementwise.h"
#include "runtime/trainer/compress/built_in_compressions.h"

typedef struct
{
  TpsCompressor base;
  TpsTensor gradient; /* of a dense bucket, FLOAT32 [n_elems]; receives the decoded average */
} HalfCompressor;

static TpsCompressor *
half_begin (const TpsCompressionClass *klass, TpsDType dtype, TpsBucketCall *call)
{
  HalfCompressor *self = g_new0 (HalfCompressor, 1);
  TpsShape shape = { .dtype = dtype, .n_dims = 1, .dims = { (gint64) call->n_elems } };

  self->base.klass = klass;
  call->dtype = dtype;
  call->n_wire_bytes = (gint64) (call->n_elems * tps_dtype_size (dtype));
  /* The encoded values get memory of their own. After encoding, the memory of the bucket's gradient
   * is free, and receives the decoded average. */
  if (call->travels_as == TPS_GRADIENT_DENSE)
    {
      tps_tensor_init_ref (&self->gradient, &call->storage);
      self->gradient.shape.dims[0] = (gint64) call->n_elems;
      tps_tensor_clear (&call->storage);
      tps_tensor_init_zeroed (&call->storage, &shape);
    }
  return &self->base;
}

static TpsCompressor *
fp16_begin (TpsBucketCall *call, gdouble parameter)
{
  return half_begin (&tps_fp16_compression, TPS_DTYPE_FLOAT16, call);
}

static TpsCompressor *
bf16_begin (TpsBucketCall *call, gdouble parameter)
{
  return half_begin (&tps_bf16_compression, TPS_DTYPE_BFLOAT16, call);
}

static void
cast (const TpsTensor *to, const TpsTensor *from)
{
  tps_cpu_cast (to->shape.dtype, tps_tensor_data (to), from->shape.dtype, tps_tensor_data (from),
                (gsize) tps_shape_n_elems (&from->shape));
}

/* Casts into new memory, because the number of rows differs from step to step. */
static void
cast_rows (TpsTensor *values, TpsDType dtype)
{
  g_auto (TpsTensor) converted = { 0 };

  tps_tensor_init_2d (&converted, dtype, values->shape.dims[0], values->shape.dims[1]);
  cast (&converted, values);
  tps_tensor_move (values, &converted);
}

static void
half_encode (TpsCompressor *compressor, TpsBucketCall *call)
{
  TpsGradient *contribution = &call->contribution;

  if (contribution->kind == TPS_GRADIENT_SPARSE)
    {
      cast_rows (&contribution->values, call->dtype);
      return;
    }
  cast (&call->storage, &contribution->dense);
  tps_tensor_clear (&contribution->dense);
  tps_tensor_init_ref (&contribution->dense, &call->storage);
}

static void
half_decode (TpsCompressor *compressor, const TpsBucketCall *call, TpsGradient *reduced)
{
  HalfCompressor *self = (HalfCompressor *) compressor;

  if (reduced->kind == TPS_GRADIENT_SPARSE)
    {
      cast_rows (&reduced->values, TPS_DTYPE_FLOAT32);
      return;
    }
  cast (&self->gradient, &reduced->dense);
  tps_tensor_clear (&reduced->dense);
  tps_tensor_init_ref (&reduced->dense, &self->gradient);
}

static void
half_free (TpsCompressor *compressor)
{
  HalfCompressor *self = (HalfCompressor *) compressor;

  tps_tensor_clear (&self->gradient);
  g_free (self);
}

const TpsCompressionClass tps_fp16_compression = {
  .name = "fp16",
  .begin = fp16_begin,
  .encode = half_encode,
  .decode = half_decode,
  .free = half_free,
};

const TpsCompressionClass tps_bf16_compression = {
  .name = "bf16",
  .begin = bf16_begin,
  .encode = half_encode,
  .decode = half_decode,
  .free = half_free,
};
