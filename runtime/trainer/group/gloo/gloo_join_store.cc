/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/group/gloo/gloo_join_store.h"

#include <cstdint>

#include "runtime/trainer/group/join_wait.h"

namespace tps {

namespace {

int64_t
to_ns (Clock::time_point when)
{
  return std::chrono::duration_cast<std::chrono::nanoseconds> (when.time_since_epoch ()).count ();
}

[[noreturn]] void
fail (GError *error)
{
  Failure failure (error->domain == TPS_ERROR ? static_cast<TpsErrorCode> (error->code)
                                              : TPS_ERROR_INTERNAL,
                   error->message);

  g_error_free (error);
  throw failure;
}

} /* namespace */

JoinStore::JoinStore (const TpsProcessGroupOptions *options, Clock::time_point deadline)
    : options_ (options), deadline_ (deadline)
{
}

void
JoinStore::set (const std::string &key, const std::vector<char> &data)
{
  GError *error = nullptr;
  GBytes *value = g_bytes_new (data.data (), data.size ());
  gboolean ok = tps_join_put (options_, key.c_str (), value, &error);

  g_bytes_unref (value);
  if (!ok)
    fail (error);
}

std::vector<char>
JoinStore::get (const std::string &key)
{
  GBytes *value = wait_for (key);
  gsize n_bytes = 0;
  const char *data = static_cast<const char *> (g_bytes_get_data (value, &n_bytes));
  std::vector<char> copy (data, data + n_bytes);

  g_bytes_unref (value);
  check_size (key, n_bytes);
  return copy;
}

void
JoinStore::wait (const std::vector<std::string> &)
{
}

void
JoinStore::wait (const std::vector<std::string> &, const milliseconds &)
{
}

GBytes *
JoinStore::wait_for (const std::string &key) const
{
  std::string rank = key.substr (key.find ('_') + 1); /* "rank_1" or "1" */
  GError *error = nullptr;
  GBytes *value = tps_join_wait (options_, key.c_str (), rank.c_str (), to_ns (deadline_), &error);

  if (value == nullptr)
    fail (error);
  return value;
}

/* Gloo reads the addresses of a rank at fixed offsets in its value without checking the size. */
void
JoinStore::check_size (const std::string &key, size_t n_bytes) const
{
  size_t n_peers = options_->size - 1;

  if (key.compare (0, 5, "rank_") == 0 || (n_bytes > 0 && n_bytes % n_peers == 0))
    return;
  throw Failure (TPS_ERROR_INVALID_ARGUMENT,
                 "process group: rank " + key + " stored " + std::to_string (n_bytes)
                     + " bytes of addresses, expected a multiple of " + std::to_string (n_peers));
}

} /* namespace tps */
