/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Process groups whose ranks are threads of the test, and functions that wait for collectives. */

#pragma once

#include <future>
#include <string>
#include <vector>

#include "runtime/trainer/ports/process_group.h"

/* Creates a group of `n_ranks` ranks, each on its own thread, and returns all ranks. */
std::vector<TpsProcessGroup *> join_groups (const char *backend, guint n_ranks,
                                            gint64 timeout_ns = G_GINT64_CONSTANT (60000000000),
                                            bool shares_memory = true);

inline std::vector<TpsProcessGroup *>
join_gloo_groups (guint n_ranks, gint64 timeout_ns = G_GINT64_CONSTANT (60000000000),
                  bool shares_memory = true)
{
  return join_groups ("gloo", n_ranks, timeout_ns, shares_memory);
}

/* Frees each rank on its own thread, because each rank waits for the others. */
void free_groups (const std::vector<TpsProcessGroup *> &groups);

/* Waits for the end of a collective. */
class Waiter
{
public:
  static void done (gpointer user_data, const GError *error);

  /* Returns "", or the code and text of the error. */
  std::string
  wait ()
  {
    return promise_.get_future ().get ();
  }

private:
  std::promise<std::string> promise_;
};

/* Runs an all-reduce and returns the result of wait(). */
std::string all_reduce (TpsProcessGroup *group, gpointer data, gsize n_elems);
