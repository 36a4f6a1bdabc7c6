import { type LabelSelector } from './objects.ts';

/** Labels of an object; null and undefined for none. */
export type Labels = Readonly<Record<string, string>> | null | undefined;

type Requirement = NonNullable<LabelSelector['matchExpressions']>[number];

const operatorToTest: Readonly<Record<string, (value: string | undefined, values: string[]) => boolean>> = {
  In: (value, values) => value !== undefined && values.includes(value),
  // As in Kubernetes: an object without the label is not in any set.
  NotIn: (value, values) => value === undefined || !values.includes(value),
  Exists: (value) => value !== undefined,
  DoesNotExist: (value) => value === undefined,
};

/** Whether labels are what a selector asks for. No selector, and an empty one, have all. An operator that nobody knows has none. */
export function isSelected(selector: LabelSelector | null | undefined, labels: Labels): boolean {
  const getLabel = (key: string) =>
    labels !== null && labels !== undefined && Object.hasOwn(labels, key) ? labels[key] : undefined;
  return (
    Object.entries(selector?.matchLabels ?? {}).every(([key, value]) => getLabel(key) === value) &&
    (selector?.matchExpressions ?? []).every(
      ({ key, operator, values }) => operatorToTest[operator]?.(getLabel(key), values ?? []) ?? false,
    )
  );
}

/** What is wrong with a selector, for people; null for nothing. */
export function findSelectorProblem(selector: LabelSelector | null | undefined): string | null {
  for (const requirement of selector?.matchExpressions ?? []) {
    const problem = findRequirementProblem(requirement);
    if (problem !== null) return problem;
  }
  return null;
}

/** Whether a selector says something of a label. */
export function mentions(selector: LabelSelector | null | undefined, label: string): boolean {
  return (
    Object.hasOwn(selector?.matchLabels ?? {}, label) ||
    (selector?.matchExpressions ?? []).some(({ key }) => key === label)
  );
}

function findRequirementProblem({ key, operator, values }: Requirement): string | null {
  if (!Object.hasOwn(operatorToTest, operator))
    return `the operator ${operator} of ${key} is none of ${Object.keys(operatorToTest).join(', ')}`;
  const count = values?.length ?? 0;
  const needsValues = operator === 'In' || operator === 'NotIn';
  if (needsValues && count === 0) return `${operator} of ${key} has no values`;
  return !needsValues && count > 0 ? `${operator} of ${key} takes no values` : null;
}
