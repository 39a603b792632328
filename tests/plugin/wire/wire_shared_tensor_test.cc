/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests tensors in memory that the sender may change at any time. */

#include <cstring>

#include "plugin/wire/wire_tensor.h"
#include "tests/plugin/wire/wire_message.h"

namespace thriftps {
namespace {

/* Shares segment 1, of 4 KiB. The pool for copies has room for `limit` bytes. */
class FakeSharing
{
public:
  explicit FakeSharing (gsize limit)
  {
    g_autoptr (TpsBudget) budget = tps_budget_new (nullptr, "copies", limit);

    pool = tps_buffer_pool_new (budget, nullptr, 0);
    static const TpsSharingOps ops = { nullptr, resolve, ignore, ignore, get_pool };

    sharing.ops = &ops;
  }

  ~FakeSharing ()
  {
    EXPECT_EQ (tps_buffer_pool_get_n_bytes_out (pool), 0u);
    tps_buffer_pool_unref (pool);
  }

  TpsSharing sharing; /* must be the first member */
  alignas (64) guint8 bytes[4096] = {};
  TpsBufferPool *pool;

private:
  static FakeSharing *
  of (TpsSharing *sharing)
  {
    return reinterpret_cast<FakeSharing *> (sharing);
  }

  static TpsBuffer *
  resolve (TpsSharing *sharing, const TpsSharedSlice *slice, GError **error)
  {
    if (slice->segment == 1)
      return tps_buffer_new_shared (of (sharing)->bytes + slice->offset,
                                    static_cast<gsize> (slice->length), nullptr, nullptr);
    g_set_error_literal (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "is refused");
    return nullptr;
  }

  static TpsBufferPool *
  get_pool (TpsSharing *sharing)
  {
    return of (sharing)->pool;
  }

  static void
  ignore (TpsSharing *)
  {
  }
};

Write
shared_fields (gint32 dtype, gint64 n_elems, gint64 segment, gint64 n_bytes)
{
  return [=] (TpsWriter *out) {
    put_i32 (out, 1, dtype);
    put_i64s (out, 2, { n_elems });
    put_struct (out, 4, [=] (TpsWriter *slice) {
      put_i64 (slice, 1, segment);
      put_i64 (slice, 2, 64);
      put_i64 (slice, 3, n_bytes);
    });
  };
}

class SharedTensor : public testing::Test
{
protected:
  ~SharedTensor () override
  {
    tps_tensor_clear (&tensor);
    g_clear_error (&error);
  }

  bool
  read (const TpsStruct &tensor_struct, const Write &fields)
  {
    WireMessage message ([&] (TpsWriter *out) { put_struct (out, 1, fields); });
    TpsFieldPath path = { nullptr, "tensor", 0 };
    TpsWireType type;
    TpsReader *in = message.result (&type);

    const_cast<TpsMessage *> (in->message)->sharing = &fake.sharing;
    in->copies_shared = copies_shared;
    return tps_struct_read (&tensor_struct, in, &path, &tensor, &error);
  }

  FakeSharing fake { 4096 };
  bool copies_shared = false;
  TpsTensor tensor = {};
  GError *error = nullptr;
};

TEST_F (SharedTensor, floatsStayWhereTheyAre)
{
  ASSERT_TRUE (read (tps_tensor_struct, shared_fields (TPS_DTYPE_FLOAT32, 16, 1, 64)));
  EXPECT_EQ (tps_tensor_data (&tensor), fake.bytes + 64);
  EXPECT_TRUE (tps_buffer_is_shared (tensor.buffer));
}

TEST_F (SharedTensor, integersAreCopied)
{
  for (TpsDType dtype : { TPS_DTYPE_INT32, TPS_DTYPE_INT64 })
    {
      gint64 n_elems = dtype == TPS_DTYPE_INT32 ? 16 : 8;

      tps_tensor_clear (&tensor);
      memset (fake.bytes, 3, sizeof fake.bytes);
      ASSERT_TRUE (read (tps_tensor_struct, shared_fields (dtype, n_elems, 1, 64)));
      memset (fake.bytes, 9, sizeof fake.bytes);
      EXPECT_FALSE (tps_buffer_is_shared (tensor.buffer));
      EXPECT_EQ (static_cast<guint8 *> (tps_tensor_data (&tensor))[63], 3);
    }
}

TEST_F (SharedTensor, keptTensorsAreCopied)
{
  memset (fake.bytes, 3, sizeof fake.bytes);
  ASSERT_TRUE (read (tps_kept_tensor_struct, shared_fields (TPS_DTYPE_FLOAT32, 16, 1, 64)));
  memset (fake.bytes, 9, sizeof fake.bytes);
  EXPECT_FALSE (tps_buffer_is_shared (tensor.buffer));
  EXPECT_EQ (static_cast<guint8 *> (tps_tensor_data (&tensor))[63], 3);
}

/* The bytes that go to a log must not change while they are written, so a reader may copy all of
 * them. */
TEST_F (SharedTensor, aReaderMayCopyAll)
{
  copies_shared = true;
  memset (fake.bytes, 3, sizeof fake.bytes);
  ASSERT_TRUE (read (tps_tensor_struct, shared_fields (TPS_DTYPE_FLOAT32, 16, 1, 64)));
  memset (fake.bytes, 9, sizeof fake.bytes);
  EXPECT_FALSE (tps_buffer_is_shared (tensor.buffer));
  EXPECT_EQ (static_cast<guint8 *> (tps_tensor_data (&tensor))[63], 3);
}

TEST_F (SharedTensor, copiesNeedRoom)
{
  TpsBuffer *all = tps_buffer_pool_try_get (fake.pool, 4096);

  EXPECT_FALSE (read (tps_tensor_struct, shared_fields (TPS_DTYPE_INT64, 8, 1, 64)));
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED));
  EXPECT_STREQ (error->message, "tensor.shared: no room for a copy of 64 bytes");
  tps_buffer_unref (all);
}

TEST_F (SharedTensor, isRefusedWhereItsSliceIs)
{
  EXPECT_FALSE (read (tps_tensor_struct, shared_fields (TPS_DTYPE_FLOAT32, 16, 2, 64)));
  EXPECT_STREQ (error->message, "tensor.shared is refused");
  g_clear_error (&error);
  EXPECT_FALSE (read (tps_tensor_struct, shared_fields (TPS_DTYPE_FLOAT32, 16, 1, 60)));
  EXPECT_STREQ (error->message, "tensor.shared has 60 bytes, FLOAT32 [16] needs 64");
}

} // namespace
} // namespace thriftps
