/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests tensors in memory that the sender may change at any time. */

#include <cstring>

#include "plugin/wire/wire_tensor.h"
#include "tests/plugin/wire/wire_message.h"

namespace thriftps {
namespace {

/* Shares 4 KiB of memory. */
class FakeSharing
{
public:
  FakeSharing ()
  {
    static const TpsSharingOps ops = { nullptr, resolve, ignore, ignore, nullptr };

    sharing.ops = &ops;
  }

  TpsSharing sharing; /* must be the first member */
  alignas (64) guint8 bytes[4096] = {};

private:
  static TpsBuffer *
  resolve (TpsSharing *sharing, const TpsSharedSlice *slice, GError **)
  {
    return tps_buffer_new_shared (reinterpret_cast<FakeSharing *> (sharing)->bytes + slice->offset,
                                  static_cast<gsize> (slice->length), nullptr, nullptr);
  }

  static void
  ignore (TpsSharing *)
  {
  }
};

TEST (SharedTensor, keptTensorsAreCopied)
{
  static FakeSharing fake; /* the sanitizer's stack is not aligned to 64 bytes */
  g_auto (TpsTensor) tensor = {};
  TpsFieldPath path = { nullptr, "tensor", 0 };
  TpsWireType type;
  WireMessage message ([] (TpsWriter *out) {
    put_struct (out, 1, [] (TpsWriter *fields) {
      put_i32 (fields, 1, TPS_DTYPE_FLOAT32);
      put_i64s (fields, 2, { 16 });
      put_struct (fields, 4, [] (TpsWriter *slice) {
        put_i64 (slice, 1, 1);
        put_i64 (slice, 2, 64);
        put_i64 (slice, 3, 64);
      });
    });
  });
  TpsReader *in = message.result (&type);

  memset (fake.bytes, 3, sizeof fake.bytes);
  const_cast<TpsMessage *> (in->message)->sharing = &fake.sharing;
  ASSERT_TRUE (tps_struct_read (&tps_kept_tensor_struct, in, &path, &tensor, nullptr));
  memset (fake.bytes, 9, sizeof fake.bytes);
  EXPECT_FALSE (tps_buffer_is_shared (tensor.buffer));
  EXPECT_EQ (static_cast<guint8 *> (tps_tensor_data (&tensor))[63], 3);
}

} // namespace
} // namespace thriftps
