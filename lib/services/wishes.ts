/** What the owner of a Service asks for: the fields and annotations that are about its address. */
import { type Address, type Family, families, parseAddress } from '../address/address.ts';
import { quoteTenant } from '../text/printable.ts';
import { parseGoDuration } from './go-duration.ts';
import { loadBalancerClass, serviceAnnotations } from './names.ts';
import { type Service } from './services.ts';

/** What is asked for. */
export interface Wishes {
  /** The families to serve, in the Service's own order. */
  readonly families: readonly Family[];
  /** Whether a family alone is of no use: RequireDualStack. */
  readonly isAllOrNothing: boolean;
  /** The addresses to serve, one of each family at most. Families without one get any. */
  readonly addresses: Readonly<Partial<Record<Family, Address>>>;
  /** Why the addresses that are asked for cannot be had; null when they can, or when none are. For people. */
  readonly problem: string | null;
  /** Empty: the address is for this Service alone. */
  readonly shareKey: string;
  /** The pool to take an address from; null for any that gives addresses to this Service. */
  readonly pool: string | null;
}

/** Whether a Service is for vipnat: its type and class say so. A Service that is being deleted is, until it is gone. */
export function isForUs({ spec }: Service, isDefaultClass: boolean): boolean {
  if (spec.type !== 'LoadBalancer') return false;
  return (spec.loadBalancerClass ?? (isDefaultClass ? loadBalancerClass : null)) === loadBalancerClass;
}

/** What an annotation says: its published name first, then the deprecated ones. Undefined when none is there. */
export function readAnnotation(
  { metadata }: Service,
  annotation: keyof typeof serviceAnnotations,
): string | undefined {
  const names: readonly string[] = serviceAnnotations[annotation];
  const name = names.find((each) => Object.hasOwn(metadata.annotations ?? {}, each));
  return name === undefined ? undefined : metadata.annotations?.[name]?.trim();
}

/**
 * A duration that the owner of a Service asks for, in milliseconds: null where none is asked for, or where the text is none. That text is
 * `malformed`, or null.
 */
export function readDuration(
  service: Service,
  annotation: 'drainTimeout' | 'slowStart',
): { readonly ms: number | null; readonly malformed: string | null } {
  const text = readAnnotation(service, annotation) ?? '';
  if (text === '') return { ms: null, malformed: null };
  const ms = parseGoDuration(text);
  return { ms, malformed: ms === null ? text : null };
}

/** Reads what a Service asks for. */
export function readWishes(service: Service): Wishes {
  const { addresses, problem } = readAddresses(service);
  const wanted = readFamilies(service, Object.values(addresses)[0]?.family ?? 'ipv4');
  const unwanted = families.find((family) => addresses[family] !== undefined && !wanted.includes(family));
  const notForIt = `${addresses[unwanted ?? 'ipv4']?.text} is of a family that this Service does not have (ipFamilies, ipFamilyPolicy)`;
  return {
    families: wanted,
    isAllOrNothing: service.spec.ipFamilyPolicy === 'RequireDualStack',
    addresses,
    problem: problem ?? (unwanted === undefined ? null : notForIt),
    shareKey: readAnnotation(service, 'shareKey') ?? '',
    // Templates render an annotation that is left out as an empty one.
    pool: (readAnnotation(service, 'pool') ?? '') || null,
  };
}

/** The first of `ipFamilies`, and the other one where the policy is for both. The API fills both fields. */
function readFamilies({ spec }: Service, otherwise: Family): Family[] {
  const listed = (spec.ipFamilies ?? []).map(toFamily).filter((family) => family !== null);
  const isDual = spec.ipFamilyPolicy === 'PreferDualStack' || spec.ipFamilyPolicy === 'RequireDualStack';
  if (listed.length === 0) return [otherwise];
  return isDual ? [...new Set(listed)] : listed.slice(0, 1);
}

function readAddresses(service: Service): Pick<Wishes, 'addresses' | 'problem'> {
  const text = readAnnotation(service, 'addresses') ?? service.spec.loadBalancerIP ?? '';
  const addresses: Partial<Record<Family, Address>> = {};
  for (const part of text.split(',').map((each) => each.trim())) {
    if (part === '') continue;
    const address = parseAddress(part);
    if (address === null) return { addresses: {}, problem: `${quoteTenant(part)} is not an address` };
    const { family } = address;
    if (addresses[family] !== undefined)
      return {
        addresses: {},
        problem: `${addresses[family].text} and ${quoteTenant(part)} are of the same family`,
      };
    addresses[family] = address;
  }
  return { addresses, problem: null };
}

function toFamily(name: string): Family | null {
  if (name === 'IPv4') return 'ipv4';
  return name === 'IPv6' ? 'ipv6' : null;
}
