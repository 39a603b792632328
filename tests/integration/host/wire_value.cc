/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/integration/host/wire_value.h"

#include <cstring>

namespace wire {

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

/* ---- writing -------------------------------------------------------------------------------- */

static std::string
big_endian (uint64_t value, int n_bytes)
{
  std::string bytes;
  for (int i = n_bytes - 1; i >= 0; i--)
    bytes.push_back (static_cast<char> (value >> (8 * i)));
  return bytes;
}

std::string
be16 (uint16_t value)
{
  return big_endian (value, 2);
}

std::string
be32 (uint32_t value)
{
  return big_endian (value, 4);
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

static std::string
zigzag (int64_t value)
{
  return varint ((static_cast<uint64_t> (value) << 1) ^ static_cast<uint64_t> (value >> 63));
}

static uint64_t
bits_of (double value)
{
  uint64_t bits;
  memcpy (&bits, &value, sizeof bits);
  return bits;
}

static std::string
encode_binary (const Value &value)
{
  std::string bytes;
  switch (value.type)
    {
    case Bool:
    case Byte:
      return big_endian (static_cast<uint64_t> (value.number), 1);
    case I16:
      return big_endian (static_cast<uint64_t> (value.number), 2);
    case I32:
      return big_endian (static_cast<uint64_t> (value.number), 4);
    case I64:
      return big_endian (static_cast<uint64_t> (value.number), 8);
    case Double:
      return big_endian (bits_of (value.real), 8);
    case String:
      return be32 (static_cast<uint32_t> (value.text.size ())) + value.text;
    case Struct:
      for (const auto &field : value.fields)
        bytes += static_cast<char> (field.second.type) + be16 (static_cast<uint16_t> (field.first))
                 + encode_binary (field.second);
      return bytes + '\0';
    case Map:
      bytes += static_cast<char> (value.key_type);
      bytes += static_cast<char> (value.value_type);
      bytes += be32 (static_cast<uint32_t> (value.items.size () / 2));
      break;
    default:
      bytes += static_cast<char> (value.value_type);
      bytes += be32 (static_cast<uint32_t> (value.items.size ()));
    }
  for (const auto &item : value.items)
    bytes += encode_binary (item);
  return bytes;
}

static int
compact_type (Type type)
{
  switch (type)
    {
    case Bool:
      return 1;
    case Byte:
      return 3;
    case I16:
      return 4;
    case I32:
      return 5;
    case I64:
      return 6;
    case Double:
      return 7;
    case String:
      return 8;
    case List:
      return 9;
    case Set:
      return 10;
    case Map:
      return 11;
    case Struct:
      return 12;
    default:
      return 0;
    }
}

static std::string encode_compact (const Value &value);

static std::string
encode_compact_struct (const Value &value)
{
  std::string bytes;
  int last = 0;
  for (const auto &field : value.fields)
    {
      int type = compact_type (field.second.type);
      int delta = field.first - last;
      if (field.second.type == Bool)
        type = field.second.number ? 1 : 2;
      if (delta > 0 && delta <= 15)
        bytes += static_cast<char> (delta << 4 | type);
      else
        bytes += static_cast<char> (type) + zigzag (field.first);
      if (field.second.type != Bool)
        bytes += encode_compact (field.second);
      last = field.first;
    }
  return bytes + '\0';
}

static std::string
encode_compact (const Value &value)
{
  std::string bytes;
  size_t n = value.items.size ();
  switch (value.type)
    {
    case Bool:
      return std::string (1, value.number ? 1 : 2);
    case Byte:
      return std::string (1, static_cast<char> (value.number));
    case I16:
    case I32:
    case I64:
      return zigzag (value.number);
    case Double:
      bytes = big_endian (bits_of (value.real), 8);
      return std::string (bytes.rbegin (), bytes.rend ());
    case String:
      return varint (value.text.size ()) + value.text;
    case Struct:
      return encode_compact_struct (value);
    case Map:
      bytes += varint (n / 2);
      if (n > 0)
        bytes += static_cast<char> (compact_type (value.key_type) << 4
                                    | compact_type (value.value_type));
      break;
    default:
      if (n < 15)
        bytes += static_cast<char> (n << 4 | static_cast<size_t> (compact_type (value.value_type)));
      else
        bytes += static_cast<char> (0xf0 | compact_type (value.value_type)) + varint (n);
    }
  for (const auto &item : value.items)
    bytes += encode_compact (item);
  return bytes;
}

std::string
encode_value (Protocol protocol, const Value &value)
{
  return protocol == Protocol::Binary ? encode_binary (value) : encode_compact (value);
}

std::string
encode (Protocol protocol, const Message &message)
{
  std::string bytes;
  if (protocol == Protocol::Binary)
    bytes = be32 (0x80010000u | static_cast<uint32_t> (message.kind))
            + be32 (static_cast<uint32_t> (message.name.size ())) + message.name
            + be32 (static_cast<uint32_t> (message.seqid));
  else
    bytes = std::string ("\x82") + static_cast<char> (1 | message.kind << 5)
            + varint (static_cast<uint32_t> (message.seqid)) + varint (message.name.size ())
            + message.name;
  return bytes + encode_value (protocol, message.body);
}

std::string
frame (const std::string &bytes)
{
  return be32 (static_cast<uint32_t> (bytes.size ())) + bytes;
}

/* ---- reading -------------------------------------------------------------------------------- */

namespace {

class Decoder
{
public:
  Decoder (Protocol protocol, const std::string &bytes) : protocol_ (protocol), bytes_ (bytes)
  {
  }

  Message message ();

  size_t
  position () const
  {
    return position_;
  }

private:
  std::string
  take (uint64_t n)
  {
    if (n > bytes_.size () - position_)
      throw Incomplete ("the message is cut short");
    std::string part = bytes_.substr (position_, n);
    position_ += n;
    return part;
  }

  uint64_t
  unsigned_number (int n_bytes)
  {
    uint64_t value = 0;
    for (char c : take (static_cast<uint64_t> (n_bytes)))
      value = value << 8 | static_cast<uint8_t> (c);
    return value;
  }

  uint64_t
  read_varint (int n_bits)
  {
    uint64_t value = 0;
    for (int shift = 0; shift < n_bits; shift += 7)
      {
        uint64_t b = unsigned_number (1);
        value |= (b & 0x7f) << shift;
        if (b < 0x80)
          return value;
      }
    throw Malformed ("a varint is too long");
  }

  int64_t
  read_zigzag (int n_bits)
  {
    uint64_t value = read_varint (n_bits);
    return static_cast<int64_t> (value >> 1) ^ -static_cast<int64_t> (value & 1);
  }

  uint64_t
  size ()
  {
    uint64_t n = protocol_ == Protocol::Binary ? unsigned_number (4) : read_varint (32);
    if (n > 0x7fffffff)
      throw Malformed ("a size is negative");
    return n;
  }

  std::string
  string ()
  {
    return take (size ());
  }

  static Type
  check_type (uint64_t type)
  {
    switch (type)
      {
      case Bool:
      case Byte:
      case Double:
      case I16:
      case I32:
      case I64:
      case String:
      case Struct:
      case Map:
      case Set:
      case List:
        return static_cast<Type> (type);
      default:
        throw Malformed ("a type is unknown");
      }
  }

  static Type
  from_compact (uint64_t type)
  {
    static const Type types[] = { Stop,   Bool,   Bool, Byte, I16, I32,   I64,
                                  Double, String, List, Set,  Map, Struct };
    if (type == 0 || type >= sizeof types / sizeof types[0])
      throw Malformed ("a compact type is unknown");
    return types[type];
  }

  Value value (Type type);
  Value structure_value ();
  Value container_value (Type kind);
  bool field_header (int16_t last, int16_t *id, Type *type, bool *is_bool, bool *bool_value);

  Protocol protocol_;
  const std::string &bytes_;
  size_t position_ = 0;
  int depth_ = 0;
};

bool
Decoder::field_header (int16_t last, int16_t *id, Type *type, bool *is_bool, bool *bool_value)
{
  uint64_t header = unsigned_number (1);
  *is_bool = false;
  if (header == 0)
    return false;
  if (protocol_ == Protocol::Binary)
    {
      *type = check_type (header);
      *id = static_cast<int16_t> (unsigned_number (2));
      return true;
    }
  *type = from_compact (header & 0xf);
  *id = header >> 4 ? static_cast<int16_t> (last + static_cast<int16_t> (header >> 4))
                    : static_cast<int16_t> (read_zigzag (32));
  *is_bool = *type == Bool;
  *bool_value = (header & 0xf) == 1;
  return true;
}

Value
Decoder::structure_value ()
{
  Value result = structure ({});
  int16_t last = 0;
  int16_t id;
  Type type;
  bool is_bool;
  bool bool_value;
  while (field_header (last, &id, &type, &is_bool, &bool_value))
    {
      if (result.find (id) != nullptr)
        throw Malformed ("a field comes twice");
      result.fields.emplace_back (id, is_bool ? boolean (bool_value) : value (type));
      last = id;
    }
  return result;
}

Value
Decoder::container_value (Type kind)
{
  Value result;
  uint64_t n;
  result.type = kind;
  if (protocol_ == Protocol::Binary)
    {
      uint64_t key = kind == Map ? unsigned_number (1) : 0;
      uint64_t element = unsigned_number (1);
      n = size ();
      if (kind == Map && n > 0)
        result.key_type = check_type (key);
      if (n > 0)
        result.value_type = check_type (element);
    }
  else if (kind == Map)
    {
      n = size ();
      uint64_t types = n > 0 ? unsigned_number (1) : 0;
      if (n > 0)
        {
          result.key_type = from_compact (types >> 4);
          result.value_type = from_compact (types & 0xf);
        }
    }
  else
    {
      uint64_t header = unsigned_number (1);
      n = header >> 4 == 15 ? size () : header >> 4;
      if (n > 0)
        result.value_type = from_compact (header & 0xf);
    }
  for (uint64_t i = 0; i < n; i++)
    {
      if (kind == Map)
        result.items.push_back (value (result.key_type));
      result.items.push_back (value (result.value_type));
    }
  return result;
}

Value
Decoder::value (Type type)
{
  bool compact = protocol_ == Protocol::Compact;
  if (++depth_ > 64)
    throw Malformed ("nested too deep");
  Value result;
  switch (type)
    {
    case Bool:
      {
        uint64_t b = unsigned_number (1);
        if (compact ? b < 1 || b > 2 : b > 1)
          throw Malformed ("a boolean is neither true nor false");
        result = boolean (b == 1);
        break;
      }
    case Byte:
      result = byte (static_cast<int8_t> (unsigned_number (1)));
      break;
    case I16:
      result = i16 (static_cast<int16_t> (compact ? read_zigzag (32)
                                                  : static_cast<int64_t> (unsigned_number (2))));
      break;
    case I32:
      result = i32 (static_cast<int32_t> (compact ? read_zigzag (32)
                                                  : static_cast<int64_t> (unsigned_number (4))));
      break;
    case I64:
      result = i64 (compact ? read_zigzag (64) : static_cast<int64_t> (unsigned_number (8)));
      break;
    case Double:
      {
        std::string b = take (8);
        uint64_t bits = 0;
        for (int i = 0; i < 8; i++)
          bits = bits << 8 | static_cast<uint8_t> (compact ? b[7 - i] : b[i]);
        double d;
        memcpy (&d, &bits, sizeof d);
        result = real (d);
        break;
      }
    case String:
      result = text (string ());
      break;
    case Struct:
      result = structure_value ();
      break;
    default:
      result = container_value (type);
    }
  depth_--;
  return result;
}

Message
Decoder::message ()
{
  Message result;
  if (protocol_ == Protocol::Binary)
    {
      uint64_t header = unsigned_number (4);
      if ((header & 0xffffff00u) != 0x80010000u)
        throw Malformed ("no version");
      result.kind = static_cast<Kind> (header & 0xff);
      result.name = string ();
      result.seqid = static_cast<int32_t> (unsigned_number (4));
    }
  else
    {
      if (unsigned_number (1) != 0x82)
        throw Malformed ("no protocol id");
      uint64_t header = unsigned_number (1);
      if ((header & 0x1f) != 1)
        throw Malformed ("no version");
      result.kind = static_cast<Kind> (header >> 5);
      result.seqid = static_cast<int32_t> (read_varint (32));
      result.name = string ();
    }
  if (result.kind < Call || result.kind > Oneway)
    throw Malformed ("no kind of message");
  result.body = structure_value ();
  return result;
}

} // namespace

Message
decode (Protocol protocol, const std::string &bytes, size_t *n_bytes)
{
  Decoder decoder (protocol, bytes);
  Message message = decoder.message ();
  *n_bytes = decoder.position ();
  return message;
}

} // namespace wire
