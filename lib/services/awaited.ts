import { type VirtualIp } from './objects.ts';

/**
 * Whether the controller waits until all nodes have a VirtualIP as it is now. One that Services have waits for its condition
 * `Programmed` of this generation; one that nobody has any more, for the time from which it may be given again.
 */
export function isAwaited({ metadata, spec, status }: VirtualIp): boolean {
  if (spec.services.length === 0) return (status?.releasedAt ?? '') === '';
  const programmed = status?.conditions?.find(({ type }) => type === 'Programmed');
  return programmed?.status !== 'True' || programmed.observedGeneration !== metadata.generation;
}
