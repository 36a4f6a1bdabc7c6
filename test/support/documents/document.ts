import { globSync, readFileSync } from 'node:fs';
import GithubSlugger from 'github-slugger';
import { lexer, type Token, walkTokens } from 'marked';

/** Code in a document: between fences, with their word, or in the middle of a sentence. */
export interface Code {
  readonly text: string;
  /** The word behind the opening fence, empty where there is none; null in the middle of a sentence. */
  readonly language: string | null;
}

/** A Markdown file of the project, as GitHub shows it. */
export interface Document {
  /** From the project's folder. */
  readonly path: string;
  /** What a link can name behind `#`. */
  readonly anchors: ReadonlySet<string>;
  /** The targets of links and pictures, as they are written. */
  readonly links: readonly string[];
  readonly code: readonly Code[];
}

/** All documents that people read: those in the project's folder, and everything below docs/. */
export function readDocuments(): Document[] {
  const paths = [...globSync('*.md'), ...globSync('docs/**/*.md')].sort();
  return paths.map((path) => parseDocument(path, readFileSync(path, 'utf8')));
}

/** A Markdown text as a document of a path. */
export function parseDocument(path: string, text: string): Document {
  const slugger = new GithubSlugger();
  const anchors = new Set<string>();
  const links: string[] = [];
  const code: Code[] = [];
  void walkTokens(lexer(text), (token) => {
    if (token.type === 'heading') anchors.add(slugger.slug(readText(token)));
    const [, id] = token.type === 'html' ? (/^<a id="([^"]+)">/.exec(token.raw) ?? []) : [];
    if (id !== undefined) anchors.add(id);
    if (token.type === 'link' || token.type === 'image') links.push(String(token['href']));
    if (token.type === 'code')
      code.push({ text: String(token['text']), language: String(token['lang'] ?? '') });
    if (token.type === 'codespan') code.push({ text: String(token['text']), language: null });
  });
  return { path, anchors, links, code };
}

/** What a person reads of a token: `**a** [b](c)` is "a b". */
function readText(token: Token): string {
  const { tokens, text } = token as { tokens?: Token[]; text?: string };
  return tokens === undefined ? (text ?? '') : tokens.map(readText).join('');
}
