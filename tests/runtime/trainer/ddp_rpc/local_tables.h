/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Embedding tables in memory behind the trainers' interface. They are as simple as possible: sums
 * of rows, and plain SGD. Real stores and servers have their own tests. A test decides which calls
 * stay open. */

#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "runtime/ports/table_client.h"

class LocalTables
{
public:
  struct Table
  {
    gint64 dim;
    std::vector<float> values;
  };

  explicit LocalTables (float learning_rate) : learning_rate_ (learning_rate)
  {
  }

  /* Adds a table of scatter()'s values with this number and bound. */
  void add (const std::string &name, gint64 rows, gint64 dim, gint64 scatter_number, double bound);

  const std::vector<float> &
  values (const std::string &name)
  {
    return tables_[name].values;
  }

  /* Returns a client of the runtime's type. This object must outlive it. Results of the tables in
   * `on_device` lie in memory of `device`. If `device` is NULL, all results lie in host memory. */
  TpsTableClient *open (TpsDevice *device = nullptr);

  /* The tables whose results lie in memory of the client's device. */
  std::set<std::string> on_device;

  void wait_for_calls (size_t n);

  /* Calls from this number on stay open until they are cancelled. */
  size_t first_held = SIZE_MAX;

private:
  struct Client
  {
    TpsTableClient base;
    LocalTables *self;
    TpsDevice *device;
    std::function<void ()> end_held; /* called under the lock; ends the open call with ABORTED */
    bool is_cancelled = false;
  };

  static void lookup_bags (TpsTableClient *client, const TpsBagQuery *queries, guint n_queries,
                           gint64 deadline_ns, TpsTablesLookedUp done, gpointer user_data);
  static void apply_bags (TpsTableClient *client, const TpsBagGradient *gradients,
                          guint n_gradients, gint64 deadline_ns, TpsTablesApplied done,
                          gpointer user_data);
  static void cancel (TpsTableClient *client);
  static void free_client (TpsTableClient *client);
  static const TpsTableClientOps ops;

  /* Begins a call. Returns FALSE if `end` has ended it or will end it. */
  bool begin (Client *client, const std::function<void ()> &end);
  TpsTensor look_up (const TpsBagQuery &query);
  TpsTensor look_up_for (const Client *client, const TpsBagQuery &query);
  void apply (const TpsBagGradient &gradient);

  float learning_rate_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Table> tables_;
  size_t n_calls_ = 0;
};
