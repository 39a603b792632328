/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Compression of gradients: a stage between a bucket's gradient and its way, whichever hook it goes
 * by.
 *
 * Once a pass begin() says how a bucket travels; each step encode() turns the trainer's gradient
 * into that, the hook sends and reduces it, and decode() turns the result back. Servers and groups
 * see ordinary gradients of another type, or rows; sums are FLOAT32 whatever travels, and are
 * rounded once. All trainers of a pass must use the same compression.
 *
 * Built-in:
 *   "none"        as it is
 *   "fp16"        FLOAT16, half the bytes. Values beyond 65504 become infinite, as in PyTorch's
 *                 fp16_compress_hook; a mean that fits does not, since the sum is FLOAT32 (PyTorch
 *                 adds in half precision, and divides before)
 *   "bf16"        BFLOAT16, half the bytes, FLOAT32's range with 8 bits of precision
 *   "topk:RATIO"  of dense buckets this part of the values, in blocks; the rest is kept and added
 *                 to the next step's gradient (error feedback). Sparse buckets travel as they are
 */

#pragma once

#include "runtime/trainer/ports/hook.h"

G_BEGIN_DECLS

typedef struct TpsCompressor TpsCompressor;

/* One entry of the compression registry. One thread at a time for one compressor. */
typedef struct
{
  const gchar *name;

  /* Reads what stands behind the colon of "name:argument"; NULL where it takes no argument.
   * `argument` is NULL where there is no colon. Errors: INVALID_ARGUMENT. */
  gboolean (*parse) (const gchar *argument, gdouble *parameter, GError **error);

  /* What compresses one bucket in one pass; may keep what carries over from step to step. `call` is
   * set up for travelling as it is; changes its travels_as, dtype, rows, dim and storage as needed.
   * Owned by the caller. */
  TpsCompressor *(*begin) (TpsBucketCall *call, gdouble parameter);

  /* Replaces call->contribution, FLOAT32 with weight 1 and never NONE, by what travels. */
  void (*encode) (TpsCompressor *compressor, TpsBucketCall *call);

  /* Replaces `reduced`, which travelled as `call` says and is not NONE, by FLOAT32 of the bucket's
   * own kind. A dense result may lie in the memory of the bucket's gradient. Thread: any, while the
   * bucket is on its way. */
  void (*decode) (TpsCompressor *compressor, const TpsBucketCall *call, TpsGradient *reduced);

  void (*free) (TpsCompressor *compressor);
} TpsCompressionClass;

/* Implementations embed this as their first member. */
struct TpsCompressor
{
  const TpsCompressionClass *klass;
};

/* A class and its argument. All zero is "none". */
typedef struct
{
  const TpsCompressionClass *klass;
  gdouble parameter;
} TpsCompression;

/* From "name" or "name:argument". Errors: NOT_FOUND (the message lists the known names),
 * INVALID_ARGUMENT. */
gboolean tps_compression_parse (const gchar *text, TpsCompression *compression, GError **error);

/* The same text for the same compression; owned by the caller. */
gchar *tps_compression_to_string (const TpsCompression *compression);

/* Whether gradients travel as they are. */
gboolean tps_compression_is_none (const TpsCompression *compression);

/* begin() of the class. */
TpsCompressor *tps_compression_begin (const TpsCompression *compression, TpsBucketCall *call);

/* What is registered must stay; before any trainer runs. List: static strings, NULL at the end, in
 * an array owned by the caller (g_free). */
void tps_compression_register (const TpsCompressionClass *klass);
const gchar **tps_compression_list (void);

G_END_DECLS
