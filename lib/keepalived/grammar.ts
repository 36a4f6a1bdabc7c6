/** A line of keepalived.conf, with what stands in braces after it. */
export interface Statement {
  /** At least one, without quotes; the first is the keyword, or within a list the item itself. */
  readonly words: readonly string[];
  /** Null where no brace follows. */
  readonly block: readonly Statement[] | null;
}

/** What begins a block of its own at the top level only, see keepalived.conf(5). */
const topKeywords: ReadonlySet<string> = new Set([
  ...['global_defs', 'vrrp_instance', 'vrrp_sync_group', 'vrrp_script', 'vrrp_track_process'],
  ...[
    'virtual_server',
    'virtual_server_group',
    'bfd_instance',
    'static_ipaddress',
    'static_routes',
    'static_rules',
  ],
]);

/**
 * The statements of a text, by the rules of keepalived's own reader (lib/parser.c, 2.2.7): braces may stand anywhere on a
 * line, quotes hide them, comments begin with # or !. Braces that do not balance end as they do there: one too many closes
 * nothing, and a top-level keyword within a block opens none. Pure and total.
 */
export function parseStatements(text: string): Statement[] {
  const top: Draft[] = [];
  const blocks: Draft[][] = [top];
  for (const line of text.split('\n')) {
    for (const piece of splitAtBraces(removeComment(line))) {
      if (piece === '{') openBlock(blocks);
      else if (piece === '}') closeBlock(blocks);
      else addStatement(blocks, listWords(piece));
    }
  }
  return top;
}

interface Draft {
  readonly words: readonly string[];
  block: Draft[] | null;
}

function openBlock(blocks: Draft[][]): void {
  const owner = blocks.at(-1)?.at(-1);
  if (owner === undefined || owner.block !== null) return;
  if (blocks.length > 1 && topKeywords.has(owner.words[0] ?? '')) return;
  owner.block = [];
  blocks.push(owner.block);
}

function closeBlock(blocks: Draft[][]): void {
  if (blocks.length > 1) blocks.pop();
}

function addStatement(blocks: Draft[][], words: readonly string[]): void {
  if (words.length > 0) blocks.at(-1)?.push({ words, block: null });
}

/** A line without its comment and the blanks around it. */
export function removeComment(line: string): string {
  const special = /["\\#!]/g;
  let isQuoted = false;
  for (let match = special.exec(line); match !== null; match = special.exec(line)) {
    if (match[0] === '"') isQuoted = !isQuoted;
    else if (match[0] === '\\') special.lastIndex += 1;
    else if (!isQuoted) return line.slice(0, match.index).trim();
  }
  return line.trim();
}

/** Braces, each by itself, and what stands between them. */
function splitAtBraces(line: string): string[] {
  const pieces = line.match(/[{}]|(?:"[^"]*"|[^"{}]+|")+/g) ?? [];
  return pieces.map((piece) => piece.trim()).filter((piece) => piece !== '');
}

/** The words of a piece; what is quoted is one. */
function listWords(piece: string): string[] {
  return [...piece.matchAll(/"([^"]*)"|'([^']*)'|[^\s"]+/g)].map(
    ([word, double, single]) => double ?? single ?? word,
  );
}
