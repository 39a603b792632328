/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Process groups whose ranks are threads of the test, and what becomes of their collectives. */

#pragma once

#include <future>
#include <string>
#include <vector>

#include "runtime/trainer/ports/process_group.h"

/* Groups of `n_ranks`, one made on each thread; the calling thread gets them all. */
std::vector<TpsProcessGroup *> join_groups (const char *backend, guint n_ranks,
                                            gint64 timeout_ns = G_GINT64_CONSTANT (60000000000),
                                            bool shares_memory = true);

inline std::vector<TpsProcessGroup *>
join_gloo_groups (guint n_ranks, gint64 timeout_ns = G_GINT64_CONSTANT (60000000000),
                  bool shares_memory = true)
{
  return join_groups ("gloo", n_ranks, timeout_ns, shares_memory);
}

/* Each on a thread of its own, as each waits for the others. */
void free_groups (const std::vector<TpsProcessGroup *> &groups);

/* Where a collective ends. */
class Waiter
{
public:
  static void done (gpointer user_data, const GError *error);

  /* Empty, or the error's code and text. */
  std::string
  wait ()
  {
    return promise_.get_future ().get ();
  }

private:
  std::promise<std::string> promise_;
};

/* What wait() says. */
std::string all_reduce (TpsProcessGroup *group, gpointer data, gsize n_elems);
