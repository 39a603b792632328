/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/runtime/trainer/table_steps/store_client.h"

#include <gtest/gtest.h>

#include "runtime/base/error.h"

namespace tps_test {

void
create_tables (TpsTableStore *store, gint64 rows, const std::vector<gsize> &dims,
               TpsInitializerKind initializer, const TpsOptimizerSpec &optimizer)
{
  for (size_t t = 0; t < dims.size (); t++)
    {
      g_auto (TpsTableSpec) spec = {};
      std::string name = "t" + std::to_string (t);

      tps_table_spec_init (&spec, name.c_str (), rows, static_cast<gint32> (dims[t]));
      spec.initializer.kind = initializer;
      spec.optimizer = optimizer;
      ASSERT_TRUE (tps_table_spec_resolve (&spec, nullptr));
      ASSERT_TRUE (tps_table_store_create (store, &spec, nullptr));
    }
}

const TpsTableClientOps StoreClient::ops = { lookup_bags, apply_bags, cancel, cancel };

StoreClient::StoreClient (TpsTableStore *store, Mode mode) : store_ (store), mode_ (mode)
{
  client_.base.ops = &ops;
  client_.self = this;
}

StoreClient::~StoreClient ()
{
  for (std::thread &thread : threads_)
    thread.join ();
}

void
StoreClient::release_push ()
{
  std::function<void ()> push = held_.front ();

  held_.pop_front ();
  push ();
}

void
StoreClient::wait_for_calls (gsize n)
{
  std::unique_lock<std::mutex> lock (calling_);

  called_.wait (lock, [&] { return n_calls_ >= n; });
}

static void
abort_call (const std::function<void (const GError *)> &fail)
{
  g_autoptr (GError) error = g_error_new_literal (TPS_ERROR, TPS_ERROR_ABORTED, "cancelled");

  fail (error);
}

/* Counts a call. Returns false if `fail` has ended it, or will end it. */
bool
StoreClient::begin (const Fail &fail)
{
  {
    std::lock_guard<std::mutex> lock (calling_);

    called_.notify_all ();
    if (n_calls_++ < first_held)
      return true;
    if (!is_cancelled_)
      {
        fail_held_ = fail;
        return false;
      }
  }
  abort_call (fail);
  return false;
}

static void
move_to_device (TpsTensor *tensor, TpsDevice *device)
{
  TpsShape shape = tensor->shape;
  TpsBuffer *buffer = device->ops->alloc (device, tps_shape_n_bytes (&shape), nullptr);

  tps_tensor_clear (tensor);
  tps_tensor_init_take (tensor, &shape, buffer, 0);
}

void
StoreClient::lookup_bags (TpsTableClient *client, const TpsBagQuery *queries, guint n_queries,
                          gint64, TpsTablesLookedUp done, gpointer user_data)
{
  StoreClient *self = reinterpret_cast<Client *> (client)->self;
  std::vector<TpsBagQuery> copy (queries, queries + n_queries);
  auto run = [=] {
    std::vector<TpsTensor> outputs (n_queries);
    g_autoptr (GError) error = nullptr;

    if (tps_table_store_lookup_bags (self->store_, nullptr, copy.data (), n_queries,
                                     outputs.data (), &error))
      {
        for (TpsTensor &output : outputs)
          if (self->device != nullptr)
            move_to_device (&output, self->device);
        done (user_data, outputs.data (), nullptr);
      }
    else
      done (user_data, nullptr, error);
    for (TpsTensor &output : outputs)
      tps_tensor_clear (&output);
  };

  if (!self->begin ([=] (const GError *error) { done (user_data, nullptr, error); }))
    return;
  self->lookups.push_back (n_queries);
  for (const TpsBagQuery &query : copy)
    self->n_ids_looked_up += static_cast<gsize> (query.indices.shape.dims[0]);
  if (self->mode_ == Mode::THREADS)
    self->threads_.emplace_back (run);
  else
    run ();
}

void
StoreClient::apply_bags (TpsTableClient *client, const TpsBagGradient *gradients, guint n_gradients,
                         gint64, TpsTablesApplied done, gpointer user_data)
{
  StoreClient *self = reinterpret_cast<Client *> (client)->self;

  if (!self->begin ([=] (const GError *error) { done (user_data, error); }))
    return;
  std::vector<TpsBagGradient> copy (gradients, gradients + n_gradients);
  gsize number = self->n_begun_++;
  auto run = [=] {
    g_autoptr (GError) error = nullptr;

    if (self->push_error.empty ())
      tps_table_store_apply_bags (self->store_, copy.data (), n_gradients, &error);
    else
      g_set_error_literal (&error, TPS_ERROR, TPS_ERROR_UNAVAILABLE, self->push_error.c_str ());
    done (user_data, error);
  };

  self->pushes.push_back (n_gradients);
  for (const TpsBagGradient &gradient : copy)
    self->n_ids_pushed += static_cast<gsize> (gradient.query.indices.shape.dims[0]);
  if (self->mode_ == Mode::HELD)
    self->held_.push_back (run);
  else if (self->mode_ == Mode::AT_ONCE)
    run ();
  else
    self->threads_.emplace_back ([=] {
      if (self->before_push)
        self->before_push ();
      std::unique_lock<std::mutex> lock (self->pushing_);

      self->applied_.wait (lock, [=] { return self->n_applied_ == number; });
      run ();
      self->n_applied_++;
      self->applied_.notify_all ();
    });
}

/* Held calls never end by themselves, so a cancel must end them. */
void
StoreClient::cancel (TpsTableClient *client)
{
  StoreClient *self = reinterpret_cast<Client *> (client)->self;

  while (!self->held_.empty ())
    self->release_push ();
  Fail fail;
  {
    std::lock_guard<std::mutex> lock (self->calling_);

    self->is_cancelled_ = true;
    fail.swap (self->fail_held_);
  }
  if (fail)
    abort_call (fail);
}

}
