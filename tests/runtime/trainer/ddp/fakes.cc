/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/runtime/trainer/ddp/fakes.h"

#include <chrono>
#include <cstring>
#include <thread>

#include "runtime/base/error.h"

/* MemoryStore */

namespace {

struct StoreHandle
{
  TpsStore store;
  MemoryStore *shared;
};

gboolean
store_put (TpsStore *store, const gchar *key, GBytes *value, GError **)
{
  gsize n_bytes;
  const char *data = static_cast<const char *> (g_bytes_get_data (value, &n_bytes));

  reinterpret_cast<StoreHandle *> (store)->shared->put (key, std::string (data, n_bytes));
  return TRUE;
}

GBytes *
store_get (TpsStore *store, const gchar *key, gint64 deadline_ns, GError **error)
{
  std::string value;

  if (reinterpret_cast<StoreHandle *> (store)->shared->get (key, deadline_ns, &value))
    return g_bytes_new (value.data (), value.size ());
  g_set_error (error, TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED, "no key %s", key);
  return nullptr;
}

gboolean
store_remove (TpsStore *store, const gchar *prefix, GError **)
{
  reinterpret_cast<StoreHandle *> (store)->shared->remove (prefix);
  return TRUE;
}

void
store_free (TpsStore *store)
{
  delete reinterpret_cast<StoreHandle *> (store);
}

const TpsStoreOps store_ops = { store_put, store_get, store_remove, store_free };

} /* namespace */

TpsStore *
MemoryStore::open ()
{
  return &(new StoreHandle { { &store_ops }, this })->store;
}

void
MemoryStore::put (const std::string &key, const std::string &value)
{
  std::lock_guard<std::mutex> lock (mutex_);

  values_[key] = value;
  changed_.notify_all ();
}

bool
MemoryStore::get (const std::string &key, gint64 deadline_ns, std::string *value)
{
  std::unique_lock<std::mutex> lock (mutex_);
  std::chrono::steady_clock::time_point until { std::chrono::nanoseconds (deadline_ns) };

  if (!changed_.wait_until (lock, until, [&] { return values_.count (key) > 0; }))
    return false;
  *value = values_[key];
  return true;
}

void
MemoryStore::remove (const std::string &prefix)
{
  std::lock_guard<std::mutex> lock (mutex_);

  for (auto i = values_.lower_bound (prefix);
       i != values_.end () && i->first.compare (0, prefix.size (), prefix) == 0;)
    i = values_.erase (i);
}

size_t
MemoryStore::n_keys ()
{
  std::lock_guard<std::mutex> lock (mutex_);

  return values_.size ();
}

/* FakeExchange */

const TpsExchangeOps FakeExchange::ops = { average_gradient, cancel, free, nullptr, get_memory };

FakeExchange::FakeExchange (guint n_servers) : base_ { { &ops, n_servers }, this }
{
}

void
FakeExchange::average_gradient (TpsExchange *exchange, guint server, gint64 batch, gint32 param_loc,
                                const TpsGradient *gradient, gint64 deadline_ns,
                                TpsExchangeDone done, gpointer user_data)
{
  FakeExchange *self = reinterpret_cast<Base *> (exchange)->self;
  bool is_cancelled;
  size_t index;

  {
    std::lock_guard<std::mutex> lock (self->mutex_);

    index = self->calls_.size ();
    self->calls_.push_back ({ server, batch, param_loc, gradient, deadline_ns, done, user_data });
    is_cancelled = self->is_cancelled_;
    self->changed_.notify_all ();
  }
  if (is_cancelled)
    self->answer_with_error (index, TPS_ERROR_ABORTED, "cancelled");
  else if (self->on_call)
    self->on_call (self, index);
}

void
FakeExchange::cancel (TpsExchange *exchange)
{
  FakeExchange *self = reinterpret_cast<Base *> (exchange)->self;
  size_t n;

  {
    std::lock_guard<std::mutex> lock (self->mutex_);

    self->is_cancelled_ = true;
    n = self->calls_.size ();
  }
  for (size_t i = 0; i < n; i++)
    self->answer_with_error (i, TPS_ERROR_ABORTED, "cancelled");
}

void
FakeExchange::free (TpsExchange *exchange)
{
  cancel (exchange); /* does not free it, because the test owns the object */
}

TpsBuffer *
FakeExchange::get_memory (TpsExchange *exchange, guint server, gsize n_bytes, TpsBuffer *current)
{
  return reinterpret_cast<Base *> (exchange)->self->get_memory_of (server, n_bytes, current);
}

FakeExchange::Call
FakeExchange::call (size_t index)
{
  std::lock_guard<std::mutex> lock (mutex_);

  return calls_.at (index);
}

size_t
FakeExchange::n_calls ()
{
  std::lock_guard<std::mutex> lock (mutex_);

  return calls_.size ();
}

void
FakeExchange::wait_for_calls (size_t n)
{
  std::unique_lock<std::mutex> lock (mutex_);

  changed_.wait (lock, [&] { return calls_.size () >= n; });
}

bool
FakeExchange::is_cancelled ()
{
  std::lock_guard<std::mutex> lock (mutex_);

  return is_cancelled_;
}

bool
FakeExchange::take (size_t index, Call *call)
{
  std::lock_guard<std::mutex> lock (mutex_);

  if (calls_.at (index).is_answered)
    return false;
  calls_[index].is_answered = true;
  *call = calls_[index];
  return true;
}

void
FakeExchange::answer_with_average (size_t index, TpsGradient *average)
{
  Call call;

  if (take (index, &call))
    call.done (call.user_data, average, nullptr);
  tps_gradient_clear (average);
}

void
FakeExchange::answer_with_own_gradient (size_t index)
{
  const TpsGradient *gradient = call (index).gradient;
  TpsGradient average = {};

  average.kind = gradient->kind;
  average.weight = 1;
  average.rows = gradient->rows;
  if (gradient->kind == TPS_GRADIENT_DENSE)
    tps_tensor_init_copy (&average.dense, tps_tensor_view (&gradient->dense));
  if (gradient->kind == TPS_GRADIENT_SPARSE)
    {
      tps_tensor_init_copy (&average.indices, tps_tensor_view (&gradient->indices));
      tps_tensor_init_copy (&average.values, tps_tensor_view (&gradient->values));
    }
  answer_with_average (index, &average);
}

void
FakeExchange::answer_with_error (size_t index, int code, const char *text)
{
  Call call;
  GError *error;

  if (!take (index, &call))
    return;
  error = g_error_new_literal (TPS_ERROR, code, text);
  call.done (call.user_data, nullptr, error);
  g_error_free (error);
}

/* FakeModel */

const TpsModelClass FakeModel::klass = {
  "FakeModel", nullptr, nullptr, init_parameters, nullptr, nullptr, backward,
};

FakeModel::FakeModel (const std::vector<Parameter> &parameters) : base_ { {}, this }
{
  GError *error = nullptr;

  for (const Parameter &described : parameters)
    {
      TpsParameter parameter = {};

      parameter.name = g_strdup (described.name.c_str ());
      parameter.shape.dtype = TPS_DTYPE_FLOAT32;
      parameter.shape.n_dims = static_cast<guint> (described.dims.size ());
      std::copy (described.dims.begin (), described.dims.end (), parameter.shape.dims);
      parameter.is_sparse = described.is_sparse;
      parameters_.push_back (parameter);
    }
  for (guint i = static_cast<guint> (parameters_.size ()); i-- > 0;)
    order.push_back (i);
  tps_model_init (&base_.model, &klass, nullptr, &error);
  g_assert_no_error (error);
  base_.model.n_parameters = static_cast<guint> (parameters_.size ());
  base_.model.parameters = parameters_.data ();
}

FakeModel::~FakeModel ()
{
  tps_model_clear (&base_.model);
  for (TpsParameter &parameter : parameters_)
    {
      tps_gradient_clear (&parameter.sparse_gradient);
      g_free (parameter.name);
    }
}

void
FakeModel::init_parameters (TpsModel *model, gint64 seed)
{
  for (guint i = 0; i < model->n_parameters; i++)
    for (gint64 j = 0; j < tps_shape_n_elems (&model->parameters[i].shape); j++)
      model->parameters[i].value[j] = static_cast<float> (seed + i)
                                      + 0.25f * static_cast<float> (j % 7);
}

/* Returns a new gradient of a sparse parameter. The caller owns it. */
TpsGradient
FakeModel::make_rows (guint index)
{
  std::vector<gint64> ids = ids_of (index);
  gint64 n = static_cast<gint64> (ids.size ()), dim = parameters_[index].shape.dims[1];
  TpsGradient gradient = {};

  gradient.kind = TPS_GRADIENT_SPARSE;
  gradient.weight = 1;
  gradient.rows = parameters_[index].shape.dims[0];
  tps_tensor_init_1d (&gradient.indices, TPS_DTYPE_INT64, n);
  tps_tensor_init_2d (&gradient.values, TPS_DTYPE_FLOAT32, n, dim);
  std::copy (ids.begin (), ids.end (), static_cast<gint64 *> (tps_tensor_data (&gradient.indices)));
  for (gint64 r = 0; r < n; r++)
    for (gint64 j = 0; j < dim; j++)
      static_cast<gfloat *> (tps_tensor_data (&gradient.values))[r * dim + j] = gradient_of (
          index, ids[r] * dim + j);
  return gradient;
}

void
FakeModel::backward (TpsModel *model, const gfloat *, TpsGradientReady ready, gpointer user_data)
{
  FakeModel *self = reinterpret_cast<Base *> (model)->self;

  for (guint i : self->order)
    {
      TpsParameter *parameter = &model->parameters[i];

      self->before (i);
      if (parameter->is_sparse)
        {
          TpsGradient gradient = self->make_rows (i);

          tps_gradient_move (&parameter->sparse_gradient, &gradient);
        }
      else
        for (gint64 j = 0; j < tps_shape_n_elems (&parameter->shape); j++)
          parameter->gradient[j] = self->gradient_of (i, j);
      if (!self->is_forgotten (i))
        ready (user_data, i);
    }
}

std::vector<FakeModel::Parameter>
dummy_model_parameters (bool is_sparse)
{
  std::vector<FakeModel::Parameter> parameters = {
    { "embedding.weight", { 1024, 1024 }, is_sparse }
  };

  for (int i = 1; i <= 8; i++)
    {
      parameters.push_back ({ "fc" + std::to_string (i) + ".weight", { 1024, 1024 }, false });
      parameters.push_back ({ "fc" + std::to_string (i) + ".bias", { 1024 }, false });
    }
  return parameters;
}

/* Errors and threads */

std::string
text_of (GError *error)
{
  std::string text = error == nullptr
                         ? ""
                         : std::string (tps_error_code_name (error->code)) + ": " + error->message;

  g_clear_error (&error);
  return text;
}

void
run_ranks (guint n_ranks, const std::function<void (guint)> &body)
{
  std::vector<std::thread> threads;

  for (guint r = 0; r < n_ranks; r++)
    threads.emplace_back (body, r);
  for (std::thread &thread : threads)
    thread.join ();
}
