/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Compression of gradients: a stage between a bucket's gradient and the hook, equal for all hooks.
 *
 * At the start of a pass, begin() determines the form in which a bucket travels. In each step,
 * encode() converts the trainer's gradient to that form, the hook sends and reduces it, and
 * decode() converts the result back. For servers and groups, compressed gradients are ordinary
 * gradients of a different type, or rows. Sums are FLOAT32 in every case and are rounded once. All
 * trainers of a pass must use the same compression.
 *
 * Built-in:
 *   "none"        no compression
 *   "fp16"        FLOAT16, half the bytes. Values beyond 65504 become infinite, as in PyTorch's
 *                 fp16_compress_hook. A mean within the range stays finite, since the sum is
 *                 FLOAT32 (PyTorch divides first, and adds in half precision)
 *   "bf16"        BFLOAT16, half the bytes, FLOAT32's range with 8 bits of precision
 *   "topk:RATIO"  this fraction of the values of dense buckets, in blocks; the rest is kept and
 *                 added to the next step's gradient (error feedback). Sparse buckets do not
 *                 change
 */

#pragma once

#include "runtime/trainer/ports/hook.h"

G_BEGIN_DECLS

typedef struct TpsCompressor TpsCompressor;

/* An entry of the compression registry. A compressor must be used by one thread at a time. */
typedef struct
{
  const gchar *name;

  /* Parses the part after the colon of "name:argument"; `argument` is NULL without a colon. Must be
   * NULL if the class takes no argument. Errors: INVALID_ARGUMENT. */
  gboolean (*parse) (const gchar *argument, gdouble *parameter, GError **error);

  /* Creates the compressor of one bucket for one pass, owned by the caller. The compressor may keep
   * state between steps. `call` is set up for no compression; begin() changes its travels_as,
   * dtype, rows, dim, n_wire_bytes and storage as needed. */
  TpsCompressor *(*begin) (TpsBucketCall *call, gdouble parameter);

  /* Replaces call->contribution, which is FLOAT32 with weight 1 and never NONE, by its compressed
   * form. */
  void (*encode) (TpsCompressor *compressor, TpsBucketCall *call);

  /* Replaces `reduced`, which has the form described by `call` and is not NONE, by FLOAT32 of the
   * bucket's own kind. A dense result may lie in the memory of the bucket's gradient. Thread: any,
   * while the call of the bucket is in flight. */
  void (*decode) (TpsCompressor *compressor, const TpsBucketCall *call, TpsGradient *reduced);

  void (*free) (TpsCompressor *compressor);
} TpsCompressionClass;

/* Implementations embed this struct as their first member. */
struct TpsCompressor
{
  const TpsCompressionClass *klass;
};

/* A class and its argument. An all-zero value is "none". */
typedef struct
{
  const TpsCompressionClass *klass;
  gdouble parameter;
} TpsCompression;

/* Parses "name" or "name:argument". Errors: NOT_FOUND (the message lists the known names),
 * INVALID_ARGUMENT. */
gboolean tps_compression_parse (const gchar *text, TpsCompression *compression, GError **error);

/* Returns a canonical text, which is equal for equal compressions. Owned by the caller. */
gchar *tps_compression_to_string (const TpsCompression *compression);

/* Returns TRUE if gradients travel unchanged. */
gboolean tps_compression_is_none (const TpsCompression *compression);

/* Creates the compressor of a bucket by begin() of the class. Owned by the caller. */
TpsCompressor *tps_compression_begin (const TpsCompression *compression, TpsBucketCall *call);

TPS_DECLARE_REGISTRY (TpsCompressionClass, tps_compression);

G_END_DECLS
