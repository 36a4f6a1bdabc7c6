import { edgeNumbers, addressTexts, makeHostileText } from './hostile.ts';
import { type Random } from '../../../support/random/random.ts';

type Mutation = (text: string, random: Random, corpus: readonly string[]) => string;

/** Lines or words change places, come twice, or go; numbers and addresses go to their edges. */
const mutations: readonly Mutation[] = [
  onLines((lines, at) => lines.toSpliced(at, 1)),
  onLines((lines, at) => lines.toSpliced(at, 0, lines[at] ?? '')),
  onLines((lines, at, random) => {
    const other = random.below(lines.length);
    return lines.with(at, lines[other] ?? '').with(other, lines[at] ?? '');
  }),
  onLines((lines, at, random, corpus) =>
    lines.toSpliced(at, random.below(4), random.pick(random.pick(corpus).split('\n'))),
  ),
  onLines((lines, at, random) => lines.with(at, changeWord(lines[at] ?? '', random))),
  onLines((lines, at, random) => lines.with(at, changeWord(lines[at] ?? '', random))),
  onLines((lines, at) => lines.with(at, `${lines[at] ?? ''}\r`)),
  (text) => text.replaceAll('\n', '\r\n'),
  (text, random) => text.slice(0, random.below(text.length)),
  (text, random, corpus) => {
    const other = random.pick(corpus);
    return text.slice(0, random.below(text.length)) + other.slice(random.below(other.length));
  },
  replaceOne(/\d+/g, (random) => random.pick(edgeNumbers)),
  replaceOne(/\d+\.\d+\.\d+\.\d+|[\da-f]*:[\da-f:]+/gi, (random) => random.pick(addressTexts)),
  replaceOne(/"[^"\n]*"/g, (random) => `"${makeHostileText(random)}"`),
  replaceOne(/["{}[\]:,;]/g, (random) => random.pick(['', '"', '{', '}', '[', ']', '\\"', '\\'])),
  insert((random) => makeHostileText(random)),
  insert((random) => random.pick(['"', '\\', '{', '[', ' '.repeat(50), 'x'.repeat(300), '\t'])),
  flipByte,
  flipByte,
];

/**
 * A text that was right, with up to four faults. What is long is cut to some of its lines first at times: a case is
 * faster so, and small texts have other faults.
 */
export function mutateText(random: Random, corpus: readonly string[]): string {
  let text = random.pick(corpus);
  if (random.chance(60)) text = keepLines(text, random);
  const faults = random.below(5);
  for (let fault = 0; fault < faults; fault += 1) text = random.pick(mutations)(text, random, corpus);
  return text;
}

/** Bytes that were right, with up to four faults: changed, cut out, put in twice, cut short. */
export function mutateBytes(random: Random, corpus: readonly Buffer[]): Buffer {
  let bytes: Buffer = Buffer.from(random.pick(corpus));
  const faults = random.below(5);
  for (let fault = 0; fault < faults; fault += 1) bytes = changeBytes(bytes, random);
  return bytes;
}

function changeBytes(bytes: Buffer, random: Random): Buffer {
  const at = random.below(bytes.length);
  const end = at + random.below(16);
  switch (random.below(5)) {
    case 0:
      return bytes.subarray(0, at);
    case 1:
      return Buffer.concat([bytes.subarray(0, at), bytes.subarray(end)]);
    case 2:
      return Buffer.concat([bytes.subarray(0, end), bytes.subarray(at)]);
    case 3:
      bytes.fill(random.pick([0, 1, 0x7f, 0x80, 0xff]), at, Math.min(bytes.length, at + 1 + random.below(4)));
      return bytes;
    default:
      if (at < bytes.length) bytes[at] = random.below(256);
      return bytes;
  }
}

type LineMutation = (
  lines: readonly string[],
  at: number,
  random: Random,
  corpus: readonly string[],
) => readonly string[];

function onLines(change: LineMutation): Mutation {
  return (text, random, corpus) => {
    const lines = text.split('\n');
    return change(lines, random.below(lines.length), random, corpus).join('\n');
  };
}

/** Tables keep their first and last lines: else nothing of most texts could be read. */
function keepLines(text: string, random: Random): string {
  const lines = text.split('\n');
  const isKept = (line: string, at: number) =>
    at < 3 || at >= lines.length - 2 || /^(?:[*:]|COMMIT)/.test(line) || random.chance(25);
  return lines.filter(isKept).join('\n');
}

const wordChanges: readonly ((words: readonly string[], at: number, random: Random) => string[])[] = [
  (words, at) => words.toSpliced(at, 1),
  (words, at) => words.toSpliced(at, 0, words[at] ?? ''),
  (words, at, random) => words.with(at, words[random.below(words.length)] ?? ''),
  (words, at, random) => words.with(at, makeHostileText(random)),
  (words, at, random) => words.with(at, words[at]?.slice(0, random.below(words[at].length)) ?? ''),
];

function changeWord(line: string, random: Random): string {
  const words = line.split(' ');
  const at = random.below(words.length);
  return random.pick(wordChanges)(words, at, random).join(' ');
}

function replaceOne(pattern: RegExp, make: (random: Random) => string): Mutation {
  return (text, random) => {
    const matches = [...text.matchAll(pattern)];
    if (matches.length === 0) return text;
    const match = random.pick(matches);
    return text.slice(0, match.index) + make(random) + text.slice(match.index + match[0].length);
  };
}

function insert(make: (random: Random) => string): Mutation {
  return (text, random) => {
    const at = random.below(text.length + 1);
    return text.slice(0, at) + make(random) + text.slice(at);
  };
}

/** As tools and files are read: what is no UTF-8 any more has become U+FFFD. */
function flipByte(text: string, random: Random): string {
  const at = random.below(text.length);
  const bytes = Buffer.from(text.slice(at, at + 8));
  if (bytes.length === 0) return text;
  const flipped = random.below(bytes.length);
  bytes[flipped] = (bytes[flipped] ?? 0) ^ (1 << random.below(8));
  return text.slice(0, at) + bytes.toString('utf8') + text.slice(at + 8);
}
