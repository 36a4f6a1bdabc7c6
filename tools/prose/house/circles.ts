/**
 * The circles of a graph: its strongly connected components of two or more nodes, by Tarjan's algorithm. Each has its nodes in
 * alphabetical order. A circle that touches another one is a part of it.
 */
export function findCircles(nodeToTargets: ReadonlyMap<string, ReadonlySet<string>>): string[][] {
  const circles: string[][] = [];
  const numbers = new Map<string, number>();
  const open: string[] = [];

  /** The lowest number of an open node that this one leads to. */
  const visit = (node: string): number => {
    const number = numbers.size;
    numbers.set(node, number);
    open.push(node);
    let lowest = number;
    for (const target of nodeToTargets.get(node) ?? []) {
      const known = numbers.get(target);
      if (known === undefined) lowest = Math.min(lowest, visit(target));
      else if (open.includes(target)) lowest = Math.min(lowest, known);
    }
    if (lowest === number) {
      const circle = open.splice(open.indexOf(node));
      if (circle.length > 1) circles.push(circle.sort());
    }
    return lowest;
  };

  for (const node of nodeToTargets.keys()) if (!numbers.has(node)) visit(node);
  return circles;
}
