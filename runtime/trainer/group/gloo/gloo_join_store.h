/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Gloo's view of our store, for joining a group. C++; internal to this folder. */

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

using Clock = std::chrono::steady_clock; /* CLOCK_MONOTONIC, as the store's deadlines */
using std::chrono::milliseconds;

/* What a GError becomes on its way through C++. */
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

/* Keys under the group's prefix. Every wait is bounded by the time for joining and ends soon after
 * the options' is_cancelled() says so. Throws Failure. */
class JoinStore : public gloo::rendezvous::Store
{
public:
  /* `options` is borrowed. */
  JoinStore (const TpsProcessGroupOptions *options, Clock::time_point deadline);

  void set (const std::string &key, const std::vector<char> &data) override;
  std::vector<char> get (const std::string &key) override;

  /* Nothing to do: get() waits, and always follows. */
  void wait (const std::vector<std::string> &keys) override;
  void wait (const std::vector<std::string> &keys, const milliseconds &timeout) override;

private:
  GBytes *wait_for (const std::string &key) const;
  void check_size (const std::string &key, size_t n_bytes) const;

  const TpsProcessGroupOptions *options_;
  Clock::time_point deadline_;
};

} /* namespace tps */
