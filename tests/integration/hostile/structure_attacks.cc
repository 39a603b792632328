/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Attacks with excessive structures: nested, repeated and endless. */

#include "tests/integration/hostile/pieces.h"

using wire::Value;

namespace hostile {

namespace {

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

/* ---- repeated fields ------------------------------------------------------------------------ */

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

/* ---- the compact protocol only -------------------------------------------------------------- */

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
  /* field id 32767, then a delta of 15 */
  return call_with (form, victim, field (form, wire::Byte, 32767) + bytes ({ 1, 0xf3, 1, 0 }));
}

std::string
field_id_beyond_16_bits (const Form &form, const Victim &victim)
{
  return call_with (form, victim, bytes ({ 3 }) + zigzag (1 << 20) + bytes ({ 1, 0 }));
}

} // namespace

std::vector<Attack>
structure_attacks ()
{
  return {
    { "Structs100000Deep", Outcome::Refused, structs_100000_deep },
    { "Structs33Deep", Outcome::Refused, structs_33_deep },
    { "Structs20Deep", Outcome::Either, structs_20_deep },
    { "Lists1000000Deep", Outcome::Refused, lists_1000000_deep },
    { "Maps100000Deep", Outcome::Refused, maps_100000_deep },
    { "KnownStructInItself100000Deep", Outcome::Refused, known_struct_in_itself_100000_deep },
    { "ArgumentTwice", Outcome::Refused, argument_twice },
    { "BinaryTwice", Outcome::Refused, binary_twice, MEMBERS },
    { "LargeBinaryTwice", Outcome::Refused, large_binary_twice, MEMBERS },
    { "ListTwice", Outcome::Refused, list_twice, MEMBERS },
    { "UnknownFieldTwice", Outcome::Refused, unknown_field_twice },
    { "NegativeFieldTwice", Outcome::Refused, negative_field_twice },
    { "TenThousandFields", Outcome::Refused, ten_thousand_fields },
    { "UnknownListOfAMebibyte", Outcome::Answered, unknown_list_of_a_mebibyte, OUR_TRANSPORT },
    { "UnknownListOfAMillionStructs", Outcome::Either, unknown_list_of_a_million_structs,
      OUR_TRANSPORT },
    { "UnknownMapOfMany", Outcome::Either, unknown_map_of_many, OUR_TRANSPORT },
    { "ListOfManyEmptyLists", Outcome::Either, known_struct_of_many_fields_in_lists,
      OUR_TRANSPORT },
    { "VarintWithoutEnd", Outcome::Refused, varint_without_end, COMPACT },
    { "LengthVarintWithoutEnd", Outcome::Refused, length_varint_without_end, COMPACT },
    { "BooleanOfSeven", Outcome::Either, boolean_of_seven, COMPACT },
    { "FieldIdOverflow", Outcome::Either, field_id_overflow, COMPACT },
    { "FieldIdBeyond16Bits", Outcome::Refused, field_id_beyond_16_bits, COMPACT },
  };
}

} // namespace hostile
