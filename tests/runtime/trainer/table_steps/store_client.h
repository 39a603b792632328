/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A table client that calls a store in this process. */

#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/server/tables/table_store.h"
#include "runtime/device/backend.h"
#include "runtime/ports/table_client.h"

namespace tps_test {

/* Creates FLOAT32 tables "t0", "t1", … with these dims. */
void create_tables (TpsTableStore *store, gint64 rows, const std::vector<gsize> &dims,
                    TpsInitializerKind initializer, const TpsOptimizerSpec &optimizer);

/* A table client. `mode` decides when its calls end. */
class StoreClient
{
public:
  enum class Mode
  {
    AT_ONCE, /* each call ends before its function returns */
    THREADS, /* each call runs on its own thread; pushes take effect in order */
    HELD,    /* pushes wait for release_push(); lookups end at once */
  };

  StoreClient (TpsTableStore *store, Mode mode);
  ~StoreClient ();
  StoreClient (const StoreClient &) = delete;
  StoreClient &operator= (const StoreClient &) = delete;

  TpsTableClient *
  get ()
  {
    return &client_.base;
  }
  /* Applies the oldest held push. */
  void release_push ();
  void wait_for_calls (gsize n);

  gsize first_held = G_MAXSIZE; /* calls from this number on stay open until they are cancelled */

  std::function<void ()> before_push; /* if set, runs at the start of each push in THREADS */
  TpsDevice *device = nullptr;        /* if set, results lie in its memory, with undefined values */
  std::string push_error;             /* if set, all later pushes fail with it */
  std::vector<guint> lookups, pushes; /* the number of queries of each call */
  gsize n_ids_looked_up = 0, n_ids_pushed = 0;

private:
  struct Client
  {
    TpsTableClient base;
    StoreClient *self;
  };

  static const TpsTableClientOps ops;
  static void lookup_bags (TpsTableClient *client, const TpsBagQuery *queries, guint n_queries,
                           gint64 deadline_ns, TpsTablesLookedUp done, gpointer user_data);
  static void apply_bags (TpsTableClient *client, const TpsBagGradient *gradients,
                          guint n_gradients, gint64 deadline_ns, TpsTablesApplied done,
                          gpointer user_data);
  static void cancel (TpsTableClient *client);

  using Fail = std::function<void (const GError *)>;
  bool begin (const Fail &fail);

  Client client_;
  TpsTableStore *store_;
  Mode mode_;
  std::deque<std::function<void ()>> held_;
  std::vector<std::thread> threads_;
  std::mutex pushing_; /* guards n_applied_ */
  std::condition_variable applied_;
  gsize n_begun_ = 0, n_applied_ = 0;
  std::mutex calling_; /* guards the following members */
  std::condition_variable called_;
  gsize n_calls_ = 0;
  bool is_cancelled_ = false;
  Fail fail_held_; /* ends the open call */
};

}
