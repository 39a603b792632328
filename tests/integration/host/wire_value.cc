/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/integration/host/wire_value.h"

#include <memory>

#include <thrift/protocol/TBinaryProtocol.h>
#include <thrift/protocol/TCompactProtocol.h>
#include <thrift/transport/TBufferTransports.h>

namespace wire {

using apache::thrift::protocol::TBinaryProtocol;
using apache::thrift::protocol::TCompactProtocol;
using apache::thrift::protocol::TMessageType;
using apache::thrift::protocol::TProtocol;
using apache::thrift::protocol::TProtocolException;
using apache::thrift::protocol::TType;
using apache::thrift::transport::TMemoryBuffer;
using apache::thrift::transport::TTransportException;

const Value *
Value::find (int16_t id) const
{
  for (const auto &field : fields)
    if (field.first == id)
      return &field.second;
  return nullptr;
}

static Value
number (Type type, int64_t value)
{
  Value result;
  result.type = type;
  result.number = value;
  return result;
}

Value
boolean (bool value)
{
  return number (Bool, value ? 1 : 0);
}

Value
byte (int8_t value)
{
  return number (Byte, value);
}

Value
i16 (int16_t value)
{
  return number (I16, value);
}

Value
i32 (int32_t value)
{
  return number (I32, value);
}

Value
i64 (int64_t value)
{
  return number (I64, value);
}

Value
real (double value)
{
  Value result;
  result.type = Double;
  result.real = value;
  return result;
}

Value
text (const std::string &value)
{
  Value result;
  result.type = String;
  result.text = value;
  return result;
}

static Value
container (Type kind, Type key, Type value, std::vector<Value> items)
{
  Value result;
  result.type = kind;
  result.key_type = key;
  result.value_type = value;
  result.items = std::move (items);
  return result;
}

Value
list (Type type, std::vector<Value> items)
{
  return container (List, Stop, type, std::move (items));
}

Value
set (Type type, std::vector<Value> items)
{
  return container (Set, Stop, type, std::move (items));
}

Value
map (Type key, Type value, std::vector<Value> keys_and_values)
{
  return container (Map, key, value, std::move (keys_and_values));
}

Value
structure (std::vector<std::pair<int16_t, Value>> fields)
{
  Value result;
  result.type = Struct;
  result.fields = std::move (fields);
  return result;
}

/* ---- numbers -------------------------------------------------------------------------------- */

std::string
be16 (uint16_t value)
{
  return { static_cast<char> (value >> 8), static_cast<char> (value) };
}

std::string
be32 (uint32_t value)
{
  return be16 (static_cast<uint16_t> (value >> 16)) + be16 (static_cast<uint16_t> (value));
}

std::string
varint (uint64_t value)
{
  std::string bytes;
  for (; value >= 0x80; value >>= 7)
    bytes.push_back (static_cast<char> (value | 0x80));
  bytes.push_back (static_cast<char> (value));
  return bytes;
}

std::string
frame (const std::string &bytes)
{
  return be32 (static_cast<uint32_t> (bytes.size ())) + bytes;
}

/* ---- writing -------------------------------------------------------------------------------- */

/* A reader refuses strings and containers of more than `limit` bytes or elements; 0 = no limit. */
static std::unique_ptr<TProtocol>
make_protocol (Protocol protocol, const std::shared_ptr<TMemoryBuffer> &memory, int limit = 0)
{
  if (protocol == Protocol::Compact)
    return std::make_unique<TCompactProtocol> (memory, limit, limit);
  return std::make_unique<TBinaryProtocol> (memory, limit, limit, true, true);
}

static TType
type_of (Type type)
{
  return static_cast<TType> (type);
}

static void
write (TProtocol *out, const Value &value)
{
  const auto n = static_cast<uint32_t> (value.items.size ());
  switch (value.type)
    {
    case Bool:
      out->writeBool (value.number != 0);
      return;
    case Byte:
      out->writeByte (static_cast<int8_t> (value.number));
      return;
    case I16:
      out->writeI16 (static_cast<int16_t> (value.number));
      return;
    case I32:
      out->writeI32 (static_cast<int32_t> (value.number));
      return;
    case I64:
      out->writeI64 (value.number);
      return;
    case Double:
      out->writeDouble (value.real);
      return;
    case String:
      out->writeBinary (value.text);
      return;
    case Struct:
      out->writeStructBegin ("");
      for (const auto &field : value.fields)
        {
          out->writeFieldBegin ("", type_of (field.second.type), field.first);
          write (out, field.second);
          out->writeFieldEnd ();
        }
      out->writeFieldStop ();
      out->writeStructEnd ();
      return;
    case Map:
      out->writeMapBegin (type_of (value.key_type), type_of (value.value_type), n / 2);
      break;
    case Set:
      out->writeSetBegin (type_of (value.value_type), n);
      break;
    default:
      out->writeListBegin (type_of (value.value_type), n);
    }
  for (const auto &item : value.items)
    write (out, item);
}

std::string
encode_value (Protocol protocol, const Value &value)
{
  auto memory = std::make_shared<TMemoryBuffer> ();
  write (make_protocol (protocol, memory).get (), value);
  return memory->getBufferAsString ();
}

std::string
encode (Protocol protocol, const Message &message)
{
  auto memory = std::make_shared<TMemoryBuffer> ();
  auto out = make_protocol (protocol, memory);
  out->writeMessageBegin (message.name, static_cast<TMessageType> (message.kind), message.seqid);
  write (out.get (), message.body);
  return memory->getBufferAsString ();
}

/* ---- reading -------------------------------------------------------------------------------- */

static Type
check_type (TType type)
{
  for (Type known : { Bool, Byte, Double, I16, I32, I64, String, Struct, Map, Set, List })
    if (type == type_of (known))
      return known;
  throw Malformed ("a type is unknown");
}

template <typename Number>
static int64_t
read_number (TProtocol *in, uint32_t (TProtocol::*read) (Number &))
{
  Number number;
  (in->*read) (number);
  return number;
}

static Value read (TProtocol *in, Type type, int depth);

static Value
read_struct (TProtocol *in, int depth)
{
  Value result = structure ({});
  std::string name;
  int16_t id;
  TType type;
  in->readStructBegin (name);
  while (in->readFieldBegin (name, type, id), type != type_of (Stop))
    {
      if (result.find (id) != nullptr)
        throw Malformed ("a field comes twice");
      result.fields.emplace_back (id, read (in, check_type (type), depth));
      in->readFieldEnd ();
    }
  in->readStructEnd ();
  return result;
}

static Value
read_container (TProtocol *in, Type kind, int depth)
{
  TType key = type_of (Stop);
  TType element = type_of (Stop);
  uint32_t n;
  if (kind == Map)
    in->readMapBegin (key, element, n);
  else if (kind == Set)
    in->readSetBegin (element, n);
  else
    in->readListBegin (element, n);
  Value result = container (kind, Stop, Stop, {});
  if (n > 0 && kind == Map)
    result.key_type = check_type (key);
  if (n > 0)
    result.value_type = check_type (element);
  for (uint32_t i = 0; i < n; i++)
    {
      if (kind == Map)
        result.items.push_back (read (in, result.key_type, depth));
      result.items.push_back (read (in, result.value_type, depth));
    }
  return result;
}

static Value
read (TProtocol *in, Type type, int depth)
{
  if (depth == 64)
    throw Malformed ("nested too deep");
  switch (type)
    {
    case Bool:
      {
        /* The library takes any byte for a boolean. */
        bool is_binary = dynamic_cast<TBinaryProtocol *> (in) != nullptr;
        bool value = false;
        int64_t b = is_binary ? read_number (in, &TProtocol::readByte)
                              : (in->readBool (value), value);
        if (b < 0 || b > 1)
          throw Malformed ("a boolean is neither true nor false");
        return boolean (b == 1);
      }
    case Byte:
      return number (type, read_number (in, &TProtocol::readByte));
    case I16:
      return number (type, read_number (in, &TProtocol::readI16));
    case I32:
      return number (type, read_number (in, &TProtocol::readI32));
    case I64:
      return number (type, read_number (in, &TProtocol::readI64));
    case Double:
      {
        Value result = real (0);
        in->readDouble (result.real);
        return result;
      }
    case String:
      {
        Value result = text ("");
        in->readBinary (result.text);
        return result;
      }
    case Struct:
      return read_struct (in, depth + 1);
    default:
      return read_container (in, type, depth + 1);
    }
}

Message
decode (Protocol protocol, const std::string &bytes, size_t *n_bytes)
{
  auto memory = std::make_shared<TMemoryBuffer> (
      reinterpret_cast<uint8_t *> (const_cast<char *> (bytes.data ())),
      static_cast<uint32_t> (bytes.size ()));
  auto in = make_protocol (protocol, memory, static_cast<int> (bytes.size ()) + 1);
  TMessageType kind;
  Message result;
  try
    {
      in->readMessageBegin (result.name, kind, result.seqid);
      result.kind = static_cast<Kind> (kind);
      if (result.kind < Call || result.kind > Oneway)
        throw Malformed ("no kind of message");
      result.body = read_struct (in.get (), 1);
    }
  catch (const TTransportException &)
    {
      throw Incomplete ("the message is cut short");
    }
  catch (const TProtocolException &failure)
    {
      if (failure.getType () == TProtocolException::SIZE_LIMIT) /* more than there is */
        throw Incomplete ("the message is cut short");
      throw Malformed (failure.what ());
    }
  catch (const apache::thrift::TException &failure) /* an unknown type */
    {
      throw Malformed (failure.what ());
    }
  *n_bytes = bytes.size () - memory->available_read ();
  return result;
}

} // namespace wire
