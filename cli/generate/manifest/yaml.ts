import { Document, isMap, isNode, isScalar } from 'yaml';

/** A comment above the key or item that a path leads to; above the whole document when the path is empty. */
export interface Comment {
  readonly path: readonly (string | number)[];
  /** One or more lines. */
  readonly text: string;
}

/** One object of Kubernetes, and what people are told beside it. */
export interface Manifest {
  readonly object: object;
  readonly comments: readonly Comment[];
}

/** A part of an object, with comments for it, their paths from that part on. */
export interface Part {
  readonly value: object;
  readonly comments: readonly Comment[];
}

/** Comments of a part that is at `path`, with their paths from there on where that path begins. */
export function nestComments(path: Comment['path'], comments: readonly Comment[]): Comment[] {
  return comments.map((comment) => ({ path: [...path, ...comment.path], text: comment.text }));
}

/** Manifests as one YAML text: whoever reads it, by YAML 1.1 as Kubernetes does or by 1.2, gets the same objects. */
export function formatManifests(manifests: readonly Manifest[]): string {
  return manifests.map(formatManifest).join('---\n');
}

function formatManifest({ object, comments }: Manifest): string {
  const document = new Document(object, {
    // Kubernetes reads by YAML 1.1, where `on` and `1_000` are no texts.
    compat: 'yaml-1.1',
    aliasDuplicateObjects: false,
  });
  for (const { path, text } of comments) setComment(document, path, text.replaceAll(/^/gm, ' '));
  return document.toString({ lineWidth: 0, singleQuote: true });
}

function setComment(document: Document, path: Comment['path'], text: string): void {
  if (path.length === 0) {
    document.commentBefore = text;
    return;
  }
  const node = findHead(document, path);
  if (!isNode(node)) throw new TypeError(`nothing is at ${path.join('.')} for a comment`);
  node.commentBefore = text;
}

/** What a comment has to stand before: a key of a map, or an item of a sequence. */
function findHead(document: Document, path: Comment['path']): unknown {
  const last = path.at(-1);
  const parent = path.length === 1 ? document.contents : document.getIn(path.slice(0, -1), true);
  if (!isMap(parent)) return document.getIn(path, true);
  return parent.items.map(({ key }) => key).find((key) => isScalar(key) && key.value === last);
}
