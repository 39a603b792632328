/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/compress/compression.h"

#include <math.h>
#include <string.h>

#include "runtime/device/cpu/kernels/elementwise.h"
#include "runtime/trainer/compress/block_choice.h"
#include "runtime/base/error.h"

static const TpsCompressionClass no_compression;
static const TpsCompressionClass fp16_compression;
static const TpsCompressionClass bf16_compression;
static const TpsCompressionClass top_k_compression;

/* -- none -- */

static TpsCompressor *
no_compression_begin (TpsBucketCall *call, gdouble parameter)
{
  TpsCompressor *self = g_new (TpsCompressor, 1);

  self->klass = &no_compression;
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

static const TpsCompressionClass no_compression = {
  .name = "none",
  .begin = no_compression_begin,
  .encode = no_compression_encode,
  .decode = no_compression_decode,
  .free = no_compression_free,
};

/* -- halves -- */

/* Compression to FLOAT16 and BFLOAT16. Each trainer rounds its values once, before they are sent.
 * The average is rounded once, when it is computed. */

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
  return half_begin (&fp16_compression, TPS_DTYPE_FLOAT16, call);
}

static TpsCompressor *
bf16_begin (TpsBucketCall *call, gdouble parameter)
{
  return half_begin (&bf16_compression, TPS_DTYPE_BFLOAT16, call);
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

static const TpsCompressionClass fp16_compression = {
  .name = "fp16",
  .begin = fp16_begin,
  .encode = half_encode,
  .decode = half_decode,
  .free = half_free,
};

static const TpsCompressionClass bf16_compression = {
  .name = "bf16",
  .begin = bf16_begin,
  .encode = half_encode,
  .decode = half_decode,
  .free = half_free,
};

/* -- the largest blocks -- */

/* The largest blocks of a dense bucket travel as rows of a [blocks, TPS_TOP_K_BLOCK] matrix; the
 * last block is padded with zeros. The other blocks are kept in `residual` and added to the next
 * gradient, so every gradient is sent eventually. Element by element, the sent values plus the new
 * residual equal the old residual plus the gradient. Steps without data do not change the residual,
 * which is zero at the start of each pass.
 *
 * Each trainer chooses its blocks independently. Averages include all trainers: a row that a
 * trainer has not sent counts as zeros, and its values stay in the residual of this trainer. */

typedef struct
{
  TpsCompressor base;
  gboolean is_idle; /* TRUE for a sparse bucket, which travels unchanged */
  gsize n_wanted;   /* largest number of blocks in a step */
  TpsTensor residual;
  guint32 *keys; /* scratch: [blocks] */
} TopKCompressor;

static gboolean
top_k_parse (const gchar *argument, gdouble *ratio, GError **error)
{
  gchar *end = NULL;

  if (argument != NULL)
    *ratio = g_ascii_strtod (argument, &end);
  if (argument != NULL && end != argument && *end == '\0' && *ratio > 0 && *ratio <= 1)
    return TRUE;
  return tps_fail (
      error, TPS_ERROR_INVALID_ARGUMENT,
      "compression \"topk\": the ratio is \"%s\", expected a number above 0 and at most 1, "
      "as in topk:0.01",
      argument == NULL ? "" : argument);
}

static gsize
count_blocks (gsize n_elems)
{
  return (n_elems + TPS_TOP_K_BLOCK - 1) / TPS_TOP_K_BLOCK;
}

static TpsCompressor *
top_k_begin (TpsBucketCall *call, gdouble ratio)
{
  TopKCompressor *self = g_new0 (TopKCompressor, 1);
  gsize n_blocks = count_blocks (call->n_elems);
  TpsShape shape = { .dtype = TPS_DTYPE_FLOAT32, .n_dims = 1, .dims = { (gint64) call->n_elems } };

  self->base.klass = &top_k_compression;
  self->is_idle = call->travels_as == TPS_GRADIENT_SPARSE;
  if (self->is_idle)
    return &self->base;
  self->n_wanted = MIN ((gsize) ceil (ratio * (gdouble) n_blocks), n_blocks);
  self->keys = g_new (guint32, n_blocks);
  tps_tensor_init_zeroed (&self->residual, &shape);
  call->travels_as = TPS_GRADIENT_SPARSE;
  call->rows = (gint64) n_blocks;
  call->dim = TPS_TOP_K_BLOCK;
  call->n_wire_bytes = (gint64) (self->n_wanted
                                 * (sizeof (gint64) + TPS_TOP_K_BLOCK * sizeof (gfloat)));
  return &self->base;
}

static gsize
n_elems_of_block (const TpsBucketCall *call, gint64 block)
{
  return MIN (TPS_TOP_K_BLOCK, call->n_elems - (gsize) block * TPS_TOP_K_BLOCK);
}

/* Moves the chosen blocks from the residual to `rows`. */
static void
take_blocks (TopKCompressor *self, const TpsBucketCall *call, TpsGradient *rows)
{
  gfloat *residual = tps_tensor_data (&self->residual);
  const gint64 *chosen = tps_tensor_data (&rows->indices);
  gfloat *row = tps_tensor_data (&rows->values);

  for (gint64 i = 0; i < rows->indices.shape.dims[0]; i++, row += TPS_TOP_K_BLOCK)
    {
      gfloat *block = residual + chosen[i] * TPS_TOP_K_BLOCK;
      gsize n_elems = n_elems_of_block (call, chosen[i]);

      memcpy (row, block, n_elems * sizeof *row);
      memset (row + n_elems, 0, (TPS_TOP_K_BLOCK - n_elems) * sizeof *row);
      memset (block, 0, n_elems * sizeof *block);
    }
}

static void
top_k_encode (TpsCompressor *compressor, TpsBucketCall *call)
{
  TopKCompressor *self = (TopKCompressor *) compressor;
  gfloat *residual = tps_tensor_data (&self->residual);
  g_auto (TpsGradient) rows = { .kind = TPS_GRADIENT_SPARSE,
                                .weight = call->contribution.weight,
                                .rows = call->rows };
  gint64 n_chosen;

  if (self->is_idle)
    return;
  tps_cpu_accumulate (TPS_DTYPE_FLOAT32, residual, tps_tensor_data (&call->contribution.dense),
                      call->n_elems);
  tps_tensor_init_1d (&rows.indices, TPS_DTYPE_INT64, (gint64) self->n_wanted);
  n_chosen = (gint64) tps_block_choice (residual, call->n_elems, self->n_wanted, self->keys,
                                        tps_tensor_data (&rows.indices));
  rows.indices.shape.dims[0] = n_chosen;
  tps_tensor_init_2d (&rows.values, TPS_DTYPE_FLOAT32, n_chosen, TPS_TOP_K_BLOCK);
  take_blocks (self, call, &rows);
  tps_gradient_move (&call->contribution, &rows);
}

/* Writes the average to the memory of the bucket's gradient, which is no longer needed. */
static void
top_k_decode (TpsCompressor *compressor, const TpsBucketCall *call, TpsGradient *reduced)
{
  TopKCompressor *self = (TopKCompressor *) compressor;
  g_auto (TpsGradient) dense = { .kind = TPS_GRADIENT_DENSE, .weight = reduced->weight };
  const gint64 *ids = tps_tensor_data (&reduced->indices);
  const gfloat *row = tps_tensor_data (&reduced->values);
  gfloat *data;

  if (self->is_idle)
    return;
  tps_tensor_init_ref (&dense.dense, &call->storage);
  dense.dense.shape.dims[0] = (gint64) call->n_elems;
  data = tps_tensor_data (&dense.dense);
  memset (data, 0, call->n_elems * sizeof *data);
  for (gint64 i = 0; i < reduced->indices.shape.dims[0]; i++, row += TPS_TOP_K_BLOCK)
    memcpy (data + ids[i] * TPS_TOP_K_BLOCK, row, n_elems_of_block (call, ids[i]) * sizeof *row);
  tps_gradient_move (reduced, &dense);
}

static void
top_k_free (TpsCompressor *compressor)
{
  TopKCompressor *self = (TopKCompressor *) compressor;

  tps_tensor_clear (&self->residual);
  g_free (self->keys);
  g_free (self);
}

static const TpsCompressionClass top_k_compression = {
  .name = "topk",
  .parse = top_k_parse,
  .begin = top_k_begin,
  .encode = top_k_encode,
  .decode = top_k_decode,
  .free = top_k_free,
};

/* -- by name -- */

static const gconstpointer built_in[] = { &no_compression, &fp16_compression, &bf16_compression,
                                          &top_k_compression };

TpsRegistry tps_compression_registry = TPS_REGISTRY_INIT ("compression", built_in);

static gboolean
parse_argument (const TpsCompressionClass *klass, const gchar *argument, gdouble *parameter,
                GError **error)
{
  *parameter = 0;
  if (klass->parse != NULL)
    return klass->parse (argument, parameter, error);
  if (argument == NULL)
    return TRUE;
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                   "compression \"%s\" takes no argument, got \"%s\"", klass->name, argument);
}

gboolean
tps_compression_parse (const gchar *text, TpsCompression *compression, GError **error)
{
  const gchar *colon = strchr (text, ':');
  g_autofree gchar *name = colon == NULL ? g_strdup (text)
                                         : g_strndup (text, (gsize) (colon - text));
  const TpsCompressionClass *klass = tps_registry_find (&tps_compression_registry, name, error);
  gdouble parameter;

  if (klass == NULL || !parse_argument (klass, colon == NULL ? NULL : colon + 1, &parameter, error))
    return FALSE;
  *compression = (TpsCompression) { .klass = klass, .parameter = parameter };
  return TRUE;
}

static const TpsCompressionClass *
get_class (const TpsCompression *compression)
{
  return compression->klass != NULL ? compression->klass : &no_compression;
}

gboolean
tps_compression_is_none (const TpsCompression *compression)
{
  return get_class (compression) == &no_compression;
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
