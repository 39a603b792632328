/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A DDP with buckets in device memory: the arguments of its hooks, and the order of their calls. */

#include "runtime/trainer/ddp/ddp.h"

#include <functional>
#include <string>
#include <thread>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/device/backend.h"
#include "runtime/base/error.h"
#include "tests/runtime/trainer/ddp/fakes.h"
#include "tests/runtime/trainer/ddp/fleet.h"
#include "tests/runtime/fake_device/fake_device.h"

namespace {

using testing::ElementsAre;

/* The model of a trainer, its DDP and one batch, on a device. */
class Trainee
{
public:
  explicit Trainee (const TpsHook *hook, TpsDevice *where = tps_fake_device_get (0),
                    bool sparse = false)
      : device (where)
  {
    GVariant *config = model_config (sparse, 20, 8, 2);
    TpsDdpOptions options = {};

    model = tps_model_class_find ("DummyModel", nullptr)->create (config, device, nullptr);
    g_variant_unref (config);
    context.state = tps_hook_state_class_find ("BasicHookState", nullptr)->create ();
    context.metrics = tps_metrics_new (nullptr, nullptr);
    context.exchange = exchange.get ();
    for (gint32 b = 0; b < 8; b++)
      {
        pieces_[b].server = b < 3 ? static_cast<guint> (b + 2) % 3 : 0;
        pieces_[b].param_loc = b;
        routes_[b] = { &pieces_[b], 1 };
      }
    context.routes = routes_;
    context.timeout_ns = 60 * SECOND_NS;
    options.hook = hook;
    options.context = &context;
    ddp = tps_ddp_new (model, &options, nullptr);
    EXPECT_TRUE (tps_model_fill_parameters (model, 7, nullptr));
    batch_ = make_batch (
        4, 3, [] (gint64 i) { return i % 20; }, [] (gint64 i) { return i; });
    move (&batch_.input);
    move (&batch_.target);
    loss_ = device->ops->alloc_host (device, sizeof (gdouble), nullptr);
    gradient_ = device->ops->alloc (device, 4 * 8 * sizeof (float), nullptr);
  }

  ~Trainee ()
  {
    tps_ddp_free (ddp);
    model->klass->free (model);
    tps_train_batch_clear (&batch_);
    tps_buffer_unref (loss_);
    tps_buffer_unref (gradient_);
    tps_metrics_unref (context.metrics);
    context.state->klass->free (context.state);
  }

  Trainee (const Trainee &) = delete;
  Trainee &operator= (const Trainee &) = delete;

  /* Runs forward and backward, and subtracts the averages from the parameters. */
  void
  step ()
  {
    TpsTensorView output;
    GError *error = nullptr;

    context.state->klass->next_batch (context.state);
    tps_ddp_zero_grad (ddp);
    ASSERT_TRUE (model->klass->forward (model, tps_tensor_view (&batch_.input), &output, nullptr));
    tps_criterion_find ("cel", nullptr)
        ->forward_backward (model->stream, output, tps_tensor_view (&batch_.target),
                            reinterpret_cast<gdouble *> (tps_buffer_get_data (loss_)),
                            reinterpret_cast<gfloat *> (tps_buffer_get_data (gradient_)));
    EXPECT_TRUE (tps_ddp_backward (
        ddp, reinterpret_cast<gfloat *> (tps_buffer_get_data (gradient_)), &error))
        << error->message;
    tps_ddp_step_sgd (ddp, 10);
  }

  std::string
  digest ()
  {
    guint8 bytes[16] = {};

    EXPECT_TRUE (tps_ddp_digest (ddp, bytes, nullptr));
    return std::string (reinterpret_cast<char *> (bytes), sizeof bytes);
  }

  TpsDevice *device;
  TpsModel *model;
  FakeExchange exchange { 3 };
  TpsHookContext context = {};
  TpsDdp *ddp;

private:
  void
  move (TpsTensor *tensor)
  {
    TpsShape shape = tensor->shape;
    TpsBuffer *buffer = device->ops->alloc (device, tps_shape_n_bytes (&shape), nullptr);

    device->ops->copy (model->stream, tps_buffer_get_data (buffer), tps_tensor_data (tensor),
                       tps_shape_n_bytes (&shape));
    EXPECT_TRUE (device->ops->stream_sync (model->stream, nullptr));
    tps_tensor_clear (tensor);
    tps_tensor_init_take (tensor, &shape, buffer, 0);
  }

  TpsPiece pieces_[8] = {};
  TpsRoute routes_[8];
  TpsTrainBatch batch_ = {};
  TpsBuffer *loss_, *gradient_;
};

/* Returns the digest of the parameters after the same steps on the CPU, with the gradients as
 * averages. */
std::string
digest_on_cpu (int n_steps)
{
  Trainee plain (tps_hook_find ("rpc_hook", nullptr), tps_device_find ("cpu", nullptr));

  plain.exchange.on_call = [] (FakeExchange *exchange, size_t index) {
    exchange->answer_with_own_gradient (index);
  };
  for (int i = 0; i < n_steps; i++)
    plain.step ();
  return plain.digest ();
}

/* The action that a test's hook takes on a call. */
std::function<void (const TpsHookContext *, TpsBucketCall *)> reduce_func;
TpsHookReach reach;

void
reduce (const TpsHookContext *context, TpsBucketCall *call)
{
  reduce_func (context, call);
}

TpsHookReach
get_reach (const TpsHookContext *, const TpsBucketCall *)
{
  return reach;
}

const TpsHook OWN_HOOK = { "own_hook", 0, reduce, get_reach };

/* Ends the call with the gradient as the average. */
void
finish_with_own (TpsBucketCall *call)
{
  TpsGradient average = {};

  tps_gradient_init_ref (&average, &call->contribution);
  tps_bucket_call_finish (call, &average, nullptr);
  tps_gradient_clear (&average);
}

bool
is_on (const TpsBucketCall *call, TpsDevice *device)
{
  return tps_buffer_get_device (call->contribution.dense.buffer) == device;
}

TEST (DeviceDdp, AHookThatReachesTheStreamIsCalledBeforeTheDeviceHasDoneAnything)
{
  Trainee t (&OWN_HOOK);
  std::vector<guint> order;

  reach = TPS_HOOK_REACH_STREAM;
  reduce_func = [&] (const TpsHookContext *, TpsBucketCall *call) {
    order.push_back (call->index);
    EXPECT_TRUE (is_on (call, t.device));
    EXPECT_EQ (call->stream->device, t.device);
    /* The work is still pending, because this device works only when a thread waits for it. */
    EXPECT_FALSE (t.device->ops->event_query (call->ready));
    EXPECT_TRUE (t.device->ops->event_sync (call->ready, nullptr));
    finish_with_own (call);
  };
  t.step ();
  EXPECT_THAT (order, ElementsAre (0, 1, 2, 3, 4));
  EXPECT_EQ (t.digest (), digest_on_cpu (1));
}

TEST (DeviceDdp, AHookThatReachesTheDeviceGetsCompleteGradients)
{
  Trainee t (&OWN_HOOK);
  const std::thread::id training = std::this_thread::get_id ();

  reach = TPS_HOOK_REACH_DEVICE;
  reduce_func = [&] (const TpsHookContext *, TpsBucketCall *call) {
    EXPECT_TRUE (is_on (call, t.device));
    EXPECT_EQ (call->ready, nullptr);
    EXPECT_NE (std::this_thread::get_id (), training); /* the training thread continues meanwhile */
    finish_with_own (call);
  };
  for (int i = 0; i < 3; i++)
    t.step ();
  EXPECT_EQ (t.digest (), digest_on_cpu (3));
}

TEST (DeviceDdp, OtherHooksGetACopyThatTheDeviceNeedNotStage)
{
  Trainee t (&OWN_HOOK);
  std::vector<gpointer> seen[5];

  reach = TPS_HOOK_REACH_HOST;
  reduce_func = [&] (const TpsHookContext *, TpsBucketCall *call) {
    EXPECT_FALSE (is_on (call, t.device));
    EXPECT_EQ (call->stream, nullptr);
    EXPECT_EQ (tps_tensor_data (&call->storage), tps_tensor_data (&call->contribution.dense));
    seen[call->index].push_back (tps_tensor_data (&call->storage));
    finish_with_own (call);
  };
  for (int i = 0; i < 2; i++)
    t.step ();
  for (const std::vector<gpointer> &places : seen)
    {
      ASSERT_EQ (places.size (), 2u);
      EXPECT_EQ (places[0], places[1]); /* the same memory in every step */
    }
  EXPECT_EQ (t.digest (), digest_on_cpu (2));
}

/* Acts like an exchange whose servers 1 and up share the device's memory. */
gboolean
takes_device (TpsExchange *, guint server, TpsDevice *)
{
  return server != 0;
}

TEST (DeviceDdp, ServersThatTakeTheDevicesMemoryGetItAndAnswerInEitherKind)
{
  Trainee t (tps_hook_find ("rpc_hook", nullptr));
  TpsExchangeOps ops = *t.exchange.get ()->ops;

  ops.takes_device = takes_device;
  t.exchange.get ()->ops = &ops;
  t.exchange.on_call = [&] (FakeExchange *exchange, size_t index) {
    const TpsGradient *gradient = exchange->call (index).gradient;
    TpsDevice *device = tps_buffer_get_device (gradient->dense.buffer);
    TpsGradient average = {};

    EXPECT_EQ (device == t.device, exchange->call (index).server != 0);
    if (device != t.device)
      exchange->answer_with_own_gradient (index);
    else if (index % 2 == 0) /* device memory of the exchange, which must be released */
      {
        TpsStream *stream = device->ops->stream_new (device, nullptr);
        gsize n_bytes = tps_shape_n_bytes (&gradient->dense.shape);
        TpsBuffer *buffer = device->ops->alloc (device, n_bytes, nullptr);

        device->ops->copy (stream, tps_buffer_get_data (buffer), tps_tensor_data (&gradient->dense),
                           n_bytes);
        device->ops->stream_free (stream);
        average.kind = TPS_GRADIENT_DENSE;
        average.weight = 1;
        tps_tensor_init_take (&average.dense, &gradient->dense.shape, buffer, 0);
        exchange->answer_with_average (index, &average);
      }
    else /* host memory */
      {
        TpsStream *stream = device->ops->stream_new (device, nullptr);

        average.kind = TPS_GRADIENT_DENSE;
        average.weight = 1;
        tps_tensor_init (&average.dense, &gradient->dense.shape);
        device->ops->copy (stream, tps_tensor_data (&average.dense),
                           tps_tensor_data (&gradient->dense),
                           tps_shape_n_bytes (&gradient->dense.shape));
        device->ops->stream_free (stream);
        exchange->answer_with_average (index, &average);
      }
  };
  for (int i = 0; i < 3; i++)
    t.step ();
  EXPECT_EQ (t.digest (), digest_on_cpu (3));
}

/* The memory of a step's average must be released before the next gradient of the bucket is
 * sent. */
TEST (DeviceDdp, AveragesInMemoryOfOthersAreLetGoOfBeforeTheNextAreAskedFor)
{
  Trainee t (&OWN_HOOK);
  int n_held[5] = {};

  reach = TPS_HOOK_REACH_DEVICE;
  reduce_func = [&] (const TpsHookContext *, TpsBucketCall *call) {
    TpsGradient average = {};

    EXPECT_EQ (n_held[call->index], 0);
    n_held[call->index]++;
    average.kind = TPS_GRADIENT_DENSE;
    average.weight = 1;
    tps_tensor_init_take (&average.dense, &call->contribution.dense.shape,
                          tps_buffer_new_foreign (
                              tps_tensor_data (&call->contribution.dense),
                              tps_shape_n_bytes (&call->contribution.dense.shape), t.device,
                              [] (gpointer held) { --*static_cast<int *> (held); },
                              &n_held[call->index]),
                          0);
    tps_bucket_call_finish (call, &average, nullptr);
    tps_gradient_clear (&average);
  };
  for (int i = 0; i < 4; i++)
    t.step ();
  EXPECT_EQ (t.digest (), digest_on_cpu (4));
}

} /* namespace */
