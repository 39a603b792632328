/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests a reader whose caller requests fields of the wrong type. */

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "plugin/frame/scan.h"
#include "plugin/host/typed_reader.h"
#include "runtime/base/error.h"
#include "tests/integration/host/wire_value.h"

using wire::Value;

namespace {

struct FreeMessage
{
  void
  operator() (TpsMessage *message) const
  {
    tps_message_free (message);
  }
};

std::unique_ptr<TpsMessage, FreeMessage>
scan (const Value &body)
{
  std::string bytes = wire::encode (wire::Protocol::Binary, { "m", wire::Call, 1, body });
  TpsScannerOptions options = {};
  options.max_message_bytes = 1 << 24;
  g_autoptr (TpsScanner) scanner = tps_scanner_new (&options);
  gsize n_consumed = 0;
  EXPECT_TRUE (tps_scanner_feed (scanner, reinterpret_cast<const guint8 *> (bytes.data ()),
                                 bytes.size (), &n_consumed, nullptr));
  return std::unique_ptr<TpsMessage, FreeMessage> (tps_scanner_take (scanner));
}

class TypedReader : public testing::Test
{
protected:
  void
  read (const Value &body, guint max_elements = 1000)
  {
    message_ = scan (body);
    ASSERT_NE (message_, nullptr);
    tps_typed_reader_init (&reader_, message_.get (), max_elements);
  }

  void
  TearDown () override
  {
    tps_typed_reader_clear (&reader_);
  }

  /* Reads every type. All results must be empty. */
  void
  expect_empty_from_now_on ()
  {
    gint16 id = 7;
    TpsWireType type = TPS_WIRE_I32;
    TpsWireType value = TPS_WIRE_I32;
    ASSERT_NE (reader_.error, nullptr);
    tps_typed_reader_struct_begin (&reader_);
    EXPECT_EQ (tps_typed_reader_field (&reader_, &id), TPS_WIRE_STOP);
    EXPECT_EQ (id, 0);
    EXPECT_EQ (tps_typed_reader_list_begin (&reader_, TPS_WIRE_LIST, &type), 0u);
    EXPECT_EQ (tps_typed_reader_map_begin (&reader_, &type, &value), 0u);
    EXPECT_EQ (tps_typed_reader_i64 (&reader_), 0);
    EXPECT_EQ (tps_typed_reader_double (&reader_), 0.0);
    EXPECT_EQ (tps_typed_reader_binary (&reader_).n_bytes, 0u);
    tps_typed_reader_container_end (&reader_);
    tps_typed_reader_struct_end (&reader_);
  }

  std::unique_ptr<TpsMessage, FreeMessage> message_;
  TpsTypedReader reader_ = {};
};

TEST_F (TypedReader, FieldIsNotReadTwice)
{
  gint16 id;
  read (wire::structure ({ { 1, wire::i32 (5) }, { 2, wire::i32 (6) } }));
  tps_typed_reader_struct_begin (&reader_);
  tps_typed_reader_field (&reader_, &id);
  EXPECT_EQ (tps_typed_reader_i32 (&reader_), 5);
  EXPECT_EQ (tps_typed_reader_i32 (&reader_), 0);
  expect_empty_from_now_on ();
}

TEST_F (TypedReader, FieldIsNotPassedOver)
{
  gint16 id;
  read (wire::structure ({ { 1, wire::i32 (5) }, { 2, wire::i32 (6) } }));
  tps_typed_reader_struct_begin (&reader_);
  tps_typed_reader_field (&reader_, &id);
  EXPECT_EQ (tps_typed_reader_field (&reader_, &id), TPS_WIRE_STOP);
  expect_empty_from_now_on ();
}

TEST_F (TypedReader, MoreElementsThanThereAreAreNotRead)
{
  gint16 id;
  TpsWireType type;
  read (
      wire::structure ({ { 1, wire::list (wire::I32, { wire::i32 (1) }) }, { 2, wire::i32 (9) } }));
  tps_typed_reader_struct_begin (&reader_);
  tps_typed_reader_field (&reader_, &id);
  tps_typed_reader_list_begin (&reader_, TPS_WIRE_LIST, &type);
  EXPECT_EQ (tps_typed_reader_i32 (&reader_), 1);
  EXPECT_EQ (tps_typed_reader_i32 (&reader_), 0);
  expect_empty_from_now_on ();
}

TEST_F (TypedReader, ContainerThatIsLeftEarlyIsNoticed)
{
  gint16 id;
  TpsWireType type;
  read (wire::structure ({ { 1, wire::list (wire::I32, { wire::i32 (1), wire::i32 (2) }) } }));
  tps_typed_reader_struct_begin (&reader_);
  tps_typed_reader_field (&reader_, &id);
  tps_typed_reader_list_begin (&reader_, TPS_WIRE_LIST, &type);
  tps_typed_reader_container_end (&reader_);
  expect_empty_from_now_on ();
}

TEST_F (TypedReader, SetIsNoList)
{
  gint16 id;
  TpsWireType type;
  read (wire::structure ({ { 1, wire::set (wire::I32, { wire::i32 (1) }) } }));
  tps_typed_reader_struct_begin (&reader_);
  tps_typed_reader_field (&reader_, &id);
  EXPECT_EQ (tps_typed_reader_list_begin (&reader_, TPS_WIRE_LIST, &type), 0u);
  expect_empty_from_now_on ();
}

TEST_F (TypedReader, TooManyObjectsAreRefusedBeforeTheyAreMade)
{
  gint16 id;
  TpsWireType type;
  std::vector<Value> many (11, wire::structure ({}));
  read (wire::structure ({ { 1, wire::list (wire::Struct, many) } }), 10);
  tps_typed_reader_struct_begin (&reader_);
  tps_typed_reader_field (&reader_, &id);
  EXPECT_EQ (tps_typed_reader_list_begin (&reader_, TPS_WIRE_LIST, &type), 0u);
  ASSERT_NE (reader_.error, nullptr);
  EXPECT_EQ (reader_.error->code, TPS_ERROR_RESOURCE_EXHAUSTED);
}

} // namespace
