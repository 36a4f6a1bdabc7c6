/*
 * Lets user-mode Linux 6.1 run on a processor whose registers are more than it has room for, such as one with AMX. It writes the
 * part that it knows, and the host takes all registers of a process or none: Linux since 5.17, xstateregs_set() of
 * arch/x86/kernel/fpu/regset.c. So a write that is too short gets the rest of what the process has.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

static long (*next)(int, ...);

/* Not on the stack: that of user-mode Linux has 16 kB. Its one thread that traces needs one. AMX has 11,008 bytes. */
static unsigned char area[65536];

/* Before user-mode Linux begins, whose stacks are too small for the dynamic linker. */
__attribute__((constructor)) static void find_next(void) { next = (long (*)(int, ...))dlsym(RTLD_NEXT, "ptrace"); }

long ptrace(enum __ptrace_request request, ...) {
  va_list words;
  va_start(words, request);
  pid_t pid = va_arg(words, pid_t);
  void *address = va_arg(words, void *);
  void *data = va_arg(words, void *);
  va_end(words);
  if (request == PTRACE_SETREGSET && address == (void *)NT_X86_XSTATE) {
    struct iovec *given = data, whole = {area, sizeof area};
    if (next(PTRACE_GETREGSET, pid, address, &whole) == 0 && given->iov_len < whole.iov_len) {
      memcpy(area, given->iov_base, given->iov_len);
      return next(request, pid, address, &whole);
    }
  }
  return next(request, pid, address, data);
}
