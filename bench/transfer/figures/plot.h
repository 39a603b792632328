/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The transfer benchmark's figures as a picture. */

#pragma once

#include "bench/transfer/figures/transfer_figures.h"

G_BEGIN_DECLS

/* GB/s over bytes of the calls that were made one by one, a curve a system; `specs` of
 * TpsTransferSystemSpec, `rows` of TpsTransferRow. The format follows the name: .png or .svg.
 * Errors: TPS_ERROR_UNAVAILABLE (gnuplot is missing or fails). */
gboolean tps_transfer_plot (const TpsFigures *figures, const GPtrArray *specs, const GArray *rows,
                            const gchar *path, GError **error);

G_END_DECLS
