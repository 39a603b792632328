/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* As wire_forms.h, for thrift/trainer.thrift. */

#pragma once

#include "plugin/wire/descriptor.h"
#include "runtime/tensor/train_plan.h"

extern const TpsField tps_train_status_fields[]; /* generated */

extern const TpsValueKind tps_kind_timeout;      /* gint64, in nanoseconds; on the wire in ms */
extern const TpsValueKind tps_kind_json_config;  /* GVariant *; on the wire a text of JSON */
extern const TpsValueKind tps_kind_model_config; /* the whole TpsTrainPlan */

/* A TrainStatus, in which the error consists of two fields. */
typedef struct
{
  TpsTrainStatus status;
  gboolean has_error_code;
  gint32 error_code;
  gchar *message;
  gboolean has_samples;
} TpsTrainStatusForm;

gboolean tps_read_train_status (TpsReader *in, const TpsFieldPath *path, gpointer target,
                                GError **error);
void tps_write_train_status (TpsWriter *out, gconstpointer source);
