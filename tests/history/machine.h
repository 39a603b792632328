/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The server of check.h as a machine that makes choices by a seed, and random clients around it:
 * every history that it writes is valid. For the speed of the checker, and as a beginning of
 * histories that are not valid. */

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace history {

struct MachineOptions
{
  uint32_t seed = 1;
  uint32_t n_clients = 4; /* that push; as many only read */
  uint32_t n_rows = 128;
  uint32_t max_rows = 4; /* of one push or read */
  uint64_t n_operations = 1000;
  double crash = 0; /* chance, each step */
  double no_answer =
      0; /* chance that an answer is lost, or that a push is sent again after it was acknowledged */
};

/* Calls `write` for each line, with its end. */
void write_valid_history (const MachineOptions &options,
                          const std::function<void (const std::string &)> &write);

} // namespace history
