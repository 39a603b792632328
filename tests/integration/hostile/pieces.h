/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Building blocks of attacks: valid and invalid pieces of messages in each protocol. */

#pragma once

#include <initializer_list>

#include "tests/integration/hostile/attacks.h"

namespace hostile {

constexpr int16_t kUnknownField = 100;

bool is_binary (const Form &form);
/* Returns one byte per value. */
std::string bytes (std::initializer_list<int> values);
std::string repeat (const std::string &part, size_t n);
/* Returns the code of a type in the compact protocol. */
int compact (wire::Type type);
/* Returns a number as a zigzag varint of the compact protocol. */
std::string zigzag (int64_t value);
/* Returns the header of a field, with its id in full. */
std::string field (const Form &form, wire::Type type, int16_t id);
/* Return a length, and the headers of containers. `n` and the types may be invalid. */
std::string length (const Form &form, uint32_t n);
std::string list_header (const Form &form, int type, uint32_t n);
std::string map_header (const Form &form, wire::Type key, wire::Type value, uint32_t n);
/* head_named() and head() return a call message up to the first field of its arguments. */
std::string head_named (const Form &form, const std::string &name, int kind = wire::Call);
std::string head (const Form &form, const Victim &victim);
/* Returns a whole call. `body` is the content of its arguments struct, including the stop byte. */
std::string call_with (const Form &form, const Victim &victim, const std::string &body);
/* Returns a call with the victim's arguments, and `inner` added to the fields of their struct. */
std::string call_with_struct (const Form &form, const Victim &victim, const std::string &inner);
/* good_call() and good_named() return valid calls: of the victim's method, or of the method
 * `name`. */
std::string good_call (const Form &form, const Victim &victim);
std::string good_named (const Form &form, const Victim &victim, const std::string &name,
                        int kind = wire::Call);
/* Returns a call with an unknown field, whose value is the raw bytes `value`. */
std::string unknown (const Form &form, const Victim &victim, wire::Type type,
                     const std::string &value);

/* The attacks, by subject. */
std::vector<Attack> message_attacks ();
std::vector<Attack> value_attacks ();
std::vector<Attack> structure_attacks ();

} // namespace hostile
