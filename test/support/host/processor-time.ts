/** How long this thread's processor has to do with something, in milliseconds: other programs, and waits, do not count. */
export async function timeProcessor(act: () => unknown): Promise<number> {
  const before = process.threadCpuUsage();
  await act();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1000;
}
