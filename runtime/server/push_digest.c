/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/push_digest.h"

#include <string.h>

/* The library's dispatcher chooses AVX2 or AVX-512 at run time. The plain entry points use only
 * SSE2. */
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

struct TpsPushHash
{
  XXH3_state_t *state; /* XXH3_createState() aligns it */
};

TpsPushHash *
tps_push_hash_new (void)
{
  TpsPushHash *hash = g_new (TpsPushHash, 1);

  hash->state = XXH3_createState ();
  if (hash->state == NULL)
    g_error ("no memory for a hash"); /* aborts, as g_malloc() does */
  XXH3_128bits_reset (hash->state);
  return hash;
}

static void
add_bytes (TpsPushHash *hash, gconstpointer bytes, gsize n_bytes)
{
  if (n_bytes > 0)
    XXH3_128bits_update (hash->state, bytes, n_bytes);
}

void
tps_push_hash_add_i64 (TpsPushHash *hash, gint64 value)
{
  add_bytes (hash, &value, sizeof value);
}

void
tps_push_hash_add_string (TpsPushHash *hash, const gchar *text)
{
  gsize n_bytes = strlen (text);

  tps_push_hash_add_i64 (hash, (gint64) n_bytes);
  add_bytes (hash, text, n_bytes);
}

static void
add_shape (TpsPushHash *hash, const TpsShape *shape)
{
  tps_push_hash_add_i64 (hash, (gint64) shape->dtype);
  tps_push_hash_add_i64 (hash, shape->n_dims);
  add_bytes (hash, shape->dims, shape->n_dims * sizeof shape->dims[0]);
}

void
tps_push_hash_add_tensor (TpsPushHash *hash, TpsTensorView tensor)
{
  if (tensor.shape.dtype == 0)
    {
      tps_push_hash_add_i64 (hash, 0);
      return;
    }
  add_shape (hash, &tensor.shape);
  add_bytes (hash, tensor.data, tps_shape_n_bytes (&tensor.shape));
}

void
tps_push_hash_add_blocks (TpsPushHash *hash, const TpsShape *shape, const TpsPushDigest *blocks,
                          gsize n_blocks)
{
  add_shape (hash, shape);
  tps_push_hash_add_i64 (hash, (gint64) n_blocks);
  add_bytes (hash, blocks, n_blocks * sizeof *blocks);
}

static TpsPushDigest
to_digest (XXH128_hash_t value)
{
  TpsPushDigest digest;

  G_STATIC_ASSERT (sizeof digest == sizeof value);
  memcpy (digest.bytes, &value, sizeof value);
  return digest;
}

TpsPushDigest
tps_push_digest_of_bytes (gconstpointer bytes, gsize n_bytes)
{
  return to_digest (XXH3_128bits (bytes, n_bytes));
}

TpsPushDigest
tps_push_hash_end (TpsPushHash *hash)
{
  TpsPushDigest digest = to_digest (XXH3_128bits_digest (hash->state));

  XXH3_freeState (hash->state);
  g_free (hash);
  return digest;
}
