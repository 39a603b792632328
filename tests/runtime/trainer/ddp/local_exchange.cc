/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/runtime/trainer/ddp/local_exchange.h"

#include <list>
#include <mutex>

#include "runtime/base/error.h"

namespace {

class LocalExchange;

/* One call. Both the server and cancel() may try to answer it, and only the first attempt
 * succeeds. */
struct LocalCall
{
  TpsExchangeDone done; /* guarded by the exchange's mutex; NULL after the reply */
  gpointer user_data;
  LocalExchange *exchange;
};

class LocalExchange
{
public:
  LocalExchange (const std::vector<TpsParameterServer *> &servers, guint trainer)
      : base_ { { &ops, static_cast<guint> (servers.size ()) }, this }, servers_ (servers),
        trainer_ (trainer)
  {
  }

  TpsExchange *
  get ()
  {
    return &base_.exchange;
  }

private:
  struct Base
  {
    TpsExchange exchange;
    LocalExchange *self;
  };

  static LocalExchange *
  of (TpsExchange *exchange)
  {
    return reinterpret_cast<Base *> (exchange)->self;
  }

  /* Copies the elements, as a network would. */
  static void
  copy (TpsGradient *to, const TpsGradient *from)
  {
    *to = {};
    to->kind = from->kind;
    to->weight = from->weight;
    to->rows = from->rows;
    if (from->kind == TPS_GRADIENT_DENSE)
      tps_tensor_init_copy (&to->dense, tps_tensor_view (&from->dense));
    if (from->kind != TPS_GRADIENT_SPARSE)
      return;
    tps_tensor_init_copy (&to->indices, tps_tensor_view (&from->indices));
    tps_tensor_init_copy (&to->values, tps_tensor_view (&from->values));
  }

  bool
  take (LocalCall *call, TpsExchangeDone *done)
  {
    std::lock_guard<std::mutex> lock (mutex_);

    *done = call->done;
    call->done = nullptr;
    return *done != nullptr;
  }

  static void
  on_average (gpointer user_data, const TpsGradient *average, const GError *error)
  {
    LocalCall *call = static_cast<LocalCall *> (user_data);
    TpsGradient owned = {};
    TpsExchangeDone done;

    if (!call->exchange->take (call, &done))
      return;
    if (average != nullptr)
      tps_gradient_init_ref (&owned, average);
    done (call->user_data, average == nullptr ? nullptr : &owned, error);
    tps_gradient_clear (&owned);
  }

  static void
  average_gradient (TpsExchange *exchange, guint server, gint64 batch, gint32 param_loc,
                    const TpsGradient *gradient, gint64, TpsExchangeDone done, gpointer user_data)
  {
    LocalExchange *self = of (exchange);
    TpsGradient copied;
    LocalCall *call;
    bool is_cancelled;

    {
      std::lock_guard<std::mutex> lock (self->mutex_);

      self->calls_.push_back ({ done, user_data, self });
      call = &self->calls_.back ();
      is_cancelled = self->is_cancelled_;
    }
    if (is_cancelled)
      {
        cancel (exchange);
        return;
      }
    copy (&copied, gradient);
    tps_parameter_server_average_gradient (self->servers_[server],
                                           static_cast<gint32> (self->trainer_), batch, param_loc,
                                           &copied, TRUE, on_average, call);
  }

  static void
  cancel (TpsExchange *exchange)
  {
    LocalExchange *self = of (exchange);
    std::vector<LocalCall *> calls;
    GError *error = g_error_new_literal (TPS_ERROR, TPS_ERROR_ABORTED,
                                         "the exchange was cancelled");

    {
      std::lock_guard<std::mutex> lock (self->mutex_);

      self->is_cancelled_ = true;
      for (LocalCall &call : self->calls_)
        calls.push_back (&call);
    }
    for (LocalCall *call : calls)
      {
        TpsExchangeDone done;

        if (self->take (call, &done))
          done (call->user_data, nullptr, error);
      }
    g_error_free (error);
  }

  /* Servers may still hold cancelled calls, so the object lives until the LocalServers end. */
  static void
  free (TpsExchange *exchange)
  {
    cancel (exchange);
  }

  static const TpsExchangeOps ops;

  Base base_;
  std::vector<TpsParameterServer *> servers_;
  guint trainer_;
  std::mutex mutex_;
  std::list<LocalCall> calls_;
  bool is_cancelled_ = false;
};

const TpsExchangeOps LocalExchange::ops = { average_gradient, cancel, free };

} /* namespace */

struct LocalServers::Family
{
  std::mutex mutex;
  std::list<LocalExchange> exchanges;
};

LocalServers::LocalServers (guint n_servers, guint n_trainers, gint64 round_timeout_ns,
                            TpsReduce reduce)
    : workers_ (tps_worker_pool_new ("workers", 2)), family_ (new Family)
{
  for (guint s = 0; s < n_servers; s++)
    {
      TpsParameterServerOptions options = {};

      options.n_trainers = n_trainers;
      options.reduce = reduce;
      options.round_timeout_ns = round_timeout_ns;
      options.workers = workers_;
      servers_.push_back (tps_parameter_server_new (&options, nullptr));
    }
}

LocalServers::~LocalServers ()
{
  for (TpsParameterServer *server : servers_)
    tps_parameter_server_free (server);
  tps_worker_pool_free (workers_);
}

TpsExchange *
LocalServers::open (guint trainer)
{
  std::lock_guard<std::mutex> lock (family_->mutex);

  return family_->exchanges.emplace_back (servers_, trainer).get ();
}

void
LocalServers::reset ()
{
  for (TpsParameterServer *server : servers_)
    tps_parameter_server_reset_state (server);
}
