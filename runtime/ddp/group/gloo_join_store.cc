/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/ddp/group/gloo_join_store.h"

#include <algorithm>
#include <cstdint>

namespace tps {

namespace {

constexpr milliseconds JOIN_SLICE (200); /* how often a cancelled join is noticed */

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
                   std::string ("process group: ") + error->message);

  g_error_free (error);
  throw failure;
}

/* A store that does not wait for the last millisecond says that there is no such key. */
bool
is_not_there_yet (const GError *error)
{
  return g_error_matches (error, TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED)
         || g_error_matches (error, TPS_ERROR, TPS_ERROR_NOT_FOUND);
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
  gboolean ok = options_->store->ops->put (options_->store, full (key).c_str (), value, &error);

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

std::string
JoinStore::full (const std::string &key) const
{
  return std::string (options_->prefix == nullptr ? "" : options_->prefix) + key;
}

void
JoinStore::fail_missing (const std::string &key) const
{
  std::string rank = key.substr (key.find ('_') + 1); /* "rank_1" or "1" */

  throw Failure (TPS_ERROR_DEADLINE_EXCEEDED,
                 "process group: rank " + rank + " has not joined within "
                     + std::to_string (options_->timeout_ns / 1000000) + " ms");
}

GBytes *
JoinStore::wait_for (const std::string &key) const
{
  for (;;)
    {
      GError *error = nullptr;
      Clock::time_point until = std::min (deadline_, Clock::now () + JOIN_SLICE);
      GBytes *value;

      if (options_->is_cancelled != nullptr && options_->is_cancelled (options_->user_data))
        throw Failure (TPS_ERROR_ABORTED, "process group: joining was cancelled");
      value = options_->store->ops->get (options_->store, full (key).c_str (), to_ns (until),
                                         &error);
      if (value != nullptr)
        return value;
      if (!is_not_there_yet (error))
        fail (error);
      g_error_free (error);
      if (Clock::now () >= deadline_)
        fail_missing (key);
    }
}

/* Gloo takes the addresses of a rank from fixed places in its value, without looking at the size. */
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
