import { closeSync, openSync } from 'node:fs';

/** A process takes so many while it is started: three pairs for its pipes, and one by which libuv hears whether it began. */
const descriptorsToStart = 8;

/**
 * Throws EMFILE or ENFILE, as node:fs does, unless a process can be started now. With some descriptors, but fewer than that, Node 24.21.0 gives
 * up half-way and leaves three open for good: an agent that tries again and again would soon have none, also long after whatever
 * took the others has given them back.
 */
export function checkDescriptors(): void {
  const opened: number[] = [];
  try {
    while (opened.length < descriptorsToStart) opened.push(openSync('/dev/null', 'r'));
  } finally {
    for (const descriptor of opened) closeSync(descriptor);
  }
}
