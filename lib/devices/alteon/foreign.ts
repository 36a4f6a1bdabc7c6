/**
 * Whose the differences are that a unit prints. It prints commands: a line that begins with `/c/` opens an object, and the lines after it say what
 * changes there.
 */

/** What a unit prints, as far as it is not all about one cluster's objects. What cannot be read is foreign. */
export function findForeign(lines: readonly string[], cluster: string): readonly string[] {
  const blocks = toBlocks(lines);
  return blocks.length === 0 ? lines : blocks.filter(([header = '']) => !isOurs(header, cluster)).flat();
}

/** Whether one of the objects is of this cluster. */
export function hasOurs(lines: readonly string[], cluster: string): boolean {
  return toBlocks(lines).some(([header = '']) => isOurs(header, cluster));
}

/** What stands before the first object is a comment. */
function toBlocks(lines: readonly string[]): readonly (readonly string[])[] {
  const blocks: string[][] = [];
  for (const line of lines) {
    if (/^\s*\/c(fg)?\//.test(line)) blocks.push([line]);
    else blocks.at(-1)?.push(line);
  }
  return blocks;
}

/** Some versions print names in quotes. */
function isOurs(header: string, cluster: string): boolean {
  const [, name = ''] = /^\s*\/c(?:fg)?\/slb\/(?:real|group|virt)\s+"?([^\s"/]+)/.exec(header) ?? [];
  return name.startsWith(`vipnat_${cluster}_`);
}
