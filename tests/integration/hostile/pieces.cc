/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/integration/hostile/pieces.h"

using wire::Protocol;
using wire::Value;

namespace hostile {

std::string
name_of (const Form &form, const Victim &victim, const std::string &method)
{
  return form.multiplexed ? victim.service + (":" + method) : method;
}

std::string
name_of (const Form &form, const Victim &victim)
{
  return name_of (form, victim, victim.method);
}

std::string
whole (const Form &form, const std::string &message)
{
  return form.framed ? wire::frame (message) : message;
}

std::string
call (const Form &form, const Victim &victim, const Value &arguments)
{
  return whole (form, head (form, victim) + wire::encode_value (form.protocol, arguments));
}


bool
is_binary (const Form &form)
{
  return form.protocol == Protocol::Binary;
}

std::string
bytes (std::initializer_list<int> values)
{
  std::string result;
  for (int value : values)
    result += static_cast<char> (value);
  return result;
}

std::string
repeat (const std::string &part, size_t n)
{
  std::string result;
  result.reserve (part.size () * n);
  for (size_t i = 0; i < n; i++)
    result += part;
  return result;
}

/* Returns the code of a type in the compact protocol. */
int
compact (wire::Type type)
{
  static const int types[16] = { 0, 0, 1, 3, 7, 0, 4, 0, 5, 0, 6, 8, 12, 11, 10, 9 };
  return types[type];
}

std::string
zigzag (int64_t value)
{
  return wire::varint ((static_cast<uint64_t> (value) << 1) ^ static_cast<uint64_t> (value >> 63));
}

/* Returns the header of a field, with its id in full. */
std::string
field (const Form &form, wire::Type type, int16_t id)
{
  if (is_binary (form))
    return bytes ({ type }) + wire::be16 (static_cast<uint16_t> (id));
  return bytes ({ compact (type) }) + zigzag (id);
}

std::string
length (const Form &form, uint32_t n)
{
  return is_binary (form) ? wire::be32 (n) : wire::varint (n);
}

std::string
list_header (const Form &form, int type, uint32_t n)
{
  if (is_binary (form))
    return bytes ({ type }) + wire::be32 (n);
  return bytes ({ 0xf0 | (type < 16 ? compact (static_cast<wire::Type> (type)) : 15) })
         + wire::varint (n);
}

std::string
map_header (const Form &form, wire::Type key, wire::Type value, uint32_t n)
{
  if (is_binary (form))
    return bytes ({ key, value }) + wire::be32 (n);
  return wire::varint (n) + bytes ({ compact (key) << 4 | compact (value) });
}

/* Returns a call message up to the first field of its arguments. */
std::string
head_named (const Form &form, const std::string &name, int kind)
{
  wire::Message message;
  message.name = name;
  message.kind = static_cast<wire::Kind> (kind);
  message.seqid = 77;
  message.body = wire::structure ({});
  std::string encoded = wire::encode (form.protocol, message);
  encoded.pop_back ();
  return encoded;
}

std::string
head (const Form &form, const Victim &victim)
{
  return head_named (form, name_of (form, victim));
}

/* Returns a whole call. `body` is the content of its arguments struct, including the stop byte. */
std::string
call_with (const Form &form, const Victim &victim, const std::string &body)
{
  return whole (form, head (form, victim) + body);
}

/* Returns a call with the victim's arguments, and `inner` added to the fields of their struct. */
std::string
call_with_struct (const Form &form, const Victim &victim, const std::string &inner)
{
  return call_with (form, victim,
                    field (form, wire::Struct, victim.struct_field) + inner + bytes ({ 0, 0 }));
}

std::string
good_call (const Form &form, const Victim &victim)
{
  return call (form, victim, victim.arguments);
}

std::string
good_named (const Form &form, const Victim &victim, const std::string &name, int kind)
{
  std::string body = wire::encode_value (form.protocol, victim.arguments);
  return whole (form, head_named (form, name, kind) + body);
}

/* Returns a call with an unknown field, whose value is the raw bytes `value`. */
std::string
unknown (const Form &form, const Victim &victim, wire::Type type, const std::string &value)
{
  return call_with (form, victim, field (form, type, kUnknownField) + value + bytes ({ 0 }));
}
} // namespace hostile
