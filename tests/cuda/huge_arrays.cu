/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Arrays of more than 2^31 and 2^32 elements against closed forms, on a GPU only, to find 32-bit
 * overflows. A case that does not fit into the memory of this machine prints its need and the free
 * memory. The last line counts the cases. Exit code: 0 if at least one case passed and none is
 * wrong; 1 if one is wrong; 3, with the reason in the last line, if there is no GPU or no case
 * fits. */

#include <cstdlib>
#include <cstring>

#include "tests/cuda/huge_cases.h"

namespace {

using namespace huge_arrays;

double
gib (gsize n_bytes)
{
  return (double) n_bytes / (double) kGiB;
}

/* The number after `key` in a file, in units of `unit` bytes; G_MAXSIZE if there is none. */
gsize
read_bytes (const char *path, const char *key, gsize unit)
{
  FILE *file = fopen (path, "re");
  gsize n_bytes = G_MAXSIZE;
  char line[256];

  while (file != nullptr && n_bytes == G_MAXSIZE && fgets (line, sizeof line, file) != nullptr)
    if (strncmp (line, key, strlen (key)) == 0)
      {
        char *end;
        unsigned long long number = strtoull (line + strlen (key), &end, 10);

        if (end != line + strlen (key))
          n_bytes = number > G_MAXSIZE / unit ? G_MAXSIZE : number * unit;
      }
  if (file != nullptr)
    fclose (file);
  return n_bytes;
}

/* Also limited by the control group of a container. */
gsize
host_bytes ()
{
  gsize available = read_bytes ("/proc/meminfo", "MemAvailable:", 1024);
  gsize limit = read_bytes ("/sys/fs/cgroup/memory.max", "", 1);
  gsize used = read_bytes ("/sys/fs/cgroup/memory.current", "", 1);

  if (limit != G_MAXSIZE && used != G_MAXSIZE)
    available = MIN (available, limit - MIN (used, limit));
  return available != G_MAXSIZE ? available : 0;
}

Have
get_memory ()
{
  gsize n_free = 0, n_total;
  cudaMemPool_t pool;

  /* The scratch memory of the case before. */
  if (cudaDeviceGetDefaultMemPool (&pool, 0) == cudaSuccess)
    cudaMemPoolTrimTo (pool, 0);
  cudaMemGetInfo (&n_free, &n_total);
  cudaGetLastError (); /* clears the error: without memory no case fits */
  return { n_free, host_bytes () };
}

enum Outcome
{
  PASSED,
  WRONG,
  DOES_NOT_FIT,
  N_OUTCOMES,
};

Outcome
run (const Case &one)
{
  Need need = one.need (one.n);
  Have have = get_memory ();
  Place place = place_inputs (need, have);
  int n_wrong = 0;

  printf ("%s of %zu: ", one.name, (size_t) one.n);
  if (place == NOWHERE)
    {
      printf (
          "does not fit: needs %.1f GiB of the device and %.1f GiB of it or of the host, and has "
          "%.1f GiB and %.1f GiB\n",
          gib (need.device + kReserve), gib (need.inputs), gib (have.device), gib (have.host));
      return DOES_NOT_FIT;
    }
  printf ("%.1f GiB of the device, %.1f GiB of the host\n",
          gib (need.device + (place == ON_DEVICE ? need.inputs : 0)),
          gib (place == ON_DEVICE ? 0 : need.inputs));
  Memory memory (place);
  cudaError_t code = one.run (&memory, one.n, &n_wrong);
  printf ("%s of %zu: %s\n", one.name, (size_t) one.n,
          code != cudaSuccess ? cudaGetErrorString (code)
          : n_wrong > 0       ? "wrong"
                              : "right");
  cudaGetLastError ();
  return code != cudaSuccess || n_wrong > 0 ? WRONG : PASSED;
}

} /* namespace */

int
main ()
{
  int n_devices = 0, n[N_OUTCOMES] = {}, n_cases = (int) (sizeof kCases / sizeof kCases[0]);
  cudaError_t code = cudaGetDeviceCount (&n_devices);

  setvbuf (stdout, nullptr, _IOLBF, 0); /* lines survive a kill */
  if (code != cudaSuccess || n_devices == 0)
    {
      printf ("SKIPPED: %s\n", code != cudaSuccess ? cudaGetErrorString (code) : "no device");
      return 3;
    }
  for (const Case &one : kCases)
    n[run (one)]++;
  printf ("passed %d of %d", n[PASSED], n_cases);
  if (n[WRONG] > 0)
    printf (", %d wrong", n[WRONG]);
  if (n[DOES_NOT_FIT] > 0)
    printf (", %d did not fit", n[DOES_NOT_FIT]);
  printf ("\n");
  return n[WRONG] > 0 ? 1 : n[PASSED] == 0 ? 3 : 0;
}
