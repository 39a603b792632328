/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Compares operations on arrays of more than 2^31 and 2^32 elements with closed forms, to find
 * 32-bit overflows. It needs a GPU.
 *
 *   huge_arrays [--skip=N]     leaves out the first N cases
 *   huge_arrays --list
 *
 * It prints a line with the name and the result of each case. If a case does not fit into the
 * memory of the machine, the line has its need and the free memory. A CUDA error terminates the
 * program, because it may break the process. Another process can continue with --skip. The last
 * line counts the cases. Exit code: 0 if at least one case passed and none is wrong; 1 if a case is
 * wrong or CUDA fails; 2 for bad flags; 3, with the reason in the last line, if there is no GPU or
 * no case fits. */

#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/cuda/huge_cases.h"

namespace {

using namespace huge_arrays;

double
gib (gsize n_bytes)
{
  return (double) n_bytes / (double) kGiB;
}

/* Returns the number after `key` in a file, in units of `unit` bytes, or G_MAXSIZE if there is
 * none. */
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

/* Returns the free host memory, limited by the control group of a container. */
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

  /* Releases the scratch memory of the previous case. */
  if (cudaDeviceGetDefaultMemPool (&pool, 0) == cudaSuccess)
    cudaMemPoolTrimTo (pool, 0);
  cudaMemGetInfo (&n_free, &n_total);
  cudaGetLastError (); /* clears the error; without memory no case fits */
  return { n_free, host_bytes () };
}

enum Outcome
{
  PASSED,
  WRONG,
  FAILED,
  DOES_NOT_FIT,
  N_OUTCOMES,
};

std::string
name_of (const Case &one)
{
  return std::string (one.name) + " of " + std::to_string (one.n);
}

/* Prints the columns that run_all.sh reads. */
void
print_result (const Case &one, const char *result)
{
  printf ("%-28s  %s\n", name_of (one).c_str (), result);
}

Outcome
run (const Case &one)
{
  Need need = one.need (one.n);
  Have have = get_memory ();
  Place place = place_inputs (need, have);
  int n_wrong = 0;

  if (place == NOWHERE)
    {
      char reason[160];

      snprintf (reason, sizeof reason,
                "does not fit: needs %.1f GiB of the device and %.1f GiB of it or of the host, and "
                "has %.1f GiB and %.1f GiB",
                gib (need.device + kReserve), gib (need.inputs), gib (have.device),
                gib (have.host));
      print_result (one, reason);
      return DOES_NOT_FIT;
    }
  printf ("%s: %.1f GiB of the device, %.1f GiB of the host\n", name_of (one).c_str (),
          gib (need.device + (place == ON_DEVICE ? need.inputs : 0)),
          gib (place == ON_DEVICE ? 0 : need.inputs));
  Memory memory (place);
  cudaError_t code = one.run (&memory, one.n, &n_wrong);
  print_result (one, code != cudaSuccess ? cudaGetErrorString (code)
                     : n_wrong > 0       ? "wrong"
                                         : "right");
  return code != cudaSuccess ? FAILED : n_wrong > 0 ? WRONG : PASSED;
}

int
run_all (gsize n_skipped)
{
  int n_devices = 0, n[N_OUTCOMES] = {};
  cudaError_t code = cudaGetDeviceCount (&n_devices);

  if (code != cudaSuccess || n_devices == 0)
    {
      printf ("SKIPPED: %s\n", code != cudaSuccess ? cudaGetErrorString (code) : "no device");
      return 3;
    }
  for (gsize i = n_skipped; i < G_N_ELEMENTS (kCases) && n[FAILED] == 0; i++)
    n[run (kCases[i])]++;
  printf ("passed %d of %d", n[PASSED], n[PASSED] + n[WRONG] + n[FAILED] + n[DOES_NOT_FIT]);
  if (n[WRONG] > 0)
    printf (", %d wrong", n[WRONG]);
  if (n[FAILED] > 0)
    printf (", and the last one failed");
  if (n[DOES_NOT_FIT] > 0)
    printf (", %d did not fit", n[DOES_NOT_FIT]);
  printf ("\n");
  return n[WRONG] + n[FAILED] > 0 ? 1 : n[PASSED] == 0 ? 3 : 0;
}

} /* namespace */

int
main (int argc, char **argv)
{
  unsigned long n_skipped = 0;

  setvbuf (stdout, nullptr, _IOLBF, 0); /* flushes each line, so lines survive a kill */
  for (int i = 1; i < argc; i++)
    if (strcmp (argv[i], "--list") == 0)
      {
        for (const Case &one : kCases)
          printf ("%s\n", name_of (one).c_str ());
        return 0;
      }
    else if (sscanf (argv[i], "--skip=%lu", &n_skipped) != 1)
      {
        fprintf (stderr, "huge_arrays: %s: expected --skip=N or --list\n", argv[i]);
        return 2;
      }
  return run_all (n_skipped);
}
