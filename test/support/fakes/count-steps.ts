/** How many elements lists were looked at for, by the methods that look at one after the other. */
const looking = [
  ...['every', 'filter', 'find', 'findIndex', 'flatMap', 'forEach', 'includes', 'indexOf', 'map'],
  ...['reduce', 'some'],
] as const;

/**
 * Runs something, and answers how many elements its calls of a list's methods can have looked at. A count is the same on each machine: twice
 * the elements take twice as many, or four times as many where each is compared with each.
 */
export function countSteps(run: () => void): number {
  let steps = 0;
  const own = looking.map((name) => [name, Object.getOwnPropertyDescriptor(Array.prototype, name)] as const);
  for (const [name, descriptor] of own) {
    const original = descriptor?.value as (...args: unknown[]) => unknown;
    const value = function (this: readonly unknown[], ...args: unknown[]): unknown {
      steps += this.length;
      return original.apply(this, args);
    };
    Object.defineProperty(Array.prototype, name, { ...descriptor, value });
  }
  try {
    run();
  } finally {
    for (const [name, descriptor] of own) Object.defineProperty(Array.prototype, name, descriptor ?? {});
  }
  return steps;
}
