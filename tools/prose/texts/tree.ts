import {
  type TxtDocumentNode,
  ASTNodeTypes,
  type TxtParentNode,
  type TxtNode,
} from '@textlint/ast-node-types';

/** A part of a passage, by where it begins and ends in the file: words, something that counts as one word, or a line's end. */
export interface Part {
  readonly start: number;
  readonly end: number;
  readonly type: 'Str' | 'Code' | 'Break';
}

/** A tree of textlint for a file with passages in it, which are given in order. */
export function toTree(text: string, passages: readonly (readonly Part[])[]): TxtDocumentNode {
  const toNode = createNodes(text);
  const children = passages
    .filter((parts) => parts.length > 0)
    .map((parts) => {
      const leaves = parts.map(({ start, end, type }) => {
        const leaf = toNode(type, start, end);
        return { ...leaf, value: leaf.raw };
      });
      const [first] = parts;
      return {
        ...toNode(ASTNodeTypes.Paragraph, first?.start ?? 0, parts.at(-1)?.end ?? 0),
        children: leaves,
      } as TxtParentNode;
    });
  return { ...toNode(ASTNodeTypes.Document, 0, text.length), children } as TxtDocumentNode;
}

function createNodes(text: string) {
  const lineStarts = [0, ...[...text.matchAll(/\n/g)].map(({ index }) => index + 1)];
  const toPosition = (place: number) => {
    const line = lineStarts.findLastIndex((start) => start <= place);
    return { line: line + 1, column: place - (lineStarts[line] ?? 0) };
  };
  return (type: TxtNode['type'], start: number, end: number): TxtNode => ({
    type,
    raw: text.slice(start, end),
    range: [start, end],
    loc: { start: toPosition(start), end: toPosition(end) },
  });
}
