/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Push windows that tests drive directly, also with small limits. */

#pragma once

#include <gtest/gtest.h>

#include <string>

#include "runtime/base/error.h"
#include "runtime/server/push_digest.h"
#include "runtime/server/push_window.h"

namespace push_window_test {

enum Verdict
{
  NEW = TPS_PUSH_NEW,
  REPEAT = TPS_PUSH_REPEAT,
  RUNNING = TPS_PUSH_RUNNING,
  STALE,
  DUPLICATE,
  EXHAUSTED,
};

struct Ending
{
  gint64 answer = 0;
  int code = -1; /* the error's code; -1 = success */
  int n_calls = 0;
};

inline void
note_ending (gpointer user_data, gint64 answer, const GError *error)
{
  Ending *ending = static_cast<Ending *> (user_data);

  ending->answer = answer;
  ending->code = error != nullptr ? error->code : -1;
  ending->n_calls++;
}

inline TpsPushDigest
digest_of (gint64 request)
{
  TpsPushHash *hash = tps_push_hash_new ();

  tps_push_hash_add_i64 (hash, request);
  return tps_push_hash_end (hash);
}

class PushWindow : public testing::Test
{
protected:
  explicit PushWindow (TpsPushWindowOptions options = {}) : window (tps_push_window_new (&options))
  {
  }

  ~PushWindow () override
  {
    tps_push_window_free (window);
  }

  Verdict
  begin (const std::string &client, gint64 sequence, gint64 request = 0, Ending *ending = nullptr,
         gint64 incarnation = 0, const char *tenant = nullptr)
  {
    g_autoptr (GError) error = nullptr;
    TpsPushDigest digest = digest_of (request);
    TpsPushRequest asked = { client.c_str (), sequence, &digest, incarnation,
                             note_ending,     ending,   tenant };
    TpsPushVerdict verdict = tps_push_window_begin (window, &asked, &answer, &error);

    EXPECT_EQ (verdict == TPS_PUSH_REFUSED, error != nullptr);
    if (error != nullptr)
      message = error->message;
    if (verdict != TPS_PUSH_REFUSED)
      return static_cast<Verdict> (verdict);
    if (error->code == TPS_ERROR_RESOURCE_EXHAUSTED)
      return EXHAUSTED;
    return error->code == TPS_ERROR_STALE ? STALE : DUPLICATE;
  }

  void
  end (const std::string &client, gint64 sequence, gint64 result, gint64 lsn = 0)
  {
    tps_push_window_end (window, client.c_str (), sequence, result, lsn);
  }

  /* Begins a push and, if it is new, applies it at once. */
  Verdict
  push (const std::string &client, gint64 sequence, gint64 result)
  {
    Verdict verdict = begin (client, sequence);

    if (verdict == NEW)
      end (client, sequence, result);
    return verdict;
  }

  /* Like push(), by a caller of `tenant`. */
  Verdict
  push_of (const char *tenant, const std::string &client, gint64 sequence)
  {
    Verdict verdict = begin (client, sequence, 0, nullptr, 0, tenant);

    if (verdict == NEW)
      end (client, sequence, 0);
    return verdict;
  }

  TpsPushWindow *window;
  gint64 answer = 0;
  std::string message;
};

/* the clock of SmallPushWindow */
inline gint64 now_ns;

inline TpsPushWindowOptions
small_options ()
{
  TpsPushWindowOptions options = {};

  options.window = 8;
  options.max_clients = 3;
  options.max_remembered = 12;
  options.max_floors = 4;
  options.floor_idle_ns = 1000;
  options.get_now_ns = [] { return now_ns; };
  return options;
}

class SmallPushWindow : public PushWindow
{
protected:
  SmallPushWindow () : PushWindow (small_options ())
  {
    now_ns = 0;
  }
};

} // namespace push_window_test
