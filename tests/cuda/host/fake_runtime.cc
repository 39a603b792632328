/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A fake CUDA runtime for tests of the backend's host code without a GPU. Every operation is
 * complete when its call returns. Tests can request failures. Device memory is host memory that
 * only the runtime and kernels can access. Any other access is a segmentation fault. */

#include "tests/cuda/host/fake_runtime.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace {

/* Memory that was not written reads as NaN. */
constexpr int kPoison = 0xff;
constexpr size_t kPage = 4096;

struct Block
{
  size_t n_bytes; /* a multiple of the page size for device memory */
  enum cudaMemoryType type;
  size_t n_requested = 0;
  int fd = -1;             /* file of exportable memory; -1 = none */
  int n_opened = 0;        /* how often memory of another process is open; 0 = own memory */
  std::string exported_as; /* handle of memory of another process */
};

/* The content of a handle: the process that owns the memory, and the memory's file. */
struct Export
{
  pid_t process;
  int fd;
  size_t n_bytes;
};

/* The last failure, until cudaGetLastError() returns it. */
thread_local cudaError_t last_error = cudaSuccess;

/* The state of the whole fake. */
struct State
{
  std::mutex mutex;
  std::string failing;
  int n_failing = 0; /* number of calls that will fail */
  std::map<std::string, int> n_calls;
  std::set<int> contexts;
  std::map<int, unsigned long long> pool_attributes;
  cudaError_t failure = cudaSuccess;
  bool is_sticky = false;
  cudaError_t broken = cudaSuccess;
  bool are_events_held = false;
  unsigned edge = UINT_MAX;
  std::map<uintptr_t, Block> blocks; /* by address */
  std::map<enum cudaMemoryType, size_t> n_bytes, n_most_bytes;
  int n_working = 0;               /* calls between begin() and end() */
  std::set<CUstream_st *> streams; /* streams of a lost device remain here */
};

State &
state ()
{
  static State *all = new State; /* it must outlive every thread */

  return *all;
}

thread_local int current = 0;

/* Returns true if the function needs only the driver and no context. */
bool
needs_no_context (const std::string &function)
{
  return function == "cudaGetDeviceCount" || function == "cudaGetDeviceProperties"
         || function == "cudaGetDevice";
}

cudaError_t
outcome (const char *function)
{
  State &s = state ();
  std::lock_guard<std::mutex> lock (s.mutex);

  s.n_calls[function]++;
  if (!needs_no_context (function))
    s.contexts.insert (current);
  if (s.broken != cudaSuccess)
    return s.broken;
  if (s.failing != function)
    return cudaSuccess;
  if (--s.n_failing == 0)
    s.failing.clear ();
  if (s.is_sticky)
    s.broken = s.failure;
  last_error = s.failure;
  return s.failure;
}

void
protect (uintptr_t address, const Block &block, int protection)
{
  if (block.type == cudaMemoryTypeDevice
      && mprotect (reinterpret_cast<void *> (address), block.n_bytes, protection) != 0)
    abort ();
}

void
set_working (int change)
{
  State &s = state ();
  std::lock_guard<std::mutex> lock (s.mutex);
  bool was_working = s.n_working > 0;

  s.n_working += change;
  if (was_working == (s.n_working > 0))
    return;
  for (const auto &[address, block] : s.blocks)
    protect (address, block, was_working ? PROT_NONE : PROT_READ | PROT_WRITE);
}

void
begin ()
{
  set_working (1);
}

void
end ()
{
  set_working (-1);
}

/* Maps the block, with its file if it has one, and records it. */
cudaError_t
map (const Block &block, void **memory)
{
  State &s = state ();
  int flags = block.fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;

  *memory = mmap (nullptr, block.n_bytes, PROT_READ | PROT_WRITE, flags, block.fd, 0);
  if (*memory == MAP_FAILED)
    return cudaErrorMemoryAllocation;
  if (block.n_opened == 0)
    memset (*memory, kPoison, block.n_bytes);
  std::lock_guard<std::mutex> lock (s.mutex);
  s.blocks[reinterpret_cast<uintptr_t> (*memory)] = block;
  s.n_bytes[block.type] += block.n_requested;
  s.n_most_bytes[block.type] = std::max (s.n_most_bytes[block.type], s.n_bytes[block.type]);
  if (s.n_working == 0)
    protect (reinterpret_cast<uintptr_t> (*memory), block, PROT_NONE);
  return cudaSuccess;
}

cudaError_t
allocate (const char *function, enum cudaMemoryType type, void **memory, size_t n_bytes,
          bool can_be_exported = false)
{
  cudaError_t code = outcome (function);
  Block block = { (n_bytes / kPage + 1) * kPage, type, n_bytes };

  if (code != cudaSuccess)
    return code;
  if (can_be_exported)
    {
      block.fd = memfd_create ("fake-device-memory", MFD_CLOEXEC);
      if (block.fd < 0 || ftruncate (block.fd, (off_t) block.n_bytes) != 0)
        return cudaErrorMemoryAllocation;
    }
  return map (block, memory);
}

/* Frees the memory even if the call returns an error. */
cudaError_t
release (const char *function, void *memory)
{
  State &s = state ();
  cudaError_t code = outcome (function);
  std::lock_guard<std::mutex> lock (s.mutex);
  auto found = s.blocks.find (reinterpret_cast<uintptr_t> (memory));

  if (found == s.blocks.end ())
    return memory == nullptr ? code : cudaErrorInvalidValue;
  munmap (memory, found->second.n_bytes);
  s.n_bytes[found->second.type] -= found->second.n_requested;
  if (found->second.fd >= 0)
    close (found->second.fd);
  s.blocks.erase (found);
  return code;
}

cudaError_t
make_handle (const char *function, void **handle, size_t n_bytes)
{
  *handle = calloc (1, n_bytes);
  return outcome (function);
}

cudaError_t
free_handle (const char *function, void *handle)
{
  free (handle);
  return outcome (function);
}

} /* namespace */

extern "C"
{
  void
  fake_cuda_fail (const char *function, cudaError_t code, bool sticky)
  {
    State &s = state ();
    std::lock_guard<std::mutex> lock (s.mutex);

    s.failing = function;
    s.n_failing = 1;
    s.failure = code;
    s.is_sticky = sticky;
  }

  void
  fake_cuda_fail_for (const char *function, cudaError_t code, int n_calls)
  {
    fake_cuda_fail (function, code, false);
    state ().n_failing = n_calls;
  }

  int
  fake_cuda_count_calls (const char *function)
  {
    State &s = state ();
    std::lock_guard<std::mutex> lock (s.mutex);

    return s.n_calls[function];
  }

  bool
  fake_cuda_has_context (int ordinal)
  {
    State &s = state ();
    std::lock_guard<std::mutex> lock (s.mutex);

    return s.contexts.count (ordinal) > 0;
  }

  void
  fake_cuda_set_current (int ordinal)
  {
    current = ordinal;
  }

  unsigned long long
  fake_cuda_get_pool_attribute (enum cudaMemPoolAttr attribute)
  {
    State &s = state ();
    std::lock_guard<std::mutex> lock (s.mutex);

    return s.pool_attributes[attribute];
  }

  void
  fake_cuda_hold_events (bool are_held)
  {
    State &s = state ();
    std::lock_guard<std::mutex> lock (s.mutex);

    s.are_events_held = are_held;
  }

  void
  fake_cuda_reset (void)
  {
    State &s = state ();
    std::lock_guard<std::mutex> lock (s.mutex);

    s.failing.clear ();
    s.broken = cudaSuccess;
    s.are_events_held = false;
    s.edge = UINT_MAX;
    s.n_calls.clear ();
    s.n_most_bytes = s.n_bytes;
  }

  size_t
  fake_cuda_get_most_bytes (enum cudaMemoryType type)
  {
    State &s = state ();
    std::lock_guard<std::mutex> lock (s.mutex);

    return s.n_most_bytes[type];
  }

  void
  fake_cuda_run_edges (unsigned n_blocks)
  {
    State &s = state ();
    std::lock_guard<std::mutex> lock (s.mutex);

    s.edge = n_blocks;
  }

  /* These functions are declared in cuda/kernels/launch_host.cuh. */
  void
  tps_launch_on_host_begin (cudaStream_t stream)
  {
    outcome ("launch");
    begin ();
  }

  void
  tps_launch_on_host_end (cudaStream_t stream)
  {
    end ();
  }

  unsigned
  tps_launch_on_host_edge (void)
  {
    State &s = state ();
    std::lock_guard<std::mutex> lock (s.mutex);

    return s.edge;
  }

  cudaError_t
  cudaPointerGetAttributes (struct cudaPointerAttributes *attributes, const void *memory)
  {
    outcome ("cudaPointerGetAttributes");
    State &s = state ();
    std::lock_guard<std::mutex> lock (s.mutex);
    uintptr_t address = reinterpret_cast<uintptr_t> (memory);
    auto next = s.blocks.upper_bound (address);

    *attributes = {};
    attributes->type = cudaMemoryTypeUnregistered;
    if (next != s.blocks.begin ())
      if (auto found = std::prev (next); address < found->first + found->second.n_bytes)
        attributes->type = found->second.type;
    return cudaSuccess;
  }

  cudaError_t
  cudaGetDeviceCount (int *count)
  {
    *count = 2;
    return outcome ("cudaGetDeviceCount");
  }

  cudaError_t
  cudaGetDeviceProperties (struct cudaDeviceProp *properties, int device)
  {
    *properties = {};
    strcpy (properties->name, "no GPU: kernels' bodies on the host");
    properties->major = device == 9 ? 1 : 9; /* device 9 is older than any GPU with code */
    properties->totalGlobalMem = (size_t) 16 << 30;
    memset (properties->uuid.bytes, device + 1, sizeof properties->uuid.bytes);
    return outcome ("cudaGetDeviceProperties");
  }

  cudaError_t
  cudaGetDevice (int *device)
  {
    *device = current;
    return outcome ("cudaGetDevice");
  }

  cudaError_t
  cudaSetDevice (int device)
  {
    current = device;
    return outcome ("cudaSetDevice");
  }

  const char *
  cudaGetErrorString (cudaError_t code)
  {
    return "an error of the fake";
  }

  const char *
  cudaGetErrorName (cudaError_t code)
  {
    return "cudaErrorFake";
  }

  cudaError_t
  cudaGetLastError (void)
  {
    State &s = state ();
    std::lock_guard<std::mutex> lock (s.mutex);

    cudaError_t last = std::exchange (last_error, cudaSuccess);

    return s.broken != cudaSuccess ? s.broken : last;
  }

  cudaError_t
  cudaDeviceGetDefaultMemPool (cudaMemPool_t *pool, int device)
  {
    *pool = nullptr;
    return outcome ("cudaDeviceGetDefaultMemPool");
  }

  cudaError_t
  cudaMemPoolSetAttribute (cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
  {
    cudaError_t code = outcome ("cudaMemPoolSetAttribute");
    State &s = state ();
    std::lock_guard<std::mutex> lock (s.mutex);

    s.pool_attributes[attribute] = attribute == cudaMemPoolAttrReleaseThreshold
                                       ? *static_cast<unsigned long long *> (value)
                                       : (unsigned long long) *static_cast<int *> (value);
    return code;
  }

  cudaError_t
  cudaMemPoolTrimTo (cudaMemPool_t pool, size_t n_bytes)
  {
    return outcome ("cudaMemPoolTrimTo");
  }

  cudaError_t
  cudaStreamCreateWithFlags (cudaStream_t *stream, unsigned int flags)
  {
    State &s = state ();

    *stream = new CUstream_st { begin, end };
    {
      std::lock_guard<std::mutex> lock (s.mutex);

      s.streams.insert (*stream);
    }
    return outcome ("cudaStreamCreateWithFlags");
  }

  cudaError_t
  cudaStreamDestroy (cudaStream_t stream)
  {
    State &s = state ();

    {
      std::lock_guard<std::mutex> lock (s.mutex);

      s.streams.erase (stream);
    }
    delete stream;
    return outcome ("cudaStreamDestroy");
  }

  cudaError_t
  cudaStreamSynchronize (cudaStream_t stream)
  {
    return outcome ("cudaStreamSynchronize");
  }

  cudaError_t
  cudaStreamWaitEvent (cudaStream_t stream, cudaEvent_t event, unsigned int flags)
  {
    return outcome ("cudaStreamWaitEvent");
  }

  cudaError_t
  cudaEventCreateWithFlags (cudaEvent_t *event, unsigned int flags)
  {
    /* Without this flag, a wait for the event would spin. */
    if ((flags & cudaEventBlockingSync) == 0)
      return cudaErrorInvalidValue;
    return make_handle ("cudaEventCreateWithFlags", reinterpret_cast<void **> (event), 1);
  }

  cudaError_t
  cudaEventDestroy (cudaEvent_t event)
  {
    return free_handle ("cudaEventDestroy", event);
  }

  cudaError_t
  cudaEventRecord (cudaEvent_t event, cudaStream_t stream)
  {
    return outcome ("cudaEventRecord");
  }

  cudaError_t
  cudaEventQuery (cudaEvent_t event)
  {
    State &s = state ();
    cudaError_t code = outcome ("cudaEventQuery");
    std::lock_guard<std::mutex> lock (s.mutex);

    return code == cudaSuccess && s.are_events_held ? cudaErrorNotReady : code;
  }

  cudaError_t
  cudaEventSynchronize (cudaEvent_t event)
  {
    return outcome ("cudaEventSynchronize");
  }

  cudaError_t
  cudaEventElapsedTime (float *ms, cudaEvent_t start, cudaEvent_t end)
  {
    *ms = 1.5;
    return outcome ("cudaEventElapsedTime");
  }

  cudaError_t
  cudaMallocAsync (void **memory, size_t n_bytes, cudaStream_t stream)
  {
    return allocate ("cudaMallocAsync", cudaMemoryTypeDevice, memory, n_bytes);
  }

  cudaError_t
  cudaFreeAsync (void *memory, cudaStream_t stream)
  {
    return release ("cudaFreeAsync", memory);
  }

  cudaError_t
  cudaMalloc (void **memory, size_t n_bytes)
  {
    return allocate ("cudaMalloc", cudaMemoryTypeDevice, memory, n_bytes, true);
  }

  cudaError_t
  cudaIpcGetMemHandle (cudaIpcMemHandle_t *handle, void *memory)
  {
    State &s = state ();
    cudaError_t code = outcome ("cudaIpcGetMemHandle");
    std::lock_guard<std::mutex> lock (s.mutex);
    auto found = s.blocks.find (reinterpret_cast<uintptr_t> (memory));

    if (code != cudaSuccess)
      return code;
    if (found == s.blocks.end () || found->second.fd < 0 || found->second.n_opened > 0)
      return cudaErrorInvalidValue;
    Export exported = { getpid (), found->second.fd, found->second.n_bytes };
    static_assert (sizeof exported <= sizeof *handle, "fits");
    memset (handle, 0, sizeof *handle);
    memcpy (handle, &exported, sizeof exported);
    return cudaSuccess;
  }

  /* If the memory is already open, returns the same mapping and counts the open. */
  cudaError_t
  cudaIpcOpenMemHandle (void **memory, cudaIpcMemHandle_t handle, unsigned int flags)
  {
    State &s = state ();
    cudaError_t code = outcome ("cudaIpcOpenMemHandle");
    std::string name (reinterpret_cast<const char *> (&handle), sizeof handle);
    Export exported;

    memcpy (&exported, &handle, sizeof exported);
    if (code != cudaSuccess)
      return code;
    if (exported.process == getpid () || flags != cudaIpcMemLazyEnablePeerAccess)
      return cudaErrorDeviceUninitialized;
    {
      std::lock_guard<std::mutex> lock (s.mutex);

      for (auto &[address, block] : s.blocks)
        if (block.n_opened > 0 && block.exported_as == name)
          {
            block.n_opened++;
            *memory = reinterpret_cast<void *> (address);
            return cudaSuccess;
          }
    }
    std::string path = "/proc/" + std::to_string (exported.process) + "/fd/"
                       + std::to_string (exported.fd);
    Block block = {
      exported.n_bytes, cudaMemoryTypeDevice, 0, open (path.c_str (), O_RDWR), 1, name
    };
    if (block.fd < 0)
      return cudaErrorInvalidValue;
    return map (block, memory);
  }

  cudaError_t
  cudaIpcCloseMemHandle (void *memory)
  {
    State &s = state ();

    {
      std::lock_guard<std::mutex> lock (s.mutex);
      auto found = s.blocks.find (reinterpret_cast<uintptr_t> (memory));

      if (found == s.blocks.end () || found->second.n_opened == 0)
        return cudaErrorInvalidValue;
      if (--found->second.n_opened > 0)
        return cudaSuccess;
    }
    return release ("cudaIpcCloseMemHandle", memory);
  }

  cudaError_t
  cudaFree (void *memory)
  {
    return release ("cudaFree", memory);
  }

  cudaError_t
  cudaHostAlloc (void **memory, size_t n_bytes, unsigned int flags)
  {
    return allocate ("cudaHostAlloc", cudaMemoryTypeHost, memory, n_bytes);
  }

  cudaError_t
  cudaFreeHost (void *memory)
  {
    return release ("cudaFreeHost", memory);
  }

  cudaError_t
  cudaMemcpyAsync (void *to, const void *from, size_t n_bytes, enum cudaMemcpyKind kind,
                   cudaStream_t stream)
  {
    cudaError_t code = outcome ("cudaMemcpyAsync");

    begin ();
    if (code == cudaSuccess)
      memcpy (to, from, n_bytes);
    end ();
    return code;
  }

  /* As in CUDA, a pitch above 2^31 - 1 or below the width is invalid. */
  cudaError_t
  cudaMemcpy2DAsync (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                     size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)
  {
    cudaError_t code = outcome ("cudaMemcpy2DAsync");

    if (code == cudaSuccess
        && (std::min (to_pitch, from_pitch) < width || std::max (to_pitch, from_pitch) > INT_MAX))
      code = cudaErrorInvalidPitchValue;
    begin ();
    if (code == cudaSuccess)
      for (size_t row = 0; row < height; row++)
        memcpy (static_cast<char *> (to) + row * to_pitch,
                static_cast<const char *> (from) + row * from_pitch, width);
    end ();
    return code;
  }

  cudaError_t
  cudaMemsetAsync (void *memory, int value, size_t n_bytes, cudaStream_t stream)
  {
    cudaError_t code = outcome ("cudaMemsetAsync");

    begin ();
    if (code == cudaSuccess)
      memset (memory, value, n_bytes);
    end ();
    return code;
  }
}
