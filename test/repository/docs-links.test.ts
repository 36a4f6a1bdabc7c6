import { describe, expect, test } from '@jest/globals';
import { existsSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { type Document, parseDocument, readDocuments } from '../support/documents/document.ts';

const documents = readDocuments();
const pathToDocument = new Map(documents.map((document) => [document.path, document]));

const findDeadLinks = (document: Document): string[] =>
  document.links.flatMap((link) => {
    const problem = examineLink(document, link);
    return problem === null ? [] : [`${document.path}: ${link} ${problem}`];
  });

function examineLink(from: Document, link: string): string | null {
  if (/^[a-z]+:/.test(link)) return isPublicUrl(link) ? null : 'is no https address';
  const [file = '', anchor] = link.split('#');
  const target = file === '' ? from.path : normalize(join(dirname(from.path), file));
  if (target.startsWith('..')) return 'leads out of the project';
  if (!existsSync(target)) return 'leads to no file';
  const document = target === from.path ? from : pathToDocument.get(target);
  return isHeading(document, anchor) ? null : 'leads to no heading';
}

/** Where no heading is named, any file will do. */
function isHeading(document: Document | undefined, anchor: string | undefined): boolean {
  return anchor === undefined || document?.anchors.has(anchor) === true;
}

function isPublicUrl(link: string): boolean {
  return URL.canParse(link) && new URL(link).protocol === 'https:' && new URL(link).hostname.includes('.');
}

describe('every link in a document', () => {
  test.each(documents)('of $path leads somewhere', (document) => {
    expect(findDeadLinks(document)).toEqual([]);
  });

  test('that leads nowhere is found', () => {
    const text = '# A & `b`\n[1](#a--b) [2](#a-b) [3](README.md) [4](gone.md) [5](../x.md) [6](http://x.org)';
    const links = '[7](docs/design.md#health) [8](docs/design.md#wealth) ![9](https://x.org/a.png)';
    expect(findDeadLinks(parseDocument('README.md', `${text} ${links}`))).toEqual([
      'README.md: #a-b leads to no heading',
      'README.md: gone.md leads to no file',
      'README.md: ../x.md leads out of the project',
      'README.md: http://x.org is no https address',
      'README.md: docs/design.md#wealth leads to no heading',
    ]);
  });
});

test('every document in docs/ can be found from the README or from the list of documents', () => {
  const lists = ['README.md', 'docs/README.md'];
  const linked = lists.flatMap((path) =>
    (pathToDocument.get(path)?.links ?? []).map((link) =>
      normalize(join(dirname(path), link.split('#')[0] ?? '')),
    ),
  );
  const pages = documents.map(({ path }) => path).filter((path) => /^docs\/[^/]+$/.test(path));
  expect(pages.filter((path) => !linked.includes(path) && !lists.includes(path))).toEqual([]);
});
