/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* thrift/trainer.thrift: TrainSpec as the runtime's TpsTrainPlan, TrainStatus as TpsTrainStatus; functions named as in
 * wire_parameter_server.h.
 *
 * Fields of TrainSpec that are not `required` may be missing: the plan then has the default of tps_train_plan_new().
 * Checked here: that numbers fit the plan, and the two JSON texts, which become class and GVariant dictionary. Whether names
 * are known and shapes fit is for tps_trainer_train().
 */

#pragma once

#include "plugin/frame/writer.h"
#include "plugin/wire/fields.h"
#include "runtime/trainer/pass/train_plan.h"

G_BEGIN_DECLS

/* Trainer.train: the plan, owned by the caller, or NULL. */
TpsTrainPlan *tps_train_arguments_decode (TpsReader *in, GError **error);
/* `data`: const TpsTrainPlan *. */
void tps_train_arguments_encode (TpsWriter *out, gconstpointer data);

/* `data`: const TpsTrainStatus *; TpsTrainStatus *, zero before. */
void tps_train_status_result_encode (TpsWriter *out, gconstpointer data);
gboolean tps_train_status_result_decode (TpsReader *in, TpsWireType type, gpointer data,
                                         GError **error);

G_END_DECLS
