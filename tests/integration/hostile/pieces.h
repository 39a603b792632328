/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Building blocks of attacks: valid and invalid pieces of messages in each protocol. */

#pragma once

#include <initializer_list>

#include "tests/integration/hostile/attacks.h"

namespace hostile {

constexpr int16_t kUnknownField = 100;

bool is_binary (const Form &form);
std::string bytes (std::initializer_list<int> values);
std::string repeat (const std::string &part, size_t n);
/* Types of the compact protocol. */
int compact (wire::Type type);
std::string zigzag (int64_t value);
/* A field's header with its id in full. */
std::string field (const Form &form, wire::Type type, int16_t id);
std::string length (const Form &form, uint32_t n);
std::string list_header (const Form &form, int type, uint32_t n);
std::string map_header (const Form &form, wire::Type key, wire::Type value, uint32_t n);
/* A call's message up to its arguments' first field. */
std::string head_named (const Form &form, const std::string &name, int kind = wire::Call);
std::string head (const Form &form, const Victim &victim);
/* A whole call whose arguments are `body` (fields and stop). */
std::string call_with (const Form &form, const Victim &victim, const std::string &body);
/* The victim's arguments with `inner` added to the fields of their struct. */
std::string call_with_struct (const Form &form, const Victim &victim, const std::string &inner);
std::string good_call (const Form &form, const Victim &victim);
std::string good_named (const Form &form, const Victim &victim, const std::string &name,
                        int kind = wire::Call);
/* A message with one value of raw bytes as an unknown field. */
std::string unknown (const Form &form, const Victim &victim, wire::Type type,
                     const std::string &value);

/* The attacks, by subject. */
std::vector<Attack> message_attacks ();
std::vector<Attack> value_attacks ();
std::vector<Attack> structure_attacks ();

} // namespace hostile
