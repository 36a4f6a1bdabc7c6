/*
 * In place of a host whose processor has AMX, for user-mode Linux: registers have 11,008 bytes. It takes all of them or none, as
 * Linux does since 5.17. What this processor does not have of them is a pattern for each process, which must come back.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

enum { whole = 11008, room_in_guest = 2696 };

static long (*next)(int, ...);
static unsigned char area[whole];

__attribute__((constructor)) static void find_next(void) { next = (long (*)(int, ...))dlsym(RTLD_NEXT, "ptrace"); }

/* All registers of a process; answers how many bytes this processor has of them, or -1. */
static long read_area(pid_t pid) {
  struct iovec own = {area, sizeof area};
  if (next(PTRACE_GETREGSET, pid, NT_X86_XSTATE, &own) != 0) return -1;
  for (size_t at = own.iov_len; at < whole; at++) area[at] = (unsigned char)(pid * 31 + at);
  return (long)own.iov_len;
}

static long get(pid_t pid, struct iovec *wanted) {
  if (read_area(pid) < 0) return -1;
  if (wanted->iov_len > whole) wanted->iov_len = whole;
  memcpy(wanted->iov_base, area, wanted->iov_len);
  return 0;
}

static long set(pid_t pid, const struct iovec *given) {
  long length = read_area(pid);
  if (length < 0) return -1;
  if (given->iov_len != whole) {
    errno = EFAULT;
    return -1;
  }
  /* What user-mode Linux has room for may be of the process that this one was made by. */
  long kept = length > room_in_guest ? length : room_in_guest;
  if (memcmp((char *)given->iov_base + kept, area + kept, (size_t)(whole - kept)) != 0) {
    errno = EINVAL;
    return -1;
  }
  struct iovec own = {given->iov_base, (size_t)length};
  return next(PTRACE_SETREGSET, pid, NT_X86_XSTATE, &own);
}

long ptrace(enum __ptrace_request request, ...) {
  va_list words;
  va_start(words, request);
  pid_t pid = va_arg(words, pid_t);
  void *address = va_arg(words, void *);
  void *data = va_arg(words, void *);
  va_end(words);
  if (address == (void *)NT_X86_XSTATE && request == PTRACE_GETREGSET) return get(pid, data);
  if (address == (void *)NT_X86_XSTATE && request == PTRACE_SETREGSET) return set(pid, data);
  return next(request, pid, address, data);
}
