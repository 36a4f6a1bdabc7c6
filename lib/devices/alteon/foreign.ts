/**
 * Whose the differences are that a unit prints. It prints commands: a line that begins with `/c/` opens an object, and the lines after it say what
 * changes there.
 */

/**
 * What a unit prints, as far as it is not all about one cluster's objects. What cannot be read is foreign. It is published: of objects that may have
 * passwords and keys there is only which ones they are.
 */
export function findForeign(lines: readonly string[], cluster: string): readonly string[] {
  const blocks = toBlocks(lines);
  if (blocks.length === 0) return lines.length === 0 ? [] : ['changes that vipnat cannot read'];
  const foreign = blocks.filter(([header = '']) => !isOurs(header, cluster));
  return foreign.flatMap((block) => block.slice(0, isHarmless(block[0] ?? '') ? block.length : 1));
}

function isHarmless(header: string): boolean {
  return /^\s*\/c(?:fg)?\/slb\/(?:real|group|virt)\s/.test(header);
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
