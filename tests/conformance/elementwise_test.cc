/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests sums, division, casts, fills and copies of rows, compared bit by bit. The tests use lengths
 * around every vector width, odd alignments and special values. */

#include <cfloat>
#include <cmath>
#include <limits>

#include "tests/conformance/device_test.h"
#include "tests/conformance/reference.h"

namespace {

const TpsDType kFloats[] = { TPS_DTYPE_FLOAT32, TPS_DTYPE_FLOAT64, TPS_DTYPE_FLOAT16,
                             TPS_DTYPE_BFLOAT16 };
const TpsDType kAll[] = { TPS_DTYPE_FLOAT32,  TPS_DTYPE_FLOAT64, TPS_DTYPE_FLOAT16,
                          TPS_DTYPE_BFLOAT16, TPS_DTYPE_INT32,   TPS_DTYPE_INT64 };
/* For most operations, a block of a GPU has 1,024 elements. */
const size_t kLengths[] = { 0,  1,  2,  3,   7,    8,    15,   16,   17,
                            31, 33, 64, 100, 1000, 1023, 1024, 1025, 5000 };
const double kFactors[] = { 1, 2, 3, 7, 0.5, 1.0 / 3, 0.1, 1e-3, 12345.678, 5, 16777217 };

TpsDType
sum_dtype (TpsDType dtype)
{
  return dtype == TPS_DTYPE_FLOAT64 ? TPS_DTYPE_FLOAT64 : TPS_DTYPE_FLOAT32;
}

class Elementwise : public DeviceTest
{
protected:
  // Returns values of many magnitudes and the special values, as `dtype`.
  std::vector<uint8_t>
  values (TpsDType dtype, size_t n)
  {
    static const double special[] = {
      0.0,      -0.0,  1.0,          -1.5,          INFINITY, -INFINITY,         NAN,       65504,
      65519.99, 65520, 3.39e38,      1e-45,         -1e-40,   0x1p-24,           0x1.8p-24, 0x1p-25,
      5e-324,   1e300, 2147483647.0, -2147483648.0, 0x1p63,   9007199254740993.0
    };
    std::vector<uint8_t> bytes (n * tps_dtype_size (dtype));

    for (size_t i = 0; i < n; i++)
      {
        double value = std::ldexp ((double) random () * 0x1p-63 - 1, (int) (random () % 60) - 30);

        if (random () % 8 == 0)
          value = special[random () % G_N_ELEMENTS (special)];
        reference::store (dtype, bytes.data (), i, value);
      }
    return bytes;
  }

  static bool
  same (TpsDType dtype, const std::vector<uint8_t> &a, const std::vector<uint8_t> &b)
  {
    size_t size = tps_dtype_size (dtype);

    for (size_t i = 0; i < a.size () / size; i++)
      if (memcmp (&a[i * size], &b[i * size], size) != 0
          && !(std::isnan (reference::load (dtype, a.data (), i))
               && std::isnan (reference::load (dtype, b.data (), i))))
        {
          ADD_FAILURE () << tps_dtype_name (dtype) << " element " << i << " of " << a.size () / size
                         << ": " << reference::load (dtype, a.data (), i) << " instead of "
                         << reference::load (dtype, b.data (), i);
          return false;
        }
    return true;
  }

  // Runs `op` on the device and `expected` on the host, with the same bytes. Returns true if the
  // results are equal.
  template <typename Op, typename Expected>
  bool
  agree (TpsDType out_dtype, const std::vector<uint8_t> &out, const std::vector<uint8_t> &in, Op op,
         Expected expected)
  {
    std::vector<uint8_t> wanted = out;
    DeviceArray<uint8_t> device_out (stream, out), device_in (stream, in);

    op ((void *) device_out.data (), (const void *) device_in.data ());
    expected ((void *) wanted.data (), (const void *) in.data ());
    return same (out_dtype, device_out.read (), wanted);
  }
};

TEST_P (Elementwise, AccumulateGivesTheBitsOfOneAdditionEach)
{
  for (TpsDType dtype : kFloats)
    for (size_t n : kLengths)
      ASSERT_TRUE (agree (
          sum_dtype (dtype), values (sum_dtype (dtype), n), values (dtype, n),
          [&] (void *sum, const void *x) { ops->accumulate (stream, dtype, sum, x, n); },
          [&] (void *sum, const void *x) { reference::accumulate (dtype, sum, x, n); }));
}

TEST_P (Elementwise, ScaleRoundsTheProduct)
{
  for (TpsDType dtype : kFloats)
    for (double factor : kFactors)
      for (size_t n : { 333, 336 })
        ASSERT_TRUE (agree (
            sum_dtype (dtype), values (sum_dtype (dtype), n), values (dtype, n),
            [&] (void *sum, const void *x) { ops->scale (stream, dtype, sum, x, factor, n); },
            [&] (void *sum, const void *x) { reference::scale (dtype, sum, x, factor, n); }))
            << factor;
}

TEST_P (Elementwise, ScaleAccumulateRoundsTheProductThenTheSum)
{
  for (TpsDType dtype : kFloats)
    for (double factor : kFactors)
      for (size_t n : { 333, 336 })
        ASSERT_TRUE (agree (
            sum_dtype (dtype), values (sum_dtype (dtype), n), values (dtype, n),
            [&] (void *sum, const void *x) {
              ops->scale_accumulate (stream, dtype, sum, x, factor, n);
            },
            [&] (void *sum, const void *x) {
              reference::scale_accumulate (dtype, sum, x, factor, n);
            }))
            << factor;
}

TEST_P (Elementwise, ScaleByOneKeepsNegativeZero)
{
  DeviceArray<float> in (stream, std::vector<float> { -0.0f });
  DeviceArray<float> out (stream, std::vector<float> { 1.0f });

  ops->scale (stream, TPS_DTYPE_FLOAT32, out.data (), in.data (), 1, 1);
  EXPECT_TRUE (std::signbit (out.read ()[0]));
}

TEST_P (Elementwise, DivideRoundsOnce)
{
  for (TpsDType dtype : kFloats)
    for (double divisor : kFactors)
      for (size_t n : kLengths)
        ASSERT_TRUE (agree (
            dtype, values (dtype, n), values (sum_dtype (dtype), n),
            [&] (void *out, const void *sum) { ops->divide (stream, dtype, out, sum, divisor, n); },
            [&] (void *out, const void *sum) { reference::divide (dtype, out, sum, divisor, n); }))
            << divisor;
}

TEST_P (Elementwise, DivideWorksInPlace)
{
  std::vector<float> values = random_floats (1001);
  DeviceArray<float> array (stream, values);

  ops->divide (stream, TPS_DTYPE_FLOAT32, array.data (), array.data (), 3, values.size ());
  for (float &value : values)
    value /= 3;
  EXPECT_TRUE (same_bits (array.read (), values));
}

// The exact quotient is very close to the midpoint of two half floats. An intermediate float would
// be rounded to the midpoint.
TEST_P (Elementwise, DivideToHalfDoesNotRoundTwice)
{
  std::vector<float> sums;
  float divisor = 3;

  for (int i = 0; i < 2000; i++)
    sums.push_back (3 * (1 + (float) (2 * i + 1) * 0x1p-11f)
                    * (i % 2 ? 1 + 0x1p-23f : 1 - 0x1p-23f));
  DeviceArray<float> in (stream, sums);
  DeviceArray<uint16_t> out (stream, sums.size ());
  std::vector<uint16_t> wanted (sums.size ());

  ops->divide (stream, TPS_DTYPE_FLOAT16, out.data (), in.data (), divisor, sums.size ());
  for (size_t i = 0; i < sums.size (); i++)
    reference::store (TPS_DTYPE_FLOAT16, wanted.data (), i, (double) sums[i] / divisor);
  EXPECT_EQ (out.read (), wanted);
}

/* Covers sums and divisors of all magnitudes, quotients next to midpoints, infinities and NaN. */
TEST_P (Elementwise, DivideToHalfRoundsOnceForNumbersOfAnySize)
{
  const float divisors[] = { 1, 2, 3, -7, 0.1f, 1e30f, 1e-30f, 1e-40f, 0, INFINITY };

  for (TpsDType dtype : { TPS_DTYPE_FLOAT16, TPS_DTYPE_BFLOAT16 })
    for (float divisor : divisors)
      {
        std::vector<float> sums = { 0, -0.0f, INFINITY, -INFINITY, NAN, FLT_MAX, FLT_MIN, 1e-45f };

        for (uint32_t half = 0; half < 0x10000; half += 7)
          {
            uint16_t bits[2] = { (uint16_t) half, (uint16_t) (half + 1) };
            float middle = (float) ((reference::load (dtype, bits, 0)
                                     + reference::load (dtype, bits, 1))
                                    / 2 * divisor);

            for (float direction : { -INFINITY, INFINITY })
              sums.insert (sums.end (), { middle, std::nextafter (middle, direction) });
          }
        for (int i = 0; i < 3000; i++)
          {
            uint32_t bits = (uint32_t) random ();
            float sum;

            memcpy (&sum, &bits, sizeof sum);
            sums.push_back (sum);
          }
        DeviceArray<float> in (stream, sums);
        DeviceArray<uint16_t> out (stream, sums.size ());
        std::vector<uint16_t> wanted (sums.size ());
        ops->divide (stream, dtype, out.data (), in.data (), (double) divisor, sums.size ());
        std::vector<uint16_t> got = out.read ();
        for (size_t i = 0; i < sums.size (); i++)
          {
            double exact = (double) sums[i] / (double) divisor;

            reference::store (dtype, wanted.data (), i, exact);
            if (exact == exact)
              {
                ASSERT_EQ (got[i], wanted[i]) << sums[i] << " / " << divisor;
              }
            else
              {
                double value = reference::load (dtype, got.data (), i);

                ASSERT_NE (value, value) << sums[i] << " / " << divisor;
              }
          }
      }
}

TEST_P (Elementwise, CastConvertsEveryPairWithOneRounding)
{
  for (TpsDType from : kAll)
    for (TpsDType to : kAll)
      for (size_t n : kLengths)
        ASSERT_TRUE (agree (
            to, values (to, n), values (from, n),
            [&] (void *out, const void *x) { ops->cast (stream, to, out, from, x, n); },
            [&] (void *out, const void *x) {
              for (size_t i = 0; i < n; i++)
                {
                  if (from == TPS_DTYPE_INT64 && to == TPS_DTYPE_INT64)
                    ((int64_t *) out)[i] = ((const int64_t *) x)[i];
                  else if (from == TPS_DTYPE_INT64 && to == TPS_DTYPE_FLOAT32)
                    ((float *) out)[i] = (float) ((const int64_t *) x)[i];
                  else
                    reference::store (to, out, i, reference::load (from, x, i));
                }
            }))
            << tps_dtype_name (from) << " to " << tps_dtype_name (to);
}

TEST_P (Elementwise, CastOfLargeIntegersRoundsOnce)
{
  // 2^60 + 2^52 is the midpoint of two bfloat16 values. The next integer is above the midpoint, but
  // a double cannot represent the difference.
  std::vector<int64_t> ints = { (1ll << 60) + (1ll << 52),
                                (1ll << 60) + (1ll << 52) + 1,
                                -(1ll << 60) - (1ll << 52) - 1,
                                (1ll << 53) + 1,
                                INT64_MIN,
                                INT64_MAX };
  DeviceArray<int64_t> in (stream, ints);
  DeviceArray<uint16_t> out (stream, ints.size ());

  ops->cast (stream, TPS_DTYPE_BFLOAT16, out.data (), TPS_DTYPE_INT64, in.data (), ints.size ());
  EXPECT_EQ (out.read (),
             (std::vector<uint16_t> { 0x5d80, 0x5d81, 0xdd81, 0x5a00, 0xdf00, 0x5f00 }));
}

TEST_P (Elementwise, FillAndZeroWriteEveryElement)
{
  for (TpsDType dtype : kAll)
    for (double value : { 0.0, -0.0, 1.0, -2.5, 1e9 })
      for (size_t n : kLengths)
        ASSERT_TRUE (agree (
            dtype, values (dtype, n), {},
            [&] (void *out, const void *) { ops->fill (stream, dtype, out, value, n); },
            [&] (void *out, const void *) {
              for (size_t i = 0; i < n; i++)
                reference::store (dtype, out, i, value);
            }));
  DeviceArray<float> array (stream, random_floats (77));
  ops->zero (stream, array.data (), 77 * sizeof (float));
  EXPECT_TRUE (same_bits (array.read (), std::vector<float> (77)));
}

TEST_P (Elementwise, ALongArrayMayBeCutAnywhere)
{
  std::vector<float> sum = random_floats (1000), gradient = random_floats (1000);
  DeviceArray<float> whole (stream, sum), parts (stream, sum), addend (stream, gradient);

  ops->scale_accumulate (stream, TPS_DTYPE_FLOAT32, whole.data (), addend.data (), 0.3, 1000);
  for (size_t first = 0; first < 1000;)
    {
      size_t n = std::min<size_t> (1 + random () % 37, 1000 - first);

      ops->scale_accumulate (stream, TPS_DTYPE_FLOAT32, parts.data () + first,
                             addend.data () + first, 0.3, n);
      first += n;
    }
  EXPECT_TRUE (same_bits (whole.read (), parts.read ()));
}

TEST_P (Elementwise, EventsOfAnIdleStreamAreReached)
{
  GError *error = nullptr;
  TpsEvent *event = ops->event_new (device, &error);
  DeviceArray<float> array (stream, 5);

  ASSERT_NE (event, nullptr);
  EXPECT_TRUE (ops->event_query (event));
  ops->fill (stream, TPS_DTYPE_FLOAT32, array.data (), 4, 5);
  ops->event_record (event, stream);
  ops->stream_wait_event (stream, event);
  EXPECT_TRUE (ops->event_sync (event, &error));
  EXPECT_TRUE (ops->event_query (event));
  EXPECT_EQ (array.read (), std::vector<float> (5, 4));
  ops->event_free (event);
}

/* Copies of rows within the device, from the host and to the host, between arrays of different
 * strides. The bytes between rows must not change. */
struct Rows
{
  size_t row_bytes, n_rows, to_stride, from_stride;
};

const Rows kRows[] = {
  { 0, 0, 0, 0 },         { 0, 3, 4, 4 },           { 8, 0, 8, 8 },
  { 1, 1, 1, 1 },         { 1, 7, 3, 2 },           { 4, 5, 4, 4 },
  { 12, 9, 100, 12 },     { 12, 9, 12, 100 },       { 256, 50, 1024, 256 },
  { 256, 50, 256, 1024 }, { 1000, 33, 4096, 1003 }, { 65536, 3, 65540, 65600 }
};

std::vector<uint8_t>
some_bytes (size_t n, uint8_t first)
{
  std::vector<uint8_t> bytes (n);

  for (size_t i = 0; i < n; i++)
    bytes[i] = static_cast<uint8_t> (first + i * 31 + i / 256);
  return bytes;
}

TEST_P (Elementwise, CopyRowsLeavesTheBytesBetweenThem)
{
  for (const Rows &rows : kRows)
    {
      auto length = [&] (size_t stride) {
        return rows.n_rows > 0 ? (rows.n_rows - 1) * stride + rows.row_bytes : 0;
      };
      std::vector<uint8_t> from = some_bytes (length (rows.from_stride), 1);
      std::vector<uint8_t> to = some_bytes (length (rows.to_stride), 128);
      std::vector<uint8_t> wanted = to;
      DeviceArray<uint8_t> device_from (stream, from), there (stream, to), from_host (stream, to);
      auto copy = [&] (void *destination, const void *source) {
        ops->copy_rows (stream, destination, rows.to_stride, source, rows.from_stride,
                        rows.row_bytes, rows.n_rows);
      };

      for (size_t i = 0; i < rows.n_rows && rows.row_bytes > 0; i++)
        memcpy (&wanted[i * rows.to_stride], &from[i * rows.from_stride], rows.row_bytes);
      copy (there.data (), device_from.data ());
      copy (from_host.data (), from.data ());
      copy (to.data (), device_from.data ());
      sync ();
      EXPECT_EQ (there.read (), wanted) << rows.row_bytes << " x " << rows.n_rows;
      EXPECT_EQ (from_host.read (), wanted) << rows.row_bytes << " x " << rows.n_rows;
      EXPECT_EQ (to, wanted) << rows.row_bytes << " x " << rows.n_rows;
    }
}

INSTANTIATE_FOR_ALL_DEVICES (Elementwise);

TEST (Devices, AnUnknownNameListsTheKnown)
{
  GError *error = nullptr;

  EXPECT_EQ (tps_device_find ("abacus", &error), nullptr);
  ASSERT_NE (error, nullptr);
  EXPECT_EQ (std::string (error->message).rfind ("unknown device \"abacus\"; known: cpu", 0), 0u)
      << error->message;
  g_clear_error (&error);
}

} // namespace
