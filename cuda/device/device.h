/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A GPU as a device of runtime/device/backend.h.
 *
 * The first call that needs a device starts it: CUDA's context takes a few hundred MB of the GPU,
 * which a process must not take on devices that it does not use. Every function of the device makes
 * it the current one of the calling thread and leaves it current, because switching back to another
 * device would make CUDA create a context there.
 *
 * A failure puts the stream into an error state. If CUDA does not recover from the failure
 * (tps_cuda_failure_is_passing()), the device is lost, and with it all of its streams:
 * TPS_ERROR_DEVICE_LOST. The process and its other devices continue.
 */

#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <glib.h>
#include <pthread.h>

#include "runtime/device/backend.h"

G_BEGIN_DECLS

/* -- failure -- */

/* The extent of the damage after a CUDA error. */

/* Returns TRUE if the device is still usable after the error: the call was refused, or memory ran
 * out. Any other error, known or unknown, leaves the process's context on that device permanently
 * broken. */
gboolean tps_cuda_failure_is_passing (cudaError_t code);

typedef struct
{
  TpsDevice parent;
  gint ordinal;
  gchar name[16];
  guint8 uuid[TPS_DEVICE_UUID_BYTES];
  gsize n_bytes; /* of device memory */

  pthread_mutex_t start_lock; /* held while the device is started */
  gint is_started;            /* atomic; the context and the members below exist */
  cudaStream_t memory_stream; /* orders allocations from the pool and returns to it */
  cudaMemPool_t pool;         /* CUDA's own */

  pthread_mutex_t lock; /* guards `loss` */
  gchar *loss;          /* the reason why the device is lost; NULL = it is usable */
} TpsCudaDevice;

typedef struct
{
  TpsStream parent;
  cudaStream_t handle;
  cudaEvent_t reached;   /* the event that stream_sync waits for */
  cublasHandle_t cublas; /* created at the first product */
  GError *error;         /* the first failure; owned */
} TpsCudaStream;

/* Creates a device without starting it: only its properties are read. Devices are never freed.
 * Errors (NULL): UNAVAILABLE (this library has no code for the device), DEVICE_LOST (the driver
 * does not respond); the message gives the reason. */
TpsCudaDevice *tps_cuda_device_new (gint ordinal, const TpsDeviceOps *ops, GError **error);

/* Makes the device the current one of this thread, and starts it if necessary. If the start fails
 * and CUDA recovers, the next call tries again. Errors: DEVICE_LOST if the device is lost or does
 * not start. Thread: any. */
gboolean tps_cuda_device_enter (TpsCudaDevice *device, GError **error);

/* Makes a device that may be lost the current one, unchecked, to release its resources. */
void tps_cuda_device_enter_lost (TpsCudaDevice *device);

/* Returns TRUE for cudaSuccess. Otherwise sets DEVICE_LOST; `what` names the operation in the
 * message. Marks the device as lost if CUDA does not recover. Thread: any. */
gboolean tps_cuda_device_check (TpsCudaDevice *device, cudaError_t code, const gchar *what,
                                GError **error);

/* Returns unused memory of the pool to the GPU. Must be called before a second attempt after
 * cudaErrorMemoryAllocation. The device must be the current one. Blocks until the memory stream has
 * run. Thread: any. */
void tps_cuda_memory_trim (TpsCudaDevice *device);

/* The slots of TpsDeviceOps of the same names; runtime/device/backend.h has the contract.
 * tps_cuda_alloc() takes memory from the pool; its buffer must be released after the work that uses
 * it. The release of a buffer of tps_cuda_alloc_exported() waits for all work of the device. */
TpsBuffer *tps_cuda_alloc (TpsDevice *base, gsize n_bytes, GError **error);
TpsBuffer *tps_cuda_alloc_host (TpsDevice *base, gsize n_bytes, GError **error);
TpsBuffer *tps_cuda_alloc_exported (TpsDevice *base, gsize n_bytes, guint8 *handle, GError **error);
TpsBuffer *tps_cuda_open_exported (TpsDevice *base, const guint8 *handle, gsize n_bytes,
                                   GError **error);
void tps_cuda_get_uuid (TpsDevice *base, guint8 *uuid);
TpsStream *tps_cuda_stream_new (TpsDevice *base, GError **error);
void tps_cuda_stream_free (TpsStream *base);
gboolean tps_cuda_stream_sync (TpsStream *base, GError **error);
gboolean tps_cuda_stream_check_failure (TpsStream *base, GError **error); /* stream_check */

/* Starts an operation: makes the device the current one. Returns FALSE if the stream is in the
 * error state or the device is lost; the operation must then do nothing. */
gboolean tps_cuda_stream_enter (TpsCudaStream *stream);
/* Returns TRUE for cudaSuccess. Otherwise stores the error in the stream, unless the stream has one
 * already; `what` names the operation. Marks the device as lost if CUDA does not recover. */
gboolean tps_cuda_stream_check (TpsCudaStream *stream, cudaError_t code, const gchar *what);
/* Takes ownership of `error`, and stores it unless the stream has an error already. */
void tps_cuda_stream_fail (TpsCudaStream *stream, GError *error);
/* The slots for events. An event carries the failure of its stream to its waiters; an event of a
 * lost device counts as reached. */
TpsEvent *tps_cuda_event_new (TpsDevice *base, GError **error);
void tps_cuda_event_free (TpsEvent *base);
void tps_cuda_event_record (TpsEvent *base, TpsStream *stream_base);
void tps_cuda_stream_wait_event (TpsStream *stream_base, TpsEvent *base);
gboolean tps_cuda_event_query (TpsEvent *base);
gboolean tps_cuda_event_sync (TpsEvent *base, GError **error);
gboolean tps_cuda_events_elapsed (TpsEvent *start, TpsEvent *end, gdouble *ms, GError **error);

/* Defines cuda_NAME(), the slot of an operation: it calls tps_cuda_NAME() of cuda/kernels, unless
 * the stream is in the error state, and stores a failure in the stream. */
#define TPS_CUDA_SLOT(name, parameters, arguments)                                            \
  static void cuda_##name (TpsStream *stream, TPS_CUDA_UNPACK parameters)                     \
  {                                                                                           \
    TpsCudaStream *cuda = (TpsCudaStream *) stream;                                           \
                                                                                              \
    if (tps_cuda_stream_enter (cuda))                                                         \
      tps_cuda_stream_check (cuda, tps_cuda_##name (cuda->handle, TPS_CUDA_UNPACK arguments), \
                             #name);                                                          \
  }
#define TPS_CUDA_UNPACK(...) __VA_ARGS__

typedef enum
{
  TPS_CUDA_PLACE_PAGEABLE, /* host memory that CUDA copies through a buffer of its own */
  TPS_CUDA_PLACE_PINNED,   /* page-locked host memory */
  TPS_CUDA_PLACE_DEVICE,
} TpsCudaPlace;

/* Returns CUDA's kind of the memory; managed memory counts as DEVICE. Thread: any. */
TpsCudaPlace tps_cuda_place_of (gconstpointer memory);

/* The table of the functions of a GPU; static. */
extern const TpsDeviceOps tps_cuda_ops;

/* The dense operations of a GPU, for trainers; static. */
extern const TpsDenseOps tps_cuda_dense_ops;

G_END_DECLS
