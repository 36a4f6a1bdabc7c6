import { type Endpoint } from '../../../lib/address/endpoint.ts';
import { keepalivedName } from '../../../lib/keepalived/find.ts';
import { type HostProcess } from '../../../lib/kernel/host/processes.ts';
import { advertises } from './adverts.ts';
import { type HostFacts } from './host-facts.ts';

/** Whether one of these processes is this host's keepalived, as far as it may be known. */
export function isKeepalivedHere(processes: readonly HostProcess[]): boolean {
  return processes.some(({ name, isSurelyHere }) => name === keepalivedName && isSurelyHere);
}

/** Whether another host shows that it has the address: by an advert, by its link, or by an answer of any kind. */
export function isHeldElsewhere(vip: Endpoint, facts: HostFacts): boolean {
  return isAdvertisedElsewhere(vip, facts) || isAnsweredFor(vip, facts);
}

/** The same, by a host that is not heard to send VRRP while that was listened to. */
export function isHeldWithoutVrrp(vip: Endpoint, facts: HostFacts): boolean {
  return 'value' in facts.adverts && !isAdvertisedElsewhere(vip, facts) && isAnsweredFor(vip, facts);
}

/** Whether neither this host nor another one has it, as far as that can be asked at all. */
export function isSurelyFree(vip: Endpoint, facts: HostFacts): boolean {
  const { adverts, linkHolders } = facts;
  const isSilent = 'value' in linkHolders && linkHolders.value.get(vip.address) === null;
  return 'value' in adverts && isSilent && !isHeldElsewhere(vip, facts);
}

function isAdvertisedElsewhere({ address }: Endpoint, { adverts, assessment }: HostFacts): boolean {
  const local = 'value' in assessment ? assessment.value.observation.addresses : [];
  const isOwn = (source: string) => local.some((own) => own.address === source);
  return (
    'value' in adverts && adverts.value.some((advert) => advertises(advert, address) && !isOwn(advert.source))
  );
}

function isAnsweredFor({ address }: Endpoint, { holderAnswers, linkHolders }: HostFacts): boolean {
  const kind = holderAnswers.get(address)?.kind;
  const isOnLink = 'value' in linkHolders && (linkHolders.value.get(address) ?? null) !== null;
  return isOnLink || kind === 'open' || kind === 'refused';
}
