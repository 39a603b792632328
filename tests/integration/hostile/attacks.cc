/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/integration/hostile/attacks.h"

#include <utility>

using wire::Protocol;
using wire::Value;

namespace hostile {

namespace {

const int16_t kUnknownField = 100;

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

/* Types of the compact protocol. */
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

/* A field's header with its id in full. */
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

/* A call's message up to its arguments' first field. */
std::string
head_named (const Form &form, const std::string &name, int kind = wire::Call)
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

/* A whole call whose arguments are `body` (fields and stop). */
std::string
call_with (const Form &form, const Victim &victim, const std::string &body)
{
  return whole (form, head (form, victim) + body);
}

/* The victim's arguments with `inner` added to the fields of their struct. */
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
good_named (const Form &form, const Victim &victim, const std::string &name, int kind = wire::Call)
{
  std::string body = wire::encode_value (form.protocol, victim.arguments);
  return whole (form, head_named (form, name, kind) + body);
}

/* A message with one value of raw bytes as an unknown field. */
std::string
unknown (const Form &form, const Victim &victim, wire::Type type, const std::string &value)
{
  return call_with (form, victim, field (form, type, kUnknownField) + value + bytes ({ 0 }));
}

/* ---- frames --------------------------------------------------------------------------------- */

std::string
zero_length_frame (const Form &, const Victim &)
{
  return wire::be32 (0);
}

std::string
frame_length_all_ones (const Form &, const Victim &)
{
  /* Unframed it is a message that begins with 0xff. */
  return wire::be32 (0xffffffff) + std::string (64, 'x');
}

std::string
frame_length_2_gib (const Form &, const Victim &)
{
  return wire::be32 (0x7fffffff) + std::string (64, 'x');
}

std::string
frame_length_above_limit (const Form &, const Victim &)
{
  return wire::be32 ((256u << 20) + 1) + std::string (64, 'x');
}

std::string
frame_longer_than_message (const Form &form, const Victim &victim)
{
  std::string message = head (form, victim) + wire::encode_value (form.protocol, victim.arguments);
  return wire::frame (message + "more");
}

std::string
frame_shorter_than_message (const Form &form, const Victim &victim)
{
  std::string message = head (form, victim) + wire::encode_value (form.protocol, victim.arguments);
  return wire::be32 (static_cast<uint32_t> (message.size () - 3)) + message;
}

std::string
field_split_over_two_frames (const Form &form, const Victim &victim)
{
  std::string message = head (form, victim) + wire::encode_value (form.protocol, victim.arguments);
  size_t half = message.size () - 6;
  return wire::frame (message.substr (0, half)) + wire::frame (message.substr (half));
}

std::string
message_split_in_its_header (const Form &form, const Victim &victim)
{
  std::string message = head (form, victim) + wire::encode_value (form.protocol, victim.arguments);
  return wire::frame (message.substr (0, 3)) + wire::frame (message.substr (3));
}

std::string
one_byte_frames (const Form &form, const Victim &victim)
{
  std::string message = head (form, victim) + wire::encode_value (form.protocol, victim.arguments);
  std::string result;
  for (char c : message)
    result += wire::frame (std::string (1, c));
  return result;
}

std::string
two_messages_in_one_frame (const Form &form, const Victim &victim)
{
  std::string message = head (form, victim) + wire::encode_value (form.protocol, victim.arguments);
  return wire::frame (message + message);
}

std::string
frame_in_a_frame (const Form &form, const Victim &victim)
{
  std::string message = head (form, victim) + wire::encode_value (form.protocol, victim.arguments);
  return wire::frame (wire::frame (message));
}

/* ---- what ends too early -------------------------------------------------------------------- */

std::string
truncated_in_the_name (const Form &form, const Victim &victim)
{
  return good_call (form, victim).substr (0, form.framed ? 13 : 9);
}

std::string
truncated_in_the_middle (const Form &form, const Victim &victim)
{
  std::string message = good_call (form, victim);
  return message.substr (0, message.size () / 2);
}

std::string
truncated_by_one_byte (const Form &form, const Victim &victim)
{
  std::string message = good_call (form, victim);
  return message.substr (0, message.size () - 1);
}

std::string
stalled_in_the_first_bytes (const Form &form, const Victim &victim)
{
  return good_call (form, victim).substr (0, 3);
}

/* 16 MB are announced; a little of it comes. */
std::string
stalled_in_16_mb (const Form &form, const Victim &victim)
{
  std::string message = head (form, victim) + field (form, wire::String, kUnknownField)
                        + length (form, 16000000) + std::string (1000, 'x');
  return (form.framed ? wire::be32 (16000100) : std::string ()) + message;
}

/* ---- the message's header ------------------------------------------------------------------- */

std::string
http_request (const Form &form, const Victim &)
{
  std::string text = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  return form.framed ? wire::frame (text) : text;
}

std::string
no_version (const Form &form, const Victim &victim)
{
  /* name, type, sequence id, as binary protocol was before it had a version */
  std::string name = name_of (form, victim);
  return whole (form, wire::be32 (static_cast<uint32_t> (name.size ())) + name + bytes ({ 1 })
                          + wire::be32 (1) + bytes ({ 0 }));
}

std::string
unknown_version (const Form &form, const Victim &victim)
{
  std::string message = head (form, victim) + bytes ({ 0 });
  message[1] = is_binary (form) ? 9 : static_cast<char> (0x27);
  return whole (form, message);
}

std::string
kind_zero (const Form &form, const Victim &victim)
{
  return good_named (form, victim, name_of (form, victim), 0);
}

std::string
kind_seven (const Form &form, const Victim &victim)
{
  return good_named (form, victim, name_of (form, victim), 7);
}

std::string
kind_reply (const Form &form, const Victim &victim)
{
  return good_named (form, victim, name_of (form, victim), wire::Reply);
}

std::string
kind_exception (const Form &form, const Victim &victim)
{
  return good_named (form, victim, name_of (form, victim), wire::Exception);
}

std::string
empty_name (const Form &form, const Victim &victim)
{
  return good_named (form, victim, "");
}

std::string
colon_as_name (const Form &form, const Victim &victim)
{
  return good_named (form, victim, ":");
}

std::string
service_without_method (const Form &form, const Victim &victim)
{
  return good_named (form, victim, victim.service);
}

std::string
service_and_colon (const Form &form, const Victim &victim)
{
  return good_named (form, victim, std::string (victim.service) + ":");
}

std::string
two_colons (const Form &form, const Victim &victim)
{
  return good_named (form, victim, std::string (victim.service) + ":" + victim.method + ":x");
}

std::string
unknown_service (const Form &form, const Victim &victim)
{
  return good_named (form, victim, std::string ("NoSuch:") + victim.method);
}

std::string
unknown_method (const Form &form, const Victim &victim)
{
  return good_named (form, victim, name_of (form, victim, "no_such_method"));
}

std::string
name_of_format_specifiers (const Form &form, const Victim &victim)
{
  return good_named (form, victim, "%s%n%s%n%1000000d");
}

std::string
name_of_600_bytes (const Form &form, const Victim &victim)
{
  return good_named (form, victim, std::string (600, 'a'));
}

std::string
name_claims_2_gib (const Form &form, const Victim &)
{
  std::string start = is_binary (form) ? wire::be32 (0x80010001) : bytes ({ 0x82, 0x21, 0x01 });
  return whole (form, start + length (form, 0x7fffffff) + "abc");
}

std::string
name_of_negative_length (const Form &form, const Victim &)
{
  std::string start = is_binary (form) ? wire::be32 (0x80010001) : bytes ({ 0x82, 0x21, 0x01 });
  return whole (form, start + length (form, 0xffffffff) + "abc");
}

std::string
name_with_nul (const Form &form, const Victim &victim)
{
  return good_named (form, victim, std::string ("echo\0echo", 9));
}

std::string
name_not_utf8 (const Form &form, const Victim &victim)
{
  return good_named (form, victim, "\xff\xfe\x80");
}

/* ---- lengths -------------------------------------------------------------------------------- */

std::string
unknown_string_negative (const Form &form, const Victim &victim)
{
  return unknown (form, victim, wire::String, length (form, 0xffffffff) + "abc");
}

std::string
unknown_string_most_negative (const Form &form, const Victim &victim)
{
  return unknown (form, victim, wire::String, length (form, 0x80000000) + "abc");
}

std::string
known_binary_negative (const Form &form, const Victim &victim)
{
  return call_with_struct (
      form, victim, field (form, wire::String, victim.binary_field) + length (form, 0xffffffff));
}

std::string
known_binary_2_gib (const Form &form, const Victim &victim)
{
  return call_with_struct (form, victim,
                           field (form, wire::String, victim.binary_field)
                               + length (form, 0x7fffffff) + "abc");
}

std::string
unknown_string_2_gib (const Form &form, const Victim &victim)
{
  return unknown (form, victim, wire::String, length (form, 0x7fffffff) + "abc");
}

std::string
unknown_string_one_too_long (const Form &form, const Victim &victim)
{
  /* Ends with its frame, or with the connection. */
  return call_with (form, victim,
                    field (form, wire::String, kUnknownField) + length (form, 5) + "abcd");
}

std::string
list_of_2_to_31 (const Form &form, const Victim &victim)
{
  return unknown (form, victim, wire::List,
                  list_header (form, wire::I64, 0x7fffffff) + std::string (64, '\1'));
}

std::string
list_of_2_to_31_bytes (const Form &form, const Victim &victim)
{
  return unknown (form, victim, wire::List,
                  list_header (form, wire::Byte, 0x7fffffff) + std::string (64, '\1'));
}

std::string
list_of_2_to_31_structs (const Form &form, const Victim &victim)
{
  return unknown (form, victim, wire::List,
                  list_header (form, wire::Struct, 0x7fffffff) + std::string (64, '\0'));
}

std::string
known_list_of_2_to_31 (const Form &form, const Victim &victim)
{
  return call_with_struct (form, victim,
                           field (form, wire::List, victim.list_field)
                               + list_header (form, wire::Double, 0x7fffffff));
}

std::string
list_of_negative_size (const Form &form, const Victim &victim)
{
  return unknown (form, victim, wire::List,
                  list_header (form, wire::I64, 0xffffffff) + std::string (64, '\1'));
}

std::string
set_of_2_to_31 (const Form &form, const Victim &victim)
{
  return unknown (form, victim, wire::Set,
                  list_header (form, wire::I32, 0x7fffffff) + std::string (64, '\1'));
}

std::string
map_of_2_to_31 (const Form &form, const Victim &victim)
{
  return unknown (form, victim, wire::Map,
                  map_header (form, wire::I32, wire::Byte, 0x7fffffff) + std::string (64, '\1'));
}

std::string
map_of_negative_size (const Form &form, const Victim &victim)
{
  return unknown (form, victim, wire::Map,
                  map_header (form, wire::I32, wire::Byte, 0x80000001) + std::string (64, '\1'));
}

/* ---- types ---------------------------------------------------------------------------------- */

std::string
list_of_unknown_type (const Form &form, const Victim &victim)
{
  return unknown (form, victim, wire::List, list_header (form, 99, 8) + std::string (64, '\1'));
}

std::string
list_of_type_stop (const Form &form, const Victim &victim)
{
  return unknown (form, victim, wire::List,
                  list_header (form, wire::Stop, 100) + std::string (64, '\1'));
}

std::string
field_of_unknown_type (const Form &form, const Victim &victim)
{
  return call_with (form, victim,
                    (is_binary (form) ? bytes ({ 99, 0, 1 }) : bytes ({ 0x1e }))
                        + std::string (16, '\1'));
}

std::string
field_of_type_void (const Form &form, const Victim &victim)
{
  return call_with (form, victim,
                    (is_binary (form) ? bytes ({ 1, 0, 1 }) : bytes ({ 0x1f }))
                        + std::string (16, '\1'));
}

std::string
every_argument_of_another_type (const Form &form, const Victim &victim)
{
  Value arguments = wire::structure ({});
  for (int16_t id = 1; id <= 8; id++)
    arguments.fields.emplace_back (id, wire::set (wire::Byte, { wire::byte (1) }));
  return call (form, victim, arguments);
}

std::string
every_member_of_another_type (const Form &form, const Victim &victim)
{
  Value members = wire::structure ({});
  for (int16_t id = 1; id <= 8; id++)
    members.fields.emplace_back (id, wire::set (wire::Byte, { wire::byte (1) }));
  return call (form, victim, wire::structure ({ { victim.struct_field, members } }));
}

std::string
no_arguments (const Form &form, const Victim &victim)
{
  return call (form, victim, wire::structure ({}));
}

Value
with_list (const Victim &victim, Value elements)
{
  Value arguments = victim.arguments;
  for (auto &argument : arguments.fields)
    if (argument.first == victim.struct_field)
      {
        Value members = wire::structure ({});
        for (const auto &member : argument.second.fields)
          if (member.first != victim.list_field)
            members.fields.push_back (member);
        members.fields.emplace_back (victim.list_field, std::move (elements));
        argument.second = members;
      }
  return arguments;
}

std::string
list_elements_too_small (const Form &form, const Victim &victim)
{
  return call (
      form, victim,
      with_list (victim, wire::list (wire::Byte, std::vector<Value> (16, wire::byte (1)))));
}

std::string
list_elements_of_strings (const Form &form, const Victim &victim)
{
  return call (
      form, victim,
      with_list (victim, wire::list (wire::String, std::vector<Value> (16, wire::text ("x")))));
}

std::string
list_elements_of_structs (const Form &form, const Victim &victim)
{
  return call (
      form, victim,
      with_list (victim, wire::list (wire::Struct, std::vector<Value> (16, wire::structure ({})))));
}

/* ---- nesting -------------------------------------------------------------------------------- */

std::string
nested_structs (const Form &form, const Victim &victim, size_t depth)
{
  std::string open = field (form, wire::Struct, 1);
  return call_with (form, victim,
                    field (form, wire::Struct, kUnknownField) + repeat (open, depth)
                        + std::string (depth + 2, '\0'));
}

std::string
structs_100000_deep (const Form &form, const Victim &victim)
{
  return nested_structs (form, victim, 100000);
}

std::string
structs_33_deep (const Form &form, const Victim &victim)
{
  return nested_structs (form, victim, 33);
}

std::string
structs_20_deep (const Form &form, const Victim &victim)
{
  return nested_structs (form, victim, 20);
}

std::string
lists_1000000_deep (const Form &form, const Victim &victim)
{
  std::string open = is_binary (form) ? list_header (form, wire::List, 1) : bytes ({ 0x19 });
  return unknown (form, victim, wire::List,
                  repeat (open, 1000000) + list_header (form, wire::Byte, 0));
}

std::string
maps_100000_deep (const Form &form, const Victim &victim)
{
  std::string open = map_header (form, wire::Byte, wire::Map, 1) + bytes ({ 1 });
  return unknown (form, victim, wire::Map,
                  repeat (open, 100000) + map_header (form, wire::Byte, wire::Byte, 0));
}

std::string
known_struct_in_itself_100000_deep (const Form &form, const Victim &victim)
{
  std::string open = field (form, wire::Struct, victim.struct_field);
  return call_with (form, victim, repeat (open, 100000) + std::string (100001, '\0'));
}

/* ---- fields twice --------------------------------------------------------------------------- */

std::string
argument_twice (const Form &form, const Victim &victim)
{
  Value arguments = victim.arguments;
  arguments.fields.push_back (arguments.fields[0]);
  return call (form, victim, arguments);
}

std::string
binary_twice (const Form &form, const Victim &victim)
{
  Value members = wire::structure (
      { { victim.binary_field, wire::text ("one") }, { victim.binary_field, wire::text ("two") } });
  return call (form, victim, wire::structure ({ { victim.struct_field, members } }));
}

std::string
large_binary_twice (const Form &form, const Victim &victim)
{
  Value members = wire::structure (
      { { victim.binary_field, wire::text (std::string (100000, 'a')) },
        { victim.binary_field, wire::text (std::string (100000, 'b')) } });
  return call (form, victim, wire::structure ({ { victim.struct_field, members } }));
}

std::string
list_twice (const Form &form, const Victim &victim)
{
  Value doubles = wire::list (wire::Double, { wire::real (1) });
  Value members = wire::structure (
      { { victim.list_field, doubles }, { victim.list_field, doubles } });
  return call (form, victim, wire::structure ({ { victim.struct_field, members } }));
}

std::string
unknown_field_twice (const Form &form, const Victim &victim)
{
  Value arguments = victim.arguments;
  arguments.fields.emplace_back (kUnknownField, wire::i32 (1));
  arguments.fields.emplace_back (kUnknownField, wire::i32 (1));
  return call (form, victim, arguments);
}

std::string
negative_field_twice (const Form &form, const Victim &victim)
{
  Value arguments = victim.arguments;
  arguments.fields.emplace_back (-5, wire::i32 (1));
  arguments.fields.emplace_back (-5, wire::i32 (1));
  return call (form, victim, arguments);
}

std::string
ten_thousand_fields (const Form &form, const Victim &victim)
{
  Value arguments = wire::structure ({});
  for (int i = 0; i < 10000; i++)
    arguments.fields.emplace_back (static_cast<int16_t> (i * 3 + 1000), wire::byte (1));
  return call (form, victim, arguments);
}

/* ---- much work ------------------------------------------------------------------------------ */

std::string
unknown_list_of_a_mebibyte (const Form &form, const Victim &victim)
{
  Value arguments = victim.arguments;
  arguments.fields.emplace_back (
      kUnknownField, wire::list (wire::Byte, std::vector<Value> (1 << 20, wire::byte (7))));
  return call (form, victim, arguments);
}

std::string
unknown_list_of_a_million_structs (const Form &form, const Victim &victim)
{
  return unknown (form, victim, wire::List,
                  list_header (form, wire::Struct, 1000000) + std::string (1000000, '\0'));
}

std::string
unknown_map_of_many (const Form &form, const Victim &victim)
{
  std::string value = map_header (form, wire::Byte, wire::Byte, 300000)
                      + std::string (600000, '\1');
  return unknown (form, victim, wire::Map, value);
}

std::string
known_struct_of_many_fields_in_lists (const Form &form, const Victim &victim)
{
  std::string one = list_header (form, wire::Byte, 0);
  return unknown (form, victim, wire::List,
                  list_header (form, wire::List, 500000) + repeat (one, 500000));
}

/* ---- what only compact protocol has --------------------------------------------------------- */

std::string
varint_without_end (const Form &form, const Victim &victim)
{
  return unknown (form, victim, wire::I64, std::string (64, '\xff'));
}

std::string
length_varint_without_end (const Form &form, const Victim &victim)
{
  return unknown (form, victim, wire::String, std::string (64, '\xff'));
}

std::string
boolean_of_seven (const Form &form, const Victim &victim)
{
  return unknown (form, victim, wire::List,
                  list_header (form, wire::Bool, 3) + bytes ({ 1, 7, 0xff }));
}

std::string
field_id_overflow (const Form &form, const Victim &victim)
{
  /* 32767, then 15 more */
  return call_with (form, victim, field (form, wire::Byte, 32767) + bytes ({ 1, 0xf3, 1, 0 }));
}

std::string
field_id_beyond_16_bits (const Form &form, const Victim &victim)
{
  return call_with (form, victim, bytes ({ 3 }) + zigzag (1 << 20) + bytes ({ 1, 0 }));
}

} // namespace

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

const std::vector<Attack> &
attacks ()
{
  const Outcome refused = Outcome::Refused;
  const Outcome answered = Outcome::Answered;
  const Outcome either = Outcome::Either;
  const Outcome stalls = Outcome::Stalls;
  static const std::vector<Attack> all = [=] {
    std::vector<Attack> table;
    auto add = [&table] (const char *name, Outcome outcome, auto bytes_of) -> Attack & {
      table.push_back ({ name, outcome, bytes_of });
      return table.back ();
    };

    add ("ZeroLengthFrame", refused, zero_length_frame).framed_only = true;
    add ("FrameLengthAllOnes", refused, frame_length_all_ones);
    add ("FrameLength2GiB", refused, frame_length_2_gib).framed_only = true;
    add ("FrameLengthAboveLimit", refused, frame_length_above_limit).framed_only = true;
    add ("FrameLongerThanMessage", refused, frame_longer_than_message).framed_only = true;
    table.back ().needs_our_transport = true;
    add ("FrameShorterThanMessage", refused, frame_shorter_than_message).framed_only = true;
    add ("FieldSplitOverTwoFrames", refused, field_split_over_two_frames).framed_only = true;
    table.back ().needs_our_transport = true;
    add ("MessageSplitInItsHeader", refused, message_split_in_its_header).framed_only = true;
    table.back ().needs_our_transport = true;
    add ("OneByteFrames", refused, one_byte_frames).framed_only = true;
    table.back ().needs_our_transport = true;
    add ("TwoMessagesInOneFrame", refused, two_messages_in_one_frame).framed_only = true;
    table.back ().needs_our_transport = true;
    add ("FrameInAFrame", refused, frame_in_a_frame).framed_only = true;

    add ("TruncatedInTheName", refused, truncated_in_the_name);
    add ("TruncatedInTheMiddle", refused, truncated_in_the_middle);
    add ("TruncatedByOneByte", refused, truncated_by_one_byte);
    add ("StalledInTheFirstBytes", stalls, stalled_in_the_first_bytes);
    add ("StalledIn16MB", stalls, stalled_in_16_mb);

    add ("HttpRequest", refused, http_request);
    add ("NoVersion", refused, no_version).binary_only = true;
    add ("UnknownVersion", refused, unknown_version);
    add ("KindZero", refused, kind_zero);
    add ("KindSeven", refused, kind_seven);
    add ("KindReply", refused, kind_reply);
    add ("KindException", refused, kind_exception);
    add ("EmptyName", refused, empty_name);
    add ("ColonAsName", refused, colon_as_name);
    add ("ServiceWithoutMethod", answered, service_without_method);
    add ("ServiceAndColon", answered, service_and_colon);
    add ("TwoColons", answered, two_colons);
    add ("UnknownService", answered, unknown_service);
    add ("UnknownMethod", answered, unknown_method);
    add ("NameOfFormatSpecifiers", answered, name_of_format_specifiers);
    add ("NameOf600Bytes", refused, name_of_600_bytes);
    add ("NameClaims2GiB", refused, name_claims_2_gib);
    add ("NameOfNegativeLength", refused, name_of_negative_length);
    add ("NameWithNul", refused, name_with_nul).needs_our_transport = true;
    add ("NameNotUtf8", refused, name_not_utf8);

    add ("UnknownStringNegative", refused, unknown_string_negative);
    add ("UnknownStringMostNegative", refused, unknown_string_most_negative);
    add ("KnownBinaryNegative", refused, known_binary_negative).needs_members = true;
    add ("KnownBinary2GiB", refused, known_binary_2_gib).needs_members = true;
    add ("UnknownString2GiB", refused, unknown_string_2_gib);
    add ("UnknownStringOneTooLong", refused, unknown_string_one_too_long);
    add ("ListOf2To31", refused, list_of_2_to_31);
    add ("ListOf2To31Bytes", refused, list_of_2_to_31_bytes);
    add ("ListOf2To31Structs", refused, list_of_2_to_31_structs);
    add ("KnownListOf2To31", refused, known_list_of_2_to_31).needs_members = true;
    add ("ListOfNegativeSize", refused, list_of_negative_size);
    add ("SetOf2To31", refused, set_of_2_to_31);
    add ("MapOf2To31", refused, map_of_2_to_31);
    add ("MapOfNegativeSize", refused, map_of_negative_size);

    add ("ListOfUnknownType", refused, list_of_unknown_type);
    add ("ListOfTypeStop", refused, list_of_type_stop);
    add ("FieldOfUnknownType", refused, field_of_unknown_type);
    add ("FieldOfTypeVoid", refused, field_of_type_void);
    add ("EveryArgumentOfAnotherType", either, every_argument_of_another_type);
    add ("EveryMemberOfAnotherType", either, every_member_of_another_type);
    add ("NoArguments", either, no_arguments);
    add ("ListElementsTooSmall", refused, list_elements_too_small).needs_members = true;
    add ("ListElementsOfStrings", refused, list_elements_of_strings).needs_members = true;
    add ("ListElementsOfStructs", refused, list_elements_of_structs).needs_members = true;

    add ("Structs100000Deep", refused, structs_100000_deep);
    add ("Structs33Deep", refused, structs_33_deep);
    add ("Structs20Deep", either, structs_20_deep);
    add ("Lists1000000Deep", refused, lists_1000000_deep);
    add ("Maps100000Deep", refused, maps_100000_deep);
    add ("KnownStructInItself100000Deep", refused, known_struct_in_itself_100000_deep);

    add ("ArgumentTwice", refused, argument_twice);
    add ("BinaryTwice", refused, binary_twice).needs_members = true;
    add ("LargeBinaryTwice", refused, large_binary_twice).needs_members = true;
    add ("ListTwice", refused, list_twice).needs_members = true;
    add ("UnknownFieldTwice", refused, unknown_field_twice);
    add ("NegativeFieldTwice", refused, negative_field_twice);
    add ("TenThousandFields", refused, ten_thousand_fields);

    add ("UnknownListOfAMebibyte", answered, unknown_list_of_a_mebibyte).needs_our_transport = true;
    add ("UnknownListOfAMillionStructs", either, unknown_list_of_a_million_structs)
        .needs_our_transport = true;
    add ("UnknownMapOfMany", either, unknown_map_of_many).needs_our_transport = true;
    add ("ListOfManyEmptyLists", either, known_struct_of_many_fields_in_lists).needs_our_transport =
        true;

    add ("VarintWithoutEnd", refused, varint_without_end).compact_only = true;
    add ("LengthVarintWithoutEnd", refused, length_varint_without_end).compact_only = true;
    add ("BooleanOfSeven", either, boolean_of_seven).compact_only = true;
    add ("FieldIdOverflow", either, field_id_overflow).compact_only = true;
    add ("FieldIdBeyond16Bits", refused, field_id_beyond_16_bits).compact_only = true;
    return table;
  }();
  return all;
}

} // namespace hostile
