/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Adapts TpsStore to Gloo's interface, for joining a group. C++; internal to this folder. */

#pragma once

#include <chrono>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include <gloo/rendezvous/store.h>

#include "runtime/trainer/ports/process_group.h"
#include "runtime/base/error.h"

namespace tps {

using Clock = std::chrono::steady_clock; /* CLOCK_MONOTONIC, as for the store's deadlines */
using std::chrono::milliseconds;

/* Carries a GError through C++ code as an exception. */
class Failure : public std::exception
{
public:
  Failure (TpsErrorCode code, std::string text) : code_ (code), text_ (std::move (text))
  {
  }

  const char *
  what () const noexcept override
  {
    return text_.c_str ();
  }

  TpsErrorCode
  code () const
  {
    return code_;
  }

private:
  TpsErrorCode code_;
  std::string text_;
};

/* Stores keys under the group's prefix. Every wait ends at the deadline for joining, or soon after
 * is_cancelled() of the options returns TRUE. Throws Failure. */
class JoinStore : public gloo::rendezvous::Store
{
public:
  /* `options` is borrowed. `deadline` is the deadline for joining. */
  JoinStore (const TpsProcessGroupOptions *options, Clock::time_point deadline);

  void set (const std::string &key, const std::vector<char> &data) override;
  std::vector<char> get (const std::string &key) override;

  /* Do nothing, because Gloo always calls get() afterwards, and get() waits. */
  void wait (const std::vector<std::string> &keys) override;
  void wait (const std::vector<std::string> &keys, const milliseconds &timeout) override;

private:
  GBytes *wait_for (const std::string &key) const;
  void check_size (const std::string &key, size_t n_bytes) const;

  const TpsProcessGroupOptions *options_;
  Clock::time_point deadline_;
};

} /* namespace tps */
