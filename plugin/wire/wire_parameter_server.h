/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* thrift/parameter_server.thrift: arguments and results of the methods that average.
 *
 * `_arguments_encode` are TpsWriteArguments: they write the fields of the arguments struct. `_arguments_decode` read the
 * whole struct. `_result_encode` are TpsWriteResult: field 0 and the value; `_result_decode` are TpsReadResult.
 * Ownership and errors as in wire_tensor.h.
 */

#pragma once

#include "plugin/wire/wire_tensor.h"

G_BEGIN_DECLS

typedef struct
{
  gint32 trainer;
  gint64 batch;
  gint32 param_loc;
  TpsGradient gradient;
} TpsAverageGradientArguments;

gboolean tps_average_gradient_arguments_decode (TpsReader *in,
                                                TpsAverageGradientArguments *arguments,
                                                GError **error);

/* `data`: const TpsAverageGradientArguments *. */
void tps_average_gradient_arguments_encode (TpsWriter *out, gconstpointer data);
void tps_average_gradient_arguments_clear (TpsAverageGradientArguments *arguments);

/* `gradient`: const TpsGradient *. */
void tps_average_gradient_result_encode (TpsWriter *out, gconstpointer gradient);

/* `gradient`: TpsGradient *, zero before. */
gboolean tps_average_gradient_result_decode (TpsReader *in, TpsWireType type, gpointer gradient,
                                             GError **error);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsAverageGradientArguments, tps_average_gradient_arguments_clear)

G_END_DECLS
