/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A GPU as a device of runtime/device/backend.h.
 *
 * A device is started by the first entry that needs it: CUDA's context takes some hundred MB of the
 * GPU, which a process must not take on devices that it does not use. Every entry makes the device
 * the current one of the calling thread, and leaves it so: going back to another would make CUDA
 * set that one up. A failure makes the stream bad; one after which CUDA answers every call with the
 * same error makes the device dead, and with it every stream: TPS_ERROR_DEVICE_LOST. The process
 * and its other devices live on.
 */

#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <pthread.h>

#include "runtime/device/backend.h"

G_BEGIN_DECLS

typedef struct
{
  TpsDevice parent;
  gint ordinal;
  gchar name[16];
  guint8 uuid[TPS_DEVICE_UUID_BYTES];
  gsize n_bytes; /* of the GPU's memory */

  pthread_mutex_t start_lock; /* held while the device is started */
  gint is_started;            /* atomic; the context and what follows are there */
  cudaStream_t memory_stream; /* orders what comes from and goes back to the pool */
  cudaMemPool_t pool;         /* CUDA's own; see memory.c */

  pthread_mutex_t lock; /* guards `death` */
  gchar *death;         /* why it may not be used again; NULL = it lives */
} TpsCudaDevice;

typedef struct
{
  TpsStream parent;
  cudaStream_t handle;
  cudaEvent_t reached;   /* what stream_sync waits for */
  cublasHandle_t cublas; /* from the first product on */
  gint64 *count;         /* [1] in the device's memory, and ... */
  gint64 *host_count;    /* ... where it is copied to */
  GError *error;         /* the first failure; owned */
} TpsCudaStream;

/* -- device.c -- */

/* Never freed, and not started: only its properties are looked at. NULL where this library has no
 * code for the device, or the driver does not answer; the message says why. */
TpsCudaDevice *tps_cuda_device_new (gint ordinal, const TpsDeviceOps *ops, GError **error);

/* Makes the device the current one, and starts it if that was not done before. FALSE with
 * DEVICE_LOST when it is dead or does not start; the next call tries again to start a device that
 * may still start. Thread: any. */
gboolean tps_cuda_device_enter (TpsCudaDevice *device, GError **error);

/* The same without starting or checking anything: for giving things back on a device that may be
 * lost. */
void tps_cuda_device_enter_lost (TpsCudaDevice *device);

/* Makes any started device the current one, if the current one is not started. FALSE: no device is
 * started. For calls that would otherwise set up a context on whatever device is current. Thread:
 * any. */
gboolean tps_cuda_device_enter_any (void);

/* TRUE for cudaSuccess. Else sets DEVICE_LOST, naming `what` was done, and lets the device die
 * where CUDA will not recover. Thread: any. */
gboolean tps_cuda_device_check (TpsCudaDevice *device, cudaError_t code, const gchar *what,
                                GError **error);

/* -- memory.c -- */

/* Sets the policy of the device's pool. Part of starting a device. */
cudaError_t tps_cuda_memory_start (TpsCudaDevice *device);

/* Gives memory that nothing uses back to the GPU, for a second attempt after
 * cudaErrorMemoryAllocation. */
void tps_cuda_memory_trim (TpsCudaDevice *device);

TpsBuffer *tps_cuda_alloc (TpsDevice *base, gsize n_bytes, GError **error);
TpsBuffer *tps_cuda_alloc_host (TpsDevice *base, gsize n_bytes, GError **error);

/* -- ipc.c -- */

TpsBuffer *tps_cuda_alloc_exported (TpsDevice *base, gsize n_bytes, guint8 *handle, GError **error);
TpsBuffer *tps_cuda_open_exported (TpsDevice *base, const guint8 *handle, gsize n_bytes,
                                   GError **error);
void tps_cuda_get_uuid (TpsDevice *base, guint8 *uuid);

/* -- stream.c -- */

TpsStream *tps_cuda_stream_new (TpsDevice *base, GError **error);
void tps_cuda_stream_free (TpsStream *base);
gboolean tps_cuda_stream_sync (TpsStream *base, GError **error);

/* For operations: FALSE when the stream is bad, and nothing is to be done. Makes the device the
 * current one. */
gboolean tps_cuda_stream_enter (TpsCudaStream *stream);
/* Notes the first failure. TRUE for cudaSuccess. */
gboolean tps_cuda_stream_check (TpsCudaStream *stream, cudaError_t code, const gchar *what);
/* Takes `error`, unless there is one already. */
void tps_cuda_stream_fail (TpsCudaStream *stream, GError *error);
/* Waits for *stream->count; 0 when the stream is bad. */
gsize tps_cuda_stream_read_count (TpsCudaStream *stream, const gchar *what);
/* Blocks until `event` is reached: looks a few times, then sleeps. */
cudaError_t tps_cuda_wait_for_event (cudaEvent_t event);

/* -- event.c -- */

TpsEvent *tps_cuda_event_new (TpsDevice *base, GError **error);
void tps_cuda_event_free (TpsEvent *base);
void tps_cuda_event_record (TpsEvent *base, TpsStream *stream_base);
void tps_cuda_stream_wait_event (TpsStream *stream_base, TpsEvent *base);
gboolean tps_cuda_event_query (TpsEvent *base);
gboolean tps_cuda_event_sync (TpsEvent *base, GError **error);
gboolean tps_cuda_events_elapsed (TpsEvent *start, TpsEvent *end, gdouble *ms, GError **error);

/* -- operations.c -- */

extern const TpsDeviceOps tps_cuda_ops;

G_END_DECLS
