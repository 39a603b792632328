/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The server of check.h as a machine that makes random choices, with random clients. Every history
 * that it writes is valid. It is used to measure the checker, and as a source of histories that are
 * then corrupted. */

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace history {

struct MachineOptions
{
  uint32_t seed = 1;
  uint32_t n_clients = 4; /* these clients push; as many others only read */
  uint32_t n_rows = 128;
  uint32_t max_rows = 4; /* of one push or read */
  uint64_t n_operations = 1000;
  double crash = 0; /* chance, each step */
  double no_answer =
      0; /* chance that a reply is lost, or that an acknowledged push is sent again */
};

/* Calls `write` for each line, including its end. */
void write_valid_history (const MachineOptions &options,
                          const std::function<void (const std::string &)> &write);

} // namespace history
