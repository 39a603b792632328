/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The classes that compression.c registers. Internal to this folder. */

#pragma once

#include "runtime/trainer/compress/compression.h"

G_BEGIN_DECLS

extern const TpsCompressionClass tps_no_compression;
extern const TpsCompressionClass tps_fp16_compression;
extern const TpsCompressionClass tps_bf16_compression;
extern const TpsCompressionClass tps_top_k_compression;

G_END_DECLS
