/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* "DummyData": samples of random ids with random classes.
 *
 * Arguments: max_val, sample_count, sample_length (integers from 1), sparsity_percentage (a number
 * in [0, 100)). The ids 0 … max_val - 1 are put in random order, and the first int (max_val * (100
 * - sparsity_percentage) / 100) are used. Each id of a sample is drawn from these with replacement.
 * Targets are uniform in [0, max_val).
 */

#pragma once

#include "runtime/trainer/nn/dataset.h"

extern const TpsDataClass tps_dummy_data_class;
