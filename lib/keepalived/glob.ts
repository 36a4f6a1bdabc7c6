/** More than this many paths of one pattern in braces are not looked for. */
const maxAlternatives = 256;

/** The patterns that one with braces stands for, `a{b,c}` for `ab` and `ac`, as glob(3) with GLOB_BRACE. Pure. */
export function expandBraces(pattern: string): string[] {
  const done: string[] = [];
  const waiting = [pattern];
  while (waiting.length > 0 && done.length + waiting.length <= maxAlternatives) {
    const next = waiting.pop() ?? '';
    // The innermost first: what is in it has no braces.
    const [whole, inner = ''] = /\{([^{}]*)\}/.exec(next) ?? [];
    if (whole === undefined) done.push(next);
    else
      waiting.push(
        ...inner
          .split(',')
          .map((one) => next.replace(whole, () => one))
          .reverse(),
      );
  }
  return done;
}

/** Whether a part of a path has to be looked for. */
export function isPattern(part: string): boolean {
  return /[*?[]/.test(part);
}

/** Whether a file's name is one that a part of a pattern means: `*`, `?`, `[a-z]`, as glob(3). Takes linear time for each star. */
export function matchesGlob(name: string, pattern: string): boolean {
  if (name.startsWith('.') && !pattern.startsWith('.')) return false;
  const tokens = pattern.match(/\[[!^]?\]?[^\]]*\]|\\.|[^]/g) ?? [];
  let [at, token, star, retry] = [0, 0, -1, 0];
  while (at < name.length) {
    if (tokens[token] === '*') [star, retry, token] = [token, at, token + 1];
    else if (matchesOne(name[at] ?? '', tokens[token])) [at, token] = [at + 1, token + 1];
    else if (star >= 0) [retry, at, token] = [retry + 1, retry + 1, star + 1];
    else return false;
  }
  return tokens.slice(token).every((rest) => rest === '*');
}

function matchesOne(character: string, token: string | undefined): boolean {
  if (token === undefined) return false;
  if (token === '?') return true;
  if (token.length === 1) return token === character;
  if (token.startsWith('\\')) return token[1] === character;
  const isNegated = /^\[[!^]/.test(token);
  const ranges = token.slice(isNegated ? 2 : 1, -1).matchAll(/([^])-([^])|([^])/g);
  const isIn = [...ranges].some(([, from, to, one]) =>
    one === undefined ? character >= (from ?? '') && character <= (to ?? '') : character === one,
  );
  return isIn !== isNegated;
}
