import type { Part } from './tree.ts';
import ts from 'typescript';
import { findPassages, filler } from './plain.ts';

/** The passages in the strings of a program: what it prints. Comments and names are not in it. */
export function findStringPassages(text: string): Part[][] {
  const passages: Part[][] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node) || ts.isTypeNode(node)) return;
    if (ts.isStringLiteralLike(node) || ts.isTemplateExpression(node))
      passages.push(...findPassages(readLiteral(node, text), node.getStart() + 1));
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile('text.ts', text, ts.ScriptTarget.Latest, true));
  return passages;
}

/** What is between the quotes, with a filler as long as each expression in it. */
function readLiteral(node: ts.StringLiteralLike | ts.TemplateExpression, text: string): string {
  const start = node.getStart() + 1;
  let inner = text.slice(start, node.getEnd() - 1);
  if (!ts.isTemplateExpression(node)) return inner;
  for (const { expression, literal } of node.templateSpans) {
    const from = expression.getFullStart() - '${'.length - start;
    const to = literal.getStart() + '}'.length - start;
    inner = inner.slice(0, from) + filler.repeat(to - from) + inner.slice(to);
  }
  return inner;
}
