import { nameInstance } from '../../../lib/keepalived/names.ts';
import { renderConfiguration } from '../../../lib/keepalived/render.ts';
import { type Vrrp } from './vrrp.ts';

/** How each keepalived.conf of vipnat's begins: by it a later version knows it. */
export const keepalivedMark = '# keepalived.conf by vipnat keepalived';

/** The text of keepalived.conf. Pure: equal input, equal bytes (I3). Every text in it was checked by who made the input. */
export function renderKeepalived({ node, instances, priority, advertMs, trackFile, notices }: Vrrp): string {
  return renderConfiguration({
    mark: keepalivedMark,
    routerId: node,
    // VRRPv2 has whole seconds only. IPv6 has version 3 in any case.
    version: advertMs % 1000 === 0 ? 2 : 3,
    globals: [],
    notices,
    trackFile: {
      path: trackFile,
      comment:
        "vipnat's agent writes this file. 0: this node can serve the VIP. Without an agent it stays 0.",
    },
    instances: instances.map(({ vip, device, vrid, unicast }) => ({
      name: nameInstance(vip.text),
      device,
      vrid,
      priority,
      advertMs,
      preempts: false,
      unicast,
      addresses: [`${vip.text}/${vip.family === 'ipv4' ? 32 : 128}`],
      excluded: [],
      tracked: [],
    })),
    // One node holds all addresses, or none.
    group: instances.length > 1 ? 'vipnat' : null,
  });
}
