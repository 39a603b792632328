/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/averaging/digest.h"

#include <string.h>

/* The library's dispatcher selects AVX2 or AVX-512 at run time. The plain entry points use SSE2. */
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#include "runtime/device/device_memory.h"
#include "runtime/machine/tuning.h"

/* All parts of a gradient except its elements, as they are hashed. The struct has no padding, and
 * unused dimensions are 0, so equal parts have equal bytes. */
typedef struct
{
  guint64 kind;
  guint64 weight_bits;
  gint64 rows;
  struct
  {
    guint64 dtype;
    guint64 n_dims;
    gint64 dims[TPS_TENSOR_MAX_DIMS];
  } shapes[2];
} Header;

guint
tps_digest_n_blocks (gsize n_bytes)
{
  gsize block_bytes = tps_tuning_get ()->digest_block_bytes;

  return (guint) ((n_bytes + block_bytes - 1) / block_bytes);
}

TpsDigest
tps_digest_of_block (gconstpointer data, gsize n_bytes)
{
  XXH128_hash_t hash = XXH3_128bits (data, n_bytes);

  return (TpsDigest) { .low = hash.low64, .high = hash.high64 };
}

static void
set_shape (Header *header, guint i, const TpsShape *shape)
{
  header->shapes[i].dtype = shape->dtype;
  header->shapes[i].n_dims = shape->n_dims;
  memcpy (header->shapes[i].dims, shape->dims, shape->n_dims * sizeof shape->dims[0]);
}

static TpsDigest
digest_of_header (const TpsGradient *gradient)
{
  gdouble weight = gradient->weight + 0.0; /* turns -0.0 into 0.0 */
  Header header = { .kind = gradient->kind };

  memcpy (&header.weight_bits, &weight, sizeof weight);
  if (gradient->kind == TPS_GRADIENT_DENSE)
    set_shape (&header, 0, &gradient->dense.shape);
  if (gradient->kind == TPS_GRADIENT_SPARSE)
    {
      header.rows = gradient->rows;
      set_shape (&header, 0, &gradient->indices.shape);
      set_shape (&header, 1, &gradient->values.shape);
    }
  return tps_digest_of_block (&header, sizeof header);
}

TpsDigest
tps_digest_combine (const TpsGradient *gradient, const TpsDigest *blocks, guint n_blocks)
{
  TpsDigest header = digest_of_header (gradient);
  TpsDigest digest = tps_digest_of_block (blocks, n_blocks * sizeof *blocks);

  digest.shape = header.low ^ header.high;
  return digest;
}

static void
hash_tensor (GArray *blocks, const TpsTensor *tensor)
{
  const guint8 *data = tps_tensor_data (tensor);
  gsize n_bytes = tps_shape_n_bytes (&tensor->shape);
  gsize block_bytes = tps_tuning_get ()->digest_block_bytes;

  for (gsize at = 0; at < n_bytes; at += block_bytes)
    {
      TpsDigest block = tps_digest_of_block (data + at, MIN (n_bytes - at, block_bytes));

      g_array_append_val (blocks, block);
    }
}

TpsDigest
tps_digest_of_gradient (const TpsGradient *gradient)
{
  g_autoptr (GArray) blocks = g_array_new (FALSE, FALSE, sizeof (TpsDigest));

  if (tps_device_memory_of_tensor (&gradient->dense) != NULL) /* the host cannot read it */
    {
      TpsDigest header = digest_of_header (gradient);

      return (TpsDigest) { .shape = header.low ^ header.high };
    }
  if (gradient->kind == TPS_GRADIENT_DENSE)
    hash_tensor (blocks, &gradient->dense);
  if (gradient->kind == TPS_GRADIENT_SPARSE)
    {
      hash_tensor (blocks, &gradient->indices);
      hash_tensor (blocks, &gradient->values);
    }
  return tps_digest_combine (gradient, (const TpsDigest *) (const void *) blocks->data,
                             blocks->len);
}
