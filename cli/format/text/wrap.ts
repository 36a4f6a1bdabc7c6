/** A command within prose: wrap does not break it. */
export function keepTogether(command: string): string {
  return command.replaceAll(' ', '\u00a0');
}

/**
 * Lines of at most so many characters, broken at blanks; a longer word has a line of its own. Null breaks nothing. A
 * no-break space is printed as a blank.
 */
export function wrap(text: string, width: number | null): string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + word.length < (width ?? Infinity))
      lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines.map((line) => line.replaceAll('\u00a0', ' '));
}

/**
 * What help says below the options, for a width: paragraphs are filled, `Exit status:` begins one, and examples, which are
 * to be pasted, stay as they are.
 */
export function wrapEpilogue(text: string, width: number): string {
  const paragraphs = text.split('\n\n').flatMap((paragraph) =>
    /^\n?Examples?:/.test(paragraph)
      ? [paragraph]
      : [
          paragraph
            .split(/\n(?=Exit status:|See )/)
            .map((part) => wrap(part.replaceAll('\n', ' '), width).join('\n'))
            .join('\n'),
        ],
  );
  return paragraphs.join('\n\n');
}
