/**
 * The lines of what iptables-save printed. A comment can hold line breaks, which are printed as they are: such a rule
 * is one line here, so that nothing in a comment passes for a rule or a COMMIT. Pure and total, and its time grows with
 * the length of the text.
 */
export function* splitLines(text: string): Generator<string> {
  let start = 0;
  let isQuoted = false;
  for (let from = 0; from <= text.length;) {
    const end = text.indexOf('\n', from);
    const line = text.slice(from, end === -1 ? text.length : end);
    from += line.length + 1;
    if (isQuoted || line.startsWith('-') || line.startsWith('[')) isQuoted = endsQuoted(line, isQuoted);
    if (isQuoted && from <= text.length) continue;
    yield text.slice(start, from - 1);
    start = from;
  }
}

/** Whether a line ends within double quotes. */
function endsQuoted(line: string, startsQuoted: boolean): boolean {
  let isQuoted = startsQuoted;
  for (let at = line.indexOf('"'); at !== -1; at = line.indexOf('"', at + 1)) {
    if (isQuoted ? !isEscaped(line, at) : isOpening(line, at)) isQuoted = !isQuoted;
  }
  return isQuoted;
}

/** Elsewhere a quote is part of a word: the name of an interface is printed as it is, and can even begin with one. */
function isOpening(line: string, at: number): boolean {
  return line[at - 1] === ' ' && !/^ ?-[io] $/.test(line.slice(Math.max(0, at - 4), at));
}

/** A backslash before it counts, unless that is escaped itself. */
function isEscaped(line: string, at: number): boolean {
  let first = at;
  while (line[first - 1] === '\\') first -= 1;
  return (at - first) % 2 === 1;
}
