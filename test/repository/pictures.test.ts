import { expect, test } from '@jest/globals';
import { readdirSync, readFileSync } from 'node:fs';
import { pictures } from '../../tools/pictures/pictures.ts';

const folder = 'docs/pictures/';
const names = Object.keys(pictures);

/** XML as the pictures use it: no declarations, no comments, three entities. Answers what is not so, or what is not closed. */
function findBadXml(text: string): string {
  const token = /<(\/?)(\w+)(?: [\w:-]+="(?:[^"<&]|&\w+;)*")*(\/?)>|[^<&]+|&(?:amp|lt|quot);/gy;
  const open: string[] = [];
  for (let end = 0; end < text.length; end = token.lastIndex) {
    const match = token.exec(text);
    if (match === null) return text.slice(end, end + 40);
    const [, slash, name, isEmpty] = match;
    if (slash === '/' && open.pop() !== name) return match[0];
    if (slash === '' && isEmpty === '' && name !== undefined) open.push(name);
  }
  return open.join();
}

test('docs/pictures has what scripts/pictures draws, and --help names each', () => {
  expect(readdirSync(folder).sort()).toEqual(names.map((name) => `${name}.svg`).sort());
  for (const name of names)
    expect(readFileSync('scripts/pictures', 'utf8')).toMatch(RegExp(`these: .*\\b${name}\\b`));
});

test.each(names)(
  '%s is XML for light and dark pages, for readers who do not see it, and has no small text',
  (name) => {
    const text = readFileSync(`${folder}${name}.svg`, 'utf8');
    expect(findBadXml(text)).toBe('');
    expect(text).toMatch(/<title id="title">[^<]{8,}<\/title>\n<desc id="desc">[^<]{40,}<\/desc>/);
    expect(text).toContain('@media (prefers-color-scheme: dark)');
    expect(text).not.toMatch(/<script|https?:(?!\/\/www\.w3\.org\/2000\/svg")/);
    expect(text).toContain('viewBox="0 0 800 ');
    expect(
      Math.min(...[...text.matchAll(/([\d.]+)px/g)].map(([, size]) => Number(size))),
    ).toBeGreaterThanOrEqual(12);
    expect(text.length).toBeLessThan(150_000);
  },
);

test.each(names.filter((name) => !name.endsWith('recording')))(
  '%s is as scripts/pictures draws it now',
  async (name) => {
    expect(readFileSync(`${folder}${name}.svg`, 'utf8')).toBe(await pictures[name]?.());
  },
);
