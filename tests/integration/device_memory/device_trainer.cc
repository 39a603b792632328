// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "tests/integration/device_memory/device_trainer.h"

#include <cmath>
#include <cstring>

#include "runtime/device/device_memory.h"
#include "runtime/base/error.h"

namespace thriftps_test {

namespace {

constexpr gint64 kPatienceNs = 100 * G_GINT64_CONSTANT (1000000000);

struct Pushed
{
  std::promise<Averaged> promise;
  TpsDevice *device;
  TpsGradient gradient = {};
};

/* Reads the average through the host. A trainer that shares memory does not need this path. */
Averaged
Read (const TpsTensor &average)
{
  Averaged read = { "", {}, tps_device_memory_of_tensor (&average) != nullptr };
  g_auto (TpsTensor) here = {};

  if (!read.was_there)
    tps_tensor_init_ref (&here, &average);
  else if (!tps_device_memory_download (&here, &average, nullptr))
    return { "the average cannot be read", {}, true };
  read.values.resize (static_cast<size_t> (tps_shape_n_elems (&here.shape)));
  memcpy (read.values.data (), tps_tensor_data (&here), tps_shape_n_bytes (&here.shape));
  return read;
}

void
OnDone (gpointer user_data, TpsGradient *average, const GError *error)
{
  std::unique_ptr<Pushed> pushed (static_cast<Pushed *> (user_data));

  tps_gradient_clear (&pushed->gradient);
  if (error != nullptr)
    pushed->promise.set_value ({ error->message, {}, false });
  else
    pushed->promise.set_value (Read (average->dense));
}

} // namespace

DeviceTrainer::DeviceTrainer (const std::string &address, gint32 trainer, TpsDevice *device)
    : device_ (device)
{
  const gchar *addresses[] = { address.c_str () };
  TpsRemoteExchangeOptions options = {};

  options.trainer = trainer;
  options.addresses = addresses;
  options.n_addresses = 1;
  exchange_ = tps_remote_exchange_new (&options, nullptr);
}

DeviceTrainer::~DeviceTrainer ()
{
  exchange_->ops->free (exchange_);
}

bool
DeviceTrainer::MayShare () const
{
  return exchange_->ops->takes_device (exchange_, 0, device_);
}

std::future<Averaged>
DeviceTrainer::Push (gint64 batch, gint32 param_loc, const std::vector<float> &values)
{
  auto *pushed = new Pushed;
  std::future<Averaged> averaged = pushed->promise.get_future ();
  gint64 dim = static_cast<gint64> (values.size ());
  gsize n_bytes = values.size () * sizeof (float);
  TpsBuffer *buffer;
  TpsShape shape;

  tps_shape_init (&shape, TPS_DTYPE_FLOAT32, 1, &dim, "shape", nullptr);
  if (device_ == nullptr)
    buffer = tps_buffer_new_copy (values.data (), n_bytes);
  else
    {
      buffer = device_->ops->alloc (device_, n_bytes, nullptr);
      tps_device_memory_copy (device_, tps_buffer_get_data (buffer), values.data (), n_bytes,
                              nullptr);
    }
  pushed->device = device_;
  pushed->gradient.kind = TPS_GRADIENT_DENSE;
  pushed->gradient.weight = 1;
  tps_tensor_init_take (&pushed->gradient.dense, &shape, buffer, 0);
  exchange_->ops->average_gradient (exchange_, 0, batch, param_loc, &pushed->gradient,
                                    1000 * g_get_monotonic_time () + kPatienceNs, OnDone, pushed);
  return averaged;
}

std::vector<float>
SomeValues (gint64 batch, gint32 param_loc, gint32 trainer, size_t n)
{
  std::vector<float> values (n);
  uint32_t seed = static_cast<uint32_t> (batch * 1000003 + param_loc * 1009 + trainer * 17 + 1);

  for (float &value : values)
    {
      seed = seed * 1664525 + 1013904223;
      value = std::ldexp (static_cast<float> (seed >> 8), static_cast<int> (seed % 24) - 30);
    }
  return values;
}

} // namespace thriftps_test
