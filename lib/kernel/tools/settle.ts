/**
 * Like Promise.all, but answers only when all have settled: after a failure nothing goes on behind the caller's
 * back. Rejects with the first failure in the given order.
 */
export async function settleAll<T>(promises: readonly Promise<T>[]): Promise<T[]> {
  await Promise.allSettled(promises);
  return await Promise.all(promises);
}
