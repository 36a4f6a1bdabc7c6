/**
 * Whether a printed rule still says what the rendered one said. nft prints numbers for some of our words, as `-n`
 * asks, in its own number of digits, and leaves out the family where it is plain; all else that differs is somebody's edit.
 */
export function hasSameMeaning(rendered: string, printed: string): boolean {
  return rendered === printed || toMeaning(rendered) === toMeaning(printed);
}

function toMeaning(rule: string): string {
  return rule
    .replaceAll(/\s+/g, ' ')
    .replace(/\bl4proto tcp\b/, 'l4proto 6')
    .replace(/\btcp flags & (\([^()]+\)|\w+) == (\w+)/, (_, mask: string, value: string) =>
      describeFlags(value, mask),
    )
    .replace(/\btcp flags ([\w,]+) \/ ([\w,]+)/, (_, value: string, mask: string) =>
      describeFlags(value, mask),
    )
    .replace(/\bct state (?:invalid|0x0*1)\b/, 'ct state invalid')
    .replace(/\bct status (?:dnat|0x0*20)\b/, 'ct status dnat')
    .replace(/\bdnat ip6? to\b/, 'dnat to');
}

/** RFC 9293, 3.1. */
const flagToBit = new Map([
  ['fin', 0x01],
  ['syn', 0x02],
  ['rst', 0x04],
  ['psh', 0x08],
  ['ack', 0x10],
  ['urg', 0x20],
  ['ecn', 0x40],
  ['cwr', 0x80],
]);

/** `syn / fin,syn` as much as `& (0x1 | 0x2) == 0x2`: versions of nft differ. */
function describeFlags(value: string, mask: string): string {
  return `tcp flags ${addFlags(value)} of ${addFlags(mask)}`;
}

/** Of flags by name or number, each named once. */
function addFlags(flags: string): number {
  return [...flags.matchAll(/\w+/g)].reduce((sum, [flag]) => sum + (flagToBit.get(flag) ?? Number(flag)), 0);
}

/** The same for what a set is declared as: nft prints `3h` where it is not told to print numbers. */
export function hasSameDeclaration(rendered: string, printed: string): boolean {
  return toDeclared(rendered) === toDeclared(printed);
}

const unitToSeconds = new Map([
  ['d', 86_400],
  ['h', 3600],
  ['m', 60],
  ['s', 1],
]);

function toDeclared(declaration: string): string {
  return declaration
    .replaceAll(/\s+/g, ' ')
    .replace(/\btimeout ((?:\d+[dhms])+)/, (_, duration: string) => `timeout ${toSeconds(duration)}`);
}

function toSeconds(duration: string): number {
  return [...duration.matchAll(/(\d+)([dhms])/g)].reduce(
    (total, [, count, unit]) => total + Number(count) * (unitToSeconds.get(unit ?? '') ?? 0),
    0,
  );
}
