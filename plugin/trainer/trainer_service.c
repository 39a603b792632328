/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/trainer/trainer_service.h"

#include "plugin/service/methods.h"
#include "plugin/wire/wire_trainer.h"

static void
handle_train (TpsCall *call, gpointer service)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TpsTrainPlan) plan = tps_train_plan_new ();

  if (tps_call_read_arguments (call, plan, &error))
    tps_trainer_train (service, g_steal_pointer (&plan), &error);
  tps_call_reply_done (call, error);
}

static void
handle_status (TpsCall *call, gpointer service)
{
  g_auto (TpsTrainStatus) status = { 0 };

  tps_trainer_get_status (service, &status);
  tps_call_reply_value (call, &status);
}

static void
handle_cancel (TpsCall *call, gpointer service)
{
  tps_trainer_cancel (service);
  tps_call_reply_done (call, NULL);
}

static void
shut_down (gpointer object)
{
  tps_trainer_cancel (object);
}

/* In the long lane: train checks every id of every batch. */
static const TpsMethod methods[] = { TPS_TRAINER_METHODS (handle_), TPS_METHODS_END };

TpsService
tps_trainer_service (TpsTrainer *trainer)
{
  return (TpsService) { .size = sizeof (TpsService),
                        .name = "Trainer",
                        .methods = methods,
                        .object = trainer,
                        .destroy = (GDestroyNotify) tps_trainer_free,
                        .shut_down = shut_down };
}
