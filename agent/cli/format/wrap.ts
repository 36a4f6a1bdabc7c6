/** Lines of at most so many characters, broken at blanks; a longer word has a line of its own. Null breaks nothing. */
export function wrap(text: string, width: number | null): string[] {
  if (width === null) return [text];
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + word.length < width) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
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
