/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The run-time libraries of the address and leak sanitizers call these functions. */

const char *__asan_default_options (void);
const char *__lsan_default_suppressions (void);

const char *
__asan_default_options (void)
{
  return "check_initialization_order=1:"
         "detect_stack_use_after_return=1:"
         "strict_string_checks=1:"
         /* An allocation that is too large returns NULL, as in a release build, because tests check
          * limits. */
         "allocator_may_return_null=1";
}

/* Each line has a function or library in the stack of the allocation. A comment must say why the
 * leak is not a defect of this project. */
const char *
__lsan_default_suppressions (void)
{
  return "";
}
