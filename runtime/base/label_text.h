/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Labels of a series as text, the same in Prometheus' text format and in OpenMetrics:
 *
 *   method="EmbeddingTable:lookup_bags",code="NOT_FOUND"
 *
 * Backslashes, quotes and ends of lines are escaped. Invalid UTF-8 is replaced, and a value that is
 * longer than TPS_LABEL_MAX_BYTES is truncated. Equal values have equal text, so the text
 * identifies a series of its family. Internal to runtime/base.
 */

#pragma once

#include "runtime/base/counters.h"

G_BEGIN_DECLS

/* Returns `value` as valid UTF-8 and truncated, but not escaped. The caller owns the text. */
gchar *tps_label_dup_value (const gchar *value);

/* The caller owns the text. `values` [TPS_MAX_LABELS] of the labels of `family`; NULL = "". */
gchar *tps_label_text_new (const TpsFamily *family, const gchar *const *values);

G_END_DECLS
