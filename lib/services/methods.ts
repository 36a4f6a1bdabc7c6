import { type Service } from './services.ts';
import { readAnnotation } from './wishes.ts';

/** How an endpoint is chosen, the default first: by chance, in turn, by the client's address, or rather one with few open connections. */
export const methods = ['random', 'rr', 'hash', 'lc'] as const;

/** One of methods. */
export type Method = (typeof methods)[number];

/** The method that the owner of a Service asks for and that vipnat does not have, so that the default counts; null where it has it. */
export function findUnknownMethod(service: Service): string | null {
  const text = readAnnotation(service, 'method') ?? '';
  return text === '' || methods.some((known) => known === text) ? null : text;
}
