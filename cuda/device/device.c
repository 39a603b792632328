/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Memory: device memory from CUDA's stream-ordered pool of the device, and page-locked host memory.
 * The pool's policy, which also applies to memory that kernels allocate (cuda/kernels/scratch.cuh):
 *   - Freed memory stays with the process up to a sixteenth of the GPU's memory. The excess
 *     returns to the GPU whenever the process synchronises, so that processes that share the GPU
 *     do not starve each other.
 *   - An allocation on one stream may reuse memory that another stream has freed, if the free is
 *     known to be complete. This is so if the first stream has waited for an event after the free,
 *     or if the free has already run. An allocation never makes one stream wait for another
 *     implicitly.
 *   - If memory runs out, all unused memory is returned to the GPU, and the allocation is tried
 *     once more.
 *
 * Exported memory: other processes of this machine map it. Sharing may fail in containers, with
 * some drivers, or because the other process has released its memory. Then only the caller fails,
 * for any error code, and the device stays usable. A permanent error shows up again in the next
 * operation, which marks the device as lost.
 *
 * Events: an event of a failed stream reports the stream's failure to its waiters. It is recorded
 * nevertheless, because the work that was queued before the failure still runs, and a waiter may
 * release the memory of this work afterwards. */

#include "cuda/device/device.h"

#include <stdatomic.h>
#include <string.h>

#include "cuda/device/blas.h"
#include "cuda/kernels/kernels.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

/* -- failure -- */

static const cudaError_t passing[] = {
  cudaErrorInvalidValue,         cudaErrorMemoryAllocation,      cudaErrorInvalidConfiguration,
  cudaErrorInvalidPitchValue,    cudaErrorInvalidDevicePointer,  cudaErrorInvalidMemcpyDirection,
  cudaErrorInvalidDevice,        cudaErrorInvalidResourceHandle, cudaErrorNotReady,
  cudaErrorNotPermitted,         cudaErrorNotSupported,          cudaErrorNoKernelImageForDevice,
  cudaErrorLaunchOutOfResources,
};

gboolean
tps_cuda_failure_is_passing (cudaError_t code)
{
  for (guint i = 0; i < G_N_ELEMENTS (passing); i++)
    if (passing[i] == code)
      return TRUE;
  return code == cudaSuccess;
}

#define MAX_DEVICES 64 /* devices that enter_any() can find */

static _Atomic guint64 started_devices; /* one bit for each started device */

#define KEPT_FRACTION 16

typedef struct
{
  TpsCudaDevice *device;
  gpointer data;
} Allocation;

/* A wait spins for this time before it sleeps, because a small operation takes less time than
 * waking a thread. */
#define SPIN_NS 20000

typedef struct
{
  TpsEvent parent;
  cudaEvent_t handle;

  TpsMutex lock; /* guards the fields below */
  gboolean is_recorded;
  GError *error; /* of the stream at the time of recording; owned */
} CudaEvent;

G_STATIC_ASSERT (sizeof (cudaIpcMemHandle_t) == TPS_EXPORT_HANDLE_BYTES);
G_STATIC_ASSERT (sizeof (cudaUUID_t) == TPS_DEVICE_UUID_BYTES);

/* CUDA places smaller allocations in a block with others, and an export would share the whole
 * block. */
#define GRANULE_BYTES ((gsize) 2 << 20)

/* Marks the device as lost. Only the first reason is kept and logged. */
static void
die (TpsCudaDevice *device, const gchar *why)
{
  TPS_LOCK_SCOPE (&device->lock);
  if (device->loss == NULL)
    {
      device->loss = g_strdup (why);
      g_warning ("%s: this device is lost: %s", device->name, why);
    }
}

gboolean
tps_cuda_device_check (TpsCudaDevice *device, cudaError_t code, const gchar *what, GError **error)
{
  g_autofree gchar *why = NULL;

  if (code == cudaSuccess)
    return TRUE;
  why = g_strdup_printf ("%s: %s (%d: %s)", what, cudaGetErrorString (code), (gint) code,
                         cudaGetErrorName (code));
  cudaGetLastError (); /* clears the error, so that the next call does not report it again */
  g_set_error (error, TPS_ERROR, TPS_ERROR_DEVICE_LOST, "%s: %s", device->name, why);
  if (!tps_cuda_failure_is_passing (code))
    die (device, why);
  return FALSE;
}

static gboolean
check_alive (TpsCudaDevice *device, GError **error)
{
  gboolean is_alive;

  TPS_LOCK_SCOPE (&device->lock);
  is_alive = device->loss == NULL;
  if (!is_alive)
    g_set_error (error, TPS_ERROR, TPS_ERROR_DEVICE_LOST, "%s: the device was lost earlier: %s",
                 device->name, device->loss);
  return is_alive;
}

/* Sets `pool` and its policy. The device must be the current one. */
static cudaError_t
start_memory (TpsCudaDevice *device)
{
  guint64 kept = device->n_bytes / KEPT_FRACTION;
  int yes = 1, no = 0;
  const struct
  {
    enum cudaMemPoolAttr attribute;
    void *value;
  } policy[] = {
    { cudaMemPoolAttrReleaseThreshold, &kept },
    { cudaMemPoolReuseFollowEventDependencies, &yes },
    { cudaMemPoolReuseAllowOpportunistic, &yes },
    { cudaMemPoolReuseAllowInternalDependencies, &no },
  };
  cudaError_t code = cudaDeviceGetDefaultMemPool (&device->pool, device->ordinal);

  for (guint i = 0; i < G_N_ELEMENTS (policy) && code == cudaSuccess; i++)
    code = cudaMemPoolSetAttribute (device->pool, policy[i].attribute, policy[i].value);
  return code;
}

/* Starts the device. The start lock is held, and the device is the current one. */
static gboolean
start (TpsCudaDevice *device, GError **error)
{
  if (!tps_cuda_device_check (device, tps_cuda_probe (), "looking for code for this generation",
                              error)
      || !tps_cuda_device_check (device, start_memory (device), "memory pool", error)
      || !tps_cuda_device_check (
          device, cudaStreamCreateWithFlags (&device->memory_stream, cudaStreamNonBlocking),
          "stream for memory", error))
    return FALSE;
  g_atomic_int_set (&device->is_started, TRUE);
  if (device->ordinal < MAX_DEVICES)
    atomic_fetch_or (&started_devices, G_GUINT64_CONSTANT (1) << device->ordinal);
  return TRUE;
}

gboolean
tps_cuda_device_enter (TpsCudaDevice *device, GError **error)
{
  int current = -1;

  if (!check_alive (device, error))
    return FALSE;
  if ((cudaGetDevice (&current) != cudaSuccess || current != device->ordinal)
      && !tps_cuda_device_check (device, cudaSetDevice (device->ordinal), "cudaSetDevice", error))
    return FALSE;
  if (g_atomic_int_get (&device->is_started))
    return TRUE;
  TPS_LOCK_SCOPE (&device->start_lock);
  return g_atomic_int_get (&device->is_started) || start (device, error);
}

void
tps_cuda_device_enter_lost (TpsCudaDevice *device)
{
  cudaSetDevice (device->ordinal);
  cudaGetLastError (); /* clears the error */
}

/* Makes a started device the current one, unless the current one is started. Calls that could
 * otherwise create a context on the current device must be preceded by this call. Returns FALSE if
 * no device is started. Thread: any. */
static gboolean
enter_any (void)
{
  guint64 started = atomic_load (&started_devices);
  int current = -1;

  if (started == 0)
    return FALSE;
  if (cudaGetDevice (&current) == cudaSuccess && current >= 0 && current < MAX_DEVICES
      && (started >> current & 1) != 0)
    return TRUE;
  return cudaSetDevice (__builtin_ctzll (started)) == cudaSuccess;
}

/* Reads the properties without creating a context on the device. */
static gboolean
read_properties (TpsCudaDevice *device, GError **error)
{
  struct cudaDeviceProp properties;

  if (!tps_cuda_device_check (device, cudaGetDeviceProperties (&properties, device->ordinal),
                              "properties", error))
    return FALSE;
  memcpy (device->uuid, &properties.uuid, sizeof device->uuid);
  device->n_bytes = properties.totalGlobalMem;
  if (tps_cuda_has_code_for (properties.major, properties.minor))
    return TRUE;
  return tps_fail (error, TPS_ERROR_UNAVAILABLE,
                   "%s: %s is of generation %d.%d, for which this library has no code",
                   device->name, properties.name, properties.major, properties.minor);
}

TpsCudaDevice *
tps_cuda_device_new (gint ordinal, const TpsDeviceOps *ops, GError **error)
{
  TpsCudaDevice *device = g_new0 (TpsCudaDevice, 1);

  g_snprintf (device->name, sizeof device->name, "cuda:%d", ordinal);
  device->parent = (TpsDevice) { .ops = ops, .name = device->name };
  device->ordinal = ordinal;
  tps_mutex_init (&device->lock);
  tps_mutex_init (&device->start_lock);
  if (read_properties (device, error))
    return device;
  tps_mutex_clear (&device->start_lock);
  tps_mutex_clear (&device->lock);
  g_free (device->loss);
  g_free (device);
  return NULL;
}

void
tps_cuda_memory_trim (TpsCudaDevice *device)
{
  /* Memory that was freed on this stream becomes unused when the stream has passed the free. This
   * function does not wait for other streams, because a collective on one of them may wait for
   * another process. */
  if (cudaStreamSynchronize (device->memory_stream) == cudaSuccess)
    cudaMemPoolTrimTo (device->pool, 0);
  cudaGetLastError (); /* clears the error, since the second attempt decides */
}

/* Frees device memory on the memory stream. Other streams may have used this memory, but its owner
 * has waited for their work. */
static void
free_device_memory (gpointer user_data)
{
  Allocation *allocation = user_data;

  if (tps_cuda_device_enter (allocation->device, NULL))
    tps_cuda_device_check (allocation->device,
                           cudaFreeAsync (allocation->data, allocation->device->memory_stream),
                           "giving memory back", NULL);
  g_free (allocation);
}

static void
free_host_memory (gpointer user_data)
{
  Allocation *allocation = user_data;

  if (tps_cuda_device_enter (allocation->device, NULL))
    tps_cuda_device_check (allocation->device, cudaFreeHost (allocation->data),
                           "giving host memory back", NULL);
  g_free (allocation);
}

static gboolean
check_memory (TpsCudaDevice *device, cudaError_t code, const gchar *kind, gsize n_bytes,
              GError **error)
{
  if (code != cudaErrorMemoryAllocation)
    return tps_cuda_device_check (device, code, kind, error);
  cudaGetLastError ();
  return tps_fail (error, TPS_ERROR_RESOURCE_EXHAUSTED,
                   "%s: no %s for a buffer of %" G_GSIZE_FORMAT " bytes", device->name, kind,
                   n_bytes);
}

/* Returns a buffer with the memory `data` of device `where`; NULL = host memory. */
static TpsBuffer *
wrap (TpsCudaDevice *device, gpointer data, gsize n_bytes, TpsDevice *where,
      GDestroyNotify free_func)
{
  Allocation *allocation = g_new (Allocation, 1);

  *allocation = (Allocation) { .device = device, .data = data };
  return tps_buffer_new_foreign (data, n_bytes, where, free_func, allocation);
}

/* Allocates memory, and waits until the memory stream has passed the allocation. Other streams may
 * use the memory from then on. */
static cudaError_t
allocate (TpsCudaDevice *device, void **data, gsize n_bytes)
{
  cudaError_t code = cudaMallocAsync (data, n_bytes, device->memory_stream);

  return code == cudaSuccess ? cudaStreamSynchronize (device->memory_stream) : code;
}

TpsBuffer *
tps_cuda_alloc (TpsDevice *base, gsize n_bytes, GError **error)
{
  TpsCudaDevice *device = (TpsCudaDevice *) base;
  void *data = NULL;
  cudaError_t code;

  if (!tps_cuda_device_enter (device, error))
    return NULL;
  code = allocate (device, &data, MAX (n_bytes, 1));
  if (code == cudaErrorMemoryAllocation)
    {
      cudaGetLastError ();
      tps_cuda_memory_trim (device);
      code = allocate (device, &data, MAX (n_bytes, 1));
    }
  if (!check_memory (device, code, "memory", n_bytes, error))
    return NULL;
  return wrap (device, data, n_bytes, base, free_device_memory);
}

TpsBuffer *
tps_cuda_alloc_host (TpsDevice *base, gsize n_bytes, GError **error)
{
  TpsCudaDevice *device = (TpsCudaDevice *) base;
  void *data = NULL;

  /* "Portable" memory is page-locked for every device. */
  if (!tps_cuda_device_enter (device, error)
      || !check_memory (device, cudaHostAlloc (&data, MAX (n_bytes, 1), cudaHostAllocPortable),
                        "page-locked memory", n_bytes, error))
    return NULL;
  return wrap (device, data, n_bytes, NULL, free_host_memory);
}

static TpsCudaDevice *
stream_device (TpsCudaStream *stream)
{
  return (TpsCudaDevice *) stream->parent.device;
}

static gboolean
start_stream (TpsCudaStream *stream, GError **error)
{
  TpsCudaDevice *device = stream_device (stream);

  return tps_cuda_device_check (device,
                                cudaStreamCreateWithFlags (&stream->handle, cudaStreamNonBlocking),
                                "new stream", error)
         && tps_cuda_device_check (
             device,
             cudaEventCreateWithFlags (&stream->reached,
                                       cudaEventBlockingSync | cudaEventDisableTiming),
             "event of a stream", error);
}

TpsStream *
tps_cuda_stream_new (TpsDevice *base, GError **error)
{
  TpsCudaStream *stream;

  if (!tps_cuda_device_enter ((TpsCudaDevice *) base, error))
    return NULL;
  stream = g_new0 (TpsCudaStream, 1);
  stream->parent.device = base;
  if (start_stream (stream, error))
    return &stream->parent;
  tps_cuda_stream_free (&stream->parent);
  return NULL;
}

/* Waits for the queued work and releases the resources. On a lost device nothing can be released,
 * so this must not be called. */
static void
release_stream (TpsCudaStream *stream)
{
  if (stream->handle != NULL)
    cudaStreamSynchronize (stream->handle);
  if (stream->cublas != NULL)
    tps_cuda_blas_handle_free (stream->cublas);
  if (stream->reached != NULL)
    cudaEventDestroy (stream->reached);
  if (stream->handle != NULL)
    cudaStreamDestroy (stream->handle);
  cudaGetLastError (); /* clears the error */
}

void
tps_cuda_stream_free (TpsStream *base)
{
  TpsCudaStream *stream = (TpsCudaStream *) base;

  if (tps_cuda_device_enter (stream_device (stream), NULL))
    release_stream (stream);
  g_clear_error (&stream->error);
  g_free (stream);
}

void
tps_cuda_stream_fail (TpsCudaStream *stream, GError *error)
{
  if (stream->error == NULL)
    stream->error = error;
  else
    g_error_free (error);
}

gboolean
tps_cuda_stream_check (TpsCudaStream *stream, cudaError_t code, const gchar *what)
{
  GError *error = NULL;

  if (tps_cuda_device_check (stream_device (stream), code, what, &error))
    return TRUE;
  tps_cuda_stream_fail (stream, error);
  return FALSE;
}

gboolean
tps_cuda_stream_enter (TpsCudaStream *stream)
{
  GError *error = NULL;

  if (stream->error != NULL)
    return FALSE;
  if (tps_cuda_device_enter (stream_device (stream), &error))
    return TRUE;
  tps_cuda_stream_fail (stream, error);
  return FALSE;
}

/* Spins for a short time, then sleeps. The device must be the current one. */
static cudaError_t
wait_for_event (cudaEvent_t event)
{
  gint64 until_ns = tps_clock_now_ns () + SPIN_NS;
  cudaError_t code;

  while ((code = cudaEventQuery (event)) == cudaErrorNotReady)
    {
      cudaGetLastError (); /* not an error */
      if (tps_clock_now_ns () >= until_ns)
        return cudaEventSynchronize (event);
    }
  return code;
}

/* Waits for all queued work, even if the stream has failed. Work that was queued before the failure
 * still runs, and uses memory that the caller may release next. */
static cudaError_t
wait_for_all (TpsCudaStream *stream)
{
  cudaError_t code = cudaEventRecord (stream->reached, stream->handle);

  if (code == cudaSuccess)
    return wait_for_event (stream->reached);
  cudaStreamSynchronize (stream->handle);
  return code;
}

/* Returns FALSE and a copy of the failure if the stream has failed. */
static gboolean
report_failure (const TpsCudaStream *stream, GError **error)
{
  if (stream->error == NULL)
    return TRUE;
  g_propagate_error (error, g_error_copy (stream->error));
  return FALSE;
}

gboolean
tps_cuda_stream_sync (TpsStream *base, GError **error)
{
  TpsCudaStream *stream = (TpsCudaStream *) base;
  GError *lost = NULL;

  if (!tps_cuda_device_enter (stream_device (stream), &lost))
    tps_cuda_stream_fail (stream, lost);
  else
    tps_cuda_stream_check (stream, wait_for_all (stream), "waiting for a stream");
  return report_failure (stream, error);
}

gboolean
tps_cuda_stream_check_failure (TpsStream *base, GError **error)
{
  TpsCudaStream *stream = (TpsCudaStream *) base;

  tps_cuda_stream_enter (stream); /* stores a failure if the device is lost */
  return report_failure (stream, error);
}

static TpsCudaDevice *
event_device (CudaEvent *event)
{
  return (TpsCudaDevice *) event->parent.device;
}

TpsEvent *
tps_cuda_event_new (TpsDevice *base, GError **error)
{
  CudaEvent *event;
  cudaEvent_t handle;

  if (!tps_cuda_device_enter ((TpsCudaDevice *) base, error)
      || !tps_cuda_device_check ((TpsCudaDevice *) base,
                                 cudaEventCreateWithFlags (&handle, cudaEventBlockingSync),
                                 "new event", error))
    return NULL;
  event = g_new0 (CudaEvent, 1);
  event->parent.device = base;
  event->handle = handle;
  tps_mutex_init (&event->lock);
  return &event->parent;
}

void
tps_cuda_event_free (TpsEvent *base)
{
  CudaEvent *event = (CudaEvent *) base;

  if (tps_cuda_device_enter (event_device (event), NULL))
    tps_cuda_device_check (event_device (event), cudaEventDestroy (event->handle),
                           "freeing an event", NULL);
  g_clear_error (&event->error);
  tps_mutex_clear (&event->lock);
  g_free (event);
}

/* Makes the device of the stream the current one, even if the stream has failed. Returns FALSE if
 * the device is lost. */
static gboolean
enter_any_stream (TpsCudaStream *stream)
{
  GError *lost = NULL;

  if (tps_cuda_device_enter ((TpsCudaDevice *) stream->parent.device, &lost))
    return TRUE;
  tps_cuda_stream_fail (stream, lost);
  return FALSE;
}

void
tps_cuda_event_record (TpsEvent *base, TpsStream *stream_base)
{
  CudaEvent *event = (CudaEvent *) base;
  TpsCudaStream *stream = (TpsCudaStream *) stream_base;

  if (enter_any_stream (stream)
      && !tps_cuda_stream_check (stream, cudaEventRecord (event->handle, stream->handle),
                                 "recording an event"))
    /* The event still marks an older point, so a wait for it would not cover the work that was
     * queued since then. This thread waits for that work instead. */
    cudaStreamSynchronize (stream->handle);
  TPS_LOCK_SCOPE (&event->lock);
  g_clear_error (&event->error);
  event->error = stream->error != NULL ? g_error_copy (stream->error) : NULL;
  event->is_recorded = TRUE;
}

/* Returns the failure stored in the event, owned by the caller; NULL = none. */
static GError *
dup_failure (CudaEvent *event)
{
  TPS_LOCK_SCOPE (&event->lock);
  return event->error != NULL ? g_error_copy (event->error) : NULL;
}

void
tps_cuda_stream_wait_event (TpsStream *stream_base, TpsEvent *base)
{
  CudaEvent *event = (CudaEvent *) base;
  TpsCudaStream *stream = (TpsCudaStream *) stream_base;
  GError *failure = dup_failure (event);

  if (failure != NULL)
    tps_cuda_stream_fail (stream, failure);
  if (enter_any_stream (stream))
    tps_cuda_stream_check (stream, cudaStreamWaitEvent (stream->handle, event->handle, 0),
                           "waiting for an event");
}

gboolean
tps_cuda_event_query (TpsEvent *base)
{
  CudaEvent *event = (CudaEvent *) base;
  cudaError_t code;

  /* An event of a lost device counts as reached, so that its waiters learn of the failure. */
  if (!tps_cuda_device_enter (event_device (event), NULL))
    return TRUE;
  code = cudaEventQuery (event->handle);
  if (code == cudaErrorNotReady)
    {
      cudaGetLastError (); /* not an error */
      return FALSE;
    }
  tps_cuda_device_check (event_device (event), code, "looking at an event", NULL);
  return TRUE;
}

/* A failure that is stored in the event takes precedence over an error of the wait. */
gboolean
tps_cuda_event_sync (TpsEvent *base, GError **error)
{
  CudaEvent *event = (CudaEvent *) base;
  GError *failure = dup_failure (event);
  gboolean ok = tps_cuda_device_enter (event_device (event), failure == NULL ? error : NULL)
                && tps_cuda_device_check (event_device (event), wait_for_event (event->handle),
                                          "waiting for an event", failure == NULL ? error : NULL);

  if (failure != NULL)
    g_propagate_error (error, failure);
  return ok && failure == NULL;
}

static gboolean
check_recorded (CudaEvent *event, const gchar *which, GError **error)
{
  gboolean is_recorded;

  tps_mutex_lock (&event->lock);
  is_recorded = event->is_recorded;
  tps_mutex_unlock (&event->lock);
  if (!is_recorded)
    g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "%s: %s event was not recorded",
                 event_device (event)->name, which);
  return is_recorded;
}

gboolean
tps_cuda_events_elapsed (TpsEvent *start, TpsEvent *end, gdouble *ms, GError **error)
{
  CudaEvent *first = (CudaEvent *) start, *last = (CudaEvent *) end;
  gfloat elapsed;
  cudaError_t code;

  if (!check_recorded (first, "start", error) || !check_recorded (last, "end", error)
      || !tps_cuda_device_enter (event_device (first), error))
    return FALSE;
  code = cudaEventElapsedTime (&elapsed, first->handle, last->handle);
  if (code == cudaErrorNotReady)
    {
      cudaGetLastError (); /* not an error */
      return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s: an event is not reached yet",
                       event_device (first)->name);
    }
  if (!tps_cuda_device_check (event_device (first), code, "time between events", error))
    return FALSE;
  *ms = (gdouble) elapsed;
  return TRUE;
}

/* Returns TRUE for cudaSuccess. Otherwise sets UNAVAILABLE; never marks the device as lost. */
static gboolean
check_shared (TpsCudaDevice *device, cudaError_t code, const gchar *what, GError **error)
{
  if (code == cudaSuccess)
    return TRUE;
  cudaGetLastError (); /* clears the error */
  return tps_fail (error, TPS_ERROR_UNAVAILABLE, "%s: %s: %s (%d: %s)", device->name, what,
                   cudaGetErrorString (code), (gint) code, cudaGetErrorName (code));
}

/* Frees memory of this process. cudaFree() waits for all work of the device. */
static void
free_exported (gpointer user_data)
{
  Allocation *mapping = user_data;

  if (tps_cuda_device_enter (mapping->device, NULL))
    tps_cuda_device_check (mapping->device, cudaFree (mapping->data), "giving memory back", NULL);
  g_free (mapping);
}

/* Closes a mapping. An error is ignored, because the exporting process may have ended, and the
 * mapping with it. */
static void
close_exported (gpointer user_data)
{
  Allocation *mapping = user_data;

  if (tps_cuda_device_enter (mapping->device, NULL))
    check_shared (mapping->device, cudaIpcCloseMemHandle (mapping->data), "closing memory", NULL);
  g_free (mapping);
}

static gboolean
allocate_exported (TpsCudaDevice *device, gsize n_bytes, void **data, GError **error)
{
  gsize n_rounded = (MAX (n_bytes, 1) + GRANULE_BYTES - 1) / GRANULE_BYTES * GRANULE_BYTES;
  cudaError_t code;

  if (n_bytes > G_MAXSIZE - GRANULE_BYTES)
    code = cudaErrorMemoryAllocation;
  else
    code = cudaMalloc (data, n_rounded);
  if (code == cudaErrorMemoryAllocation && n_bytes <= G_MAXSIZE - GRANULE_BYTES)
    {
      cudaGetLastError ();
      tps_cuda_memory_trim (device);
      code = cudaMalloc (data, n_rounded);
    }
  return check_memory (device, code, "shareable memory", n_bytes, error);
}

TpsBuffer *
tps_cuda_alloc_exported (TpsDevice *base, gsize n_bytes, guint8 *handle, GError **error)
{
  TpsCudaDevice *device = (TpsCudaDevice *) base;
  g_autoptr (TpsBuffer) buffer = NULL;
  cudaIpcMemHandle_t exported;
  void *data = NULL;

  if (!tps_cuda_device_enter (device, error) || !allocate_exported (device, n_bytes, &data, error))
    return NULL;
  buffer = wrap (device, data, n_bytes, base, free_exported);
  if (!check_shared (device, cudaIpcGetMemHandle (&exported, data), "exporting memory", error))
    return NULL;
  memcpy (handle, &exported, sizeof exported);
  return g_steal_pointer (&buffer);
}

/* A handle may be opened more than once: CUDA counts how often it is open. */
TpsBuffer *
tps_cuda_open_exported (TpsDevice *base, const guint8 *handle, gsize n_bytes, GError **error)
{
  TpsCudaDevice *device = (TpsCudaDevice *) base;
  cudaIpcMemHandle_t exported;
  void *data = NULL;

  memcpy (&exported, handle, sizeof exported);
  if (!tps_cuda_device_enter (device, error)
      || !check_shared (device,
                        cudaIpcOpenMemHandle (&data, exported, cudaIpcMemLazyEnablePeerAccess),
                        "opening memory of another process", error))
    return NULL;
  return wrap (device, data, n_bytes, base, close_exported);
}

void
tps_cuda_get_uuid (TpsDevice *base, guint8 *uuid)
{
  memcpy (uuid, ((TpsCudaDevice *) base)->uuid, TPS_DEVICE_UUID_BYTES);
}

TpsCudaPlace
tps_cuda_place_of (gconstpointer memory)
{
  struct cudaPointerAttributes attributes;

  /* If no device is started, CUDA has not allocated any memory in this process. The query would
   * create a context on the current device. */
  if (!enter_any ())
    return TPS_CUDA_PLACE_PAGEABLE;
  if (cudaPointerGetAttributes (&attributes, memory) != cudaSuccess)
    {
      cudaGetLastError (); /* clears the error */
      return TPS_CUDA_PLACE_PAGEABLE;
    }
  switch (attributes.type)
    {
    case cudaMemoryTypeHost:
      return TPS_CUDA_PLACE_PINNED;
    case cudaMemoryTypeDevice:
    case cudaMemoryTypeManaged:
      return TPS_CUDA_PLACE_DEVICE;
    case cudaMemoryTypeUnregistered:
    default:
      return TPS_CUDA_PLACE_PAGEABLE;
    }
}
