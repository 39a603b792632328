/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The phases of a step as a table. */

#pragma once

#include "bench/dlrm/pass_file.h"
#include "bench/report/figures.h"

G_BEGIN_DECLS

/* Returns the quantity of a phase, for figures such as "servers lookup". Static. */
const TpsQuantity *tps_dlrm_phase_get_quantity (TpsDlrmPhase phase);

/* Adds the times of a pass to the figures. `system` is static; `row` is copied. */
void tps_dlrm_phases_add (TpsFigures *figures, const gchar *system, const gchar *row,
                          const TpsDlrmPass *pass);

/* Formats the percentiles of all phases of a system, and the share of each phase in the total time
 * of all steps. The caller owns the result. */
gchar *tps_dlrm_phases_format (const TpsFigures *figures, const gchar *system, const gchar *row);

G_END_DECLS
