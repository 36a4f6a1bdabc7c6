import ts from 'typescript';

/**
 * As much of the language of admission policies (CEL) as vipnat's use, and none of its types: TypeScript's parser can read it. What a
 * real API server makes of them is tried in test/cluster/control-plane/.
 */

export type Scope = Readonly<Record<string, unknown>>;

/** Answers what an expression comes to. Throws for a field that is not there, as an API server does. */
export function evaluateCel(text: string, scope: Scope): unknown {
  const plain = text.replaceAll('.?', '?.').replaceAll(/\b(?:Object|JSONPatch)[\w.]*\{/g, '{');
  const { statements } = ts.createSourceFile('cel.ts', `(${plain})`, ts.ScriptTarget.Latest);
  const [statement] = statements;
  if (statement === undefined || statements.length > 1 || !ts.isExpressionStatement(statement))
    throw new Error(`not read: ${text}`);
  return evaluate(statement.expression, scope);
}

function evaluate(node: ts.Expression, scope: Scope): unknown {
  const of = (part: ts.Expression) => evaluate(part, scope);
  if (ts.isParenthesizedExpression(node)) return of(node.expression);
  if (ts.isStringLiteral(node)) return node.text;
  if (ts.isNumericLiteral(node)) return Number(node.text);
  if (ts.isArrayLiteralExpression(node)) return node.elements.map(of);
  if (ts.isObjectLiteralExpression(node)) return evaluateObject(node, scope);
  if (ts.isPrefixUnaryExpression(node)) return of(node.operand) !== true;
  if (ts.isConditionalExpression(node))
    return of(of(node.condition) === true ? node.whenTrue : node.whenFalse);
  return evaluateOperation(node, scope);
}

function evaluateOperation(node: ts.Expression, scope: Scope): unknown {
  if (ts.isBinaryExpression(node)) return evaluateBinary(node, scope);
  if (ts.isCallExpression(node)) return evaluateCall(node, scope);
  if (node.kind === ts.SyntaxKind.NullKeyword) return null;
  const [object, key] = ts.isIdentifier(node) ? [scope, node.text] : findField(node, scope);
  const isOptional = ts.isPropertyAccessExpression(node) && node.questionDotToken !== undefined;
  if (isOptional) return (object as Scope | undefined)?.[key];
  if (!Object.hasOwn(object, key)) throw new Error(`no such key: ${key}`);
  return object[key];
}

function findField(node: ts.Expression, scope: Scope): readonly [object: Scope, key: string] {
  if (ts.isPropertyAccessExpression(node)) return [evaluate(node.expression, scope) as Scope, node.name.text];
  if (!ts.isElementAccessExpression(node)) throw new Error(`not known: ${ts.SyntaxKind[node.kind]}`);
  const key = evaluate(node.argumentExpression, scope);
  return [evaluate(node.expression, scope) as Scope, String(key)];
}

function evaluateObject({ properties }: ts.ObjectLiteralExpression, scope: Scope): Scope {
  const entries = properties.map((each) => {
    if (!ts.isPropertyAssignment(each) || !ts.isIdentifier(each.name)) throw new Error('no field');
    return [each.name.text, evaluate(each.initializer, scope)] as const;
  });
  return Object.fromEntries(entries);
}

const operators: Readonly<Record<string, (one: unknown, other: () => unknown) => unknown>> = {
  '&&': (one, other) => one === true && other() === true,
  '||': (one, other) => one === true || other() === true,
  '==': (one, other) => isEqual(one, other()),
  '!=': (one, other) => !isEqual(one, other()),
  '>': (one, other) => Number(one) > Number(other()),
  '<=': (one, other) => Number(one) <= Number(other()),
  '+': (one, other) =>
    Array.isArray(one) ? [...(one as unknown[]), ...(other() as unknown[])] : Number(one) + Number(other()),
  in: (one, other) => {
    const many = other();
    return Array.isArray(many)
      ? many.some((each) => isEqual(one, each))
      : Object.hasOwn(many as Scope, String(one));
  },
};

function evaluateBinary({ left, operatorToken, right }: ts.BinaryExpression, scope: Scope): unknown {
  const operator = operators[ts.tokenToString(operatorToken.kind) ?? ''];
  if (operator === undefined) throw new Error(`not known: ${ts.SyntaxKind[operatorToken.kind]}`);
  return operator(evaluate(left, scope), () => evaluate(right, scope));
}

/** Fields have no order. */
function isEqual(one: unknown, other: unknown): boolean {
  const sort = (_: string, value: unknown) =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
      : value;
  return JSON.stringify(one, sort) === JSON.stringify(other, sort);
}

const functions: Readonly<Record<string, (receiver: unknown, argument: unknown) => unknown>> = {
  orValue: (receiver, argument) => receiver ?? argument,
  startsWith: (receiver, argument) => String(receiver).startsWith(String(argument)),
  size: (receiver) => Object.keys(receiver as Scope).length,
};

function evaluateCall({ expression, arguments: [first, second] }: ts.CallExpression, scope: Scope): unknown {
  if (ts.isIdentifier(expression) && first !== undefined) {
    // The only one without a receiver is `has`.
    const [object, key] = findField(first, scope);
    return Object.hasOwn(object, key);
  }
  const { expression: of, name } = expression as ts.PropertyAccessExpression;
  const receiver = evaluate(of, scope);
  if (second !== undefined)
    return runMacro(name.text, receiver, (each) =>
      evaluate(second, { ...scope, [(first as ts.Identifier).text]: each }),
    );
  const call = functions[name.text];
  if (call === undefined) throw new Error(`not known: ${name.text}`);
  return call(receiver, first && evaluate(first, scope));
}

/** Of a list, its items; of a map, its keys. */
function runMacro(name: string, receiver: unknown, run: (each: unknown) => unknown): unknown {
  const items: unknown[] = Array.isArray(receiver) ? receiver : Object.keys(receiver as Scope);
  const isTrue = (each: unknown) => run(each) === true;
  if (name === 'map') return items.map(run);
  if (name === 'filter') return items.filter(isTrue);
  return name === 'all' ? items.every(isTrue) : items.some(isTrue);
}
