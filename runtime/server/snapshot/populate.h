/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Threads that run ahead of the writing thread, and make the kernel provide pages of memory before
 * they are written. The kernel clears every page; in one thread, this takes longer than
 * reading the same number of bytes from a fast disk. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct TpsPopulate TpsPopulate;

/* Begins to provide the pages of [memory, memory + n_bytes), which must be a mapping of the caller,
 * or a part of one, and stay until tps_populate_end(). The caller may write to the memory
 * meanwhile. The contents do not change. NULL: the block is too small to be worth a thread, or no
 * thread could be started. */
TpsPopulate *tps_populate_begin (gpointer memory, gsize n_bytes);

/* Ends the threads, early if necessary, and frees. NULL is fine. */
void tps_populate_end (TpsPopulate *populate);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsPopulate, tps_populate_end)

G_END_DECLS
