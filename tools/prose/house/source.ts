import { globSync, readFileSync } from 'node:fs';
import { join, dirname } from 'node:path';
import ts from 'typescript';

/** A piece of a file's text, and its place in the file. */
export interface Piece {
  readonly text: string;
  readonly start: number;
}

/** A file of TypeScript, as far as the figures of the house need it. */
export interface Source {
  /** From the project's folder. */
  readonly path: string;
  readonly text: string;
  /** The file of each import declaration, re-export and `import()`, types included. A package is none. */
  readonly imports: readonly string[];
  readonly comments: readonly Piece[];
  /** Each use of an identifier, and the name of each imported file. */
  readonly names: readonly Piece[];
}

/** The files of the product; `devices` is a folder to come. */
export const productFiles = '{agent,balancer,cli,config,controller,devices,lib}/**/*.ts';

const comment = /\/\/.*|\/\*[^]*?\*\//g;

/** The sources that match a pattern below a folder, in the order of their paths. */
export function readSources(root: string, pattern: string): Source[] {
  return globSync(pattern, { cwd: root })
    .sort()
    .map((path) => readSource(path, readFileSync(join(root, path), 'utf8')));
}

/** One file, by its path from the project's folder. */
export function readSource(path: string, text: string): Source {
  const imports: string[] = [];
  const names: Piece[] = [];
  const literals: Piece[] = [];
  const cut = (node: ts.Node): Piece => {
    const start = node.getStart(file);
    return { text: text.slice(start, node.end), start };
  };
  const visit = (node: ts.Node): void => {
    if (ts.isIdentifier(node) || ts.isPrivateIdentifier(node)) names.push(cut(node));
    else if (isLiteral(node)) literals.push(cut(node));
    if (ts.isStringLiteral(node) && isImported(node) && node.text.startsWith('.')) {
      imports.push(join(dirname(path), node.text));
      names.push(cut(node));
    }
    ts.forEachChild(node, visit);
  };
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  visit(file);
  return { path, text, imports, comments: findComments(text, literals), names };
}

/** The line of a place, from 1. */
export function findLine({ text }: Source, place: number): number {
  return text.slice(0, place).split('\n').length;
}

function isLiteral(node: ts.Node): boolean {
  return ts.isLiteralExpression(node) || ts.isTemplateMiddleOrTemplateTail(node) || ts.isTemplateHead(node);
}

function isImported({ parent }: ts.StringLiteral): boolean {
  if (ts.isImportDeclaration(parent) || ts.isExportDeclaration(parent)) return true;
  if (ts.isLiteralTypeNode(parent)) return ts.isImportTypeNode(parent.parent);
  return ts.isCallExpression(parent) && parent.expression.kind === ts.SyntaxKind.ImportKeyword;
}

/** What looks like a comment inside of a literal is none. */
function findComments(text: string, literals: readonly Piece[]): Piece[] {
  let code = '';
  for (const literal of literals)
    code += text.slice(code.length, literal.start) + ' '.repeat(literal.text.length);
  code += text.slice(code.length);
  return [...code.matchAll(comment)].map(({ 0: words, index }) => ({ text: words, start: index }));
}
