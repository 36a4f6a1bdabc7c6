import { findUnknownMethod } from '../../lib/services/methods.ts';
import { type Service } from '../../lib/services/services.ts';
import { readAnnotation, readDuration } from '../../lib/services/wishes.ts';
import { quoteTenant } from '../../lib/text/printable.ts';
import { type BalancedService } from './port-balance.ts';
import { describeTaken } from './taken-ports.ts';

/** What the owner of a Service asks for, and does not get: a sentence each. `malformed` are its source ranges that are none. Pure. */
export function listRemarks({ service, taken }: BalancedService, malformed: readonly string[]): string[] {
  const way = readAnnotation(service, 'way') ?? 'direct';
  const method = findUnknownMethod(service);
  const name = `${service.metadata.namespace}/${service.metadata.name}`;
  const ask = (what: string, text: string, effect: string) =>
    `${name} asks for the ${what} ${quoteTenant(text)}, which is not a duration: ${effect}`;
  const drain = readDuration(service, 'drainTimeout').malformed;
  const start = readDuration(service, 'slowStart').malformed;
  const [range] = malformed;
  return [
    ...describeTaken(service, taken ?? new Map()),
    ...(range === undefined
      ? []
      : [
          `${name} has ${malformed.length} source range${malformed.length === 1 ? '' : 's'} that vipnat cannot read, such as ${quoteTenant(range)}: no client comes in by ${malformed.length === 1 ? 'it' : 'them'}`,
        ]),
    ...(drain === null ? [] : [ask('drain timeout', drain, 'open connections stay until their pod is gone')]),
    ...(start === null
      ? []
      : [ask('slow start', start, 'a new pod gets its whole share of connections immediately')]),
    ...(way === 'direct'
      ? []
      : [
          `${name} asks for the balancing mode ${quoteTenant(way)}, which vipnat does not have: it is balanced directly`,
        ]),
    ...(method === null
      ? []
      : [
          `${name} asks for the method ${quoteTenant(method)}, which vipnat does not have: pods are chosen at random`,
        ]),
  ];
}
