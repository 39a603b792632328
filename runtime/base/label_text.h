/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Labels of a series as text, the same in Prometheus' text format and in OpenMetrics:
 *
 *   method="EmbeddingTable:lookup_bags",code="NOT_FOUND"
 *
 * Backslashes, quotes and ends of lines are escaped. A value that is not UTF-8 is made so; one that
 * is longer than TPS_LABEL_MAX_BYTES is cut there. Equal values have equal text, so the text
 * identifies a series of its family. Inside runtime/base only.
 */

#pragma once

#include "runtime/base/counters.h"

G_BEGIN_DECLS

/* `value` as it is written, unescaped; owned by the caller. */
gchar *tps_label_dup_value (const gchar *value);

/* Owned by the caller. `values` [TPS_MAX_LABELS] of the labels of `family`; NULL = "". */
gchar *tps_label_text_new (const TpsFamily *family, const gchar *const *values);

G_END_DECLS
