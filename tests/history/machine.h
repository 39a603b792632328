/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The server of check.h as a machine with random choices, and random clients. Every history that it
 * writes is valid. The histories serve to measure the checker. Tests also corrupt them. */

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace history {

struct MachineOptions
{
  uint32_t seed = 1;
  uint32_t n_clients = 4; /* this many clients push, and as many others only read */
  uint32_t n_rows = 128;
  uint32_t max_rows = 4; /* of one push or read */
  uint64_t n_operations = 1000;
  double crash = 0;     /* probability of a crash at each step */
  double no_answer = 0; /* probability that a reply is lost or an acknowledged push is repeated */
};

/* Calls `write` for each line. The text includes the line's end. */
void write_valid_history (const MachineOptions &options,
                          const std::function<void (const std::string &)> &write);

} // namespace history
