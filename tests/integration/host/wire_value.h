/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Thrift messages as values. The C++ library of Thrift writes and reads them; it shares no code
 * with the project. */

#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace wire {

enum class Protocol
{
  Binary,
  Compact
};

/* Types of the binary protocol. */
enum Type
{
  Stop = 0,
  Bool = 2,
  Byte = 3,
  Double = 4,
  I16 = 6,
  I32 = 8,
  I64 = 10,
  String = 11,
  Struct = 12,
  Map = 13,
  Set = 14,
  List = 15
};

enum Kind
{
  Call = 1,
  Reply = 2,
  Exception = 3,
  Oneway = 4
};

struct Value
{
  Type type = Stop;
  int64_t number = 0; /* Bool to I64 */
  double real = 0;
  std::string text;
  Type key_type = Stop;   /* Map */
  Type value_type = Stop; /* List, Set, Map */
  std::vector<std::pair<int16_t, Value>>
      fields;               /* Struct: in this order; a field may occur twice */
  std::vector<Value> items; /* List, Set: elements; Map: keys and values alternately */

  /* Returns the first field of a Struct with this id, or null. */
  const Value *find (int16_t id) const;
};

/* The following functions return values of the named types. */
Value boolean (bool value);
Value byte (int8_t value);
Value i16 (int16_t value);
Value i32 (int32_t value);
Value i64 (int64_t value);
Value real (double value);
Value text (const std::string &value);
Value list (Type type, std::vector<Value> items);
Value set (Type type, std::vector<Value> items);
Value map (Type key, Type value, std::vector<Value> keys_and_values);
Value structure (std::vector<std::pair<int16_t, Value>> fields);

struct Message
{
  std::string name;
  Kind kind = Call;
  int32_t seqid = 0;
  Value body; /* a Struct */
};

/* encode_value() returns the bytes of a value alone, encode() those of a whole message without a
 * frame. */
std::string encode_value (Protocol protocol, const Value &value);
std::string encode (Protocol protocol, const Message &message);

/* Returns the bytes with their length in front. */
std::string frame (const std::string &bytes);

/* Numbers of the protocols, for byte sequences that no value produces. */
std::string be16 (uint16_t value);
std::string be32 (uint32_t value);
std::string varint (uint64_t value);

/* Thrown if the bytes end before the message does. */
struct Incomplete : std::runtime_error
{
  using std::runtime_error::runtime_error;
};

/* Thrown if the bytes are not a message and cannot become one with more bytes. */
struct Malformed : std::runtime_error
{
  using std::runtime_error::runtime_error;
};

/* Reads one message from the start of `bytes`. Stores its length in `*n_bytes`. */
Message decode (Protocol protocol, const std::string &bytes, size_t *n_bytes);

} // namespace wire
