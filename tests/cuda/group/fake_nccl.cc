/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A fake libnccl.so.2 whose ranks are threads of one process. No call blocks: each returns "in
 * progress", and the last rank that joins a collective runs it for all. If ranks pass different
 * arguments, or if one aborts, the communicator breaks. */

#include "tests/cuda/group/fake_nccl.h"

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/cuda/host/fake_runtime.h"

namespace {

struct Share
{
  const void *from;
  void *to;
};

/* One collective of a world. */
struct Step
{
  std::string what; /* the collective and its sizes */
  int root = 0;
  size_t n_elems = 0, n_bytes = 0;
  std::map<int, Share> shares; /* by rank */
};

/* The ranks that have the same unique id. */
struct World
{
  int size = 0;
  int n_joined = 0;
  std::map<uint64_t, Step> steps; /* unfinished steps, by number */
  uint64_t n_done = 0;
  int n_finalized = 0;
  ncclResult_t broken = ncclSuccess;
  std::string text;
};

struct State
{
  std::mutex mutex;
  uint64_t n_ids = 0;
  std::map<uint64_t, std::shared_ptr<World>> worlds;
  std::string failing;
  ncclResult_t failure = ncclSuccess;
  ncclResult_t broken = ncclSuccess;
  std::string text;
  bool is_stalled = false;
  bool was_blocking = false;
  int n_living = 0, n_aborted = 0;
};

State &
state ()
{
  static State *all = new State; /* it must outlive every thread */

  return *all;
}

/* Returns true if this call must fail. The lock must be held. */
bool
fails (const char *function)
{
  if (state ().failing != function)
    return false;
  state ().failing.clear ();
  return true;
}

} /* namespace */

struct ncclComm
{
  std::shared_ptr<World> world;
  int rank;
  uint64_t n_steps = 0; /* number of steps that this rank has started */
  bool is_finalized = false;
};

namespace {

/* Returns the state of a communicator. The lock must be held. */
ncclResult_t
look (const ncclComm *comm)
{
  const World &world = *comm->world;

  if (state ().broken != ncclSuccess)
    return state ().broken;
  if (world.broken != ncclSuccess)
    return world.broken;
  if (state ().is_stalled || world.n_joined < world.size || world.n_done < comm->n_steps)
    return ncclInProgress;
  return comm->is_finalized && world.n_finalized < world.size ? ncclInProgress : ncclSuccess;
}

void
reduce (const Step &step)
{
  std::vector<float> sum (step.n_elems, 0.0f);

  for (const auto &[rank, share] : step.shares)
    for (size_t i = 0; i < step.n_elems; i++)
      sum[i] += static_cast<const float *> (share.from)[i];
  for (const auto &[rank, share] : step.shares)
    memcpy (share.to, sum.data (), step.n_bytes);
}

void
gather (const Step &step)
{
  std::vector<char> all (step.n_bytes * step.shares.size ());

  for (const auto &[rank, share] : step.shares)
    memcpy (all.data () + static_cast<size_t> (rank) * step.n_bytes, share.from, step.n_bytes);
  for (const auto &[rank, share] : step.shares)
    memcpy (share.to, all.data (), all.size ());
}

void
spread (const Step &step)
{
  std::vector<char> bytes (step.n_bytes);

  memcpy (bytes.data (), step.shares.at (step.root).from, step.n_bytes);
  for (const auto &[rank, share] : step.shares)
    memcpy (share.to, bytes.data (), step.n_bytes);
}

using Body = void (*) (const Step &);

ncclResult_t
contribute (const char *function, Body body, ncclComm *comm, const Share &share, size_t n_elems,
            size_t elem_size, int root, cudaStream_t stream)
{
  std::lock_guard<std::mutex> lock (state ().mutex);
  World &world = *comm->world;
  Step &step = world.steps[comm->n_steps++];
  std::string what = std::string (function) + " of " + std::to_string (n_elems) + " from rank "
                     + std::to_string (root);

  if (fails (function))
    return state ().failure;
  if (!step.shares.empty () && step.what != what)
    {
      world.broken = ncclInvalidUsage;
      world.text = step.what + " meets " + what;
      return world.broken;
    }
  step.what = what;
  step.root = root;
  step.n_elems = n_elems;
  step.n_bytes = n_elems * elem_size;
  step.shares[comm->rank] = share;
  if (step.shares.size () == static_cast<size_t> (world.size))
    {
      stream->begin ();
      body (step);
      stream->end ();
      world.steps.erase (comm->n_steps - 1);
      world.n_done++;
    }
  return look (comm) == ncclSuccess ? ncclInProgress : look (comm);
}

size_t
size_of (ncclDataType_t type)
{
  return type == ncclUint8 ? 1 : type == ncclFloat32 ? 4 : 8;
}

} /* namespace */

extern "C"
{
  ncclResult_t
  ncclGetVersion (int *version)
  {
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
  }

  ncclResult_t
  ncclGetUniqueId (ncclUniqueId *id)
  {
    std::lock_guard<std::mutex> lock (state ().mutex);

    if (fails ("ncclGetUniqueId"))
      return state ().failure;
    memset (id, 0, sizeof *id);
    state ().n_ids++;
    memcpy (id, &state ().n_ids, sizeof state ().n_ids);
    return ncclSuccess;
  }

  const char *
  ncclGetErrorString (ncclResult_t code)
  {
    return code == ncclRemoteError ? "remote process exited" : "an error of the fake";
  }

  const char *
  ncclGetLastError (ncclComm_t comm)
  {
    std::lock_guard<std::mutex> lock (state ().mutex);
    static thread_local std::string text;

    text = comm != nullptr && comm->world->broken != ncclSuccess ? comm->world->text
                                                                 : state ().text;
    return text.c_str ();
  }

  ncclResult_t
  ncclCommInitRankConfig (ncclComm_t *comm, int size, ncclUniqueId id, int rank,
                          ncclConfig_t *config)
  {
    std::lock_guard<std::mutex> lock (state ().mutex);
    uint64_t number;

    if (fails ("ncclCommInitRankConfig"))
      return state ().failure;
    memcpy (&number, &id, sizeof number);
    std::shared_ptr<World> &world = state ().worlds[number];
    if (world == nullptr)
      world = std::make_shared<World> ();
    world->size = size;
    world->n_joined++;
    state ().was_blocking |= config->blocking != 0;
    state ().n_living++;
    *comm = new ncclComm { world, rank };
    return ncclInProgress;
  }

  ncclResult_t
  ncclCommGetAsyncError (ncclComm_t comm, ncclResult_t *code)
  {
    std::lock_guard<std::mutex> lock (state ().mutex);

    *code = look (comm);
    return ncclSuccess;
  }

  ncclResult_t
  ncclCommFinalize (ncclComm_t comm)
  {
    std::lock_guard<std::mutex> lock (state ().mutex);

    comm->is_finalized = true;
    comm->world->n_finalized++;
    return ncclInProgress;
  }

  ncclResult_t
  ncclCommDestroy (ncclComm_t comm)
  {
    std::lock_guard<std::mutex> lock (state ().mutex);

    state ().n_living--;
    delete comm;
    return ncclSuccess;
  }

  ncclResult_t
  ncclCommAbort (ncclComm_t comm)
  {
    std::lock_guard<std::mutex> lock (state ().mutex);

    comm->world->broken = ncclRemoteError;
    comm->world->text = "rank " + std::to_string (comm->rank) + " is gone";
    state ().n_living--;
    state ().n_aborted++;
    delete comm;
    return ncclSuccess;
  }

  ncclResult_t
  ncclAllReduce (const void *from, void *to, size_t n_elems, ncclDataType_t type, ncclRedOp_t op,
                 ncclComm_t comm, cudaStream_t stream)
  {
    if (type != ncclFloat32 || op != ncclSum)
      return ncclInvalidArgument;
    return contribute ("ncclAllReduce", reduce, comm, { from, to }, n_elems, sizeof (float), 0,
                       stream);
  }

  ncclResult_t
  ncclAllGather (const void *from, void *to, size_t n_elems, ncclDataType_t type, ncclComm_t comm,
                 cudaStream_t stream)
  {
    return contribute ("ncclAllGather", gather, comm, { from, to }, n_elems, size_of (type), 0,
                       stream);
  }

  ncclResult_t
  ncclBroadcast (const void *from, void *to, size_t n_elems, ncclDataType_t type, int root,
                 ncclComm_t comm, cudaStream_t stream)
  {
    return contribute ("ncclBroadcast", spread, comm, { from, to }, n_elems, size_of (type), root,
                       stream);
  }
}

namespace {

void
break_all (ncclResult_t code, const char *text)
{
  std::lock_guard<std::mutex> lock (state ().mutex);

  state ().broken = code;
  state ().text = text;
}

void
fail (const char *function, ncclResult_t code)
{
  std::lock_guard<std::mutex> lock (state ().mutex);

  state ().failing = function;
  state ().failure = code;
}

void
stall_joining ()
{
  std::lock_guard<std::mutex> lock (state ().mutex);

  state ().is_stalled = true;
}

bool
was_blocking ()
{
  std::lock_guard<std::mutex> lock (state ().mutex);

  return state ().was_blocking;
}

int
n_living ()
{
  std::lock_guard<std::mutex> lock (state ().mutex);

  return state ().n_living;
}

int
n_aborted ()
{
  std::lock_guard<std::mutex> lock (state ().mutex);

  return state ().n_aborted;
}

void
reset ()
{
  std::lock_guard<std::mutex> lock (state ().mutex);

  state ().failing.clear ();
  state ().broken = ncclSuccess;
  state ().text.clear ();
  state ().is_stalled = false;
  state ().was_blocking = false;
  state ().n_aborted = 0;
}

} /* namespace */

extern "C"
{
  extern const FakeNcclControls fake_nccl_controls;
  const FakeNcclControls fake_nccl_controls = { break_all, fail,      stall_joining, was_blocking,
                                                n_living,  n_aborted, reset };
}
