/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* without_io_uring ERRNO PROGRAM ARGUMENT...: runs a program in which io_uring_setup() fails with
 * this error number, as under the seccomp profile of a container. The exit code 126 means that the
 * system has no seccomp filters. */

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int
refuse_io_uring (unsigned code)
{
  struct sock_filter instructions[] = {
    BPF_STMT (BPF_LD | BPF_W | BPF_ABS, offsetof (struct seccomp_data, nr)),
    BPF_JUMP (BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
    BPF_STMT (BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (code & SECCOMP_RET_DATA)),
    BPF_STMT (BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog filter = { sizeof instructions / sizeof *instructions, instructions };

  return prctl (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
         && prctl (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

int
main (int argc, char **argv)
{
  if (argc < 3)
    {
      fprintf (stderr, "usage: without_io_uring ERRNO PROGRAM ARGUMENT...\n");
      return 2;
    }
  if (!refuse_io_uring ((unsigned) atoi (argv[1])))
    {
      perror ("seccomp");
      return 126;
    }
  execv (argv[2], argv + 2);
  perror (argv[2]);
  return 127;
}
