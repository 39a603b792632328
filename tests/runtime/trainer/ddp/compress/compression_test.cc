/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/compress/compression.h"

#include <cmath>
#include <cstring>
#include <random>
#include <vector>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/trainer/compress/block_choice.h"
#include "runtime/base/error.h"
#include "tests/float16/float16.h"

namespace {

using testing::ElementsAre;

constexpr size_t BLOCK = TPS_TOP_K_BLOCK;

/* A bucket with its compressor, as a DDP stores both. */
class Bucket
{
public:
  Bucket (const char *compression, size_t n_elems)
  {
    call.n_elems = n_elems;
    call.travels_as = TPS_GRADIENT_DENSE;
    call.dtype = TPS_DTYPE_FLOAT32;
    tps_tensor_init_1d (&gradient_, TPS_DTYPE_FLOAT32, static_cast<gint64> (n_elems) + 1);
    tps_tensor_init_ref (&call.storage, &gradient_);
    TpsCompression chosen;
    EXPECT_TRUE (tps_compression_parse (compression, &chosen, nullptr)) << compression;
    compressor_ = tps_compression_begin (&chosen, &call);
  }

  ~Bucket ()
  {
    compressor_->klass->free (compressor_);
    tps_gradient_clear (&call.contribution);
    tps_tensor_clear (&call.storage);
    tps_tensor_clear (&gradient_);
  }

  Bucket (const Bucket &) = delete;
  Bucket &operator= (const Bucket &) = delete;

  void
  encode (const std::vector<float> &gradient)
  {
    memcpy (tps_tensor_data (&gradient_), gradient.data (), gradient.size () * sizeof (float));
    tps_gradient_clear (&call.contribution);
    call.contribution.kind = TPS_GRADIENT_DENSE;
    call.contribution.weight = 1;
    tps_tensor_init_ref (&call.contribution.dense, &gradient_);
    call.contribution.dense.shape.dims[0] = static_cast<gint64> (gradient.size ());
    compressor_->klass->encode (compressor_, &call);
  }

  /* Decodes the average of the only trainer, which equals the compressed gradient. */
  TpsGradient
  decode ()
  {
    TpsGradient reduced;

    tps_gradient_init_ref (&reduced, &call.contribution);
    compressor_->klass->decode (compressor_, &call, &reduced);
    return reduced;
  }

  std::vector<float>
  decode_dense ()
  {
    g_auto (TpsGradient) reduced = decode ();

    EXPECT_EQ (reduced.kind, TPS_GRADIENT_DENSE);
    EXPECT_EQ (reduced.weight, 1);
    EXPECT_EQ (reduced.dense.shape.dtype, TPS_DTYPE_FLOAT32);
    EXPECT_EQ (tps_shape_n_elems (&reduced.dense.shape), static_cast<gint64> (call.n_elems));
    const float *data = static_cast<const float *> (tps_tensor_data (&reduced.dense));
    return { data, data + call.n_elems };
  }

  size_t
  n_bytes ()
  {
    const TpsGradient *sent = &call.contribution;

    return sent->kind == TPS_GRADIENT_DENSE
               ? tps_shape_n_bytes (&sent->dense.shape)
               : tps_shape_n_bytes (&sent->indices.shape) + tps_shape_n_bytes (&sent->values.shape);
  }

  TpsBucketCall call = {};

private:
  TpsTensor gradient_ = {};
  TpsCompressor *compressor_;
};

std::vector<float>
random_values (std::mt19937 *rng, size_t n)
{
  std::normal_distribution<float> normal;
  std::vector<float> values (n);

  for (float &value : values)
    value = normal (*rng);
  return values;
}

TEST (HalfFloats, BeyondTheRangeOfFp16AreInfiniteAndInBf16AreNot)
{
  Bucket fp16 ("fp16", 4), bf16 ("bf16", 4);

  fp16.encode ({ 65504, 65520, -1e30f, NAN });
  bf16.encode ({ 65504, 65520, -1e30f, NAN });
  std::vector<float> wide = fp16.decode_dense ();
  EXPECT_THAT (std::vector<float> (wide.begin (), wide.begin () + 3),
               ElementsAre (65504, INFINITY, -INFINITY));
  EXPECT_TRUE (std::isnan (wide[3])) << "NaN must stay NaN";
  wide = bf16.decode_dense ();
  EXPECT_NEAR (wide[2], -1e30f, 1e28f);
  EXPECT_TRUE (std::isnan (wide[3]));
}

TEST (TopK, SentAndKeptValuesAddUpExactlyToTheGradientAndTheOldKeptValues)
{
  std::mt19937 rng (2);

  for (const char *text : { "topk:0.001", "topk:0.1", "topk:0.5", "topk:1" })
    for (size_t n : { 1u, 15u, 16u, 17u, 100u, 1000u, 5003u })
      {
        Bucket bucket (text, n);
        std::vector<float> kept (n);

        for (int step = 0; step < 20; step++)
          {
            std::vector<float> gradient = random_values (&rng, n);

            bucket.encode (gradient);
            std::vector<float> sent = bucket.decode_dense ();
            for (size_t i = 0; i < n; i++)
              {
                float all = kept[i] + gradient[i];

                /* A block must be sent as a whole or not at all. */
                ASSERT_TRUE (sent[i] == all || sent[i] == 0) << text << " " << n << " " << i;
                kept[i] = all - sent[i];
                ASSERT_EQ (sent[i] + kept[i], all);
              }
          }
      }
}

TEST (TopK, SendsItsPartOfTheBlocksAndNoMore)
{
  std::mt19937 rng (3);
  Bucket bucket ("topk:0.01", 100 * BLOCK * 10);

  bucket.encode (random_values (&rng, bucket.call.n_elems));
  EXPECT_EQ (bucket.call.travels_as, TPS_GRADIENT_SPARSE);
  EXPECT_EQ (bucket.call.rows, 1000);
  EXPECT_EQ (bucket.call.dim, TPS_TOP_K_BLOCK);
  EXPECT_TRUE (tps_gradient_check (&bucket.call.contribution, nullptr));
  EXPECT_EQ (bucket.n_bytes (), 10 * (8 + 4 * BLOCK));
  EXPECT_EQ (bucket.n_bytes () * 800, bucket.call.n_elems * sizeof (float) * 9) << "1.125 x 0.01";
}

TEST (TopK, EveryGradientIsSentEventually)
{
  Bucket bucket ("topk:0.25", 4 * BLOCK);
  std::vector<float> gradient (4 * BLOCK), received (4 * BLOCK);

  /* One block is much larger than the others in every step, and still the others must be sent some
   * time. */
  for (size_t i = 0; i < gradient.size (); i++)
    gradient[i] = i < BLOCK ? 8 : 1;
  for (int step = 0; step < 40; step++)
    {
      bucket.encode (gradient);
      std::vector<float> sent = bucket.decode_dense ();
      for (size_t i = 0; i < sent.size (); i++)
        received[i] += sent[i];
    }
  for (size_t i = 0; i < received.size (); i++)
    EXPECT_GE (received[i], 40 * gradient[i] * 0.5f) << i;
}

} /* namespace */
