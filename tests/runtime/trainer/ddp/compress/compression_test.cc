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
    begin (compression);
  }

  /* Makes a sparse bucket. */
  Bucket (const char *compression, gint64 rows, gint64 dim)
  {
    call.is_sparse = TRUE;
    call.n_elems = static_cast<gsize> (rows * dim);
    call.travels_as = TPS_GRADIENT_SPARSE;
    call.dtype = TPS_DTYPE_FLOAT32;
    call.rows = rows;
    call.dim = dim;
    begin (compression);
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

  void
  encode_rows (const std::vector<gint64> &ids, float value)
  {
    TpsGradient *contribution = &call.contribution;
    gint64 n = static_cast<gint64> (ids.size ());

    tps_gradient_clear (contribution);
    contribution->kind = TPS_GRADIENT_SPARSE;
    contribution->weight = 1;
    contribution->rows = call.rows;
    tps_tensor_init_1d (&contribution->indices, TPS_DTYPE_INT64, n);
    memcpy (tps_tensor_data (&contribution->indices), ids.data (), ids.size () * sizeof (gint64));
    tps_tensor_init_2d (&contribution->values, TPS_DTYPE_FLOAT32, n, call.dim);
    for (gint64 i = 0; i < n * call.dim; i++)
      static_cast<float *> (tps_tensor_data (&contribution->values))[i] = value;
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
  void
  begin (const char *text)
  {
    TpsCompression compression;

    EXPECT_TRUE (tps_compression_parse (text, &compression, nullptr)) << text;
    compressor_ = tps_compression_begin (&compression, &call);
  }

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

TEST (Compression, AProgramMayAddItsOwn)
{
  static const TpsCompressionClass own = { "own", nullptr, nullptr, nullptr, nullptr, nullptr };
  TpsCompression compression;

  tps_compression_register (&own);
  EXPECT_TRUE (tps_compression_parse ("own", &compression, nullptr));
  EXPECT_EQ (compression.klass, &own);
  g_autofree const gchar **names = tps_compression_list ();
  EXPECT_STREQ (names[4], "own");
  EXPECT_EQ (names[5], nullptr);
}

TEST (HalfFloats, AreRoundedOnceAndTakeHalfTheBytes)
{
  std::mt19937 rng (1);
  std::vector<float> gradient = random_values (&rng, 1001);
  Bucket fp16 ("fp16", gradient.size ()), bf16 ("bf16", gradient.size ());

  fp16.encode (gradient);
  bf16.encode (gradient);
  EXPECT_EQ (fp16.call.contribution.dense.shape.dtype, TPS_DTYPE_FLOAT16);
  EXPECT_EQ (bf16.call.contribution.dense.shape.dtype, TPS_DTYPE_BFLOAT16);
  EXPECT_EQ (fp16.n_bytes (), 2002u);
  EXPECT_EQ (bf16.n_bytes (), 2002u);
  std::vector<float> wide16 = fp16.decode_dense (), wideb16 = bf16.decode_dense ();
  for (size_t i = 0; i < gradient.size (); i++)
    {
      EXPECT_EQ (wide16[i], tps_float16_to_float (tps_float16_from_float (gradient[i])));
      EXPECT_EQ (wideb16[i], tps_bfloat16_to_float (tps_bfloat16_from_float (gradient[i])));
    }
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

TEST (HalfFloats, OfRowsKeepTheirIds)
{
  Bucket bucket ("fp16", 10, 3);

  bucket.encode_rows ({ 2, 7 }, 1.0f / 3);
  EXPECT_EQ (bucket.call.contribution.values.shape.dtype, TPS_DTYPE_FLOAT16);
  EXPECT_EQ (bucket.n_bytes (), 2 * 8u + 6 * 2u);
  g_auto (TpsGradient) reduced = bucket.decode ();
  EXPECT_EQ (reduced.values.shape.dtype, TPS_DTYPE_FLOAT32);
  EXPECT_EQ (static_cast<gint64 *> (tps_tensor_data (&reduced.indices))[1], 7);
  EXPECT_EQ (static_cast<float *> (tps_tensor_data (&reduced.values))[5],
             tps_float16_to_float (tps_float16_from_float (1.0f / 3)));
}

TEST (HalfFloats, LeaveTheNextStepAlone)
{
  Bucket bucket ("bf16", 3);

  bucket.encode ({ 1, 2, 3 });
  bucket.decode_dense ();
  bucket.encode ({ 4, 5, 6 });
  EXPECT_THAT (bucket.decode_dense (), ElementsAre (4, 5, 6));
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

TEST (TopK, SendsABlockAtLeast)
{
  Bucket bucket ("topk:0.001", 3);

  bucket.encode ({ 1, 2, 3 });
  EXPECT_THAT (bucket.decode_dense (), ElementsAre (1, 2, 3));
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

TEST (TopK, BeginsAnewWithEachCompressor)
{
  std::vector<float> gradient (2 * BLOCK, 1.0f), expected (2 * BLOCK);

  std::fill (expected.begin (), expected.begin () + BLOCK, 1.0f);
  for (int pass = 0; pass < 2; pass++)
    {
      Bucket bucket ("topk:0.5", gradient.size ());

      bucket.encode (gradient);
      EXPECT_EQ (bucket.decode_dense (), expected);
    }
}

} /* namespace */
