/**
 * Which addresses a Service's status may come to have, judged by the Service alone. Two controllers rest on this, when both believe
 * that they lead: one gives an address back for good only if the Service, as the API has it then, excludes it. The other
 * publishes only what the Service, as it is written, does not exclude, and only with a VirtualIP that has just been confirmed. So
 * no status gets an address that was given back, whatever either of them knew.
 */
import { type Address } from '../../lib/address/address.ts';
import { type Service } from '../../lib/services/services.ts';
import { isForUs, readWishes } from '../../lib/services/wishes.ts';
import { listPublished } from '../cache/object-parts.ts';
import { type Settings } from '../cache/world.ts';

/** Whether the status may get this address, or keep it. */
export function mayPublish(
  service: Service,
  { family, text }: Address,
  { isDefaultClass }: Settings,
): boolean {
  if (!isServed(service, isDefaultClass)) return false;
  const wishes = readWishes(service);
  if (!wishes.families.includes(family)) return false;
  const requested = wishes.addresses[family];
  if (requested !== undefined) return requested.text === text;
  const published = listPublished(service).find((address) => address.family === family);
  return published === undefined ? wishes.problem === null : published.text === text;
}

/** Whether a Service is to have addresses: it is for us, and is not being deleted. */
export function isServed(service: Service, isDefaultClass: boolean): boolean {
  return isForUs(service, isDefaultClass) && typeof service.metadata.deletionTimestamp !== 'string';
}

/** Whether the status has an address. */
export function isPublished(service: Service, { text }: Address): boolean {
  return listPublished(service).some((address) => address.text === text);
}
