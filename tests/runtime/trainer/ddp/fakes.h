/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Fakes at the edges of runtime/trainer: a store and servers in memory, and a model with trivial
 * computations. */

#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/trainer/ports/exchange.h"
#include "runtime/trainer/ports/process_group.h"
#include "runtime/trainer/ports/store.h"
#include "runtime/nn/model.h"

/* The shared part of the stores of several ranks. */
class MemoryStore
{
public:
  /* A handle of the runtime's type; free it through its table. This object must outlive it. */
  TpsStore *open ();

  void put (const std::string &key, const std::string &value);
  /* False at the deadline. */
  bool get (const std::string &key, gint64 deadline_ns, std::string *value);
  void remove (const std::string &prefix);
  size_t n_keys ();

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

/* An exchange with scripted replies. `on_call` is called for each gradient and replies through
 * `answer`, at once, later, or never; cancel() answers open calls with ABORTED. */
class FakeExchange
{
public:
  struct Call
  {
    guint server;
    gint64 batch;
    gint32 param_loc;
    const TpsGradient *gradient;
    gint64 deadline_ns;
    TpsExchangeDone done;
    gpointer user_data;
    bool is_answered = false;
  };

  explicit FakeExchange (guint n_servers = 1);

  TpsExchange *
  get ()
  {
    return &base_.exchange;
  }

  /* Runs on the calling thread, without a lock. */
  std::function<void (FakeExchange *, size_t)> on_call;
  /* The memory for a bucket of the server; by default there is none. */
  std::function<TpsBuffer *(guint server, gsize n_bytes, TpsBuffer *current)> get_memory_of =
      [] (guint, gsize, TpsBuffer *) -> TpsBuffer * { return nullptr; };

  Call call (size_t index);
  size_t n_calls ();
  void wait_for_calls (size_t n);
  void answer_with_average (size_t index, TpsGradient *average);
  void answer_with_own_gradient (size_t index);
  void answer_with_error (size_t index, int code, const char *text);
  bool is_cancelled ();

private:
  struct Base
  {
    TpsExchange exchange;
    FakeExchange *self;
  };

  static void average_gradient (TpsExchange *exchange, guint server, gint64 batch, gint32 param_loc,
                                const TpsGradient *gradient, gint64 deadline_ns,
                                TpsExchangeDone done, gpointer user_data);
  static void cancel (TpsExchange *exchange);
  static void free (TpsExchange *exchange);
  static TpsBuffer *get_memory (TpsExchange *exchange, guint server, gsize n_bytes,
                                TpsBuffer *current);
  static const TpsExchangeOps ops;

  bool take (size_t index, Call *call);

  Base base_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Call> calls_;
  bool is_cancelled_ = false;
};

/* A model of parameters only: backward fills gradients with `gradient_of` and reports them in
 * reverse order. */
class FakeModel
{
public:
  struct Parameter
  {
    std::string name;
    std::vector<gint64> dims;
    bool is_sparse;
  };

  explicit FakeModel (const std::vector<Parameter> &parameters);
  ~FakeModel ();

  FakeModel (const FakeModel &) = delete;
  FakeModel &operator= (const FakeModel &) = delete;

  TpsModel *
  get ()
  {
    return &base_.model;
  }

  /* Value of element `element` of parameter `index`; for sparse ones of the row's element. */
  std::function<float (guint index, gint64 element)> gradient_of = [] (guint, gint64) {
    return 1.0f;
  };
  /* Ids of a sparse parameter in this step. */
  std::function<std::vector<gint64> (guint index)> ids_of = [] (guint) {
    return std::vector<gint64> { 0 };
  };
  /* Called before a parameter's gradient is computed. */
  std::function<void (guint index)> before = [] (guint) {};
  /* The order in which backward computes and reports gradients; if it is empty, in reverse
   * order. */
  std::vector<guint> order;
  /* Parameters that backward does not report. */
  std::function<bool (guint index)> is_forgotten = [] (guint) { return false; };

private:
  struct Base
  {
    TpsModel model;
    FakeModel *self;
  };

  TpsGradient make_rows (guint index);
  static void init_parameters (TpsModel *model, gint64 seed);
  static void backward (TpsModel *model, const gfloat *output_gradient, TpsGradientReady ready,
                        gpointer user_data);
  static const TpsModelClass klass;

  Base base_;
  std::vector<TpsParameter> parameters_;
};

/* The layers of the original DummyModel in full size. */
std::vector<FakeModel::Parameter> dummy_model_parameters (bool is_sparse);

/* Runs `body` (rank) on a thread for each rank and waits for all. */
void run_ranks (guint n_ranks, const std::function<void (guint)> &body);
