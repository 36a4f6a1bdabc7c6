import { type KubeObject } from './kube-store.ts';

/** Whether a question is about an object: by its name and its labels, where these are asked for. */
export function isAskedFor({ metadata }: KubeObject, searchParams: URLSearchParams): boolean {
  const { name, labels } = metadata as { name: string; labels?: Record<string, string> };
  const selector = searchParams.get('fieldSelector');
  const terms = searchParams.get('labelSelector')?.split(',') ?? [];
  // No pod has ended. Of which type a Service is, its answer says.
  const isAll = selector === null || /^(status\.phase!=|spec\.type=)/.test(selector);
  const isNamed = isAll || selector === `metadata.name=${name}`;
  const isLabelled = (term: string) => {
    const [key = '', value] = term.split('=');
    return value === undefined ? labels?.[key] !== undefined : labels?.[key] === value;
  };
  return isNamed && terms.every(isLabelled);
}
