/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Attacks with invalid values: lengths, sizes and types. */

#include "tests/integration/hostile/pieces.h"

using wire::Value;

namespace hostile {

namespace {

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
  /* The value needs one byte more. The frame or the connection ends before it. */
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

} // namespace

std::vector<Attack>
value_attacks ()
{
  return {
    { "UnknownStringNegative", Outcome::Refused, unknown_string_negative },
    { "UnknownStringMostNegative", Outcome::Refused, unknown_string_most_negative },
    { "KnownBinaryNegative", Outcome::Refused, known_binary_negative, MEMBERS },
    { "KnownBinary2GiB", Outcome::Refused, known_binary_2_gib, MEMBERS },
    { "UnknownString2GiB", Outcome::Refused, unknown_string_2_gib },
    { "UnknownStringOneTooLong", Outcome::Refused, unknown_string_one_too_long },
    { "ListOf2To31", Outcome::Refused, list_of_2_to_31 },
    { "ListOf2To31Bytes", Outcome::Refused, list_of_2_to_31_bytes },
    { "ListOf2To31Structs", Outcome::Refused, list_of_2_to_31_structs },
    { "KnownListOf2To31", Outcome::Refused, known_list_of_2_to_31, MEMBERS },
    { "ListOfNegativeSize", Outcome::Refused, list_of_negative_size },
    { "SetOf2To31", Outcome::Refused, set_of_2_to_31 },
    { "MapOf2To31", Outcome::Refused, map_of_2_to_31 },
    { "MapOfNegativeSize", Outcome::Refused, map_of_negative_size },
    { "ListOfUnknownType", Outcome::Refused, list_of_unknown_type },
    { "ListOfTypeStop", Outcome::Refused, list_of_type_stop },
    { "FieldOfUnknownType", Outcome::Refused, field_of_unknown_type },
    { "FieldOfTypeVoid", Outcome::Refused, field_of_type_void },
    { "EveryArgumentOfAnotherType", Outcome::Either, every_argument_of_another_type },
    { "EveryMemberOfAnotherType", Outcome::Either, every_member_of_another_type },
    { "NoArguments", Outcome::Either, no_arguments },
    { "ListElementsTooSmall", Outcome::Refused, list_elements_too_small, MEMBERS },
    { "ListElementsOfStrings", Outcome::Refused, list_elements_of_strings, MEMBERS },
    { "ListElementsOfStructs", Outcome::Refused, list_elements_of_structs, MEMBERS },
  };
}

} // namespace hostile
