/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Fakes for the interfaces of runtime/trainer: a store and servers in memory, and a model with
 * trivial computations. */

#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thriftps/client.h>
#include <vector>

#include "runtime/tensor/gradient.h"
#include "runtime/trainer/ports/process_group.h"
#include "runtime/trainer/nn/model.h"

/* The state that the stores of several ranks share. */
class MemoryStore
{
public:
  /* Returns a store of the runtime's type, which the caller must free through its table. This
   * object must outlive it. */
  TpsStore *open ();

  void put (const std::string &key, const std::string &value);
  /* Waits for a value. Returns FALSE at the deadline. */
  bool get (const std::string &key, gint64 deadline_ns, std::string *value);
  void remove (const std::string &prefix);
  size_t n_keys ();

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

/* An exchange with scripted replies. It calls `on_call` for each gradient. The function replies
 * through an answer_with function at once, later, or never. cancel() answers the open calls with
 * ABORTED. */
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

  /* Runs on the calling thread without a lock. The second argument is the number of the call. */
  std::function<void (FakeExchange *, size_t)> on_call;
  /* Returns memory for a bucket of the server. By default, it returns none. */
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

/* A model that has only parameters. Its backward fills gradients with `gradient_of` and reports
 * them in reverse order. */
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

  /* Returns element `element` of the gradient of parameter `index`. For a sparse parameter,
   * `element` counts within a row. */
  std::function<float (guint index, gint64 element)> gradient_of = [] (guint, gint64) {
    return 1.0f;
  };
  /* Returns the ids of a sparse parameter in this step. */
  std::function<std::vector<gint64> (guint index)> ids_of = [] (guint) {
    return std::vector<gint64> { 0 };
  };
  /* Runs before the gradient of a parameter is computed. */
  std::function<void (guint index)> before = [] (guint) {};
  /* The order in which backward computes and reports gradients. If it is empty, the order is
   * reverse. */
  std::vector<guint> order;
  /* Returns TRUE for a parameter that backward must not report. */
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

/* Returns the layers of the PyTorch benchmark's DummyModel in full size. */
std::vector<FakeModel::Parameter> dummy_model_parameters (bool is_sparse);

/* Returns "", or the code and text of the error, which it frees. */
std::string text_of (GError *error);

/* Runs `body` (rank) on one thread per rank, and waits for all threads. */
void run_ranks (guint n_ranks, const std::function<void (guint)> &body);
