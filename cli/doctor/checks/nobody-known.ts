import { type Family } from '../../../lib/address/address.ts';
import { formatEndpoint, isAtVip, parseEndpoint } from '../../../lib/address/endpoint.ts';
import { findLiveSources } from '../../../agent/endpoints/candidates.ts';
import { type Check } from '../facts/check.ts';
import { given, lookAt } from '../facts/fact.ts';
import { filePaths, type HostFacts } from '../facts/host-facts.ts';
import { isBalanced } from '../../../config/way.ts';
import type { HostLook } from '../../../agent/main.ts';

/** Why a check of apiservers was not made. */
export const nobodyKnown = { unknown: 'no apiserver is known' };

/** Whether a virtual IP is left to its holder, as no apiserver is known that could be balanced over. */
export function findNobodyKnown({ assessment, flags }: HostFacts): ReturnType<Check['find']> {
  return given([assessment], (assessed) =>
    lookAt(assessed.decisions, { unknown: 'no virtual IP is configured' }, (decision) => {
      const { vip, reason } = decision;
      const { missingSwitches, health } = assessed;
      const isClosed = missingSwitches.some(({ family }) => family === vip.family);
      const isAnyKnown = [...health.keys()].some((text) => parseEndpoint(text)?.family === vip.family);
      if (isBalanced(decision) || (isClosed && isAnyKnown)) return [];
      return [
        {
          level: 'fail',
          title: `${formatEndpoint(vip)} is not balanced: the apiserver of the VIP holder answers`,
          why:
            isClosed && !reason.startsWith(nobodyKnown.unknown)
              ? `No apiserver is known, and ${reason}.`
              : `The reason: ${reason}.`,
          remedy: [
            ...describeWayOut(isAnyAtVip(vip.family, assessed)),
            '# name the apiservers, here and in the options of the agent',
            `vipnat check ${flags} --endpoints ADDR:6443,ADDR:6443,ADDR:6443`,
          ],
        },
      ];
    }),
  );
}

/** Whether the API or kube-proxy names an apiserver at a virtual IP now. */
function isAnyAtVip(family: Family, { observation, memory, decisions }: HostLook): boolean {
  const { api, kubeProxy } = findLiveSources(family, {
    observation,
    memory,
    config: { endpoints: [], vips: [] },
  });
  const vips = decisions.map(({ vip }) => vip);
  return [api, kubeProxy].some(
    (source) => source?.value.some((endpoint) => isAtVip(endpoint, vips)) === true,
  );
}

function describeWayOut(isAtVip: boolean): string[] {
  return isAtVip
    ? [
        '# on each master in turn: give kube-apiserver the own address of its host by',
        `# --advertise-address in ${filePaths.apiserverManifest}; until then`,
      ]
    : [];
}
